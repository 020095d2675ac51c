"""Evaluation of an operator on any part of its index space, empty parts included."""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.teg.arrays import NUMPY, Array, ArrayNamespace, box_of
from tapestry.teg.graph import Definition, TensorType
from tapestry.teg.operators.monoids import identity
from tapestry.teg.operators.operator import Operand, Operator, with_signature
from tapestry.teg.signature import PARALLEL, reached
from tapestry.teg.zspace import IndexProjection, ZRange


def run_part(
    xp: ArrayNamespace,
    operator: Operator,
    definition: Definition,
    index: ZRange,
    operands: Sequence[Operand],
    outputs: Sequence[TensorType],
) -> tuple[Array, ...]:
    """Evaluate an operator on `index`, from operands that hold exactly the clipped boxes it reads.

    Operators never see an empty index: an empty parallel dimension gives empty arrays, an empty reduction
    dimension the monoid's identity. `outputs` are the types of the block's whole outputs. A fixed block is computed
    whole, from whole operands.
    """
    if definition.signature is None:
        types = [TensorType(tuple(o.array.shape), xp.dtype_of(o.array)) for o in operands]
        definition = with_signature(operator, definition, types)
        if definition.signature is None:
            return _evaluate(xp, operator, definition, index, operands)
        index = definition.signature.index_range
        operands = [_read(o, p, index) for o, p in zip(operands, definition.signature.inputs, strict=True)]
    if not index.is_empty:
        return _evaluate(xp, operator, definition, index, operands)
    monoids = [d.kind for d, n in zip(definition.signature.dims, index.shape, strict=True) if n == 0]
    monoid = next((kind for kind in monoids if kind != PARALLEL), "sum")
    boxes = (reached(p, index) for p in definition.signature.outputs)
    return tuple(
        xp.full(box.shape, identity(monoid, kind.dtype), kind.dtype)
        for box, kind in zip(boxes, outputs, strict=True)
    )


def _evaluate(
    xp: ArrayNamespace,
    operator: Operator,
    definition: Definition,
    index: ZRange,
    operands: Sequence[Operand],
) -> tuple[Array, ...]:
    """Evaluate an operator in the context of the array library, or in numpy if it knows no other."""
    if not operator.host_only:
        with xp.computing():
            return operator.evaluate(xp, definition, index, operands)
    held = [o._replace(array=xp.to_numpy(o.array)) for o in operands]
    with NUMPY.computing():
        return tuple(xp.from_numpy(a) for a in operator.evaluate(NUMPY, definition, index, held))


def _read(operand: Operand, projection: IndexProjection, index: ZRange) -> Operand:
    """Return the part of a whole operand that `index` reads."""
    box = projection.project(index).intersection(ZRange.of_shape(operand.array.shape))
    return Operand(box_of(operand.array, box.start, box.end), box.start)
