"""Arrays split among memories: `SC(dimension:begin,...)` splits a physical dimension into parts.

Every combination of parts is a buffer of its own; all are large enough for the longest parts.
Source: openxla/xla:xla/layout.h (SplitConfig), xla/layout_util.cc (MaxSplitSize).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from tapestry.hardware.layouts.layout import Indices, LayoutError, Mask
from tapestry.hardware.layouts.xla.fields import SplitConfig
from tapestry.hardware.layouts.xla.index import Column


@dataclass(frozen=True)
class Splits:
    """The first index of each part, per physical dimension (most major first), and the dimensions' sizes."""

    starts: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """The number of parts of each dimension."""
        return tuple(map(len, self.starts))

    @cached_property
    def bounds(self) -> tuple[int, ...]:
        """The length of the longest part of each dimension."""
        if all(len(starts) == 1 for starts in self.starts):
            return self.sizes
        ends = ((*s[1:], n) for s, n in zip(self.starts, self.sizes, strict=True))
        return tuple(
            max(b - a for a, b in zip(s, e, strict=True)) for s, e in zip(self.starts, ends, strict=True)
        )

    def enter(self, columns: Sequence[Column]) -> tuple[Indices | None, list[Column]]:
        """Compute the buffers (n,) of elements (None when there is only one) and their columns inside the parts."""
        buffer: Indices | None = None
        inside = list(columns)
        for k, starts in enumerate(self.starts):
            column = columns[k]
            if len(starts) > 1 and column is not None:
                begin = np.array(starts, dtype=np.int64)
                part = np.searchsorted(begin, column, side="right") - 1
                inside[k] = column - begin[part]
                buffer = part if buffer is None else buffer * len(starts) + part
        return buffer, inside

    def leave(self, buffer: Indices, columns: Sequence[Column], real: Mask) -> list[Column]:
        """Convert columns inside parts to columns of the whole array; clear `real` (n,) behind a shorter part's end."""
        whole = list(columns)
        for k in range(len(self.starts) - 1, -1, -1):
            starts = self.starts[k]
            if len(starts) > 1:
                buffer, part = np.divmod(buffer, len(starts))
                begin = np.array(starts, dtype=np.int64)
                inside = columns[k]
                column = begin[part] if inside is None else begin[part] + inside
                real &= column < np.array((*starts[1:], self.sizes[k]), dtype=np.int64)[part]
                whole[k] = column
        return whole


def splits_of(sizes: Sequence[int], configs: Sequence[SplitConfig]) -> Splits:
    """Build the splits of physical sizes; `LayoutError` for a dimension that does not exist, or parts out of order."""
    starts: list[tuple[int, ...]] = [(0,)] * len(sizes)
    for config in configs:
        if not 0 <= config.dimension < len(sizes) or len(starts[config.dimension]) > 1:
            raise LayoutError(
                f"split config {config} names a dimension that is missing or split already; expected one of "
                f"{len(sizes)}, each once"
            )
        edges = (0, *config.indices, sizes[config.dimension])
        if any(a > b for a, b in pairwise(edges)):
            raise LayoutError(
                f"split config {config} is out of order; expected ascending indices up to {edges[-1]}"
            )
        starts[config.dimension] = edges[:-1]
    return Splits(tuple(starts), tuple(sizes))
