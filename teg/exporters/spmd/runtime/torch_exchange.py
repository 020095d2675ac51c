"""Exchanges of pieces: each missing element once, from the nearest rank that holds it."""

from __future__ import annotations

import torch
from tapestry.teg.exporters.spmd.runtime.mesh import RANK, Box, Dims, boxes, inside
from tapestry.teg.exporters.spmd.runtime.torch_collectives import (
    AsyncCollective,
    Steps,
    swap,
)
from tapestry.teg.exporters.spmd.runtime.transfers import transfers


@AsyncCollective
def exchange(x: torch.Tensor, held: Dims, needed: Dims) -> Steps:
    """Fetch the part that this rank needs, piece by piece, from the ranks that hold it."""
    parts, want = boxes(held), boxes(needed)[RANK]
    result = x.new_empty([b - a for a, b in want])
    source = x
    for moves in transfers(held, needed):
        sends, receives = [], []
        for m in moves:
            if m.source == RANK:
                mine = runs(source[inside(m.box, parts[RANK])], m.start, m.stop)
                sends += [(run, m.target) for run in mine]
            if m.target == RANK:
                places = runs(result[inside(m.box, want)], m.start, m.stop)
                receives += [(run, m.source) for run in places]
            if m.source == m.target == RANK:
                for place, run in zip(places, mine, strict=True):
                    place.copy_(run)
        in_one = all(is_run(m.box, parts[m.source]) for m in moves)
        yield from swap(sends, receives, 1 if in_one else len(parts))
        source, parts = result, boxes(needed)
    return result


def is_run(box: Box, held: Box) -> bool:
    """Return whether a box is one run of memory in a tensor that is the box `held`."""
    lengths = [(b - a, d - c) for (a, b), (c, d) in zip(box, held, strict=True)]
    long = [k for k, (length, _) in enumerate(lengths) if length > 1]
    return all(part == whole for part, whole in lengths[(long or [0])[0] + 1 :])


def runs(x: torch.Tensor, start: int, stop: int) -> list[torch.Tensor]:
    """Return the boxes of a tensor that hold its elements from `start` to `stop`, one after the other."""
    if stop - start in (0, x.numel()):
        return [x] if start < stop else []
    inner = x[0].numel()
    first, last = -(-start // inner), stop // inner
    if first > last:
        return runs(x[last], start - last * inner, stop - last * inner)
    head = (
        runs(x[first - 1], start - first * inner + inner, inner)
        if start % inner
        else []
    )
    tail = runs(x[last], 0, stop % inner) if stop % inner else []
    return [*head, *([x[first:last]] if first < last else []), *tail]
