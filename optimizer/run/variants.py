"""Variants: one graph structure each, compiled for the search; children inherit their parent's plans by site."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from operator import eq
from typing import NamedTuple

import numpy as np

from tapestry.costmodel.compiled import njit
from tapestry.costmodel.kernel import evaluate
from tapestry.costmodel.known_objectives import KnownObjectives
from tapestry.costmodel.plan_space import Genes, PlanSpace
from tapestry.costmodel.strategies import StrategyFamily
from tapestry.costmodel.table_rows import TableCache
from tapestry.costmodel.view import View
from tapestry.hardware.mesh import Mesh
from tapestry.hardware.stage_meshes import meshes_of_stages
from tapestry.optimizer.archive.archive import Archive, new_archive
from tapestry.optimizer.archive.dominance import nondominated
from tapestry.optimizer.archive.fronts import merge
from tapestry.optimizer.archive.goal import Goal, objective_values, score
from tapestry.optimizer.placement.credits import SHAPE
from tapestry.optimizer.placement.island import insert_all
from tapestry.optimizer.placement.search_space import SearchSpace, search_space
from tapestry.optimizer.run.fixed_degrees import degrees_of
from tapestry.optimizer.run.options import RunOptions
from tapestry.optimizer.structure.division import divided
from tapestry.rewrites import Move
from tapestry.rewrites.repeating import originals
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.rounds import Rounds
from tapestry.teg.sharding.stages import Pipeline, StageLayout, Stages
from tapestry.teg.stopping import CheckStop, never_stop

FRONT_CAPACITY = 256
MOVES = prod(SHAPE)
POOL_CAPACITY = 32
LARGEST_VARIANTS = 8
INHERITED, INHERITED_BROKEN = 24, 8  # plans that a child gets: of a front, and of those that break a bound
MOST_ANSWERS = 10_000_000  # blocks that are costed for the best responses of a program's plans
FULL_SHARE = 0.75
COARSER = 1.5


@dataclass(frozen=True, eq=False)
class SubMesh:
    """A submesh that a plan may use (`devices`, empty for the whole mesh), with schedule order and rounds of the plan.

    One is equal only to itself, for it has a grid and tables of its own, which variants on it share.
    With `stages`, `devices` and the view are those of one stage, and `mesh` is that in which they lie by their
    `layout`, and the program is cut with `slack` (`optimizer.structure.division`). `known` are the objectives that
    plans get values for.
    """

    devices: str
    mesh: Mesh
    view: View
    goal: Goal
    cache: TableCache = field(default_factory=TableCache)
    schedule_order: str = "program"
    rounds: Rounds | None = None
    stages: Stages | None = None
    layout: StageLayout | None = None
    slack: float = 0.0
    known: KnownObjectives = field(default_factory=KnownObjectives)

    def pipeline_of(self, graph: Graph) -> Pipeline | None:
        """Return the pipeline of a program, if plans have stages."""
        if self.stages is None or self.layout is None:
            return None
        axis, meshes = self.mesh.axis(self.layout.route(0, 1).axis), meshes_of_stages(self.mesh, self.layout)
        turns = range(self.stages.part_count)
        devices = tuple(meshes.of(part % self.stages.count).device for part in turns)
        rounds = 1 if self.rounds is None else self.rounds.count
        parts = divided(graph, devices, axis.bandwidth_bytes_per_s, self.slack, rounds)
        return Pipeline(self.stages, self.layout, parts)

    def on_view(self, view: View) -> SubMesh:
        """Return the same mesh in another view, with a grid and tables of its own."""
        goal = self.goal.own_best()._replace(epsilon=self.goal.epsilon.copy())
        return replace(self, view=view, goal=goal, cache=TableCache())


@dataclass
class Variant:
    """A rewritten graph on a mesh, with its history of moves, its compiled spaces and the plans found for it.

    One that holds nothing of the common front is on `probation` for so many more epochs. `spent` are its evaluations,
    and `gained` the plans that entered its front; recent ones count most. `origins` are the kinds of sources, by
    hash, of plans that came from outside the search.
    """

    number: int
    submesh: SubMesh
    graph: Graph
    moves: tuple[Move, ...]
    space: PlanSpace
    search: SearchSpace
    archive: Archive
    probation: int = 0
    spent: float = 0.0
    gained: float = 0.0
    origins: dict[int, str] = field(default_factory=dict)

    @property
    def has_choice(self) -> bool:
        """True if there is anything to place: a mesh of one device has a single plan per graph."""
        return len(self.search.slot_classes) > 0

    @property
    def least_violation(self) -> float:
        """The least by which a plan breaks the bounds; 0 where one keeps them all, infinite without plans."""
        if self.archive.size[0] > 0:
            return 0.0
        return float(self.archive.pool_violation[: int(self.archive.size[1])].min(initial=np.inf))

    @property
    def structure(self) -> str:
        """The hash of everything the genes depend on: the program and its sites, in order."""
        return structure_of(self.graph)


class Child(NamedTuple):
    """A new variant, or further plans of a known one; `rule` made its program, and is empty where none did.

    One that `must_stay` does so though it adds nothing to the front yet.
    """

    variant: Variant
    rule: str = ""
    must_stay: bool = False


Begun = list[Child]


def keeps_pins(graph: Graph, pins: Mapping[str, str]) -> bool:
    """Return whether every pinned block is still there."""
    return all(site in graph.by_site for site in pins)


def structure_of(graph: Graph) -> str:
    """Compute a hash of a program together with its sites in schedule order: equal ones share genes."""
    sites = "\n".join(block.site for block in graph.blocks)
    return hashlib.sha256(f"{graph.structural_hash}\n{sites}".encode()).hexdigest()


def new_variant(
    number: int,
    submesh: SubMesh,
    graph: Graph,
    moves: tuple[Move, ...],
    options: RunOptions,
    check_stop: CheckStop = never_stop,
) -> Variant:
    """Compile a variant with an empty archive; `check_stop` is called between units of work.

    Raises:
        OutOfRange: tensors are so large that copies of them cannot be counted.
        RoundsError: the program cannot run in the rounds of the submesh.
        ScheduleError: its stages would wait for each other for ever.
    """
    space = PlanSpace(
        graph,
        submesh.mesh,
        submesh.view,
        schedule_order=submesh.schedule_order,
        rounds=submesh.rounds,
        pipeline=submesh.pipeline_of(graph),
        inputs=options.inputs,
        outputs=options.outputs,
        compute_dtype=options.compute_dtype,
        pins=options.pins,
        degrees=degrees_of(options),
        layouts=options.layouts,
        cache=submesh.cache,
        resources=submesh.known.resources,
        check_stop=check_stop,
    )
    check_stop()
    return Variant(
        number, submesh, graph, moves, space, search_space(space), empty_archive(submesh.goal, space)
    )


def empty_archive(goal: Goal, space: PlanSpace) -> Archive:
    """Create an archive for plans of a space, measured by the objectives of a goal."""
    sizes = (len(goal.epsilon), space.gene_count, space.edge_count, space.cost_count)
    return new_archive(FRONT_CAPACITY, POOL_CAPACITY, *sizes, MOVES)


def inherit(child: Variant, parent: Variant, limit: int | None = None) -> int:
    """Pass the parent's plans to a child: surviving blocks keep their genes, new blocks take their best response.

    They are plans of its front, and those that break a bound, which the child may keep, and are better than all of the
    front in an objective. In a large program with many new blocks, some plans take that of the plan before them.

    Returns: plans evaluated, at most `limit`.
    """
    goal = child.submesh.goal
    passed = _passed_on(parent)
    origin, table = _gene_map(child.space, parent.space)
    edge_origin = _edge_map(child.space, parent.space)
    evaluated = 0
    new_classes = [c for c in range(len(child.search.gene_start) - 1) if _is_new(child.search, origin, c)]
    rows, prefetch, regather = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
    near: dict[tuple[int, int, int], int] = {}
    respond = (child.space.space, child.space.state, goal)
    each = 1 + sum(_choices(child.search, child.space, c) for c in new_classes)
    answered = max(1, MOST_ANSWERS // max(1, each * child.space.gene_count))
    for number, plan in enumerate(passed if limit is None else passed[: limit // each]):
        genes = np.zeros(child.space.gene_count, np.int16)
        known = origin >= 0
        genes[known] = [table[g][int(plan[0][origin[g]])] for g in np.flatnonzero(known)]
        for g in np.flatnonzero(known & (genes < 0)):
            value = int(plan[0][origin[g]])
            families = (child.space.families[g], parent.space.families[origin[g]])
            key = (id(families[0]), id(families[1]), value)
            if key not in near:
                near[key] = _nearest(*families, value)
            genes[g] = near[key]
        pre, cut = (
            np.where(edge_origin >= 0, values[np.maximum(edge_origin, 0)], 0).astype(np.int8)
            for values in plan[1:]
        )
        for c in new_classes:
            members = child.search.gene_members[child.search.gene_start[c] : child.search.gene_start[c + 1]]
            if number < answered:
                evaluated += best_response(*respond, genes, pre, cut, members)
            else:
                genes[members] = rows[-1][members]
        rows.append(genes)
        prefetch.append(pre)
        regather.append(cut)
    if rows:
        arrays = (child.space.with_state(np.array(rows)), np.array(prefetch), np.array(regather))
        insert_all(child.space.space, child.space.state, child.archive, goal, *arrays)
    return evaluated + len(rows)


def _passed_on(parent: Variant) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return strategies, prefetch and regather of the plans that a parent passes on, the best of its front first."""
    archive, goal = parent.archive, parent.submesh.goal
    feasible, broken = (int(n) for n in archive.size)
    order = np.argsort(-archive.weight[:feasible], kind="stable")[:INHERITED]
    found = [(archive.genes[i], archive.prefetch[i], archive.regather[i]) for i in order]
    values = np.zeros((broken, len(goal.epsilon)))
    for i in range(broken):
        objective_values(goal, archive.pool_raw[i], values[i])
    front = archive.value[:feasible].min(axis=0, initial=np.inf)
    better = np.flatnonzero((values < front).any(axis=1) & nondominated(values))
    better = better[np.argsort(archive.pool_violation[better], kind="stable")][:INHERITED_BROKEN]
    return found + [
        (archive.pool_genes[i], archive.pool_prefetch[i], archive.pool_regather[i]) for i in better
    ]


