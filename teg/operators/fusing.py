"""The fused block: one block that does the work of several, whose intermediate tensors never exist as a whole.

    body = (("contract", attributes, (0, 1)), ("cell", attributes, (3, 2)))
    fused(x, w, bias; body, types=((shape, element type), ...), results=(4,))

A step is operator, attributes and the numbers of the values it reads: the inputs (`types` are theirs), then
the results of the steps before it; `results` are the values that the block makes. Any steps with index spaces
may stand in it, views included; `fused_space` derives the block's index space from theirs, `fused_values`
computes it in small parts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.graph import Attributes, Definition, TensorType
from tapestry.teg.operators.fused_attention import AttentionForm, attention_form
from tapestry.teg.operators.fused_body import FUSED, FusedBody, FusedStep, read_body
from tapestry.teg.operators.fused_examples import EXAMPLES
from tapestry.teg.operators.fused_space import FusedIndexSpace, space_of
from tapestry.teg.operators.fused_values import run_body
from tapestry.teg.operators.kernel_classes import StepKernel, of_fused
from tapestry.teg.operators.operator import Inferred, Operand, Operator, Work, WorkPart, work_dtype
from tapestry.teg.zspace import ZRange


class _Plan(NamedTuple):
    body: FusedBody
    space: FusedIndexSpace
    attention: AttentionForm | None


class _Fusing:
    """The shape rule, evaluation and work of fused blocks over a catalog of operators."""

    def __init__(self, known: Mapping[str, Operator]) -> None:
        self.known = known
        # Definitions are interned, and distinguish what `==` of attributes confuses.
        self.plan = lru_cache(maxsize=1024)(self._plan)

    def _plan(self, bare: Definition) -> _Plan:
        body = read_body(bare.attributes, self.known)
        return _Plan(body, space_of(body), attention_form(body))

    def infer(self, attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
        body, space, _ = self.plan(Definition(FUSED, attrs, None))
        if body.inputs != tuple(inputs):
            raise ValueError(f"attribute 'types' has {body.inputs}, the inputs are {tuple(inputs)}")
        return Inferred(space.signature, tuple(body.types[v] for v in body.outputs))

    def evaluate(
        self, xp: ArrayNamespace, definition: Definition, index: ZRange, operands: Sequence[Operand]
    ) -> tuple[Array, ...]:
        body, space, attention = self.plan(Definition(FUSED, definition.attributes, None))
        return run_body(xp, body, space, index, operands, attention)

    def work(self, definition: Definition, _: Sequence[TensorType], __: Sequence[TensorType]) -> Work:
        return _work(*self.plan(Definition(FUSED, definition.attributes, None))[:2])

    def input_shapes(self, definition: Definition) -> tuple[tuple[int, ...], ...]:
        return tuple(shape for shape, _ in definition["types"])


def _work(body: FusedBody, space: FusedIndexSpace) -> Work:
    """Collect the steps' work, done one after the other; memory sees the block's inputs and outputs only."""
    parts, reads, kernels = [], dict[int, tuple[str, ...]](), list[StepKernel]()
    total = 0.0
    for s, step in enumerate(body.steps):
        types = [body.types[v] for v in step.reads], [body.types[v] for v in step.makes]
        work = step.operator.work(step.definition, *types)
        total += work.flops * _points(step)
        if work.kind in ("contraction", "vector"):
            parts.append(_part(step, space.split(s), space, work, work_dtype(*types)))
        reads.update(_counted(body, s, space, work))
        kernels.append(_kernel(step, space.split(s), space, work))
    kernel, row, along = of_fused(kernels, len(body.inputs))
    if not parts:
        return Work("move", reads=reads, kernel=kernel)
    flops = total / max(space.signature.index_range.size, 1)
    return Work("fused", flops, {}, 1, reads, tuple(parts), kernel, row, along)


def _kernel(step: FusedStep, along: Sequence[int], space: FusedIndexSpace, work: Work) -> StepKernel:
    """Find the rows of a step in the block's dimensions; the others of its own are whole in every part.

    A step that reads nothing, such as a mask from random numbers, is no function that a class of kernels has.
    """
    assert step.definition.signature is not None
    places = {d.name: (k, d.size) for d, k in zip(step.definition.signature.dims, along, strict=True)}
    mine = [places[name] for name in work.row_dims]
    row = work.row * math.prod(size for k, size in mine if k < 0)
    return StepKernel(
        work.kernel_class,
        work.flops if step.reads else 0.0,
        row,
        tuple(space.signature.dims[k].name for k, _ in mine if k >= 0),
    )


def _points(step: FusedStep) -> int:
    assert step.definition.signature is not None
    return step.definition.signature.index_range.size


def _part(step: FusedStep, along: Sequence[int], space: FusedIndexSpace, work: Work, dtype: str) -> WorkPart:
    """Compute a step's work per point of the block's dimensions that it has; the others are factors."""
    assert step.definition.signature is not None
    outer = [d.name for d in space.signature.dims]
    flops, roles = work.flops, dict[str, str]()
    whole = work.factors
    for d, k in zip(step.definition.signature.dims, along, strict=True):
        role = work.roles.get(d.name)
        if k < 0:
            flops *= d.size
            if role is not None:
                whole[role] = whole.get(role, 1) * d.size
        elif role is not None:
            roles[outer[k]] = role
    dims = tuple(outer[k] for k in along if k >= 0)
    return WorkPart(work.kind, flops, dims, dtype, roles, whole, work.kernel)


def _counted(body: FusedBody, s: int, space: FusedIndexSpace, work: Work) -> dict[int, tuple[str, ...]]:
    """Find inputs of which one step alone reads less than their box, counted by the block's dimensions."""
    step, found = body.steps[s], dict[int, tuple[str, ...]]()
    assert step.definition.signature is not None
    names = [d.name for d in step.definition.signature.dims]
    for k, counted in work.reads.items():
        v = step.reads[k]
        places = [space.split(s)[names.index(name)] for name in counted]
        once = sum(other.reads.count(v) for other in body.steps) == 1
        if v < len(body.inputs) and once and all(p >= 0 for p in places):
            found[v] = tuple(space.signature.dims[p].name for p in places)
    return found


def fused_operator(known: Mapping[str, Operator]) -> Operator:
    """Build the operator `fused`, whose steps are applications of the operators in `known`."""
    fusing = _Fusing(known)
    return Operator(
        name=FUSED,
        infer=fusing.infer,
        evaluate=fusing.evaluate,
        work=fusing.work,
        examples=EXAMPLES,
        input_shapes=fusing.input_shapes,
    )
