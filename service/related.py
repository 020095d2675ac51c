"""The stored runs that a search starts from: those that its request names, or the related ones that are found for it.

Used by workers, the command line and the API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tapestry.optimizer import Plan, RunOptions
from tapestry.optimizer.run.options import AUTO
from tapestry.optimizer.run.relatives import RelatedPlan
from tapestry.service.store import Kin, StoreError, TenantStore
from tapestry.teg.family import family_of
from tapestry.teg.graph import Graph


class StartingPlans(NamedTuple):
    """The plans that a search starts from: those of the same program, those of related ones, and their runs' ids."""

    runs: tuple[str, ...] = ()
    plans: tuple[Plan, ...] = ()
    relatives: tuple[RelatedPlan, ...] = ()

    @property
    def text(self) -> str | None:
        """The record of the runs among a run's options; None where there are none."""
        return ",".join(self.runs) or None


NOTHING = StartingPlans()


def starting_plans(
    store: TenantStore, options: RunOptions, graph: Graph, mesh: Mapping[str, Any]
) -> StartingPlans:
    """Load what a request starts from; with `auto`, the frontiers of the runs nearest to it, if there are any.

    A run of the same program on this mesh gives its plans. Those of a run on another mesh, or of a program of the same
    family (other sizes, another depth), are planted by the names of their blocks.

    Raises:
        StoreError: a run is missing, has no plans, or is of an unrelated program.
    """
    if options.start_from is None:
        return NOTHING
    kin = Kin(graph.structural_hash, family_of(graph), len(graph.blocks))
    is_found = options.start_from == AUTO
    runs = store.runs.related(kin, mesh["name"]) if is_found else named_runs(store, options.start_from, kin)
    keys: list[int] = []
    relatives: list[RelatedPlan] = []
    for run_id in runs:
        of = [plan.key for plan in store.runs.frontier(run_id)]
        run = store.runs.get(run_id)
        is_here = run.mesh_name == mesh["name"]
        if is_here and store.graphs.kin(run.graph_id).structural_hash == kin.structural_hash:
            keys += of
        else:
            relatives += (RelatedPlan(*plan) for plan in store.plans.choices(of))
    return StartingPlans(tuple(runs), tuple(store.plans.load_all(keys)) if keys else (), tuple(relatives))


def named_runs(store: TenantStore, references: str, kin: Kin) -> tuple[str, ...]:
    """Find the runs that a request for a program names, by their ids or what these begin with, separated by commas.

    Raises:
        StoreError: one is missing, has no plans, or is of an unrelated program.
    """
    return tuple(_named(store, reference.strip(), kin) for reference in references.split(","))


def _named(store: TenantStore, reference: str, kin: Kin) -> str:
    found = store.runs.find(reference).summary
    if not found.front:
        raise StoreError(f"run {found.id} has no plans to start from ({found.status})")
    if not store.graphs.kin(found.graph_id).is_related_to(kin):
        raise StoreError(
            f"run {found.id} is of {found.graph_name!r}, an unrelated program; a search starts from runs of the same "
            "program, or of one that differs in sizes or the number of layers only"
        )
    return found.id
