"""Rendering of a graph as an SVG picture for notebooks and pages, without other programs.

Long programs repeat themselves: of equal layers one after the other the first is drawn, the others are a box.
"""

from __future__ import annotations

import html
import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tapestry.teg.drawn_graph import BlockLike, TensorLike
from tapestry.teg.layered_drawing import DrawnBox, NodePositions, draw_layered

MAX_BLOCKS = 300
FOLDS = 8
LINE_HEIGHT, LETTER_WIDTH, MARGIN, LONGEST_LINE = 15.0, 6.7, 12.0, 64
STYLE = (
    ".teg{font-family:ui-monospace,monospace;font-size:11px;color:#1f2933}"
    ".teg rect{fill:#fff;stroke:#52606d}.teg .source rect,.teg .sink rect{fill:#e6f0fa;stroke:#2b6cb0}"
    ".teg .view rect{stroke-dasharray:4 3}.teg .fold rect{fill:#f5f0e6;stroke:#8a6d3b}"
    ".teg .point rect{fill:#f0e6fa;stroke:#6b46c1}"
    ".teg text{fill:#1f2933}.teg .site{font-weight:600}.teg .type{fill:#616e7c}"
    ".teg path{fill:none;stroke:#7b8794}.teg path.after{stroke-dasharray:2 3}"
)
CLASSES = {"source": "source", "sink": "sink", "view": "view", "sequence_point": "point"}


Arrow = tuple[int, int, str]  # from, to, and `data` or `after`


class SvgNode(NamedTuple):
    """One box of the picture: the blocks it stands for, its class and its lines of text."""

    blocks: tuple[BlockLike, ...]
    kind: str
    lines: tuple[str, ...]


def svg(
    name: str,
    blocks: Sequence[BlockLike],
    tensors: Mapping[str, TensorLike],
    max_blocks: int = MAX_BLOCKS,
) -> str:
    """Render the picture: a box per block with site, operator and result, an arrow per read tensor.

    Beyond `max_blocks`, equal layers in a row are drawn once; what is still too much is counted in a last box.
    """
    shown = _shown(blocks, tensors, max_blocks)
    return picture(name, shown, _arrows(shown))


def picture(name: str, shown: Sequence[SvgNode], arrows: Sequence[Arrow]) -> str:
    """Render boxes and the arrows between them, each from a box to a later one, as an SVG element of its own size."""
    boxes = [
        DrawnBox(
            max((len(t) for t in s.lines), default=1) * LETTER_WIDTH + 2 * MARGIN,
            len(s.lines) * LINE_HEIGHT + MARGIN,
        )
        for s in shown
    ]
    placed = draw_layered(boxes, [(a, b) for a, b, _ in arrows])
    width, height = placed.width + 2 * MARGIN, placed.height + 2 * MARGIN
    parts = [
        f'<svg class="teg" xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{-MARGIN:.0f} {-MARGIN:.0f} {width:.0f} {height:.0f}" role="img">',
        f"<title>{_text(name)}</title><style>{STYLE}</style>",
        '<defs><marker id="teg-arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0,0L8,4L0,8z" style="fill:#7b8794;stroke:none"/></marker></defs>',
        *_drawn_arrows(arrows, placed, boxes),
        *(_drawn_box(s, b, at) for s, b, at in zip(shown, boxes, placed.centers, strict=True)),
        "</svg>",
    ]
    return "\n".join(parts)


def _shown(blocks: Sequence[BlockLike], tensors: Mapping[str, TensorLike], max_blocks: int) -> list[SvgNode]:
    """Return a box per block, or fewer boxes where there are too many blocks."""
    shown = [box_of(b, tensors) for b in blocks]
    for _ in range(FOLDS):
        if len(shown) <= max_blocks:
            return shown
        found = repetition([_identity(s) for s in shown])
        if found is None:
            break
        start, period, count = found
        hidden = shown[start + period : start + period * count]
        held = tuple(b for s in hidden for b in s.blocks)
        lines = (f"{count - 1} more of these {period}", f"{len(held)} blocks")
        shown[start + period : start + period * count] = [SvgNode(held, "fold", lines)]
    if len(shown) > max_blocks:
        rest = tuple(b for s in shown[max_blocks:] for b in s.blocks)
        shown[max_blocks:] = [SvgNode(rest, "fold", (f"{len(rest)} more blocks",))]
    return shown


def _identity(shown: SvgNode) -> object:
    """Return the key by which boxes are equal: the definition, regardless of the site."""
    if len(shown.blocks) != 1:
        return (shown.kind, shown.lines)
    block = shown.blocks[0]
    return (block.definition, block.index, block.device)


