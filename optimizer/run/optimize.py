"""The entry point of the search: checks the request, prepares the mesh, runs the coordinator, reports."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Unpack

import numpy as np
from deap import base

from tapestry.costmodel.known_objectives import KnownObjectives, known_objectives
from tapestry.costmodel.objective import Objective
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.costmodel.unsharded import live_bytes
from tapestry.costmodel.view import default_view
from tapestry.hardware.mesh import Mesh
from tapestry.optimizer.archive.constraints import Constraint, all_constraints
from tapestry.optimizer.archive.report import current_constraints, frontier_of, goal_of, shortfall_of
from tapestry.optimizer.placement.toolbox import default_toolbox, described
from tapestry.optimizer.run.canonicalization import canonicalize
from tapestry.optimizer.run.checkpoint import Checkpoint
from tapestry.optimizer.run.coordinator import Coordinator
from tapestry.optimizer.run.initialization import fingerprint_of, initialize, restore
from tapestry.optimizer.run.options import (
    OptionError,
    OptionKeywords,
    RunOptions,
    fault_line,
    options_and_faults,
)
from tapestry.optimizer.run.plan import Budget, Plan, Progress, Result
from tapestry.optimizer.run.processes import ProcessIslands
from tapestry.optimizer.run.request_faults import option_faults
from tapestry.optimizer.run.snapshot import Publisher, Snapshot
from tapestry.optimizer.run.state import SearchState
from tapestry.optimizer.run.variants import SubMesh
from tapestry.optimizer.run.workers import InlineExecutor
from tapestry.optimizer.structure.criteria import criteria_of
from tapestry.optimizer.structure.rules import choose_rules
from tapestry.optimizer.structure.search import StructuralSearch
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import SCHEDULE_ORDERS
from tapestry.teg.validate import check


def optimize(
    graph: Graph,
    mesh: Mesh,
    objectives: Sequence[str] | None = None,
    *,
    options: RunOptions | None = None,
    executor: Executor | None = None,
    search: bool = True,
    seeds: bool = True,
    start_from: Sequence[Plan] = (),
    resume: Checkpoint | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    on_checkpoint: Callable[[Snapshot], None] | None = None,
    checkpoint_s: float = 1.0,
    should_stop: Callable[[], bool] | None = None,
    toolbox: base.Toolbox | None = None,
    **keywords: Unpack[OptionKeywords],
) -> Result:
    """Search the plans of `graph` on `mesh`; return the frontier over `objectives`.

    An objective is one of the catalog, a resource that the program's cost tables name (`gpu`, over all devices; or
    `peak_gpu`, of the one with most), or an expression over these such as `0.7*time_s + 0.3*energy_j`. `constraints`
    bound any of them, in its unit (`time_s<=5ms`) or in percent of the run's best (`time_s<=110%`).

    The options of the run are those of `RunOptions`, given as one value (`options`), as keywords, or as both, where
    keywords win: `optimize(graph, mesh, seconds=10, devices="all")`. For an explicit graph the program that it shards
    is searched; values that no sink observes are pruned first. Deterministic in `seed`, `islands` (default: one per
    core) and the evaluations done; `seconds` count the search alone, which stops between epochs. `search=False`
    returns the seeds' frontier, `seeds=False` starts from the abstract plan alone. Ctrl-C keeps the frontier found
    (`stopped` is "interrupted").

    `start_from` gives plans of an earlier search of the same program, perhaps on another mesh or for other
    objectives; choices that this mesh lacks become the nearest that it has. `on_checkpoint` is called about every
    `checkpoint_s` seconds with the state between two rounds, while the islands work on the next, and once at the
    end; an exception it raises ends the search. `resume` continues from such a state as if the search had never
    stopped, its time and evaluations counted in `budget`. `toolbox` holds operators of selection and variation, a
    user's own among them; see `optimizer.placement.toolbox.default_toolbox`.

    Raises:
        OptionError: keywords that are no options, unknown objectives, constraints, rules, pins or values of options,
            objectives the device lacks data for; it lists all of them.
        ValueError: a resource named like an objective, no plan of this program in `start_from`, or shards that do
            not verify.
        StaleCheckpoint: `resume` is of another search or release.
        InvalidGraph: the graph breaks a rule of the language.
    """
    given = keywords if objectives is None else {"objectives": objectives, **keywords}
    resolved, faults = options_and_faults(options, given)
    check(graph)
    known = known_objectives(graph)
    graph = canonicalize(graph)
    if faults := (*faults, *option_faults(resolved, mesh, known, graph)):
        raise OptionError(*map(fault_line, faults))
    budget = Budget(resolved.seconds, resolved.evaluations)
    chosen = known.require(resolved.objectives, mesh.device)
    bounds = all_constraints(resolved.constraints, mesh, known)
    known = known.including((*chosen, *(known.named(bound.objective) for bound in bounds)))
    if resume is not None and start_from:
        raise ValueError("a search either resumes from a checkpoint or starts from plans: give one of them")
    whole = resolved.devices == "all" or bool(resolved.pins)
    state = SearchState(
        _submeshes(graph, mesh, chosen, bounds, resolved.epsilon, whole, known),
        resolved,
        StructuralSearch(choose_rules(resolved.rules)),
        os.cpu_count() or 1 if resolved.islands is None else resolved.islands,
        resolved.seed,
        np.random.default_rng(resolved.seed),
    )
    operators = toolbox or default_toolbox()
    if resume is not None or on_checkpoint is not None:
        state.fingerprint = fingerprint_of(state, graph, mesh, chosen, bounds, described(operators))
    report = _phases(state, on_progress)
    if resume is not None:
        restore(resume, state, graph, report)
    else:
        criteria = criteria_of(chosen, bounds, mesh, resolved.epsilon, known)
        initialize(state, graph, criteria, seeds, budget, start_from, report)
    publisher = Publisher(on_checkpoint, checkpoint_s, chosen, bounds)
    with tempfile.TemporaryDirectory(prefix="tapestry-") as folder:
        coordinator = Coordinator(state, budget, Path(folder), publisher, on_progress, operators)
        if search:
            _run(coordinator, executor, should_stop or (lambda: False))
        else:
            state.stopped = "seeds"
        coordinator.finish()
    return _result(state, graph, mesh, chosen, bounds)


def _phases(state: SearchState, on_progress: Callable[[Progress], None] | None) -> Callable[[str], None]:
    """Build a function that reports the phases before the first round."""

    def report(phase: str) -> None:
        if on_progress is not None:
            on_progress(Progress(phase, state.timings["search_s"], state.evaluations, 0, 0.0))

    return report


def compile_pinned(graph: Graph, mesh: Mesh, pins: Mapping[str, str]) -> None:
    """Check that a strategy of its block leads to each pin on this mesh.

    Raises:
        PinError: the first pin that cannot be met, and the possible ones.
    """
    PlanSpace(graph, mesh, default_view(MeshShape(mesh.axis_sizes)), pins=pins)


def _submeshes(
    graph: Graph,
    mesh: Mesh,
    objectives: Sequence[Objective],
    constraints: Sequence[Constraint],
    epsilon: float,
    whole: bool,
    known: KnownObjectives,
) -> tuple[SubMesh, ...]:
    """Build the mesh, its submeshes unless all of it is required, and the mesh per schedule order that may pay."""
    whole_mesh_shape = MeshShape(mesh.axis_sizes)
    kinds = [(devices, SCHEDULE_ORDERS[0]) for devices in whole_mesh_shape.parts()[: 1 if whole else None]]
    kinds += [(kinds[0][0], name) for name in SCHEDULE_ORDERS[1:] if _may_pay(name, graph)]
    submeshes = []
    for devices, schedule_order in kinds:
        mesh_shape = whole_mesh_shape.part(devices)
        used = mesh.part(mesh_shape.axes)
        goal = goal_of(objectives, constraints, used, epsilon, known)
        submeshes.append(
            SubMesh(devices, used, default_view(mesh_shape), goal, schedule_order=schedule_order, known=known)
        )
    return tuple(submeshes)


def _may_pay(schedule_order: str, graph: Graph) -> bool:
    """Return whether a schedule order may pay: early updates if there are any, others if they save memory."""
    if schedule_order == "update-early":
        return bool(graph.carried)
    return max(live_bytes(graph, schedule_order)) < max(live_bytes(graph))


def _run(coordinator: Coordinator, executor: Executor | None, should_stop: Callable[[], bool]) -> None:
    """Run the rounds on the given executor, or on processes of our own, one per island."""
    islands = coordinator.state.islands
    if executor is not None or islands == 1:
        coordinator.loop(executor or InlineExecutor(), should_stop)
        return
    own = ProcessIslands(islands)
    try:
        coordinator.loop(own, should_stop)
    finally:
        own.shutdown(wait=False, cancel_futures=True)


def _result(
    state: SearchState,
    graph: Graph,
    mesh: Mesh,
    objectives: tuple[Objective, ...],
    constraints: tuple[Constraint, ...],
) -> Result:
    began = time.perf_counter()
    plans = frontier_of(state.variants, state.anchors)
    bounds = current_constraints(constraints, state.submeshes[0])
    timings = {**state.timings, "report_s": time.perf_counter() - began}
    return Result(
        graph,
        mesh,
        objectives,
        constraints,
        plans,
        state.evaluations,
        state.timings["search_s"],
        state.seed,
        state.islands,
        state.stopped,
        timings,
        state.rule_statistics(),
        tuple(state.history),
        None if plans else shortfall_of(state.variants, bounds),
        state.started_from,
        dict(state.structural.refused),
        state.options.compute_dtype,
    )
