"""Exact costs of many plans of one program that differ in structure and in placements, as a history of moves has them.

Structures are compiled to a `PlanSpace` each, with one cache of tables for all of a machine; what no space of the
history's view knows is costed by the plain model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from costmodel.plain import Counted, plain_cost
from costmodel.planspace import PlanSpace
from costmodel.tablerows import TableCache
from costmodel.view import View, default_view
from hardware.mesh import Mesh
from optimizer.report import costs_of
from optimizer.variants import structure_of
from teg.graph import Graph
from teg.sharding.mesh import MeshShape
from teg.sharding.placement import Placements

MOST_SPACES = 32
LITTLE_WORK = 1000  # blocks times devices squared: the plain model is done before a space is compiled


class Costing:
    """Costs on one machine; `devices` is the part of it for whose plans the tables are made.

    `compiled` says whether structures are compiled (False: the plain model does it all); by default where that
    pays. The costs are the same.
    """

    def __init__(
        self, mesh: Mesh, compute_dtype: str | None = None, devices: str = "", compiled: bool | None = None
    ) -> None:
        self.mesh, self.compute_dtype, self.compiled = mesh, compute_dtype, compiled
        self.shape = MeshShape(mesh.axis_sizes)
        self._axes = default_view(self.shape.part(devices)).axes
        self._tables: dict[tuple[str, bool], TableCache] = {}
        self._counted: dict[str, Counted] = {}
        self._spaces: dict[tuple[str, str, str, bool], PlanSpace] = {}

    def cost(self, graph: Graph, placements: Placements) -> dict[str, float]:
        """Every objective the device has figures for, in its unit: what a search would say of this plan.

        Raises:
            ValueError: the placements do not fit the graph or the machine.
        """
        used = self.mesh.part(self.shape.part(placements.devices).axes)
        work = len(graph.blocks) * self.shape.device_count**2
        compiled = work > LITTLE_WORK if self.compiled is None else self.compiled
        try:
            space = self._space(graph, placements, used) if compiled else None
            genes = None if space is None else space.genes_of(placements)
        except ValueError:
            space = genes = None
        if space is None or genes is None:
            counted = self._counted.setdefault(placements.devices, {})
            tally = plain_cost(graph, placements, self.mesh, self.compute_dtype, counted)
            return costs_of(tally.vector(), used)
        return costs_of(space.evaluate(genes), used)

    def _space(self, graph: Graph, placements: Placements, used: Mesh) -> PlanSpace:
        """The graph compiled for a view; where nothing is placed yet, for one in which nothing can be split."""
        devices, is_bare = placements.devices, not placements.blocks
        key = (structure_of(graph), devices, placements.order, is_bare)
        if key not in self._spaces:
            while len(self._spaces) >= MOST_SPACES:
                del self._spaces[next(iter(self._spaces))]
            part = self.shape.part(devices)
            known = set(part.positions)
            axes = tuple(kept for axis in self._axes if (kept := tuple(a for a in axis if a in known)))
            self._spaces[key] = PlanSpace(
                replace(graph, data={}) if graph.data else graph,
                used,
                View(part, () if is_bare else axes),
                order=placements.order,
                compute_dtype=self.compute_dtype,
                cache=self._tables.setdefault((devices, is_bare), TableCache()),
            )
        return self._spaces[key]


def differences(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """What each objective gained (positive: it costs more)."""
    return {name: value - before[name] for name, value in after.items()}
