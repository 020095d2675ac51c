"""A diagram as SVG: cells colored by buffer, padding hatched, borders of tiles, readable in light and dark."""

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

import numpy as np
from numpy.typing import NDArray

from tapestry.hardware.layouts.drawing.diagram import Diagram, Panel
from tapestry.hardware.layouts.layout import Indices

Places = NDArray[np.float64]

MOST_ROWS = 40
MOST_COLUMNS = 40
CELL_HEIGHT, GAP, MARGIN = 20, 14, 12
DIGIT_WIDTH = 7.5
TITLE = 24
HUES = 6

STYLE = """
svg { color-scheme: light dark; background: #fff; --ink: #1c2430; --faint: #8a94a3; --empty: #eef0f3; }
text { font: 12px ui-monospace, monospace; fill: var(--ink); text-anchor: middle; dominant-baseline: central; }
.head { fill: var(--faint); } .label { text-anchor: end; fill: var(--faint); } .title { text-anchor: start; }
rect { stroke: none; } .padding { fill: url(#hatch); } .hatch { fill: var(--empty); }
.hatch-line { stroke: var(--faint); stroke-width: 1; }
.b0 { fill: #d7e8fb; } .b1 { fill: #fde6cf; } .b2 { fill: #dcf2dc; }
.b3 { fill: #f3dcf0; } .b4 { fill: #fbf3c9; } .b5 { fill: #d5f0f0; }
path { stroke: var(--ink); fill: none; } .s1 { stroke-width: 0.8; } .s2 { stroke-width: 1.6; } .s3 { stroke-width: 3; }
@media (prefers-color-scheme: dark) {
  svg { background: #12161c; --ink: #e6ebf2; --faint: #7d8896; --empty: #1d232c; }
  .b0 { fill: #1d3a5c; } .b1 { fill: #5a3a1a; } .b2 { fill: #1f4a26; }
  .b3 { fill: #50294b; } .b4 { fill: #4d4514; } .b5 { fill: #17494a; }
}
"""
HATCH = (
    '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect class="hatch" width="6" height="6"/><line class="hatch-line" x1="0" y1="0" x2="0" y2="6"/>'
    "</pattern></defs>"
)


def svg_of(diagram: Diagram) -> str:
    """Build an SVG document; the content of a cell is also in its tooltip."""
    texts = [str(n) for panel in diagram.panels for n in (*panel.slots.flat, *panel.columns)]
    cell = DIGIT_WIDTH * max(map(len, texts), default=1) + 8
    label = DIGIT_WIDTH * max((len(t) for p in diagram.panels for t in p.row_labels), default=0) + 8
    body: list[str] = []
    top, right = float(MARGIN), 0.0
    heading = f"{diagram.layout.notation}: {diagram.layout}"
    for panel in diagram.panels:
        lefts = MARGIN + label + _starts(panel.columns, cell)
        if diagram.panel_count > 1:
            title = f"[{', '.join(map(str, panel.index))}, :, :]"
            body.append(_text(MARGIN, top + TITLE / 2, title, "title"))
            top += TITLE
        tops = top + CELL_HEIGHT + _starts(panel.rows, CELL_HEIGHT)
        body += _headings(panel, lefts, tops, cell)
        body += _cells(diagram, panel, lefts, tops, cell)
        body += _borders(panel, lefts, tops, cell)
        top, right = tops[-1] + CELL_HEIGHT + MARGIN, max(right, lefts[-1] + cell)
    if text := diagram.left_out:
        body.append(_text(MARGIN, top + TITLE / 2, text, "title"))
        top, right = top + TITLE, max(right, MARGIN + DIGIT_WIDTH * len(text))
    size = f'width="{right + MARGIN:g}" height="{top + MARGIN:g}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label={quoteattr(heading)}>',
            f"<title>{escape(heading)}</title><style>{STYLE}</style>{HATCH}",
            *body,
            "</svg>\n",
        ]
    )


def _starts(shown: Indices, extent: float) -> Places:
    """Compute the start of each shown row or column: a gap stands for those left out."""
    jumps = np.cumsum(np.diff(shown, prepend=shown[0] - 1) > 1)
    return np.arange(len(shown)) * extent + jumps * GAP


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(text)}</text>'


def _headings(panel: Panel, lefts: Places, tops: Places, cell: float) -> Iterator[str]:
    for left, column in zip(lefts, panel.columns, strict=True):
        yield _text(left + cell / 2, tops[0] - CELL_HEIGHT / 2, str(column), "head")
    for top, text in zip(tops, panel.row_labels, strict=True):
        yield _text(lefts[0] - 6, top + CELL_HEIGHT / 2, text, "label")


def _cells(diagram: Diagram, panel: Panel, lefts: Places, tops: Places, cell: float) -> Iterator[str]:
    names = {int(b): diagram.layout.buffer_name(int(b)) for b in np.unique(panel.buffers)}
    for row, top in enumerate(tops):
        for column, left in enumerate(lefts):
            buffer, slot = int(panel.buffers[row, column]), int(panel.slots[row, column])
            real = bool(panel.real[row, column])
            what = f"element {panel.coords[row, column].tolist()}" if real else "padding"
            kind = f"b{buffer % HUES}" if real else "padding"
            place = f'x="{left:g}" y="{top:g}" width="{cell:g}" height="{CELL_HEIGHT}"'
            text = escape(f"{what}: {names[buffer]}, slot {slot}")
            number = _text(left + cell / 2, top + CELL_HEIGHT / 2, str(slot), "slot" if real else "head")
            yield f'<g><title>{text}</title><rect class="{kind}" {place}/>{number}</g>'


def _borders(panel: Panel, lefts: Places, tops: Places, cell: float) -> Iterator[str]:
    """Yield one path per kind of border, and one around the whole."""
    right, bottom = lefts[-1] + cell, tops[-1] + CELL_HEIGHT
    yield f'<path class="s2" d="M{lefts[0]:g} {tops[0]:g}H{right:g}V{bottom:g}H{lefts[0]:g}Z"/>'
    for kind in (1, 2, 3):
        upright = [f"M{lefts[c]:g} {tops[r]:g}v{CELL_HEIGHT}" for r, c in np.argwhere(panel.left == kind)]
        level = [f"M{lefts[c]:g} {tops[r]:g}h{cell:g}" for r, c in np.argwhere(panel.above == kind)]
        if upright or level:
            yield f'<path class="s{kind}" d="{"".join(upright + level)}"/>'