def repetition(sequence: Sequence[object]) -> tuple[int, int, int] | None:
    """Find the longest part that repeats: `(start, period, count)` with at least two repetitions, or None."""
    numbers: dict[object, int] = {}
    array = np.array([numbers.setdefault(item, len(numbers)) for item in sequence], np.int64)
    best: tuple[int, int, int] | None = None
    for period in range(2, len(array) // 2 + 1):
        same = np.flatnonzero(array[:-period] != array[period:])
        borders = np.concatenate(([-1], same, [len(array) - period]))
        runs = np.diff(borders) - 1
        k = int(np.argmax(runs))
        count = int(runs[k]) // period + 1
        if count > 1 and (best is None or count * period - period > best[1] * best[2] - best[1]):
            best = (int(borders[k]) + 1, period, count)
    return best


def box_of(block: BlockLike, tensors: Mapping[str, TensorLike]) -> SvgNode:
    """Return the box of a block: its site, operator, part and result."""
    lines = [block.site]
    if block.operator not in CLASSES or block.operator == "view":
        lines.append(label_of(block))
    if block.index is not None:
        lines.append(str(block.index))
    if block.device is not None:
        lines.append(f"device {block.device}")
    made = block.outputs or (block.inputs if block.operator == "sink" else ())
    lines += [f"{tensors[t].dtype}[{tensors[t].dims_text}]" for t in made if t in tensors]
    return SvgNode((block,), CLASSES.get(block.operator, "block"), tuple(_shortened(t) for t in lines))


def label_of(block: BlockLike) -> str:
    """Return the operator, for a cell with its outermost function."""
    given = dict(block.definition.attributes)
    if block.operator == "cell" and isinstance(given.get("expr"), tuple):
        return f"cell {given['expr'][0]}"
    return f"{block.operator} {given['monoid']}" if "monoid" in given else block.operator


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_LINE else f"{text[: LONGEST_LINE - 1]}…"


def _arrows(shown: Sequence[SvgNode]) -> list[Arrow]:
    """Return the arrows between boxes, each once, from earlier to later ones; kind `after` where nothing is read."""
    made = {t: k for k, s in enumerate(shown) for b in s.blocks for t in b.outputs}
    sites = {b.site: k for k, s in enumerate(shown) for b in s.blocks}
    found: dict[tuple[int, int], str] = {}
    for k, s in enumerate(shown):
        for b in s.blocks:
            for t in b.inputs:
                if t in made and made[t] < k:
                    found[made[t], k] = "data"
            for site in b.after:
                if site in sites and sites[site] < k:
                    found.setdefault((sites[site], k), "after")
    return [(a, b, kind) for (a, b), kind in found.items()]


def _drawn_arrows(arrows: Sequence[Arrow], placed: NodePositions, boxes: Sequence[DrawnBox]) -> list[str]:
    drawn = []
    for (a, b, kind), route in zip(arrows, placed.routes, strict=True):
        points = list(route)
        points[0] = (points[0][0], points[0][1] + boxes[a].height / 2)
        points[-1] = (points[-1][0], points[-1][1] - boxes[b].height / 2)
        path = f"M{points[0][0]:.1f},{points[0][1]:.1f}"
        for (x0, y0), (x1, y1) in itertools.pairwise(points):
            middle = (y0 + y1) / 2
            path += f"C{x0:.1f},{middle:.1f} {x1:.1f},{middle:.1f} {x1:.1f},{y1:.1f}"
        style = ' class="after"' if kind == "after" else ""
        drawn.append(f'<path{style} d="{path}" marker-end="url(#teg-arrow)"/>')
    return drawn


def _drawn_box(shown: SvgNode, box: DrawnBox, center: tuple[float, float]) -> str:
    x, y = center[0] - box.width / 2, center[1] - box.height / 2
    parts = [
        f'<g class="{shown.kind}"><title>{_text(_tooltip(shown))}</title>',
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="4"/>',
    ]
    last = len(shown.lines) - 1
    for k, line in enumerate(shown.lines):
        style = "site" if k == 0 else "type" if k == last else "operator"
        at = y + MARGIN / 2 + LINE_HEIGHT * (k + 0.75)
        parts.append(
            f'<text class="{style}" x="{center[0]:.1f}" y="{at:.1f}" text-anchor="middle">{_text(line)}</text>'
        )
    return "".join([*parts, "</g>"])


def _tooltip(shown: SvgNode) -> str:
    """Return the full names of the blocks, for boxes whose lines are shortened."""
    return ", ".join(b.site for b in shown.blocks[:20]) + (", ..." if len(shown.blocks) > 20 else "")


def _text(text: str) -> str:
    """Return text that is safe inside the picture: markup escaped, characters that XML forbids replaced."""
    visible = "".join(c if c.isprintable() or c == " " else "\N{REPLACEMENT CHARACTER}" for c in text)
    return html.escape(visible)
