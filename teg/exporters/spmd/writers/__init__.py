"""Writers of operators: for each one that has a text, a function that writes its part on each device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapestry.teg.exporters.spmd.array_text import ArrayText, NotWritable, TextValue
from tapestry.teg.exporters.spmd.writers.cells import CELLS
from tapestry.teg.exporters.spmd.writers.fused import write_fused
from tapestry.teg.exporters.spmd.writers.indexing import INDEXING
from tapestry.teg.exporters.spmd.writers.moving import MOVING
from tapestry.teg.exporters.spmd.writers.operand import OperatorWriter, TextOperand
from tapestry.teg.exporters.spmd.writers.products import PRODUCTS
from tapestry.teg.exporters.spmd.writers.windows import WINDOWS
from tapestry.teg.graph import Definition
from tapestry.teg.operators.fused_body import FUSED

WRITERS: dict[str, OperatorWriter] = {**CELLS, **PRODUCTS, **WINDOWS, **MOVING, **INDEXING}


def write_operator(
    xp: ArrayText, definition: Definition, index: np.ndarray, operands: Sequence[TextOperand]
) -> tuple[TextValue, ...]:
    """Write the outputs of a block for the part `index` `(devices, dims, 2)` of its index space on each device.

    Raises:
        NotWritable: the operator, one of its element types or this form of it has no text.
    """
    if definition.operator == FUSED:
        return write_fused(xp, definition, index, operands, write_operator)
    writer = WRITERS.get(definition.operator)
    if writer is None:
        raise NotWritable(f"operator {definition.operator}")
    return writer(xp, definition, index, operands)
