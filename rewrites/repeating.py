"""Repetition of a matched block for its late readers: right before the first of them it computes the same once more.

Imported by `rewrites.replacement`, by the rules of `rewrites.repetition`, and by whoever asks what a block repeats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tapestry.rewrites.mutable_graph import MutableGraph
from tapestry.rewrites.regions import Repeat
from tapestry.rewrites.rule import Match
from tapestry.rewrites.tracked_graph import TrackedGraph
from tapestry.teg.graph import Block, Definition, Graph

AFTER = "after "


def readers_of(graph: MutableGraph | TrackedGraph, block: Block) -> list[Block]:
    """Return the blocks that read a result of a block, each once, in program order."""
    found = {reader.site: reader for t in block.outputs for reader, _ in graph.readers[t]}
    return sorted(found.values(), key=lambda reader: graph.position(reader.site))


def after_readers(count: int) -> str:
    """Return the choice of a move after which the first `count` readers of a block read the stored value."""
    return f"{AFTER}{count}"


def originals(graph: Graph) -> Mapping[str, str]:
    """Return by the site of each repetition that of the block which it repeats, where that is there."""
    known: Mapping[str, str] | None = graph.kept.get("originals")
    if known is None:
        known = graph.kept["originals"] = _originals(graph)
    return known


def _originals(graph: Graph) -> dict[str, str]:
    found: dict[str, str] = {}
    first: dict[tuple[Definition, tuple[str, ...]], str] = {}
    same: dict[str, str] = {}
    for block in graph.blocks:
        key = block.definition, tuple(same.get(t, t) for t in block.inputs)
        original = first.setdefault(key, block.site)
        if block.repetition and original != block.site:
            found[block.site] = original
            same.update(zip(block.outputs, graph.by_site[original].outputs, strict=True))
    return found


def put_repetition(edited: MutableGraph, right: Repeat, match: Match) -> None:
    """Add a repetition of the matched block before the first of its late readers, which read its results from now on.

    Where no reader is early, which is so without a choice, the block itself moves there.
    """
    (block,) = match.roots
    early = int(match.choice.removeprefix(AFTER) or 0)
    late = readers_of(edited, block)[early:]
    position = edited.position(late[0].site)
    edited.move(late[0].site, (*position, 1))
    if early == 0:
        edited.remove(block.site)
        edited.add(right.changed(block), (*position, 0))
        return
    site = edited.free_site(f"{block.site.partition('~again')[0]}~again")
    names = {t: site if k == 0 else f"{site}#{k}" for k, t in enumerate(block.outputs)}
    repeated = replace(block, site=site, outputs=tuple(names.values()), repetition=block.repetition + 1)
    tensors = [replace(edited.tensors[t], site=name) for t, name in names.items()]
    edited.add(right.changed(repeated), (*position, 0), tensors)
    for t, name in names.items():
        edited.redirect(t, name, {reader.site for reader in late})