def _choices(search: SearchSpace, space: PlanSpace, c: int) -> int:
    return int(space.space.strategy_count[search.gene_members[search.gene_start[c]]])


def _is_new(search: SearchSpace, origin: np.ndarray, c: int) -> bool:
    return bool(origin[search.gene_members[search.gene_start[c]]] < 0)


def _gene_map(child: PlanSpace, parent: PlanSpace) -> tuple[np.ndarray, list[np.ndarray]]:
    """Map each child gene to the parent's gene of the same site and its strategies' numbers here; -1: a new block.

    A repetition that the parent lacks has those of the block that it repeats. In other rounds a block may lack
    strategies; there their numbers are -1.
    """
    is_near = (child.rounds, child.mesh_shape) != (parent.rounds, parent.mesh_shape)
    origin = np.full(child.gene_count, -1, dtype=np.int64)
    repeated = originals(child.graph)
    tables: list[np.ndarray] = []
    known: dict[tuple[int, int], np.ndarray | None] = {}
    for g, block in enumerate(child.blocks):
        h = _gene_in(parent, block.site, repeated)
        mapped = None
        if h >= 0:
            key = (id(child.families[g]), id(parent.families[h]))
            if key not in known:
                positions = [child.families[g].positions.get(v, -1) for v in parent.families[h].positions]
                known[key] = np.array(positions) if is_near or min(positions) >= 0 else None
            mapped = known[key]
        tables.append(mapped if mapped is not None else np.zeros(0, dtype=np.int64))
        origin[g] = h if mapped is not None else -1
    return origin, tables


