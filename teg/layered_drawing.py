"""Layered diagrams of boxes and arrows: rows by longest path, order by neighbors, positions without overlap.

Sugiyama, Tagawa and Toda, "Methods for Visual Understanding of Hierarchical System Structures", 1981: arrows
that span rows are routed through points of their own, and rows are sorted by the mean position of their neighbors.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

PASSES = 6
POINT_WIDTH = 12.0


class DrawnBox(NamedTuple):
    """The width and height, in pixels, of a box to be placed."""

    width: float
    height: float


class NodePositions(NamedTuple):
    """Centers of boxes, routes of arrows as points from top to bottom, and the size of the whole diagram."""

    centers: tuple[tuple[float, float], ...]
    routes: tuple[tuple[tuple[float, float], ...], ...]
    width: float
    height: float


def draw_layered(
    boxes: Sequence[DrawnBox], arrows: Sequence[tuple[int, int]], gap: float = 24.0, rise: float = 44.0
) -> NodePositions:
    """Compute positions for boxes; each arrow goes from a box to one with a higher number."""
    rows = _rows(len(boxes), arrows)
    chains, widths, levels = _chains(boxes, arrows, rows)
    order = _ordered(levels, chains)
    across = _places(order, widths, chains, gap)
    heights = [max((boxes[n].height for n in row if n < len(boxes)), default=POINT_WIDTH) for row in order]
    tops = [rise * k + sum(heights[:k]) for k in range(len(order))]
    down = {n: tops[k] + heights[k] / 2 for k, row in enumerate(order) for n in row}
    left = min((across[n] - widths[n] / 2 for n in across), default=0.0)
    right = max((across[n] + widths[n] / 2 for n in across), default=0.0)
    centers = tuple((across[n] - left, down[n]) for n in range(len(boxes)))
    routes = tuple(tuple((across[n] - left, down[n]) for n in chain) for chain in chains)
    height = tops[-1] + heights[-1] if order else 0.0
    return NodePositions(centers, routes, right - left, height)


def _rows(count: int, arrows: Sequence[tuple[int, int]]) -> list[int]:
    """Compute the row of each box: below all it depends on, or just above its first reader if it depends on nothing."""
    rows, readers = [0] * count, [[] for _ in range(count)]  # type: tuple[list[int], list[list[int]]]
    fed = [False] * count
    for a, b in sorted(arrows, key=lambda arrow: arrow[1]):
        rows[b] = max(rows[b], rows[a] + 1)
        readers[a].append(b)
        fed[b] = True
    for n in range(count):
        if not fed[n] and readers[n]:
            rows[n] = min(rows[r] for r in readers[n]) - 1
    return rows


def _chains(
    boxes: Sequence[DrawnBox], arrows: Sequence[tuple[int, int]], rows: Sequence[int]
) -> tuple[list[list[int]], list[float], list[list[int]]]:
    """Return arrows as chains from row to row, the widths of boxes and points, and the members of each row."""
    widths = [b.width for b in boxes]
    levels: list[list[int]] = [[] for _ in range(max(rows, default=-1) + 1)]
    for n, row in enumerate(rows):
        levels[row].append(n)
    chains = []
    for a, b in arrows:
        chain = [a]
        for row in range(rows[a] + 1, rows[b]):
            levels[row].append(len(widths))
            chain.append(len(widths))
            widths.append(POINT_WIDTH)
        chains.append([*chain, b])
    return chains, widths, levels


def _neighbors(chains: Sequence[Sequence[int]]) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    above: dict[int, list[int]] = {}
    below: dict[int, list[int]] = {}
    for chain in chains:
        for a, b in itertools.pairwise(chain):
            above.setdefault(b, []).append(a)
            below.setdefault(a, []).append(b)
    return above, below


def _ordered(levels: Sequence[Sequence[int]], chains: Sequence[Sequence[int]]) -> list[list[int]]:
    """Sort rows by the mean position of their neighbors, alternately downward and upward."""
    above, below = _neighbors(chains)
    order = [list(row) for row in levels]
    for refine in range(PASSES):
        down = refine % 2 == 0
        near = above if down else below
        place: dict[int, float] = {}
        for row in order if down else order[::-1]:
            before = {n: float(k) for k, n in enumerate(row)}
            row.sort(key=lambda n: _mean([place[m] for m in near.get(n, ()) if m in place], before[n]))
            place |= {n: float(k) for k, n in enumerate(row)}
    return order


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _places(
    order: Sequence[Sequence[int]], widths: Sequence[float], chains: Sequence[Sequence[int]], gap: float
) -> dict[int, float]:
    """Compute the horizontal centers, each as near to its neighbors as its row allows."""
    above, below = _neighbors(chains)
    across: dict[int, float] = {}
    for row in order:
        x = 0.0
        for n in row:
            across[n] = x + widths[n] / 2
            x += widths[n] + gap
        for n in row:
            across[n] -= x / 2
    for refine in range(PASSES):
        down = refine % 2 == 0
        near: Mapping[int, list[int]] = above if down else below
        for row in order if down else order[::-1]:
            wanted = [_mean([across[m] for m in near.get(n, ())], across[n]) for n in row]
            across.update(zip(row, _apart(wanted, [widths[n] for n in row], gap), strict=True))
    return across


def _apart(wanted: Sequence[float], widths: Sequence[float], gap: float) -> list[float]:
    """Find the centers nearest to `wanted` (least squares) that keep the order and do not overlap.

    Neighbors that would overlap become a block that moves as one (pool adjacent violators).
    """
    offsets, total = [], 0.0
    for k, width in enumerate(widths):
        total += width / 2 + (widths[k - 1] / 2 + gap if k else 0.0)
        offsets.append(total)
    blocks: list[tuple[float, int]] = []  # mean of wanted - offset, members
    for goal, offset in zip(wanted, offsets, strict=True):
        mean, members = goal - offset, 1
        while blocks and blocks[-1][0] > mean:
            other, count = blocks.pop()
            mean, members = (mean * members + other * count) / (members + count), members + count
        blocks.append((mean, members))
    starts = [mean for mean, members in blocks for _ in range(members)]
    return [start + offset for start, offset in zip(starts, offsets, strict=True)]
