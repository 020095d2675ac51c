"""A run's job: continue the search of the last worker, publish results as it goes, check the published plans."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from datetime import UTC, datetime
from typing import Any

import numpy as np

from tapestry.costmodel.known_objectives import known_objectives
from tapestry.costmodel.version import COST_MODEL_VERSION
from tapestry.optimizer import (
    Checkpoint,
    CheckpointError,
    Constraint,
    Objective,
    Plan,
    Progress,
    Result,
    Snapshot,
    publish,
)
from tapestry.optimizer.archive.dominance import nondominated
from tapestry.optimizer.run.learning import Prior
from tapestry.optimizer.run.options import LATEST
from tapestry.optimizer.run.plan import WORKERS_LOST, ReportBase
from tapestry.optimizer.run.search import BOUNDS_SHARE, search
from tapestry.optimizer.run.workers import WorkersLost
from tapestry.service.frontier_checks import CheckTimer
from tapestry.service.lifecycle import Event
from tapestry.service.priors import prior_for, prior_text
from tapestry.service.problems import problem
from tapestry.service.proven_bounds import bound_documents
from tapestry.service.provenance import host, versions
from tapestry.service.recosting import recost_plans
from tapestry.service.refusals import refusal_documents
from tapestry.service.related import NOTHING, StartingPlans, starting_plans
from tapestry.service.store import RunUpdate, Store, StoredPlan, TenantStore, UnknownId, mesh_of
from tapestry.service.verdicts import problem_of
from tapestry.service.worker.heartbeat import ClaimedJob, Drained
from tapestry.service.worker.run_checks import RunChecks, SearchInput, run_deadline

log = logging.getLogger("tapestry.worker")

LARGEST_SHOWN = 64
ROUNDING = 1e-9  # a value and a bound computed from it may differ by so much
BEFORE_SEARCH = ("", "compiling", "seeding")
LONGEST_SEARCH_S = 86_400.0  # of a run that is limited by its evaluations
OVERTIME_S = 60.0
WORKING_S = 2.0  # between reports of a phase before the search


class PublishedFrontier:
    """The published frontier of a run: the stored plans, as values for the next decision and as plans."""

    def __init__(self, store: TenantStore, run_id: str, objectives: Sequence[Objective]) -> None:
        self._store, self._names = store, [objective.name for objective in objectives]
        self._stored: dict[str, StoredPlan] = {plan.id: plan for plan in store.runs.frontier(run_id)}
        self._costs: dict[str, Mapping[str, float]] = {plan.id: plan.cost for plan in self._stored.values()}
        self._plans: dict[str, Plan] = {}

    def _value(self, cost: Any) -> list[float]:
        return [float(cost[name]) for name in self._names]

    @property
    def values(self) -> np.ndarray:
        """The objective values `(k, m)` of the published plans."""
        return self._values_of(self._costs)

    def _values_of(self, keys: Iterable[str]) -> np.ndarray:
        rows = [self._value(self._costs[key]) for key in keys]
        return np.array(rows, dtype=np.float64).reshape(-1, len(self._names))

    def decide(self, snapshot: Snapshot) -> tuple[list[Plan], list[str]]:
        """Select the plans of the search's front to publish, and the ids of the published ones to remove.

        Published plans are removed for others, or because they break a relative bound, which has tightened.
        """
        broken = [key for key, cost in self._costs.items() if _breaks(snapshot.bounds, cost)]
        shown = [key for key in self._costs if key not in broken]
        entering, leaving = publish(self._values_of(shown), snapshot.values, LARGEST_SHOWN, snapshot.is_last)
        plans = {plan.id: plan for plan in (snapshot.plan(int(i)) for i in entering)}
        removed = [shown[int(i)] for i in leaving if shown[int(i)] not in plans]
        return [plan for key, plan in plans.items() if key not in self._costs], [*broken, *removed]

    def apply(self, added: Sequence[Plan], removed: Sequence[str]) -> None:
        """Update the published plans after a write to the store."""
        for key in removed:
            del self._costs[key]
            self._plans.pop(key, None)
        for plan in added:
            self._costs[plan.id] = plan.cost
            self._plans[plan.id] = plan

    def plans(self) -> list[Plan]:
        """Return the published plans as the search made them; those of an earlier worker are loaded from the store."""
        missing = [key for key in self._costs if key not in self._plans]
        loaded = self._store.plans.load_all([self._stored[key].key for key in missing])
        self._plans |= dict(zip(missing, loaded, strict=True))
        return [self._plans[key] for key in self._costs]


def remaining(costs: Mapping[str, Mapping[str, float]], objectives: Sequence[str]) -> frozenset[str]:
    """Return the ids of the plans that no other dominates; of equal ones the first."""
    rows = [[float(cost[name]) for name in objectives] for cost in costs.values()]
    mask = nondominated(np.array(rows, dtype=np.float64).reshape(-1, len(objectives)))
    return frozenset(plan_id for plan_id, stays in zip(costs, mask, strict=True) if stays)


def _breaks(bounds: Sequence[Constraint], cost: Mapping[str, float]) -> bool:
    return any(bound.excess(cost[bound.objective]) > ROUNDING for bound in bounds)


class SearchJob:
    """One attempt at a run. `do()` returns when the run has ended; every write of it is fenced by the lease."""

    def __init__(
        self,
        store: Store,
        held: ClaimedJob,
        pool: Executor,
        islands: int,
        checkpoint_s: float,
        on_phase: Callable[[str, float], None] = lambda _, __: None,
    ) -> None:
        self._store, self._held, self._pool, self._on_phase = store, held, pool, on_phase
        self._job, self._mine = held.job, store.of(held.job.tenant)
        self._checkpoint_s = checkpoint_s
        self._phase, self._steps = "", 0
        self._phase_began_s = self._reported_s = time.monotonic()
        self._task = self._read(islands)
        self._deadline = run_deadline(self._mine, self._job, self._task)
        self._timer = CheckTimer(
            self._task.graph, self._task.mesh, self._task.request.options, self._task.islands
        )
        self._recosted: tuple[Plan, ...] = ()
        request = self._task.request
        self._prior = self._begun_with()
        self._starting = starting_plans(self._mine, request.options, self._task.graph, request.mesh)
        self._shown = PublishedFrontier(self._mine, self._job.subject, self._task.objectives)

    def _read(self, islands: int) -> SearchInput:
        request = self._mine.runs.request(self._job.subject)
        mesh = mesh_of(request.mesh)
        graph = self._mine.graphs.load(request.graph_id)
        return SearchInput(
            request,
            graph,
            mesh,
            known_objectives(graph).require(request.options.objectives, mesh.device),
            request.options.islands or islands,
        )

    def _begun_with(self) -> Prior:
        """Return the prior of this attempt: the one that the run has recorded when it was begun.

        What an earlier release learned tells nothing of this one's moves. Where such a prior was recorded, the search
        starts anew anyway, with the newest one.

        Raises:
            ValueError: the request names a snapshot that there is not.
        """
        options, mesh = self._task.request.options, self._task.request.mesh
        try:
            return prior_for(self._mine, options, mesh)
        except UnknownId as error:
            if self._job.attempt == 1:
                raise ValueError(str(error)) from error
            log.warning("run %s: %s; it goes on with the newest", self._job.subject, error)
            return prior_for(self._mine, options.changed(prior=LATEST), mesh)

    def do(self) -> None:
        """Search, check, and end the run.

        Raises:
            Drained: the worker must end; everything found is in the store.
            LeaseLost: another worker has the run.
            WorkersLost: the cluster has no workers any more; everything found is in the store.
            ValueError: the request cannot be carried out.
        """
        self.recost()
        saved = self._saved()
        self._store.jobs.begin(
            self._job,
            datetime.now(UTC),
            self._held.lease_s,
            islands=self._task.islands if saved is None else saved.islands,
            prior=prior_text(self._prior),
            started_from=self._starting.text,
            versions=versions(),
            host=host(),
        )
        is_over = saved is not None and saved.stopped not in ("", WORKERS_LOST)
        if saved is not None and is_over and len(self._shown.values):
            stopped, timings = saved.stopped, dict(saved.timings)
        else:
            result = self._search(saved)
            if result.stopped == WORKERS_LOST:
                raise WorkersLost("the workers of the cluster were lost")
            stopped, timings = result.stopped, dict(result.timings)
            foreseen = (bound_documents(result.bounds), result.expected, result.rates)
            self._store.jobs.foresee(self._job, datetime.now(UTC), self._held.lease_s, *foreseen)
            if not result.frontier and not self._shown.plans():
                self._end_without_plan(result)
                return
        if stopped != "cancelled":
            self._enter("verifying")
            checks = RunChecks(self._store, self._held, self._task, self._shown.plans())
            checks.do(self._pool, self._deadline, self._timer.verifier)
        event: Event = "cancelled" if stopped == "cancelled" or self._held.is_cancelled else "finished"
        checked = {plan.id: plan.verified for plan in self._mine.runs.frontier(self._job.subject)}
        self._store.jobs.end_run(
            self._job,
            datetime.now(UTC),
            event,
            stopped=stopped,
            problem=problem_of(checked),
            timings=timings,
        )

    def recost(self) -> None:
        """Cost the published plans that an earlier release left with the costs of another model again.

        Those that break a bound by now, are dominated by then, or cannot be costed leave the frontier. The search
        starts again from all that were costed: the state that was saved compares plans by the old costs.
        """
        run_id = self._job.subject
        shown = self._mine.runs.frontier(run_id)
        if all(plan.cost_model == COST_MODEL_VERSION for plan in shown):
            return
        self._enter("compiling")
        again = recost_plans(self._mine, run_id, shown)
        log.warning(
            "run %s: %d published plans were costed by another cost model and are costed again; %d cannot be: %s",
            *(run_id, len(again.plans), len(again.failures), "; ".join(again.failures.values()) or "none"),
        )
        costs = {plan.id: plan.cost for plan in shown if plan.id not in again.failures}
        costs |= {plan_id: plan.cost for plan_id, plan in again.plans.items()}
        infeasible = {plan_id for plan_id, plan in again.plans.items() if not plan.feasible}
        names = [objective.name for objective in self._task.objectives]
        staying = remaining({key: cost for key, cost in costs.items() if key not in infeasible}, names)
        removed = [plan.id for plan in shown if plan.id not in staying]
        now = datetime.now(UTC)
        self._store.jobs.recost(self._job, now, self._held.lease_s, again.plans, removed)
        self._recosted = tuple(again.plans.values())
        self._shown = PublishedFrontier(self._mine, run_id, self._task.objectives)

    def _saved(self) -> Checkpoint | None:
        saved = self._store.jobs.saved(self._job.subject)
        if saved is None:
            return None
        try:
            return Checkpoint.from_bytes(saved)
        except CheckpointError as error:
            log.warning("run %s: %s; it starts from its frontier", self._job.subject, error)
            return None

    def _search(self, saved: Checkpoint | None) -> Result:
        try:
            return self._optimize(saved, NOTHING if saved is not None else self._start())
        except CheckpointError as error:
            if saved is None:
                raise
            log.warning("run %s: %s; it starts from its frontier", self._job.subject, error)
            starting = StartingPlans(plans=tuple(self._shown.plans()))
            return self._optimize(None, starting, saved.base.corner)

    def _reported(self, corner: np.ndarray | None) -> ReportBase:
        """Return what earlier attempts have reported, from which the reports of a search that starts anew go on."""
        run = self._mine.runs.get(self._job.subject)
        return ReportBase(run.seconds, run.evaluations, corner)

    def _start(self) -> StartingPlans:
        """Return the plans to start from: those already published, else those of the runs that it starts from."""
        if self._recosted:
            return StartingPlans(plans=self._recosted)
        if len(self._shown.values):
            return StartingPlans(plans=tuple(self._shown.plans()))
        return self._starting

    def _optimize(
        self, resume: Checkpoint | None, starting: StartingPlans, corner: np.ndarray | None = None
    ) -> Result:
        islands = self._task.islands if resume is None else resume.islands
        return search(
            self._task.graph,
            self._task.mesh,
            options=self._task.request.options.changed(islands=islands),
            executor=self._pool,
            start_from=starting.plans,
            relatives=starting.relatives,
            resume=resume,
            on_progress=self._progress,
            on_checkpoint=self._checkpoint,
            checkpoint_s=self._checkpoint_s,
            should_stop=self._should_stop,
            deadline=self._deadline,
            reserve=self._timer,
            prior=self._prior,
            reported=self._reported(corner),
        )

    def _should_stop(self) -> bool:
        """Return whether the user cancelled the run; a worker that must end hands it back as it was, before its search.

        Once the search has begun, the next checkpoint is written first.
        """
        self._held.check()
        if self._phase in BEFORE_SEARCH:
            if self._held.is_draining:
                raise Drained
            self._report_work()
        return self._held.is_cancelled

    def _limit_s(self, phase: str) -> float:
        """Return the seconds that a phase may take by what the user allows, with some to end by itself."""
        options = self._task.request.options
        searching_s = LONGEST_SEARCH_S if options.seconds is None else options.seconds * (1 + BOUNDS_SHARE)
        limit_s = searching_s if phase == "searching" else math.inf
        left_s = math.inf if self._deadline is None else self._deadline.left_s
        return min(limit_s, left_s) + OVERTIME_S

    def _report_work(self) -> None:
        """Count a step of the work before the search, and report it every few seconds."""
        self._steps += 1
        now_s = time.monotonic()
        if now_s - self._reported_s >= WORKING_S:
            self._reported_s = now_s
            doing = {
                "phase": self._phase,
                "seconds": round(now_s - self._phase_began_s, 1),
                "steps": self._steps,
            }
            self._store.jobs.working(self._job, datetime.now(UTC), self._held.lease_s, doing)

    def _progress(self, progress: Progress) -> None:
        self._held.check()
        if progress.phase == "searching":
            return
        if self._held.is_draining:  # nothing to keep before the search itself begins
            raise Drained
        self._enter(progress.phase)

    def _enter(self, phase: str) -> None:
        if phase != self._phase:
            self._store.jobs.phase(self._job, datetime.now(UTC), self._held.lease_s, phase)
            self._phase, self._steps = phase, 0
            self._phase_began_s = self._reported_s = time.monotonic()
            self._on_phase(phase, self._limit_s(phase))

    def _checkpoint(self, snapshot: Snapshot) -> None:
        """Store the state of the search and publish its results since the last checkpoint, in one transaction."""
        self._held.check()
        added, removed = self._shown.decide(snapshot)
        is_over, saved = snapshot.is_last, snapshot.checkpoint()
        update = RunUpdate(
            saved=saved.to_bytes(),
            phase="verifying" if is_over else "searching",
            progress=snapshot.progress,
            added=added,
            removed=removed,
            rules=snapshot.rules,
            refused=refusal_documents(saved.refused),
        )
        self._store.jobs.checkpoint(self._job, datetime.now(UTC), self._held.lease_s, update)
        if self._phase != update.phase:
            self._on_phase(update.phase, self._limit_s(update.phase))
        self._phase = update.phase
        self._shown.apply(added, removed)
        if self._held.is_draining:
            raise Drained

    def _end_without_plan(self, result: Result) -> None:
        now = datetime.now(UTC)
        if result.stopped == "cancelled":
            self._store.jobs.end_run(self._job, now, "cancelled", stopped=result.stopped)
            return
        message = (
            str(result.shortfall) if result.shortfall else "no plan was found within the budget; give it more"
        )
        self._store.jobs.end_run(
            self._job,
            now,
            "failed",
            stopped=result.stopped,
            problem=problem("no_feasible_plan", "No feasible plan", message),
            timings=dict(result.timings),
        )
