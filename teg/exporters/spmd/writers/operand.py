"""The form that all writers of operators share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tapestry.teg.exporters.spmd.array_text import ArrayText, TextValue
from tapestry.teg.graph import Definition


class TextOperand(NamedTuple):
    """An input of a block: its text, and the box of its tensor that each device reads, `(devices, rank, 2)`."""

    value: TextValue
    box: np.ndarray


OperatorWriter = Callable[[ArrayText, Definition, np.ndarray, Sequence[TextOperand]], tuple[TextValue, ...]]
"""Writes the outputs of a block for the part `index` `(devices, dims, 2)` of its index space on each device.

It is told of active devices only: those whose part is not empty. It raises NotWritable for forms without a text.
"""


def extents(box: np.ndarray) -> np.ndarray:
    """Return the sizes of boxes `(devices, rank, 2)`, `(devices, rank)`."""
    sizes: np.ndarray = box[:, :, 1] - box[:, :, 0]
    return sizes
