"""Evaluation of an operator on any part of its index space, empty parts included."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.graph import Definition, TensorType
from tapestry.teg.operators.monoids import identity
from tapestry.teg.operators.operator import Operand, Operator
from tapestry.teg.signature import PARALLEL, reached
from tapestry.teg.zspace import ZRange


def run_part(
    operator: Operator,
    definition: Definition,
    index: ZRange,
    operands: Sequence[Operand],
    outputs: Sequence[TensorType],
) -> tuple[np.ndarray, ...]:
    """Evaluate an operator on `index`, from operands that hold exactly the clipped boxes it reads.

    Operators never see an empty index: an empty parallel dimension gives empty arrays, an empty reduction
    dimension the monoid's identity. `outputs` are the types of the block's whole outputs.
    """
    if definition.signature is None or not index.is_empty:
        return operator.evaluate(definition, index, operands)
    monoids = [d.kind for d, n in zip(definition.signature.dims, index.shape, strict=True) if n == 0]
    monoid = next((kind for kind in monoids if kind != PARALLEL), "sum")
    boxes = (reached(p, index) for p in definition.signature.outputs)
    return tuple(
        np.full(box.shape, identity(monoid, kind.dtype), numpy_dtype(kind.dtype))
        for box, kind in zip(boxes, outputs, strict=True)
    )
