"""The abstract graph of groups of shards: one block per group, in program order, named as its shards are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import networkx as nx
import numpy as np

from tapestry.teg.external_data import ExternalData
from tapestry.teg.graph import Block, Definition, Graph, Tensor, TensorType
from tapestry.teg.issues import Issue
from tapestry.teg.sharding.pieces import Piece, Token
from tapestry.teg.zspace import ZRange


@dataclass
class ShardGroup:
    """The shards of one abstract block, grouped by what they read."""

    number: int
    definition: Definition
    outputs: tuple[TensorType, ...]
    shards: list[int] = field(default_factory=list)
    indices: list[ZRange] = field(default_factory=list)
    pieces: list[tuple[Piece, ...]] = field(default_factory=list)
    inputs: tuple[Token, ...] = ()
    stem: str | None = None
    repetition: int = 0


@dataclass(frozen=True)
class Shards:
    """An explicit graph, the groups of its shards, and the pieces that its local tensors hold."""

    graph: Graph
    groups: Sequence[ShardGroup]
    group_of: Mapping[str, int]
    pieces: Mapping[str, Piece]


@dataclass(frozen=True)
class SiteBox:
    """The content of a local source or sink: a box of the value at an abstract site."""

    site: str
    box: ZRange


class CircularShards(ValueError):
    """Error raised when shards, taken together, read each other."""

    def __init__(self, issue: Issue) -> None:
        super().__init__(str(issue))
        self.issue = issue


class Abstract(NamedTuple):
    """The graph, the parts that its shards' sources and sinks hold by site, and each block's index ranges of shards."""

    graph: Graph
    parts: Mapping[str, SiteBox]
    indices: Mapping[str, tuple[ZRange, ...]]


def abstract_graph(shards: Shards) -> Abstract:
    """Build the graph whose sharding these are.

    Raises:
        CircularShards: groups read each other.
    """
    abstraction = _Abstraction(shards)
    graph = abstraction.run()
    return Abstract(graph, abstraction.parts, abstraction.indices)


class _Abstraction:
    def __init__(self, shards: Shards) -> None:
        self.graph, self.groups, self.group_of, self.pieces = (
            shards.graph,
            shards.groups,
            shards.group_of,
            shards.pieces,
        )
        self.parts: dict[str, SiteBox] = {}
        self.indices: dict[str, tuple[ZRange, ...]] = {}

    def run(self) -> Graph:
        order = self._order()
        names = self._names()
        outputs: dict[Token, str] = {}
        taken: set[str] = set()
        for group in self.groups:
            for j in range(len(group.outputs)):
                outputs[group.number, j] = _free(self._output_name(group, j, names), taken)
        for block in (*self.graph.sources, *self.graph.sinks):
            box = self.pieces[(*block.inputs, *block.outputs)[0]].box
            place = block.index if block.index is not None else ZRange.of_shape(box.shape)
            self.parts[block.site] = SiteBox(names[self.group_of[block.site]], place)
        self.indices = {names[g.number]: tuple(dict.fromkeys(g.indices)) for g in self.groups if g.indices}
        blocks, tensors = [], {}
        for number in order:
            group = self.groups[number]
            made = tuple(outputs[number, j] for j in range(len(group.outputs)))
            after = dict.fromkeys(
                names[self.group_of[s]] for k in group.shards for s in self.graph.blocks[k].after
            )
            inputs = tuple(outputs[token] for token in group.inputs)
            blocks.append(
                Block(
                    names[number],
                    group.definition,
                    inputs,
                    made,
                    after=tuple(after),
                    repetition=group.repetition,
                )
            )
            for j, (t, kind) in enumerate(zip(made, group.outputs, strict=True)):
                local = self.graph.blocks[group.shards[0]].outputs[j] if group.shards else None
                dims = self.graph.tensors[local].names if local is not None else ()
                tensors[t] = Tensor(t, kind.shape, kind.dtype, dims)
        return Graph(self.graph.name, tuple(blocks), tensors, self._data(outputs), self._external(outputs))

    def _order(self) -> list[int]:
        """Sort groups after those that they read or wait for, in order of appearance where that is free."""
        needs = {
            g.number: {
                *(token[0] for token in g.inputs),
                *(
                    self.group_of[s]
                    for k in g.shards
                    for s in self.graph.blocks[k].after
                    if s in self.group_of
                ),
            }
            for g in self.groups
        }
        links = nx.DiGraph((need, number) for number, all_needs in needs.items() for need in all_needs)
        links.add_nodes_from(needs)
        first = {group.number: min(group.shards, default=-1) for group in self.groups}
        try:
            return list(
                nx.lexicographical_topological_sort(links, key=lambda number: (first[number], number))
            )
        except nx.NetworkXUnfeasible:
            cycle = [self.groups[n].shards[0] for n, _ in nx.find_cycle(links) if self.groups[n].shards]
            sites = " reads ".join(repr(self.graph.blocks[k].site) for k in (*cycle, cycle[0])[::-1])
            message = f"taken together, shards read each other: {sites}"
            hint = "name the shards of one block name@part"
            raise CircularShards(Issue("cycle", "$.blocks", message, hint)) from None

    def _names(self) -> dict[int, str]:
        taken: set[str] = set()
        names = {}
        for group in self.groups:
            sites = [self.graph.blocks[k].site for k in group.shards]
            wanted = group.stem or (
                _common(sites) if len(sites) > 1 else sites[0] if sites else group.definition.operator
            )
            names[group.number] = _free(wanted, taken)
        return names

    def _output_name(self, group: ShardGroup, j: int, names: Mapping[int, str]) -> str:
        if not group.shards:
            return names[group.number]
        locals_ = [self.graph.blocks[k].outputs[j] for k in group.shards]
        stems = {t.rpartition("@")[0] for t in locals_}
        if len(stems) == 1 and group.stem is not None and (stem := stems.pop()):
            return stem
        return locals_[0] if len(locals_) == 1 else _common(locals_)

    def _data(self, outputs: Mapping[Token, str]) -> dict[str, np.ndarray]:
        """Combine the values of sources from those of their shards."""
        data: dict[str, np.ndarray] = {}
        for local, part in self.graph.data.items():
            piece = self.pieces[local]
            assert piece.token is not None
            kind = self.groups[piece.token[0]].outputs[piece.token[1]]
            whole = data.setdefault(outputs[piece.token], np.zeros(kind.shape, part.dtype))
            whole[tuple(map(slice, piece.box.start, piece.box.end))] = part
        for whole in data.values():
            whole.setflags(write=False)
        return data

    def _external(self, outputs: Mapping[Token, str]) -> dict[str, ExternalData]:
        """Name the values of sources as their shards do, where these agree."""
        found: dict[str, set[ExternalData]] = {}
        for local, named in self.graph.external.items():
            piece = self.pieces[local]
            assert piece.token is not None
            shape = self.groups[piece.token[0]].outputs[piece.token[1]].shape
            found.setdefault(outputs[piece.token], set()).add(named.whole_of(piece.box, shape))
        return {tensor: named.pop() for tensor, named in found.items() if len(named) == 1}


def _common(sites: Sequence[str]) -> str:
    """Return the common part of the names of shards, without the number that distinguishes them."""
    first, last = min(sites), max(sites)
    length = next((k for k, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[:length].rstrip("0123456789._-@#/ ") or sites[0]


def _free(wanted: str, taken: set[str]) -> str:
    site, k = wanted, 0
    while site in taken:
        k += 1
        site = f"{wanted}.{k}"
    taken.add(site)
    return site
