"""The record that describes an operator: shape rule, signature, work, meaning.

Imported by the operator families beside it and by the users of the catalog (`teg.operators`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.graph import Attributes, Definition, TensorType
from tapestry.teg.operators.expressions import SeparateWork
from tapestry.teg.operators.kernel_classes import KERNEL_OF_KIND
from tapestry.teg.signature import Signature
from tapestry.teg.zspace import ZRange


class Operand(NamedTuple):
    """The elements of an input that a block sees: the box `[start, start + array.shape)` of the tensor."""

    array: Array
    start: tuple[int, ...]


class Inferred(NamedTuple):
    """The result of inferring an application: signature (None: fixed block) and output types."""

    signature: Signature | None
    outputs: tuple[TensorType, ...]


@dataclass(frozen=True)
class WorkPart:
    """One step of a fused block: work for its own units, done one after the other with the rest.

    `kind` is "contraction" or "vector", `flops` per point of the index dimensions `dims` that the step has,
    `roles` as in `Work`; `whole` multiplies m, n, k and batch by what dimensions add that are whole in every
    part. `dtype` determines its speed, and `kernel` is the class that does the step alone.
    """

    kind: str
    flops: float
    dims: tuple[str, ...]
    dtype: str
    roles: Mapping[str, str] = field(default_factory=dict)
    whole: Mapping[str, int] = field(default_factory=dict)
    kernel: str = ""


@dataclass(frozen=True)
class Work:
    """The marginal work of one index point.

    `flops` per point. `roles` places index dimensions in the device's native matrix tile ("m", "n", "k",
    "batch"); `k_factor` multiplies k by what the window adds, and `n_factor` n by what each point makes.
    `reads` names, per input position, the index dimensions whose sizes count the elements really read where
    that is less than the projected box (a gather reads rows): the convention "declared reads" of
    `docs/sharding.md`. `kind`: "contraction" (matrix
    unit), "vector", "move" (memory only), "none" (free), or "fused": several `parts`, whose flops count
    instead (`flops` is then their mean per point). `kernel` is the class of kernels that does it
    (`kernel_classes.py`; by default that of the kind). A kernel that works along rows has rows of `row` elements
    for each point of the index dimensions `row_dims`. `separate` is what several functions of a cell take where each
    is a kernel of its own; None where there is one.
    """

    kind: str
    flops: float = 0.0
    roles: Mapping[str, str] = field(default_factory=dict)
    k_factor: int = 1
    reads: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    parts: tuple[WorkPart, ...] = ()
    kernel: str = ""
    row: int = 1
    row_dims: tuple[str, ...] = ()
    separate: SeparateWork | None = None
    n_factor: int = 1

    @property
    def kernel_class(self) -> str:
        """The class of kernels that does the work."""
        return self.kernel or KERNEL_OF_KIND[self.kind]

    @property
    def factors(self) -> dict[str, int]:
        """The factors of n and k beside the index dimensions; none without roles."""
        return {"n": self.n_factor, "k": self.k_factor} if self.roles else {}

    @property
    def contracts(self) -> bool:
        """True if matrix units do some of the work."""
        return self.kind == "contraction" or any(p.kind == "contraction" for p in self.parts)


class PartAmounts(NamedTuple):
    """A part's work for given sizes: kind, flops, element type, class and, of a contraction, m, n, k and batch."""

    kind: str
    flops: np.ndarray
    dtype: str
    tiles: Mapping[str, np.ndarray]
    kernel: str = ""


def flops_of(work: Work, names: Sequence[str], sizes: np.ndarray) -> np.ndarray:
    """Compute flops for parts of `sizes` `(..., dims)` of the index dimensions `names`, as int64 `(...)`."""
    if work.parts:
        return np.asarray(sum(p.flops for p in part_amounts(work, names, sizes)))
    points = np.prod(sizes, axis=-1, dtype=np.int64)
    return np.asarray(np.ceil(points * work.flops)).astype(np.int64)


