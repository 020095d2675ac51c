"""Waypoints on the host: late readers of a value have it from there, so that it need not be stored on the device.

Imported by `rewrites.replacement`, and by the rules of `rewrites.repetition`.
"""

from __future__ import annotations

import re
from dataclasses import replace

from tapestry.rewrites.mutable_graph import MutableGraph
from tapestry.rewrites.regions import Offload
from tapestry.rewrites.repeating import AFTER, readers_of
from tapestry.rewrites.rule import Match
from tapestry.teg.builder import define
from tapestry.teg.graph import Block, attributes
from tapestry.teg.sharding.host import HOST

BEFORE = ", before "
CHOICE = re.compile(rf"{AFTER}(\d+)(?:{BEFORE}(.+))?")


def offload_before(early: int, site: str) -> str:
    """Return the choice of a move after which the first readers read the value, and the rest what came to the host.

    The value has come there before the block of a site begins.
    """
    return f"{AFTER}{early}{BEFORE}{site}"


def is_offload(match: Match, choice: str) -> bool:
    """Return whether a choice names a block between the early readers of the matched block and the late ones."""
    parsed = CHOICE.fullmatch(choice)
    if parsed is None or parsed[2] is None:
        return False
    (block,), edited = match.roots, match.edited
    early, before, readers = int(parsed[1]), parsed[2], readers_of(edited, block)
    if early >= len(readers) or before not in edited.blocks:
        return False
    last = readers[early - 1] if early else block
    place, late = edited.position(before), edited.position(readers[early].site)
    return edited.position(last.site) < place <= late


def put_waypoint(edited: MutableGraph, right: Offload, match: Match) -> None:
    """Add a waypoint on the host for the late readers of the matched block: after the early ones, or before a block."""
    (block,) = match.roots
    parsed = CHOICE.fullmatch(match.choice)
    assert parsed is not None
    early, readers = int(parsed[1]), readers_of(edited, block)
    (made,) = block.outputs
    site = edited.free_site(f"{block.site.partition('~host')[0]}~host")
    definition, _ = define("waypoint", attributes(memory=HOST), [edited.tensors[made].type])
    waypoint = Block(site, definition, (made,), (site,))
    if parsed[2] is not None:
        position = edited.position(parsed[2])
        edited.move(parsed[2], (*position, 1))
        edited.add(right.changed(waypoint), (*position, 0), [replace(edited.tensors[made], site=site)])
    else:
        last = readers[early - 1] if early else block
        position = edited.position(last.site)
        edited.move(last.site, (*position, 0))
        edited.add(right.changed(waypoint), (*position, 1), [replace(edited.tensors[made], site=site)])
    edited.redirect(made, site, {reader.site for reader in readers[early:]})
