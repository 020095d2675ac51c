"""The content of a layout's diagram, before anything is drawn: cells, their elements, and their borders."""

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from tapestry.hardware.layouts.drawing.tile_borders import border_rows, kept, tile_borders
from tapestry.hardware.layouts.layout import Indices, Layout, LayoutError, Mask

MOST_CELLS = 2**20
RANK = 8  # of more dimensions fewer cells are looked at
MOST_PANELS = 8


@dataclass(frozen=True)
class Panel:
    """One matrix of the padded index space, with rows and columns between those at borders left out.

    `index` are the places of the dimensions before the last two. All arrays are (rows, columns): `slots` count in
    their buffer, `coords` (rows, columns, rank) are those of the element, `real` is False on padding, `above` and
    `left` are the borders of a cell (see `tile_borders`). `is_cut`: even the rows or columns at borders were too many.
    """

    index: tuple[int, ...]
    rows: Indices
    columns: Indices
    buffers: Indices
    slots: Indices
    coords: Indices
    real: Mask
    above: NDArray[np.int8]
    left: NDArray[np.int8]
    is_cut: bool

    @property
    def row_labels(self) -> list[str]:
        """The coordinates that all elements of each row share, ':' for those that vary; '' for padding alone."""
        return [_shared(coords[real]) for coords, real in zip(self.coords, self.real, strict=True)]


@dataclass(frozen=True)
class Diagram:
    """A layout's storage as matrices of `height` by `width` cells, of which some are shown."""

    layout: Layout
    height: int
    width: int
    panels: tuple[Panel, ...]
    panel_count: int

    @property
    def left_out(self) -> str:
        """A sentence about the parts that are not shown; '' if everything is."""
        if not self.panels:
            return "There are no slots."
        shown = []
        if len(self.panels) < self.panel_count:
            shown.append(f"of the matrices, the first {len(self.panels)} of {self.panel_count:,}")
        if any(len(p.rows) < self.height or len(p.columns) < self.width for p in self.panels):
            which = "the first" if any(p.is_cut for p in self.panels) else "those"
            size = f"{self.height:,} rows and {self.width:,} columns"
            shown.append(f"of {size}, {which} where something begins or ends")
        return f"Shown are, {'; '.join(shown)}." if shown else ""


def diagram_of(layout: Layout, most_rows: int, most_columns: int) -> Diagram:
    """Build the diagram of a layout, with at most so many rows and columns of each matrix.

    Raises `LayoutError` if a matrix is too large to be drawn.
    """
    *lead, height, width = (1, 1, *layout.picture_shape)[-max(len(layout.picture_shape), 2) :]
    most = MOST_CELLS * RANK // max(RANK, len(layout.shape))
    if height * width > most:
        raise LayoutError(
            f"too large to draw: expected at most {most:,} cells, not {height:,} x {width:,} of them; "
            "draw a smaller shape in the same layout, its tiles are the same"
        )
    count = prod(lead) if height * width else 0
    indices = [tuple(int(i) for i in np.unravel_index(k, lead)) for k in range(min(count, MOST_PANELS))]
    panels = tuple(_panel(layout, index, (height, width), most_rows, most_columns) for index in indices)
    return Diagram(layout, height, width, panels, count)


def _panel(layout: Layout, index: tuple[int, ...], size: tuple[int, int], rows: int, columns: int) -> Panel:
    matrix = np.indices(size, dtype=np.int64).reshape(2, -1).T
    lead = np.broadcast_to(np.array(index, dtype=np.int64), (len(matrix), len(index)))
    places = (
        np.hstack([lead, matrix])[:, -len(layout.picture_shape) :] if layout.picture_shape else matrix[:, :0]
    )
    flat = layout.picture_offsets(places)
    found, real = layout.coordinates(flat)
    offsets, mask = flat.reshape(size), real.reshape(size)
    buffers, slots = np.divmod(offsets, max(layout.buffer_elements, 1))
    above, left = tile_borders(offsets, buffers, 0), tile_borders(offsets, buffers, 1)
    (high, high_is_cut), (wide, wide_is_cut) = (
        kept(border_rows(above, mask, 0), rows), kept(border_rows(left, mask, 1), columns),
    )  # fmt: skip
    shown = np.ix_(high, wide)
    coords = found.reshape(*size, len(layout.shape))
    return Panel(
        index, high, wide, buffers[shown], slots[shown], coords[shown], mask[shown],
        above[shown], left[shown], high_is_cut or wide_is_cut,
    )  # fmt: skip


def _shared(coords: Indices) -> str:
    if not len(coords):
        return ""
    same = (coords == coords[0]).all(axis=0)
    return ",".join(str(c) if s else ":" for c, s in zip(coords[0].tolist(), same.tolist(), strict=True))