def kernel_sizes(work: Work, names: Sequence[str], sizes: np.ndarray) -> dict[str, np.ndarray]:
    """Compute what a kernel's speed depends on, for parts of `sizes` `(..., dims)`: m, n, k and batch, or
    the length of its `row`; and, if its functions can be `kernels` of their own, the elements that
    these move (`separate_elements`).
    """
    result = {}
    if work.separate is not None:
        points = np.prod(sizes, axis=-1, dtype=np.int64)
        result["kernels"] = np.full_like(points, work.separate.kernels)
        result["separate_elements"] = points * work.separate.elements
    if work.kind == "contraction" and work.roles:
        for role in ("m", "n", "k", "batch"):
            mine = [k for k, name in enumerate(names) if work.roles.get(name) == role]
            result[role] = np.prod(sizes[..., mine], axis=-1, dtype=np.int64)
        result |= {role: result[role] * factor for role, factor in work.factors.items()}
    elif work.row > 1 or work.row_dims:
        along = [names.index(name) for name in work.row_dims]
        length = np.prod(sizes[..., along], axis=-1, dtype=np.int64)
        result["row"] = length * work.row
    return result


def part_amounts(work: Work, names: Sequence[str], sizes: np.ndarray) -> list[PartAmounts]:
    """Compute the work of each part of a fused block for `sizes` `(..., dims)`; no flops where a size is zero."""
    some = np.prod(sizes, axis=-1, dtype=np.int64) > 0
    amounts = []
    for part in work.parts:
        own = [sizes[..., names.index(name)] for name in part.dims]
        points = np.prod(own, axis=0, dtype=np.int64) if own else np.ones(some.shape, np.int64)
        flops = np.where(some, np.ceil(points * part.flops), 0).astype(np.int64)
        tiles = {}
        if part.roles or part.whole:
            for role in ("m", "n", "k", "batch"):
                mine = [sizes[..., names.index(d)] for d, r in part.roles.items() if r == role]
                tiles[role] = part.whole.get(role, 1) * np.prod([np.ones_like(points), *mine], axis=0)
        amounts.append(PartAmounts(part.kind, flops, part.dtype, tiles, part.kernel))
    return amounts


def work_of(
    operator: Operator,
    definition: Definition,
    inputs: Sequence[TensorType],
    outputs: Sequence[TensorType],
    *,
    accumulates: bool = False,
) -> Work:
    """Compute the marginal work of an application, of the kind required by costs supplied with its definition.

    Supplied flops are done by the vector units where the operator has none, and say nothing of tiles; supplied
    bytes are moved where it moves none. What computes nothing, but `accumulates` what it reads, adds each element to
    what is there; what computes does so in its last step, for nothing.
    """
    work = own_work(operator, definition, inputs, outputs)
    if accumulates and work.kind == "none":
        work = replace(work, kind="vector", flops=1.0)
    costs = definition.costs
    if costs is not None and costs.named("flops") is not None:
        kind = "contraction" if work.contracts else "vector"
        return replace(work, kind=kind, roles={}, parts=())
    if costs is not None and costs.named("bytes") is not None and work.kind == "none":
        return replace(work, kind="move")
    return work


def own_work(
    operator: Operator, definition: Definition, inputs: Sequence[TensorType], outputs: Sequence[TensorType]
) -> Work:
    """Compute the marginal work of an application, whatever costs come with its definition.

    A fixed block has an index space of one point, so its work is all that the operator would do without a split.
    """
    if definition.signature is not None:
        return operator.work(definition, inputs, outputs)
    complete = with_signature(operator, definition, inputs)
    work = operator.work(complete, inputs, outputs)
    if complete.signature is None or work.kind in ("none", "move"):
        return replace(work, reads={}, row_dims=())
    names = [d.name for d in complete.signature.dims]
    sizes = np.array([d.size for d in complete.signature.dims], dtype=np.int64)
    return replace(work, **_in_one_point(work, names, sizes, work_dtype(inputs, outputs)))


