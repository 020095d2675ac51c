"""Programs folded for a drawing of bounded size: a node per group that is closed and per block that is in none.

Parameters and constants that one block reads are counted in it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from tapestry.teg.brief import counted
from tapestry.teg.drawn_graph import BlockLike, GraphLike
from tapestry.teg.drawn_groups import NO_GROUP, DrawnGroups
from tapestry.teg.svg import Arrow, SvgNode, box_of

HELD = ("parameter", "constant")


class FoldedNode(NamedTuple):
    """A node of a folded program: its blocks, the group that it stands for, if any, and how many sources it holds."""

    blocks: tuple[BlockLike, ...]
    group: int
    held: int


class FoldedProgram(NamedTuple):
    """The nodes of a folded program and the arrows between them, each once and to a later node."""

    nodes: Sequence[FoldedNode]
    arrows: Sequence[tuple[int, int]]


def folded(
    graph: GraphLike, groups: DrawnGroups, opened: Collection[int] = (), within: int = NO_GROUP
) -> FoldedProgram:
    """Fold all groups but those opened, of the whole program or `within` a group. O(blocks + edges)."""
    number: dict[str, int] = {}
    of_group: dict[int, int] = {}
    members: list[list[BlockLike]] = []
    closed_groups: list[int] = []
    holders = _holders(graph)
    held: list[tuple[str, str]] = []
    for block in graph.blocks:
        chain = groups.ancestors(groups.of_block.get(block.site, NO_GROUP))
        if within != NO_GROUP and within not in chain:
            continue
        if block.site in holders:
            held.append((block.site, holders[block.site]))
            continue
        inside = chain if within == NO_GROUP else chain[: chain.index(within)]
        closed = next((group for group in reversed(inside) if group not in opened), NO_GROUP)
        node = of_group.get(closed) if closed != NO_GROUP else None
        if node is None:
            node = len(members)
            members.append([])
            closed_groups.append(closed)
            if closed != NO_GROUP:
                of_group[closed] = node
        number[block.site] = node
        members[node].append(block)
    counts = [0] * len(members)
    for site, reader in held:
        if reader in number:
            number[site] = number[reader]
            counts[number[reader]] += 1
    nodes = [
        FoldedNode(tuple(m), group, count)
        for m, group, count in zip(members, closed_groups, counts, strict=True)
    ]
    return _sorted(nodes, _arrows(graph, number))


def _holders(graph: GraphLike) -> dict[str, str]:
    """Return, for every source that may be held, the only block that reads it."""
    readers: dict[str, set[str]] = {}
    for block in graph.blocks:
        for tensor in block.inputs:
            readers.setdefault(graph.producers[tensor].site, set()).add(block.site)
    return {
        block.site: next(iter(readers[block.site]))
        for block in graph.blocks
        if block.operator == "source"
        and block.definition.get("role") in HELD
        and len(readers.get(block.site, ())) == 1
    }


def _arrows(graph: GraphLike, number: dict[str, int]) -> dict[tuple[int, int], None]:
    found: dict[tuple[int, int], None] = {}
    for block in graph.blocks:
        node = number.get(block.site)
        sites = (*(graph.producers[t].site for t in block.inputs), *block.after)
        for other in map(number.get, sites):
            if node is not None and other is not None and other != node:
                found[other, node] = None
    return found


def _sorted(nodes: Sequence[FoldedNode], arrows: Collection[tuple[int, int]]) -> FoldedProgram:
    """Number nodes so that arrows go to later ones; of a cycle, which groups may form, those back are dropped."""
    readers: list[list[int]] = [[] for _ in nodes]
    waiting = [0] * len(nodes)
    for a, b in arrows:
        readers[a].append(b)
        waiting[b] += 1
    ready = [n for n, count in enumerate(waiting) if not count]
    heapify(ready)
    order: list[int] = []
    done = [False] * len(nodes)
    first = 0
    while len(order) < len(nodes):
        if not ready:
            while done[first]:
                first += 1
            ready.append(first)
        node = heappop(ready)
        if done[node]:
            continue
        done[node] = True
        order.append(node)
        for reader in readers[node]:
            waiting[reader] -= 1
            if not waiting[reader] and not done[reader]:
                heappush(ready, reader)
    place = {node: k for k, node in enumerate(order)}
    kept = [(place[a], place[b]) for a, b in arrows if place[a] < place[b]]
    return FoldedProgram([nodes[n] for n in order], kept)


ClassOf = Callable[[Sequence[BlockLike]], str]  # the class of a box by its blocks, empty for none


def boxes(
    graph: GraphLike, groups: DrawnGroups, program: FoldedProgram, most: int, class_of: ClassOf | None = None
) -> tuple[list[SvgNode], list[Arrow]]:
    """Return what is drawn of a folded program: a box per node, beyond `most` one that counts the rest."""
    shown = [_box(graph, groups, node) for node in program.nodes[:most]]
    if class_of is not None:
        shown = [box._replace(kind=f"{box.kind} {class_of(box.blocks)}".strip()) for box in shown]
    rest = program.nodes[most:]
    if rest:
        blocks = tuple(block for node in rest for block in node.blocks)
        shown.append(SvgNode(blocks, "fold", (f"{counted(len(blocks), 'more block')}",)))
    arrows = {(min(a, most), min(b, most)): None for a, b in program.arrows}
    return shown, [(a, b, "data") for a, b in arrows if a < b]


def _box(graph: GraphLike, groups: DrawnGroups, node: FoldedNode) -> SvgNode:
    if node.group == NO_GROUP:
        kind, lines = box_of(node.blocks[0], graph.tensors)[1:]
        more = (f"+ {counted(node.held, 'parameter')}",) if node.held else ()
        return SvgNode(node.blocks, kind, (*lines, *more))
    members = groups.parents.count(node.group)
    title = f"{members:,} × {groups.names[node.group]}" if members else groups.names[node.group]
    return SvgNode(node.blocks, "fold", (title, counted(len(node.blocks) + node.held, "block")))
