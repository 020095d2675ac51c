"""Patterns of subgraphs: all blocks on the way to a tensor from certain blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapestry.rewrites.regions import Above
from tapestry.rewrites.tracked_graph import TrackedGraph
from tapestry.teg.graph import Block

# Blocks that `above` takes at most: a kernel of more is none.
MOST_BLOCKS = 24

# How far below its ends a match takes in what only it reads.
MOST_PRIVATE = 2


def blocks_above(
    tracked: TrackedGraph, term: Above, sites: Sequence[str], matched: Sequence[Block]
) -> dict[Any, Any] | None:
    """Bind the term for tensors: itself to their sites, and `(term, n)` to the blocks.

    `matched` are the blocks matched so far, the root first. None if no path leads up to an end, or if
    there are too many blocks.
    """
    key = (term, tuple(sites), matched[0].site if term.all_operands else "")
    return tracked.memoized(key, lambda: _blocks_above(tracked, term, sites, matched))


def _blocks_above(
    tracked: TrackedGraph, term: Above, sites: Sequence[str], matched: Sequence[Block]
) -> dict[Any, Any] | None:
    levels: dict[str, Block] = {}
    ends: dict[str, Block] = {}
    edge = {tracked.producers[t].site: tracked.producers[t] for t in sites}
    if not term.all_operands and any(b.operator in term.ends for b in edge.values()):
        return None
    for level in range(term.most + 1):
        further: dict[str, Block] = {}
        for block in edge.values():
            if not tracked.is_free(block) or (term.takes and not term.takes(tracked, block, matched[0])):
                continue
            if block.operator in term.ends:
                ends[block.site] = block
            if block.operator in term.operators and level < term.most:
                levels[block.site] = block
                further.update((tracked.producers[t].site, tracked.producers[t]) for t in block.inputs)
        if len(levels.keys() | ends.keys()) > MOST_BLOCKS:
            return None
        edge = {s: b for s, b in further.items() if s not in levels and s not in ends}
    if not ends:
        return None
    kept = dict(ends)
    for s in sorted(levels, key=tracked.position):
        if any(tracked.producers[t].site in kept for t in levels[s].inputs):
            kept[s] = levels[s]
    if term.through is not None and not any(map(term.through, kept.values())):
        return None
    if term.private:
        _take_private(tracked, term, kept, matched)
    bound = tuple(sites) if term.all_operands else sites[0]
    return {term: bound, **{(term, n): block for n, block in enumerate(kept.values())}}


def _take_private(
    tracked: TrackedGraph, term: Above, kept: dict[str, Block], matched: Sequence[Block]
) -> None:
    """Add blocks that only matched blocks read, block by block upwards."""
    inside = {b.site for b in matched} | kept.keys()
    waiting = [(b, 0) for b in (*matched, *kept.values())]
    while waiting and len(kept) < MOST_BLOCKS:
        block, steps = waiting.pop()
        for producer in (
            dict.fromkeys(tracked.producers[t] for t in block.inputs) if steps < MOST_PRIVATE else ()
        ):
            if (
                producer.site in inside
                or producer.operator not in term.private
                or not tracked.is_free(producer)
            ):
                continue
            if all(r.site in inside for t in producer.outputs for r, _ in tracked.readers[t]):
                kept[producer.site] = producer
                inside.add(producer.site)
                waiting.append((producer, steps + 1))