def _in_one_point(work: Work, names: Sequence[str], sizes: np.ndarray, dtype: str) -> dict[str, Any]:
    """Sum up work over the index dimensions `names` of `sizes` `(dims,)`: the fields of the work of one point."""
    parts = work.parts
    if work.roles:
        whole = work.factors
        parts = (WorkPart(work.kind, work.flops, tuple(names), dtype, work.roles, whole, work.kernel),)
    amounts = part_amounts(replace(work, parts=parts), names, sizes)
    sizes_of = ({role: int(size) for role, size in a.tiles.items()} for a in amounts)
    found = tuple(
        WorkPart(a.kind, float(a.flops), (), a.dtype, {}, whole, a.kernel)
        for a, whole in zip(amounts, sizes_of, strict=True)
    )
    flops = float(flops_of(work, names, sizes))
    found_row = kernel_sizes(work, names, sizes).get("row", np.int64(1))
    return {
        "kind": "fused" if found else work.kind,
        "flops": flops,
        "roles": {},
        "k_factor": 1,
        "n_factor": 1,
        "reads": {},
        "parts": found,
        "kernel": work.kernel_class,
        "row": int(found_row),
        "row_dims": (),
        "separate": None,
    }


def with_signature(operator: Operator, definition: Definition, inputs: Sequence[TensorType]) -> Definition:
    """Return the definition with the signature that the operator infers, for a fixed block that is computed whole.

    The same definition where it has a signature, or its operator has none for these inputs.
    """
    return (
        definition
        if definition.signature is not None
        else _with_signature(operator, definition, tuple(inputs))
    )


@lru_cache(maxsize=1 << 12)
def _with_signature(operator: Operator, definition: Definition, inputs: tuple[TensorType, ...]) -> Definition:
    inferred = operator.infer(definition.attributes, inputs)
    return Definition(definition.operator, definition.attributes, inferred.signature, definition.costs)


def work_dtype(inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> str:
    """Return the element type that decides a block's compute speed: that of its first output, else its first input."""
    return next((t.dtype for t in (*outputs, *inputs)), "float32")


Infer = Callable[[Attributes, Sequence[TensorType]], Inferred]
InputShapes = Callable[[Definition], tuple[tuple[int, ...], ...]]
Evaluate = Callable[[ArrayNamespace, Definition, ZRange, Sequence[Operand]], tuple[Array, ...]]
WorkOf = Callable[[Definition, Sequence[TensorType], Sequence[TensorType]], Work]


@dataclass(frozen=True)
class OperatorExample:
    """Attributes and input types on which the contract tests try an operator."""

    attributes: Attributes
    inputs: tuple[TensorType, ...]


@dataclass(frozen=True)
class Operator:
    """A reusable definition that blocks refer to by name.

    `infer(attributes, input types)` is the shape rule; it raises ValueError for attributes or shapes that
    do not fit, saying what was expected. `evaluate(xp, definition, index, operands)` is the
    meaning on any sub-range of the index space, in the operations of an array library (`teg.arrays`):
    operands hold exactly the projected boxes clipped to their tensors, outputs cover the projected output
    boxes; over a part of a reduction dimension it gives the partial result. For a fixed block (no signature)
    operands are whole tensors and `index` is the empty rank 0 box.
    `work` says the marginal work. `examples` feed the contract tests. `view`: the output is a view of the
    single input (no work, no bytes). `meaningless`: values come from outside, `evaluate` always refuses.
    `input_shapes`: the shapes of the inputs, where boxes stick out of them; without it only windows do, by
    at most their attribute `pads`. `staging(definition)`: the inputs are taken in one after the other, so that those of
    other devices need no buffers of their own; so many elements wait at a time for their place in the result.
    `host_only`: the meaning is known to numpy alone, which computes it for other array libraries.
    """

    name: str
    infer: Infer
    evaluate: Evaluate
    work: WorkOf
    examples: tuple[OperatorExample, ...]
    view: bool = False
    meaningless: bool = False
    input_shapes: InputShapes | None = None
    staging: Callable[[Definition], int] | None = None
    host_only: bool = False
