"""Values of imported programs and where a graph stores them."""

from __future__ import annotations

from typing import NamedTuple


class StoredValue(NamedTuple):
    """A value of the imported program; `dims` are per dimension of `shape` its factors among the tensor's dimensions.

    They stand outermost first; a dimension that has size 1 or is broadcast has none.
    """

    tensor: str
    shape: tuple[int, ...]
    dims: tuple[tuple[int, ...], ...]
