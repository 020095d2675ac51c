"""Evaluation of an operator on any part of its index space, empty parts included."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.graph import Definition, TensorType
from tapestry.teg.operators.monoids import identity
from tapestry.teg.operators.operator import Operand, Operator, with_signature
from tapestry.teg.signature import PARALLEL, reached
from tapestry.teg.zspace import IndexProjection, ZRange


def run_part(
    operator: Operator,
    definition: Definition,
    index: ZRange,
    operands: Sequence[Operand],
    outputs: Sequence[TensorType],
) -> tuple[np.ndarray, ...]:
    """Evaluate an operator on `index`, from operands that hold exactly the clipped boxes it reads.

    Operators never see an empty index: an empty parallel dimension gives empty arrays, an empty reduction
    dimension the monoid's identity. `outputs` are the types of the block's whole outputs. A fixed block is computed
    whole, from whole operands.
    """
    if definition.signature is None:
        types = [TensorType(o.array.shape, np.dtype(o.array.dtype).name) for o in operands]
        definition = with_signature(operator, definition, types)
        if definition.signature is None:
            return operator.evaluate(definition, index, operands)
        index = definition.signature.index_range
        operands = [_read(o, p, index) for o, p in zip(operands, definition.signature.inputs, strict=True)]
    if not index.is_empty:
        return operator.evaluate(definition, index, operands)
    monoids = [d.kind for d, n in zip(definition.signature.dims, index.shape, strict=True) if n == 0]
    monoid = next((kind for kind in monoids if kind != PARALLEL), "sum")
    boxes = (reached(p, index) for p in definition.signature.outputs)
    return tuple(
        np.full(box.shape, identity(monoid, kind.dtype), numpy_dtype(kind.dtype))
        for box, kind in zip(boxes, outputs, strict=True)
    )


def _read(operand: Operand, projection: IndexProjection, index: ZRange) -> Operand:
    """Return the part of a whole operand that `index` reads."""
    box = projection.project(index).intersection(ZRange.of_shape(operand.array.shape))
    return Operand(np.asarray(operand.array[tuple(map(slice, box.start, box.end))]), box.start)
