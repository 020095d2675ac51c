"""Waypoints that moves put behind a block: its late readers read them, of which those on the host have memory there.

Imported by `rewrites.replacement`, and by the rules that put waypoints.
"""

from __future__ import annotations

import re
from dataclasses import replace

from tapestry.rewrites.mutable_graph import MutableGraph
from tapestry.rewrites.regions import PutWaypoint
from tapestry.rewrites.repeating import AFTER, readers_of
from tapestry.rewrites.rule import Match
from tapestry.teg.builder import define
from tapestry.teg.graph import Block, attributes

BEFORE = "before "
CHOICE = re.compile(rf"(?:{AFTER}(\d+))?(?:, )?(?:{BEFORE}(.+))?")


def waypoint_before(site: str, early: int | None = None) -> str:
    """Return the choice of a move after which readers of a value read a waypoint, which comes before a block.

    The first `early` of them do not; None: of a rule that leaves no reader out.
    """
    return f"{BEFORE}{site}" if early is None else f"{AFTER}{early}, {BEFORE}{site}"


def is_place(match: Match, choice: str) -> bool:
    """Return whether a choice names a block between the early readers of the matched block and the late ones."""
    early, before = _parsed(choice)
    (block,), edited = match.roots, match.edited
    readers = readers_of(edited, block)
    if early >= len(readers) or before not in edited.blocks:
        return False
    last = readers[early - 1] if early else block
    place, late = edited.position(before), edited.position(readers[early].site)
    return edited.position(last.site) < place <= late


def _parsed(choice: str) -> tuple[int, str]:
    """Return how many readers are early, and the site of the block behind the waypoint; empty: where that follows."""
    parsed = CHOICE.fullmatch(choice)
    return (0, "") if parsed is None else (int(parsed[1] or 0), parsed[2] or "")


def put_waypoint(edited: MutableGraph, right: PutWaypoint, match: Match) -> None:
    """Add a waypoint for the late readers of the matched block: right after the early ones, or before a block."""
    (block,) = match.roots
    early, before = _parsed(match.choice)
    readers = readers_of(edited, block)
    (made,) = block.outputs
    suffix = f"~{right.memory or 'waypoint'}"
    site = edited.free_site(f"{block.site.partition(suffix)[0]}{suffix}")
    given = attributes(memory=right.memory) if right.memory else ()
    definition, _ = define("waypoint", given, [edited.tensors[made].type])
    waypoint = right.changed(Block(site, definition, (made,), (site,)))
    if before:
        position = edited.position(before)
        edited.move(before, (*position, 1))
        edited.add(waypoint, (*position, 0), [replace(edited.tensors[made], site=site)])
    else:
        last = readers[early - 1] if early else block
        position = edited.position(last.site)
        edited.move(last.site, (*position, 0))
        edited.add(waypoint, (*position, 1), [replace(edited.tensors[made], site=site)])
    edited.redirect(made, site, {reader.site for reader in readers[early:]})
