"""Blocks of kernels defined elsewhere: their signature and types are specified, their meaning is unknown here.

Such a block is validated, sharded, priced and moved about like any other; only its values cannot be computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.graph import Attributes, Definition, TensorType, attributes
from tapestry.teg.operators.operator import Inferred, Operand, Operator, OperatorExample, Work
from tapestry.teg.operators.reading import integers, known_dtype, settings
from tapestry.teg.signature import IndexDim, Signature
from tapestry.teg.zspace import IndexProjection, ZAffineMap, ZRange

LARGEST = 2**62


def _infer(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    given = settings(attrs, ("kernel", "inputs", "outputs"), ("dims", "reads", "writes", "params"))
    if not isinstance(given["kernel"], str) or not given["kernel"]:
        raise ValueError(f"attribute 'kernel' must name what the block runs, not {given['kernel']!r}")
    kinds = [_types(given[side], side) for side in ("inputs", "outputs")]
    if tuple(inputs) != kinds[0]:
        raise ValueError(f"kernel {given['kernel']!r} reads {list(kinds[0])}, not {list(inputs)}")
    if "dims" not in given:
        return Inferred(None, kinds[1])
    dims = tuple(IndexDim(*_dim(d)) for d in given["dims"])
    reads, writes = (tuple(map(_projection, given.get(side, ()))) for side in ("reads", "writes"))
    if (len(reads), len(writes)) != (len(kinds[0]), len(kinds[1])):
        raise ValueError("attributes 'reads' and 'writes' give one projection for each input and output")
    return Inferred(Signature(dims, reads, writes), kinds[1])


def _types(value: Any, name: str) -> tuple[TensorType, ...]:
    if not isinstance(value, tuple) or not all(isinstance(v, tuple) and len(v) == 2 for v in value):
        raise ValueError(f"attribute {name!r} must be a tuple of (shape, element type), not {value!r}")
    return tuple(TensorType(integers(shape, name, least=0), known_dtype(dtype)) for shape, dtype in value)


def _dim(value: Any) -> tuple[str, int, str]:
    if isinstance(value, tuple) and [type(v) for v in value] == [str, int, str] and value[1] >= 0:
        return value[0], value[1], value[2]
    raise ValueError(f"attribute 'dims' must hold (name, size, kind), not {value!r}")


def _projection(value: Any) -> IndexProjection:
    if not isinstance(value, tuple) or len(value) != 3 or not isinstance(value[0], tuple):
        raise ValueError(f"a projection is (matrix, offset, shape), not {value!r}")
    matrix = tuple(integers(row, "matrix") for row in value[0])
    offset, shape = integers(value[1], "offset"), integers(value[2], "shape")
    if any(abs(n) >= LARGEST for row in (*matrix, offset, shape) for n in row):
        raise ValueError(f"numbers of a projection lie below {LARGEST}")
    return IndexProjection(ZAffineMap(matrix, offset), shape)


def external_attributes(
    kernel: str,
    inputs: Sequence[TensorType],
    outputs: Sequence[TensorType],
    signature: Signature | None,
    params: Any = None,
) -> Attributes:
    """Build the attributes of a block that runs `kernel` on these types; without signature it is fixed."""
    specified = (tuple(map(tuple, side)) for side in (inputs, outputs))
    inner = dict(zip(("inputs", "outputs"), specified, strict=True))
    if signature is None:
        return attributes(kernel=kernel, **inner, params=params)
    return attributes(
        kernel=kernel,
        **inner,
        params=params,
        dims=tuple((d.name, d.size, d.kind) for d in signature.dims),
        reads=tuple((p.start.matrix, p.start.offset, p.shape) for p in signature.inputs),
        writes=tuple((p.start.matrix, p.start.offset, p.shape) for p in signature.outputs),
    )


def _evaluate(
    _: ArrayNamespace, definition: Definition, __: ZRange, ___: Sequence[Operand]
) -> tuple[Array, ...]:
    raise ValueError(
        f"kernel {definition['kernel']!r} is defined elsewhere, so it has no values here; "
        "replace it by operators of the catalog, or install a plug-in that knows it"
    )


def _example(signature: bool) -> OperatorExample:
    kind = TensorType((4, 6), "float32")
    window = IndexProjection(ZAffineMap(((1, 0), (0, 0)), (0, 0)), (1, 6))
    whole = IndexProjection(ZAffineMap(((1, 0), (0, 1)), (0, 0)), (1, 1))
    dims = (IndexDim("m", 4), IndexDim("n", 6))
    specified = Signature(dims, (window,), (whole,)) if signature else None
    return OperatorExample(external_attributes("op:mixing", (kind,), (kind,), specified), (kind,))


EXTERNAL = Operator(
    name="external",
    infer=_infer,
    evaluate=_evaluate,
    work=lambda *_: Work("move"),
    examples=(_example(True), _example(False)),
    meaningless=True,
)

EXTERNALS: tuple[Operator, ...] = (EXTERNAL,)