def _gene_in(parent: PlanSpace, site: str, repeated: Mapping[str, str]) -> int:
    """Return the parent's gene of a site, else of the one that its block repeats, or -1."""
    return parent.gene_of.get(site, parent.gene_of.get(repeated.get(site, ""), -1))


def _nearest(child: StrategyFamily, parent: StrategyFamily, value: int) -> int:
    """Return the strategy nearest to one of a family with another index space: `0` unless its dimensions are the same.

    That has most dimensions split alike, and of those that do the fewest axes.
    """
    names = [
        [d.name for d in family.definition.signature.dims] if family.definition.signature else []
        for family in (child, parent)
    ]
    if names[0] != names[1]:
        return 0
    strategy, orders = parent.at(value)
    found, best = 0, (-1, 0)
    for k, (other, own) in enumerate(child.positions):
        alike = sum(map(eq, strategy.splits, other.splits)) + (orders == own)
        rank = (alike, -sum(len(split.axes) for split in other.splits))
        if rank > best:
            found, best = k, rank
    return found


def _edge_map(child: PlanSpace, parent: PlanSpace) -> np.ndarray:
    """Map each child edge to the parent's edge into the same input of the same block, or -1."""
    starts = parent.space.edge_start
    result = np.full(child.edge_count, -1, dtype=np.int64)
    repeated = originals(child.graph)
    for k, block in enumerate(child.slots):
        h = _gene_in(parent, block.site, repeated)
        if h < 0 or h >= len(parent.slots) or parent.blocks[h].definition is not block.definition:
            continue
        first = child.space.edge_start[k]
        result[first : child.space.edge_start[k + 1]] = np.arange(starts[h], starts[h + 1])
    return result


