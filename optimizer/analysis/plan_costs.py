"""Exact costs of plans that differ in structure and in placements, as those of a history of moves do.

Plans of one structure are compiled to one `PlanSpace` of just the strategies and layouts that they use;
equal blocks and tensors share their tables across structures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tapestry.costmodel.known_objectives import KnownObjectives
from tapestry.costmodel.layout_choices import DimensionOrders
from tapestry.costmodel.plan_space import Given, PlanSpace
from tapestry.costmodel.reference import Counted, reference_cost
from tapestry.costmodel.table_rows import TableCache
from tapestry.costmodel.time_estimates import estimate_time
from tapestry.costmodel.view import View
from tapestry.hardware.mesh import Mesh
from tapestry.hardware.timing import TimeEstimate
from tapestry.optimizer.archive.report import costs_of
from tapestry.optimizer.run.variants import structure_of
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.boundary import with_boundary
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.stages import Pipeline, StageLayout
from tapestry.teg.sharding.strategy import Strategy

SMALL_PROBLEM = 1000  # blocks times devices squared: the plain model is done before a space is compiled

State = tuple[Graph, Placements]


class PlanCosts:
    """The costs of plans on one mesh.

    `compiled` selects whether structures are compiled (False: the reference cost model does it all); by default where
    that pays. The costs are the same. `known` are the objectives to compute.
    """

    def __init__(
        self,
        mesh: Mesh,
        compute_dtype: str | None = None,
        compiled: bool | None = None,
        known: KnownObjectives | None = None,
    ) -> None:
        self.mesh, self.compute_dtype, self.compiled = mesh, compute_dtype, compiled
        self.known = known or KnownObjectives()
        self.mesh_shape = MeshShape(mesh.axis_sizes)
        self._tables: dict[str, TableCache] = {}
        self._counted: dict[str, Counted] = {}

    def costs(
        self, plans: Sequence[State], on_plan: Callable[[int], None] = lambda done: None
    ) -> list[dict[str, float]]:
        """Compute for each plan every objective the device has figures for, equal to the costs of a search.

        `on_plan(done)` is called with the number of plans costed. The placements must fit the graphs and the mesh.
        """
        found: dict[int, dict[str, float]] = {}
        for numbers in self._alike(plans):
            graph = plans[numbers[0]][0]
            work = len(graph.blocks) * self.mesh_shape.device_count**2
            if work > SMALL_PROBLEM if self.compiled is None else self.compiled:
                space = self.space(graph, [plans[k][1] for k in numbers])
                for k in numbers:
                    raw = space.evaluate(space.genes_of(plans[k][1]))
                    found[k] = costs_of(raw, self._used(plans[k][1]), self.known)
                    on_plan(len(found))
            else:
                for k in numbers:
                    found[k] = self._plain(graph, plans[k][1])
                    on_plan(len(found))
        return [found[k] for k in range(len(plans))]

    def times(self, plans: Sequence[State]) -> list[TimeEstimate]:
        """Estimate the time of each plan, with its error. The placements must fit the graphs and the mesh."""
        found: dict[int, TimeEstimate] = {}
        for numbers in self._alike(plans):
            space = self.space(plans[numbers[0]][0], [plans[k][1] for k in numbers])
            found |= {k: estimate_time(space, space.genes_of(plans[k][1])) for k in numbers}
        return [found[k] for k in range(len(plans))]

    def _alike(self, plans: Sequence[State]) -> list[list[int]]:
        """Group the plans of one structure, schedule order, submesh, rounds and stages, by their numbers."""
        structures: dict[int, str] = {}
        classes: dict[object, list[int]] = {}
        for k, (graph, placements) in enumerate(plans):
            if id(graph) not in structures:
                structures[id(graph)] = structure_of(graph)
            parts = tuple(p.part for p in placements.blocks.values()) if placements.stages else ()
            options = (
                *(placements.devices, placements.schedule_order, placements.rounds, placements.stages),
                parts,
            )
            classes.setdefault((structures[id(graph)], *options), []).append(k)
        return list(classes.values())

    def _plain(self, graph: Graph, placements: Placements) -> dict[str, float]:
        counted = self._counted.setdefault(placements.devices, {})
        resources = self.known.resources
        tally = reference_cost(graph, placements, self.mesh, self.compute_dtype, counted, resources)
        return costs_of(tally.vector(), self._used(placements), self.known)

    def _used(self, placements: Placements) -> Mesh:
        """Return the mesh that a plan uses: with stages, the one in which they lie."""
        if placements.stages is not None:
            return self.mesh
        return self.mesh.part(self.mesh_shape.part(placements.devices).axes)

    def space(
        self,
        graph: Graph,
        plans: Sequence[Placements],
        choices: Mapping[str, Given] | None = None,
    ) -> PlanSpace:
        """Compile the graph for plans that are alike but for strategies and copies.

        Blocks have the strategies and orders that the plans give them; those in `choices` have those listed there.
        """
        mesh_shape = self.mesh_shape.part(plans[0].devices)
        return PlanSpace(
            replace(graph, data={}) if graph.data else graph,
            self._used(plans[0]),
            View(mesh_shape, ()),
            schedule_order=plans[0].schedule_order,
            rounds=plans[0].rounds,
            pipeline=pipeline_of(graph, plans[0], self.mesh_shape),
            compute_dtype=self.compute_dtype,
            cache=self._tables.setdefault(plans[0].devices, TableCache()),
            given=_used(graph, plans) | dict(choices or {}),
            resources=self.known.resources,
        )


def pipeline_of(graph: Graph, placements: Placements, mesh_shape: MeshShape) -> Pipeline | None:
    """Return the pipeline of a plan on a mesh; None for one without stages."""
    if placements.stages is None:
        return None
    placed = with_boundary(graph, placements)
    layout = StageLayout(mesh_shape, mesh_shape.part(placements.devices), placements.stages.count)
    return Pipeline(placements.stages, layout, {site: p.part for site, p in placed.blocks.items()})


def _used(graph: Graph, plans: Sequence[Placements]) -> dict[str, Given]:
    """Collect for each block the strategies and orders that the plans give it."""
    plans = [with_boundary(graph, placements) for placements in plans]
    used: dict[str, Given] = {}
    for block in graph.blocks:
        strategies: dict[Strategy, None] = {}
        orders: dict[DimensionOrders, None] = {}
        seen: set[Placement] = set()
        for placements in plans:
            placement = placements.of(block)
            if placement not in seen:
                seen.add(placement)
                reads = tuple(placement.read_layout_of(k) for k in range(len(block.inputs)))
                makes = tuple(placement.layout_of(k) for k in range(len(block.outputs)))
                strategies[placement.strategy] = orders[DimensionOrders(reads, makes)] = None
        used[block.site] = (tuple(strategies), tuple(orders))
    return used


def cost_differences(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Compute the increase of each objective (positive: it costs more)."""
    return {name: value - before[name] for name, value in after.items()}
