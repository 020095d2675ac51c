"""Other placements of a block of a plan: what the plan would cost with just that changed, and what speaks against.

The schedule order, the times of copies and all other blocks stay as they are. Or the direct neighbors may follow: each
in turn takes the strategy with which the plan costs least.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tapestry.costmodel.known_objectives import KnownObjectives
from tapestry.costmodel.layout_choices import DimensionOrders
from tapestry.costmodel.plan_space import Genes, Given, PlanSpace
from tapestry.costmodel.schedule import traffic_of
from tapestry.costmodel.strategies import LARGEST_FAMILY, aligned_granules, enumerate_strategies
from tapestry.costmodel.time_estimates import copied_edges
from tapestry.costmodel.view import LOGICAL_AXES, groupings
from tapestry.hardware.mesh import Mesh
from tapestry.hardware.timing import TICKS_PER_S
from tapestry.optimizer.analysis.plan_costs import PlanCosts, State
from tapestry.optimizer.archive.constraints import Constraint
from tapestry.optimizer.archive.report import costs_of
from tapestry.teg.faults import near_hint
from tapestry.teg.graph import Block, Graph
from tapestry.teg.sharding.boundary import stays_whole, with_boundary
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.rounds import time_axis
from tapestry.teg.sharding.strategy import Strategy, read_of
from tapestry.teg.stopping import CheckStop, never_stop

_DIGITS = re.compile(r"\d+")


class UnknownBlock(ValueError):
    """Error raised for a site that no placed block of the plan has."""


@dataclass(frozen=True)
class CopyUse:
    """The copies of a tensor for one reader in a whole run: the bytes that all devices receive, and their time."""

    traffic_bytes: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class CopyChange:
    """The change of the copies of a tensor for a reader, one of which is the block, or both are beside it."""

    tensor: str
    producer: str
    reader: str
    before: CopyUse
    after: CopyUse


@dataclass(frozen=True)
class Excess:
    """A bound that a plan breaks: the value it has, and the most that is allowed."""

    constraint: Constraint
    value: float
    limit: float


@dataclass(frozen=True)
class Alternative:
    """A strategy of the block with the costs of the plan that has it, and what is different then.

    `block_s` is the time of the block itself on its slowest device, in the whole run. `followed` are the strategies
    that neighbors took on.
    """

    strategy: Strategy
    cost: Mapping[str, float]
    block_s: float
    excesses: tuple[Excess, ...]
    copies: tuple[CopyChange, ...]
    followed: Mapping[str, Strategy] = field(default_factory=dict)


@dataclass(frozen=True)
class Alternatives:
    """The alternatives of a block, as it is in the plan (`current`) and otherwise; `sites` are those changed together.

    `is_complete` is False where the block has more strategies than were evaluated.
    """

    block: Block
    sites: tuple[str, ...]
    current: Alternative
    others: tuple[Alternative, ...]
    neighbors: tuple[str, ...]
    is_complete: bool


@dataclass(frozen=True)
class BlockQuestion:
    """A question about a block: with `is_tied`, blocks of equal layers change alike.

    With an `objective`, neighbors follow by the least of that. `best` are the least values of the run, of which
    relative bounds are shares.
    """

    site: str
    is_tied: bool = False
    objective: str | None = None
    bounds: tuple[Constraint, ...] = ()
    best: Mapping[str, float] = field(default_factory=dict)


def alternatives(
    state: State,
    question: BlockQuestion,
    mesh: Mesh,
    compute_dtype: str | None = None,
    known: KnownObjectives | None = None,
    check_stop: CheckStop = never_stop,
) -> Alternatives:
    """Cost every strategy of a block, on every view of the mesh, with the rest of the plan as it is.

    Raises:
        UnknownBlock: the plan has no such block, or it has no placement of its own.
    """
    graph, placements = state
    known = known or KnownObjectives()
    block = _block(graph, question.site)
    placed = with_boundary(graph, placements)
    sites = _alike(graph, placed, block) if question.is_tied else (block.site,)
    neighbors = _neighbors(graph, sites)
    opened = [*sites, *(neighbors if question.objective else ())]
    mesh_shape = MeshShape(mesh.axis_sizes).part(placements.devices)
    choices: dict[str, Given] = {}
    for site in opened:
        choices[site] = _choices(graph, placed, graph.by_site[site], mesh_shape)
    costs = PlanCosts(mesh, compute_dtype, known=known)
    space = costs.space(graph, [placements], choices)
    used = mesh if placements.stages is not None else mesh.part(mesh_shape.axes)
    return _Answer(space, used, known, question, block, sites, neighbors, check_stop).of(
        space.genes_of(placements)
    )


def _block(graph: Graph, site: str) -> Block:
    """Return the placed block of a site, or the one that makes a tensor."""
    block = graph.by_site.get(site) or graph.producers.get(site)
    if block is None:
        raise UnknownBlock(f"the plan has no block {site!r}; {near_hint(site, list(graph.by_site))}")
    if block.is_view:
        root = read_of(graph, next(r.site for r, _ in graph.readers[block.outputs[0]]), 0).root
        raise UnknownBlock(f"{site!r} is a view and has no placement; that of {root!r} decides")
    return graph.carriers.get(block.site, block)


def _alike(graph: Graph, placed: Placements, block: Block) -> tuple[str, ...]:
    """Return the sites of blocks that differ from one in nothing but the numbers in their names."""

    def form(each: Block) -> tuple[object, ...]:
        types = graph.input_types(each), graph.output_types(each)
        return _DIGITS.sub("#", each.site), each.definition, *types, placed.of(each)

    own = form(block)
    found = [each.site for each in graph.blocks if each.definition is block.definition and form(each) == own]
    return (block.site, *(site for site in found if site != block.site))


def _neighbors(graph: Graph, sites: Sequence[str]) -> tuple[str, ...]:
    """Return the blocks that make what some blocks read, or read what they make, views left out."""
    found: dict[str, None] = {}
    for site in sites:
        block = graph.by_site[site]
        for k in range(len(block.inputs)):
            found[graph.producers[read_of(graph, site, k).root].site] = None
        for tensor in block.outputs:
            found |= dict.fromkeys(reader.site for reader in _readers(graph, tensor))
    carried = {graph.carriers[site].site if site in graph.carriers else site: None for site in found}
    return tuple(site for site in carried if site not in sites)


def _readers(graph: Graph, tensor: str) -> Iterator[Block]:
    for reader, _ in graph.readers[tensor]:
        if reader.is_view:
            yield from _readers(graph, reader.outputs[0])
        else:
            yield reader


def _choices(graph: Graph, placed: Placements, block: Block, mesh_shape: MeshShape) -> Given:
    """Return the strategies of a block over all views of a mesh, that of the plan first, and the plan's layouts."""
    placement = placed.of(block)
    found: dict[Strategy, None] = {placement.strategy: None}
    if not stays_whole(graph, block, placed.inputs, placed.outputs):
        definition = block.definition
        if placed.rounds is not None:
            definition = time_axis(graph, placed.rounds).definition_of(block)
        granules = aligned_granules(graph).get(block.site, ())
        for view in groupings(mesh_shape, LOGICAL_AXES):
            found |= dict.fromkeys(enumerate_strategies(definition, granules, view))
            if len(found) > LARGEST_FAMILY:
                break
    return tuple(found)[: LARGEST_FAMILY + 1], (_orders(block, placement),)