@njit()
def best_response(space, state, goal, genes, prefetch, regather, members):
    """Set tied genes to the strategy that lowers the product of the objectives most; return the evaluations."""
    raw, value = np.zeros(goal.weights.shape[1], np.int64), np.zeros(goal.epsilon.shape[0])
    best, least = np.int64(0), np.inf
    count = space.strategy_count[members[0]] if members.shape[0] > 0 else 0
    for s in range(count):
        _set_all(space, genes, members, s)
        evaluate(space, state, genes, prefetch, regather, raw)
        found = score(goal, objective_values(goal, raw, value), value)
        if found < least:
            best, least = np.int64(s), found
    _set_all(space, genes, members, best)
    return count


@njit(_nrt=False, inline="always")
def _set_all(space, genes, members, value):
    for g in members:
        genes[g] = value
        if space.state_gene[g] >= 0:
            genes[space.state_gene[g]] = value


def coarsen_grids(variants: Sequence[Variant]) -> None:
    """Coarsen the epsilon grid of meshes with a nearly full archive, so that new plans fit.

    Variants of one mesh share its grid: all their archives are moved to the new one.
    """
    for variant in variants:
        epsilon = variant.submesh.goal.epsilon
        while int(variant.archive.size[0]) > FULL_SHARE * FRONT_CAPACITY:
            epsilon *= COARSER
            for other in variants:
                if other.submesh is variant.submesh:
                    _lay_on_grid(other, epsilon)


def _lay_on_grid(variant: Variant, epsilon: np.ndarray) -> None:
    fresh = empty_archive(variant.submesh.goal, variant.space)
    merge(fresh, variant.archive, epsilon)
    variant.archive = fresh


def load_compiled(variant: Variant) -> None:
    """Load (or compile) the code that `inherit` runs, without changing anything."""
    space, archive = variant.space, variant.archive
    nothing = np.zeros(0, dtype=np.int64)
    plan = (archive.genes[0].copy(), archive.prefetch[0].copy(), archive.regather[0].copy())
    best_response(space.space, space.state, variant.submesh.goal, *plan, nothing)


def genes_at(archive: Archive, i: int) -> Genes:
    """Return member `i` of a front as genes."""
    return Genes(
        archive.genes[i].astype(np.int64),
        archive.prefetch[i].astype(np.int64),
        archive.regather[i].astype(np.int64),
    )
