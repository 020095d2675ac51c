"""A diagram as text: one line per row of cells, borders of tiles between them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tapestry.hardware.layouts.drawing.diagram import Diagram, Panel
from tapestry.hardware.layouts.drawing.tile_borders import BUFFER
from tapestry.hardware.layouts.layout import Indices

MOST_ROWS = 40
MOST_COLUMNS = 24
MOST_NAMES = 16


@dataclass(frozen=True)
class Glyphs:
    """The characters of a diagram: lines by kind of border, `crossing` where two meet, and signs for cells."""

    vertical: str
    horizontal: str
    crossing: str
    padding: str
    gap: str


UNICODE = Glyphs(" ┊│║", " ┈─═", "┼", "·", "…")
ASCII = Glyphs(" :|#", " .-=", "+", ".", "~")


def text_of(diagram: Diagram, glyphs: Glyphs = UNICODE, *, elements: bool = False) -> list[str]:
    """Format a diagram as lines: in each cell its slot, or with `elements` the coordinates of its element."""
    lines: list[str] = []
    for panel in diagram.panels:
        if diagram.panel_count > 1:
            lines += [f"[{', '.join(map(str, panel.index))}, :, :]"]
        lines += _panel(panel, glyphs, elements)
        lines += _names(diagram, panel)
    return [*lines, diagram.left_out] if diagram.left_out else lines


def _panel(panel: Panel, glyphs: Glyphs, elements: bool) -> list[str]:
    cells = [
        [_cell(panel, row, column, glyphs, elements) for column in range(len(panel.columns))]
        for row in range(len(panel.rows))
    ]
    head = [str(column) for column in panel.columns]
    width = max(len(text) for row in [head, *cells] for text in row)
    labels = panel.row_labels
    margin = max(map(len, labels))
    jumps = np.diff(panel.columns, prepend=panel.columns[0] - 1) > 1
    lines = [_line(" " * margin, head, [" "] * len(head), width, jumps, " ")]
    for row, (texts, label) in enumerate(zip(cells, labels, strict=True)):
        if row:
            lines += _between(panel, row, margin, width, jumps, glyphs)
        sides = [glyphs.vertical[border] for border in panel.left[row]]
        lines.append(_line(label.rjust(margin), texts, sides, width, jumps, glyphs.gap))
    return lines


def _cell(panel: Panel, row: int, column: int, glyphs: Glyphs, elements: bool) -> str:
    if not panel.real[row, column]:
        return glyphs.padding
    if elements:
        return ",".join(map(str, panel.coords[row, column].tolist()))
    return str(panel.slots[row, column])


def _line(
    label: str, texts: list[str], sides: list[str], width: int, jumps: NDArray[np.bool_], gap: str
) -> str:
    parts = [
        (f"{gap.rjust(2)} " if jump else "") + side + text.rjust(width)
        for text, side, jump in zip(texts, sides, jumps, strict=True)
    ]
    return f"{label} {''.join(parts)}".rstrip()


def _between(
    panel: Panel, row: int, margin: int, width: int, jumps: NDArray[np.bool_], glyphs: Glyphs
) -> list[str]:
    """Return the lines above a row: the sign for rows that are left out, and the border if any cell has one there."""
    lines = []
    if panel.rows[row] - panel.rows[row - 1] > 1:
        lines.append(" " * (margin + 1) + glyphs.gap)
    above, left = panel.above[row], panel.left[row]
    if above.any():
        texts = [glyphs.horizontal[border] * width for border in above]
        sides = [
            glyphs.crossing if side and over else glyphs.horizontal[over] if over else glyphs.vertical[side]
            for side, over in zip(left, above, strict=True)
        ]
        lines.append(_line(" " * margin, texts, sides, width, jumps, " "))
    return lines


def _names(diagram: Diagram, panel: Panel) -> list[str]:
    """List the buffers that are shown, in the order of their positions, if there are several."""
    if diagram.layout.buffer_count < 2:
        return []
    bands = panel.buffers[_starts(panel.above)][:, _starts(panel.left.T)]
    if bands.size > MOST_NAMES:
        return [f"{bands.shape[0]} x {bands.shape[1]} buffers, the first one {_name(diagram, bands[0, 0])}"]
    return ["buffers: " + "; ".join(" | ".join(_name(diagram, b) for b in band) for band in bands)]


def _starts(borders: NDArray[np.int8]) -> Indices:
    begins = (borders == BUFFER).any(axis=1)
    begins[:1] = True
    return np.flatnonzero(begins)


def _name(diagram: Diagram, buffer: int) -> str:
    return diagram.layout.buffer_name(int(buffer))