def _orders(block: Block, placement: Placement) -> DimensionOrders:
    reads = tuple(placement.read_layout_of(k) for k in range(len(block.inputs)))
    return DimensionOrders(reads, tuple(placement.layout_of(k) for k in range(len(block.outputs))))


@dataclass(frozen=True, eq=False)
class _Answer:
    space: PlanSpace
    mesh: Mesh
    known: KnownObjectives
    question: BlockQuestion
    block: Block
    sites: tuple[str, ...]
    neighbors: tuple[str, ...]
    check_stop: CheckStop

    def of(self, genes: Genes) -> Alternatives:
        """Cost every strategy of the block, that of the plan first."""
        space = self.space
        members = [space.gene_of[site] for site in self.sites]
        own = int(genes.strategies[members[0]])
        before_cost = self._cost(genes)
        before = self._copies(genes)
        current = self._alternative(genes, members, before_cost, before, before, {})
        found = []
        for value in range(space.families[members[0]].count):
            self.check_stop()
            if value == own:
                continue
            changed = self._with(genes, members, value)
            cost = self._cost(changed)
            followed: dict[str, Strategy] = {}
            if self.question.objective is not None:
                changed, cost, followed = self._follow(changed, cost)
            found.append(self._alternative(changed, members, cost, before, self._copies(changed), followed))
        complete = space.families[members[0]].count <= LARGEST_FAMILY
        return Alternatives(self.block, self.sites, current, tuple(found), self.neighbors, complete)

    def _with(self, genes: Genes, members: Sequence[int], value: int) -> Genes:
        strategies = genes.strategies.copy()
        strategies[list(members)] = value
        return Genes(self.space.with_state(strategies), genes.prefetch, genes.regather)

    def _cost(self, genes: Genes) -> dict[str, float]:
        return costs_of(self.space.evaluate(genes), self.mesh, self.known)

    def _follow(
        self, genes: Genes, cost: dict[str, float]
    ) -> tuple[Genes, dict[str, float], dict[str, Strategy]]:
        """Have each neighbor in turn take the strategy with which the plan costs least."""
        name, followed = self.question.objective or "", {}
        for site in self.neighbors:
            gene = self.space.gene_of[site]
            own = int(genes.strategies[gene])
            for value in range(self.space.families[gene].count):
                self.check_stop()
                changed = self._with(genes, [gene], value)
                found = self._cost(changed)
                if found[name] < cost[name]:
                    genes, cost = changed, found
            if int(genes.strategies[gene]) != own:
                followed[site] = self.space.families[gene].at(int(genes.strategies[gene]))[0]
        return genes, cost, followed

    def _alternative(
        self,
        genes: Genes,
        members: Sequence[int],
        cost: Mapping[str, float],
        before: Mapping[int, CopyUse],
        after: Mapping[int, CopyUse],
        followed: Mapping[str, Strategy],
    ) -> Alternative:
        strategy, _ = self.space.families[members[0]].at(int(genes.strategies[members[0]]))
        return Alternative(
            strategy,
            cost,
            self._block_seconds(genes, members),
            tuple(self._excesses(cost)),
            tuple(self._changes(before, after)),
            followed,
        )

    def _block_seconds(self, genes: Genes, members: Sequence[int]) -> float:
        """Return the seconds of the blocks themselves; the state holds this plan."""
        arrays, ticks = self.space.space, 0
        for gene in members:
            if gene < len(self.space.slots):
                ticks += int(self.space.state.slot_ticks[gene]) * int(arrays.repeats[gene])
        return ticks / TICKS_PER_S

    def _copies(self, genes: Genes) -> dict[int, CopyUse]:
        """Return the copies of the plan that was costed last, by edge."""
        space, found = self.space, {}
        strategies = space.with_state(genes.strategies)
        for edge in set(copied_edges(space, space.state)):
            slot = int(space.space.edge_slot[edge])
            times = 1 if space.state.is_once[edge] else int(space.space.repeats[slot])
            found[edge] = CopyUse(
                times * traffic_of(space, strategies, edge),
                times * int(space.state.copy_ticks[edge]) / TICKS_PER_S,
            )
        return found

    def _changes(self, before: Mapping[int, CopyUse], after: Mapping[int, CopyUse]) -> Iterator[CopyChange]:
        arrays, none = self.space.space, CopyUse()
        for edge in sorted({*before, *after}):
            pair = before.get(edge, none), after.get(edge, none)
            if pair[0] != pair[1]:
                producer = self.space.blocks[int(arrays.made_gene[arrays.edge_tensor[edge]])]
                reader = self.space.slots[int(arrays.edge_slot[edge])]
                position = edge - int(arrays.edge_start[arrays.edge_slot[edge]])
                root = read_of(self.space.graph, reader.site, position).root
                yield CopyChange(root, producer.site, reader.site, *pair)

    def _excesses(self, cost: Mapping[str, float]) -> Iterator[Excess]:
        for bound in self.question.bounds:
            limit = bound.bound
            if bound.is_relative:
                if bound.objective not in self.question.best:
                    continue
                limit = self.question.best[bound.objective] * bound.bound / 100
            if bound.objective in cost and cost[bound.objective] > limit:
                yield Excess(bound, cost[bound.objective], limit)
