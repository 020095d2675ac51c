"""Given plans in a variant's archive: a placement that a mesh, view or program does not have becomes the nearest one.

Used by `warm_start` (plans of the same program) and `relatives` (plans of related programs).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tapestry.costmodel.layout_choices import DimensionOrders
from tapestry.costmodel.plan_space import Genes
from tapestry.optimizer.archive.goal import objective_values
from tapestry.optimizer.archive.origin import EARLIER_RUN
from tapestry.optimizer.placement.host_copies import LARGEST_DISTANCE
from tapestry.optimizer.run.first_plans import insert_rows
from tapestry.optimizer.run.state import SearchState
from tapestry.optimizer.run.variants import Variant
from tapestry.rewrites import PLACEMENT
from tapestry.teg.sharding.boundary import with_boundary
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import SCHEDULE_ORDERS, Placement, Placements
from tapestry.teg.sharding.strategy import Strategy

PLACED = frozenset({rule.name for rule in PLACEMENT} | {"set_option"})


def submesh_of(state: SearchState, wanted: Placements) -> int:
    """Find the submesh, schedule order, rounds and stages that a plan names, else the whole mesh in that order.

    Of several views of it that which has most of the plan's strategies.
    """
    strategies = [placement.strategy for placement in wanted.blocks.values()]
    order, first = wanted.schedule_order, SCHEDULE_ORDERS[0]
    devices = wanted.devices if wanted.stages is None else ""
    for options in (
        (wanted.devices, order, wanted.rounds, wanted.stages),
        (devices, order, wanted.rounds, None),
        ("", first, wanted.rounds, None),
        (devices, order, None, None),
        ("", order, None, None),
        (devices, first, None, None),
    ):
        fitting = {
            k: sum(map(submesh.view.has, strategies))
            for k, submesh in enumerate(state.submeshes)
            if (submesh.devices, submesh.schedule_order, submesh.rounds, submesh.stages) == options
        }
        if fitting:
            return max(fitting, key=fitting.__getitem__)
    return 0


def seed_plans(state: SearchState, variant: Variant, plans: Sequence[Placements]) -> int:
    """Insert plans into a variant, each as the nearest one that it has; their values stay anchors; return how many."""
    found = [fit(variant, placements) for placements in plans]
    rows = (
        np.array([genes.strategies for genes in found]).astype(np.int16),
        np.minimum([genes.prefetch for genes in found], LARGEST_DISTANCE).astype(np.int8),
        np.array([genes.regather for genes in found]).astype(np.int8),
    )
    space, goal = variant.space, variant.submesh.goal
    insert_rows(variant, rows, EARLIER_RUN)
    values = []
    for genes in found:
        value = np.zeros(len(goal.epsilon))
        if objective_values(goal, space.evaluate(genes), value) == 0.0:
            values.append(value)
    known = [] if state.anchors is None else [state.anchors]
    state.anchors = np.concatenate([*known, np.array(values).reshape(-1, len(goal.epsilon))])
    state.evaluations += len(plans)
    return len(plans)


def fit(variant: Variant, placements: Placements) -> Genes:
    """Convert placements to genes; unavailable ones (on this mesh, view or pin) become the nearest available."""
    try:
        return variant.space.genes_of(placements)
    except ValueError:
        return _Fitting(variant, placements).genes()


class _Fitting:
    """The strategies nearest to those of a plan for another mesh."""

    def __init__(self, variant: Variant, placements: Placements) -> None:
        self.variant, self.placements = variant, with_boundary(variant.graph, placements)
        self.names = _renamed(placements, variant.space.mesh_shape)
        self.known: dict[tuple[int, Strategy], int] = {}

    def genes(self) -> Genes:
        space = self.variant.space
        genes = space.abstract_genes()
        edge = 0
        for g, block in enumerate(space.blocks):
            placement = self.placements.of(block)
            orders = self._orders(g, placement)
            genes.strategies[g] = self._nearest(g, placement.strategy) + orders
            if g < len(space.slots):
                for k in range(len(block.inputs)):
                    genes.prefetch[edge] = placement.prefetch_of(k)
                    genes.regather[edge] = placement.regather_of(k)
                    edge += 1
        return replace(genes, strategies=space.with_state(genes.strategies))

    def _orders(self, gene: int, placement: Placement) -> int:
        """Return the number of the placement's dimension orders here; 0 (the program's own) if unavailable."""
        orders = self.variant.space.families[gene].dimension_orders
        wanted = DimensionOrders(
            tuple(placement.read_layout_of(k) for k in range(len(orders[0].reads))),
            tuple(placement.layout_of(k) for k in range(len(orders[0].makes))),
        )
        return orders.index(wanted) if wanted in orders else 0

    def _nearest(self, gene: int, strategy: Strategy) -> int:
        """Find the strategy, in the program's orders, that uses most axes alike; unused is better than elsewhere."""
        space, search = self.variant.space, self.variant.search
        family = space.families[gene]
        key = (id(family), strategy)
        if key not in self.known:
            first = int(space.space.block_offset[gene])
            choices = len(family.dimension_orders)
            rows = search.digits[first : first + family.count : choices]
            wanted = self._digits(strategy, int(search.dim_count[gene]))
            aligned = any(split.granule != 1 for split in strategy.splits)
            elsewhere = (rows != wanted) & (rows >= 0)
            distance = 4 * (rows != wanted).sum(axis=1) + 4 * elsewhere.sum(axis=1)
            distance += search.aligned[first : first + family.count : choices] != aligned
            self.known[key] = int(distance.argmin()) * choices
        return self.known[key]

    def _digits(self, strategy: Strategy, dims: int) -> np.ndarray:
        """Return, per logical axis of this mesh, the index dimension that it or a part of it splits; -1: none."""
        axes = self.variant.space.view.axes
        digits = np.full(len(axes), -1, dtype=np.int64)
        if len(strategy.splits) != dims:
            return digits
        dim_of = {self.names.get(axis): d for d, split in enumerate(strategy.splits) for axis in split.axes}
        for a, members in enumerate(axes):
            digits[a] = next((dim_of[name] for name in members if name in dim_of), -1)
        return digits


def _renamed(placements: Placements, mesh_shape: MeshShape) -> Mapping[str, str]:
    """Map sub-axis names of the plan to names here: the same, else one unused by the plan, in order."""
    used = {axis for p in placements.blocks.values() for split in p.strategy.splits for axis in split.axes}
    here = {axis: axis for axis in used if axis in mesh_shape.positions}
    free = [sub.name for sub in mesh_shape.sub_axes if sub.name not in used]
    return here | dict(zip(sorted(used - set(here)), free, strict=False))
