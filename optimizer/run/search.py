"""The search on checked values: checks the options, prepares the mesh, runs the coordinator, reports."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np
from deap import base

from tapestry.costmodel.compiled import stoppable
from tapestry.costmodel.degrees import degrees_fault, view_of
from tapestry.costmodel.known_objectives import KnownObjectives, known_objectives
from tapestry.costmodel.objective import Objective
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.costmodel.unsharded import live_bytes
from tapestry.costmodel.view import default_view
from tapestry.hardware.mesh import Mesh
from tapestry.optimizer.archive.constraints import Constraint, all_constraints
from tapestry.optimizer.archive.report import (
    LARGEST_FRONTIER,
    current_constraints,
    frontier_of,
    goal_of,
    plan_of,
    shortfall_of,
)
from tapestry.optimizer.placement.toolbox import completed, described
from tapestry.optimizer.run.canonicalization import canonicalize
from tapestry.optimizer.run.checkpoint import Checkpoint
from tapestry.optimizer.run.clock import Deadline, SearchClock
from tapestry.optimizer.run.coordinator import Coordinator
from tapestry.optimizer.run.fixed_degrees import degrees_of
from tapestry.optimizer.run.improvement import expected_improvement
from tapestry.optimizer.run.initialization import fingerprint_of, initialize, restore
from tapestry.optimizer.run.learning import NO_PRIOR, Prior, begin_with, rates_of
from tapestry.optimizer.run.lower_bounds import lower_bounds
from tapestry.optimizer.run.micro_batches import rounds_to_search
from tapestry.optimizer.run.options import (
    LIMITS,
    OptionError,
    OptionKeywords,
    RunOptions,
    fault_line,
    options_and_faults,
)
from tapestry.optimizer.run.parts import ALL_PARTS, SearchParts
from tapestry.optimizer.run.pipelines import PipelineKind, first_pipeline, layout_of, pipelines_to_search
from tapestry.optimizer.run.plan import NOTHING_REPORTED, Budget, Plan, Progress, ReportBase, Result
from tapestry.optimizer.run.processes import ProcessIslands
from tapestry.optimizer.run.relatives import RelatedPlan
from tapestry.optimizer.run.request_faults import option_faults
from tapestry.optimizer.run.reserve import Estimate, Reserve
from tapestry.optimizer.run.snapshot import Publisher, Snapshot
from tapestry.optimizer.run.state import SearchState
from tapestry.optimizer.run.stopping import StopRequested, stop_check
from tapestry.optimizer.run.variants import SubMesh
from tapestry.optimizer.run.workers import InlineExecutor, preload
from tapestry.optimizer.run.worth import Economics
from tapestry.optimizer.structure.criteria import Criteria, criteria_of
from tapestry.optimizer.structure.division import has_way_back
from tapestry.optimizer.structure.rules import choose_rules
from tapestry.optimizer.structure.search import StructuralSearch
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import SCHEDULE_ORDERS
from tapestry.teg.stopping import CheckStop
from tapestry.teg.validate import check

# The time for bounds after a search with a limit of time: some anyway, and this share of what the search took.
LEAST_BOUNDS_S, BOUNDS_SHARE = 0.2, 0.05
# The plans that are reported however late it is.
LEAST_FRONTIER = 4


def search(
    graph: Graph,
    mesh: Mesh,
    objectives: Sequence[str] | None = None,
    *,
    options: RunOptions | None = None,
    executor: Executor | None = None,
    search: bool = True,
    seeds: bool = True,
    start_from: Sequence[Plan] = (),
    relatives: Sequence[RelatedPlan] = (),
    resume: Checkpoint | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    on_checkpoint: Callable[[Snapshot], None] | None = None,
    checkpoint_s: float = 1.0,
    should_stop: Callable[[], bool] | None = None,
    toolbox: base.Toolbox | None = None,
    deadline: Deadline | None = None,
    reserve: Estimate | None = None,
    parts: SearchParts = ALL_PARTS,
    prior: Prior = NO_PRIOR,
    reported: ReportBase = NOTHING_REPORTED,
    **keywords: Unpack[OptionKeywords],
) -> Result:
    """Search the plans of `graph` on `mesh`; return the frontier over `objectives`.

    The options of the run are those of `RunOptions`, given as one value (`options`), as keywords, or as both, where
    keywords win. A caller that began earlier gives its `deadline`; by default the option's seconds begin here. Of what
    it leaves, the time is kept that `reserve` estimates for the checks of a frontier, given some plans and their number
    on the front: two of the first plans, later one of the front at a time. Benchmarks leave out some of its `parts`.
    Moves are chosen at first by what earlier searches have learned, the `prior`; plans of related programs are
    `relatives`. Reports of a run that could not be resumed go on from what it has `reported`. The other arguments, and
    what is computed, are explained at `tapestry.optimize`.

    Raises:
        OptionError: keywords that are no options, unknown objectives, constraints, rules, pins or values of options,
            objectives the device lacks data for; it lists all of them.
        ArgumentError: operators of `toolbox` that no search calls; it lists all of them.
        ValueError: a resource named like an objective, no plan of this program in `start_from`, or shards that do
            not verify.
        StaleCheckpoint: `resume` is of another search or release.
        InvalidGraphError: the graph breaks a rule of the language.
    """
    given = keywords if objectives is None else {"objectives": objectives, **keywords}
    request = _request(graph, mesh, options, given)
    if resume is not None and start_from:
        raise ValueError("a search either resumes from a checkpoint or starts from plans: give one of them")
    if deadline is None and request.options.deadline_seconds is not None:
        deadline = Deadline.after(request.options.deadline_seconds)
    clock = SearchClock(request.budget.seconds, deadline)
    if not seeds:
        parts = replace(parts, propagation=False, exact=False, presearch=False)
    state, operators = _new_state(request, clock, parts), completed(toolbox)
    state.base = reported
    begin_with(state, prior)
    reserved = Reserve(state, reserve)
    if resume is not None or on_checkpoint is not None:
        state.fingerprint = request.fingerprint(state, described(operators), prior)
    report, stopping = _phases(state, on_progress), should_stop or (lambda: False)
    with _islands(state, executor) if search else nullcontext(InlineExecutor()) as islands:
        if not _prepare(
            state, request, (start_from, relatives), resume, reserved, report, stop_check(stopping)
        ):
            return _result(state, request)
        publisher = Publisher(on_checkpoint, checkpoint_s, request.objectives, request.bounds)
        with tempfile.TemporaryDirectory(prefix="tapestry-") as folder:
            coordinator = Coordinator(
                *(state, request.budget, Path(folder), publisher, on_progress, operators, reserved),
                request.economics,
            )
            if search:
                coordinator.loop(islands, stopping)
            else:
                coordinator.begin_all()
                state.stopped = "seeds"
            coordinator.finish()
    return _result(state, request)


class _Request(NamedTuple):
    """A checked request of a search: the program as it is searched, the mesh, and what is asked of its plans."""

    graph: Graph
    mesh: Mesh
    options: RunOptions
    objectives: tuple[Objective, ...]
    bounds: tuple[Constraint, ...]
    known: KnownObjectives

    @property
    def budget(self) -> Budget:
        return Budget(*(getattr(self.options, name) for name in LIMITS))

    @property
    def bounded(self) -> list[str]:
        """The names of objectives and bounded costs, in the order of the forms of a goal."""
        constraints = sorted(self.bounds, key=lambda bound: bound.is_relative)
        return [*(o.name for o in self.objectives), *(bound.objective for bound in constraints)]

    @property
    def economics(self) -> Economics:
        names = [objective.name for objective in self.objectives]
        return Economics.of(self.options.worth, self.options.search_price, self.known, names)

    @property
    def criteria(self) -> Criteria:
        return criteria_of(self.objectives, self.bounds, self.mesh, self.options.epsilon, self.known)

    def fingerprint(self, state: SearchState, toolbox: Mapping[str, str], prior: Prior) -> Mapping[str, str]:
        """Return what a checkpoint of this search must agree with."""
        what = (self.graph, self.mesh, self.objectives, self.bounds)
        return fingerprint_of(state, *what, toolbox, prior.snapshot)


def _request(graph: Graph, mesh: Mesh, options: RunOptions | None, keywords: Mapping[str, Any]) -> _Request:
    """Check the request against its program and mesh.

    Raises:
        OptionError: options that a search cannot have; it lists all of them.
        InvalidGraphError: the graph breaks a rule of the language.
    """
    resolved, faults = options_and_faults(options, keywords)
    check(graph)
    known = known_objectives(graph)
    graph = canonicalize(graph)
    if faults := (*faults, *option_faults(resolved, mesh, known, graph)):
        raise OptionError(*map(fault_line, faults))
    chosen = known.require(resolved.objectives, mesh.device)
    bounds = all_constraints(resolved.constraints, mesh, known)
    known = known.including((*chosen, *(known.named(bound.objective) for bound in bounds)))
    return _Request(graph, resolved.on(mesh), resolved, chosen, bounds, known)


def _new_state(request: _Request, clock: SearchClock, parts: SearchParts = ALL_PARTS) -> SearchState:
    """Create the state of a search before its first plan."""
    options = request.options
    return SearchState(
        request.graph,
        request.criteria,
        _submeshes(request, parts),
        options,
        StructuralSearch(choose_rules(options.rules)),
        os.cpu_count() or 1 if options.islands is None else options.islands,
        options.seed,
        np.random.default_rng(options.seed),
        clock,
        parts,
    )


def _phases(state: SearchState, on_progress: Callable[[Progress], None] | None) -> Callable[[str], None]:
    """Build a function that reports the phases before the first round."""

    def report(phase: str) -> None:
        if on_progress is not None:
            on_progress(Progress(phase, state.clock.spent_s, state.evaluations, 0, 0.0))

    return report


def compile_pinned(graph: Graph, mesh: Mesh, pins: Mapping[str, str]) -> None:
    """Check that a strategy of its block leads to each pin on this mesh.

    Raises:
        PinError: the first pin that cannot be met, and the possible ones.
    """
    PlanSpace(graph, mesh, default_view(MeshShape(mesh.axis_sizes)), pins=pins)


def _submeshes(request: _Request, parts: SearchParts) -> tuple[SubMesh, ...]:
    """Build the mesh, its submeshes unless all of it is required, and the mesh per schedule order that may pay.

    The mesh with other numbers of rounds comes then, and pipelines last; but a pipeline is the first of all where plans
    without one would not fit in memory.
    """
    mesh, options = request.mesh, request.options
    whole_mesh_shape = MeshShape(mesh.axis_sizes)
    is_whole = options.devices == "all" or bool(options.pins)
    parts_of_mesh = whole_mesh_shape.parts()[: 1 if is_whole else None]
    fitting = [
        each for each in parts_of_mesh if not degrees_fault(degrees_of(options), whole_mesh_shape.part(each))
    ]
    kinds = [(devices, SCHEDULE_ORDERS[0]) for devices in fitting]
    others = SCHEDULE_ORDERS[1:] if parts.schedule_orders else ()
    kinds += [(kinds[0][0], name) for name in others if _may_pay(name, request.graph)]
    first, *further = rounds_to_search(request.graph, options)
    in_stages = pipelines_to_search(whole_mesh_shape, options, [first, *further]) if parts.pipelines else []
    if not has_way_back(request.graph):  # nothing is late, and nothing waits for the way back
        in_stages = [kind for kind in in_stages if not (kind.stages.has_late or kind.slack)]
    further = further if parts.micro_batches else []
    if in_stages and (options.stages or 1) > 1:
        kinds, further = [], []
    submeshes = []
    for devices, schedule_order, rounds in (
        *((devices, order, first) for devices, order in kinds),
        *((*kinds[0], rounds) for rounds in further if kinds),
    ):
        mesh_shape = whole_mesh_shape.part(devices)
        used = mesh.part(mesh_shape.axes)
        goal = goal_of(request.objectives, request.bounds, used, options.epsilon, request.known)
        view = view_of(mesh_shape, degrees_of(options))
        submeshes.append(
            SubMesh(
                devices, used, view, goal, schedule_order=schedule_order, rounds=rounds, known=request.known
            )
        )
    large = None if options.pins else first_pipeline(request.graph, mesh, options, in_stages)
    staged = [_in_stages(request, kind) for kind in dict.fromkeys([*([large] if large else []), *in_stages])]
    return (*staged[:1], *submeshes, *staged[1:]) if large else (*submeshes, *staged)


def _in_stages(request: _Request, kind: PipelineKind) -> SubMesh:
    """Build the mesh of plans that are such a pipeline."""
    layout = layout_of(MeshShape(request.mesh.axis_sizes), kind)
    goal = goal_of(request.objectives, request.bounds, request.mesh, request.options.epsilon, request.known)
    view = view_of(layout.stage_mesh_shape, degrees_of(request.options))
    submesh = SubMesh(kind.devices, request.mesh, view, goal, rounds=kind.rounds, known=request.known)
    return replace(submesh, stages=kind.stages, layout=layout, slack=kind.slack)


def _may_pay(schedule_order: str, graph: Graph) -> bool:
    """Return whether a schedule order may pay: early updates if there are any, others if they save memory."""
    if schedule_order == "update-early":
        return bool(graph.carried)
    return max(live_bytes(graph, schedule_order)) < max(live_bytes(graph))


@contextmanager
def _islands(state: SearchState, executor: Executor | None) -> Iterator[Executor]:
    """Yield the given executor, or processes of our own, one per island; they start while the search is prepared."""
    if executor is None and state.islands == 1:
        yield InlineExecutor()
        return
    own = ProcessIslands(state.islands) if executor is None else None
    pool = own or executor or InlineExecutor()
    try:
        for _ in range(state.islands):
            pool.submit(preload)
        yield pool
    finally:
        if own is not None:
            own.shutdown(wait=False, cancel_futures=True)


def _prepare(
    state: SearchState,
    request: _Request,
    given: tuple[Sequence[Plan], Sequence[RelatedPlan]],
    resume: Checkpoint | None,
    reserved: Reserve,
    report: Callable[[str], None],
    check_stop: CheckStop,
) -> bool:
    """Make the first plans, or restore the saved state; return False where a stop is requested before there are any.

    Then there is nothing to publish, and a saved state stays as it is.
    """
    try:
        with stoppable(check_stop):
            if resume is not None:
                restore(resume, state, report, check_stop)
            else:
                initialize(state, request.budget.evaluations, given[0], report, check_stop, given[1])
            reserved.measure_first()
    except StopRequested:
        state.stopped = "cancelled"
        state.variants.clear()
        return False
    return True


def _frontier_limit(state: SearchState) -> int:
    """Return how many plans to report: near a deadline, as many as can be written out in half of the time left."""
    deadline, variant = state.clock.deadline, state.variants[0]
    if deadline is None or not variant.archive.size[0]:
        return LARGEST_FRONTIER
    left_s = deadline.left_s
    plan_of(variant, 0)
    took_s = left_s - deadline.left_s
    most = max(left_s, 0.0) / 2 / took_s if took_s > 0 else LARGEST_FRONTIER
    return int(min(max(most, LEAST_FRONTIER), LARGEST_FRONTIER))


def _time_for_bounds(state: SearchState) -> Callable[[], bool]:
    """Return a function that says whether there is time to bound another structure: some of the time of the search.

    A search without a limit of time bounds them all, so that its result repeats.
    """
    clock, began = state.clock, time.perf_counter()
    if clock.seconds is None and clock.deadline is None:
        return lambda: True
    allowed_s = LEAST_BOUNDS_S + BOUNDS_SHARE * clock.spent_s
    if clock.deadline is not None:
        allowed_s = min(allowed_s, clock.deadline.left_s / 4)
    return lambda: time.perf_counter() - began < allowed_s


def _result(state: SearchState, request: _Request) -> Result:
    seconds, began = state.clock.spent_s, time.perf_counter()
    plans = frontier_of(state.variants, state.anchors, _frontier_limit(state)) if state.variants else ()
    constraints = current_constraints(request.bounds, state.submeshes[0])
    reported = time.perf_counter()
    bounds = lower_bounds(state.variants, request.bounded, _time_for_bounds(state), state.proven)
    names = [objective.name for objective in request.objectives]
    expected = expected_improvement(state.history, bounds=[bounds.get(name) for name in names])
    timings = {**state.timings, "report_s": reported - began, "bounds_s": time.perf_counter() - reported}
    return Result(
        request.graph,
        request.mesh,
        request.objectives,
        request.bounds,
        plans,
        state.evaluations,
        seconds,
        state.seed,
        state.islands,
        state.stopped,
        timings,
        state.rule_statistics(),
        tuple(state.history),
        None if plans else shortfall_of(state.variants, constraints, bounds),
        state.started_from,
        dict(state.structural.refused),
        state.options.compute_dtype,
        bounds,
        dict(zip(names, expected, strict=False)),
        rates_of(state),
    )
