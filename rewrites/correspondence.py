"""Blocks of a rewritten program and those of the original one to which they correspond, by the moves in between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tapestry.rewrites.provenance import REMADE, Provenance
from tapestry.teg.graph import Block, Graph


@dataclass(frozen=True)
class Correspondence:
    """The blocks of two programs that are the same: `before` by the sites of the later program, one to one.

    A block that no move made is the same block, whatever it reads by now. One that a move made corresponds to the
    block that it stems from and whose tensor it makes: moves keep the tensors whose values they keep. `origins` has,
    for every other block of the later program, the original blocks that it stems from.
    """

    before: Mapping[str, str]
    origins: Mapping[str, tuple[str, ...]]


def correspondence(given: Graph, result: Graph, reported: Provenance) -> Correspondence:
    """Compare a program with what `reported`, the provenance of a history of it, led to: `result`, or a part of that.

    Blocks of `result` that the history does not have, as of a program that was divided afterwards, correspond by their
    sites. O(blocks, and the histories of those that moves made).
    """
    found: dict[str, str] = {}
    made: list[Block] = []
    for block in result.blocks:
        if block.site in given.by_site and (
            block.site not in reported.graph.by_site or reported.is_original(block.site)
        ):
            found[block.site] = block.site
        else:
            made.append(block)
    taken = set(found.values())
    remade = {event.site for event in reported.events if event.effect == REMADE}
    others: dict[str, tuple[str, ...]] = {}
    for block in made:
        origins = reported.origins(block.site) if block.site in reported.graph.by_site else ()
        known = {*origins, *({block.site} & remade)}
        match = next((s for s in _candidates(block, given) if s in known and s not in taken), None)
        if match is None:
            others[block.site] = origins
        else:
            found[block.site] = match
            taken.add(match)
    return Correspondence(found, others)


def _candidates(block: Block, given: Graph) -> Iterator[str]:
    """Yield the original blocks that make a tensor of this block, then the one of its site."""
    for tensor in block.outputs:
        if tensor in given.producers:
            yield given.producers[tensor].site
    if block.site in given.by_site:
        yield block.site
