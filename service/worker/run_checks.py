"""The checks of a run's published frontier by its worker: each result is stored as it comes."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tapestry.hardware import Mesh
from tapestry.optimizer import Objective, Plan
from tapestry.optimizer.analysis.affordability import ExecutionTimer, work_of_plan, work_of_program
from tapestry.optimizer.analysis.frontier_verification import TimedVerifier, by_importance
from tapestry.optimizer.run.clock import Deadline
from tapestry.service.frontier_checks import (
    ExecutionBudget,
    checking_deadline,
    count_plans,
    plans_to_execute,
)
from tapestry.service.store import Job, NewExecution, RunRequest, Store, TenantStore
from tapestry.service.verdicts import is_refuted, with_suspects
from tapestry.service.worker.executing import (
    LONGEST_S,
    Cancelled,
    ExecutionRefused,
    ExecutionRequest,
    execute,
)
from tapestry.service.worker.heartbeat import ClaimedJob, Drained
from tapestry.teg.graph import Graph

log = logging.getLogger("tapestry.worker")


@dataclass(frozen=True)
class SearchInput:
    """The input of a run's job: the request, the program and the mesh."""

    request: RunRequest
    graph: Graph
    mesh: Mesh
    objectives: tuple[Objective, ...]
    islands: int


def run_deadline(store: TenantStore, job: Job, task: SearchInput) -> Deadline | None:
    """Return the deadline of a run's checks: its seconds begin when the first worker claims it.

    A later attempt reads by its own clock how long ago that was. Where that clock is behind the one of the first
    worker, it is as long as the search has taken by now, which every worker has measured.
    """
    options, run = task.request.options, store.runs.get(job.subject)
    if options.deadline_seconds is None:
        return None
    spent_s = 0.0
    if run.started_at is not None and job.attempt > 1:
        spent_s = max(run.seconds, (datetime.now(UTC) - run.started_at).total_seconds())
    return checking_deadline(Deadline.after(options.deadline_seconds - spent_s), options)


class RunChecks:
    """The checks of a run's published plans; every write is fenced by the lease of the job."""

    def __init__(self, store: Store, held: ClaimedJob, task: SearchInput, plans: Sequence[Plan]) -> None:
        self._store, self._jobs, self._held, self._task, self._plans = (
            store.of(held.job.tenant),
            store.jobs,
            held,
            task,
            plans,
        )
        self._run_id = held.job.subject

    def do(self, pool: Executor, deadline: Deadline | None, verifier: TimedVerifier) -> None:
        """Prove and count every published plan that is not yet checked, execute the representative ones.

        Past the deadline, and once the run is cancelled, plans are left as they are. `verifier` is that of the search's
        `CheckTimer`.
        """
        if self._task.request.options.verify != "none":
            self._verify(pool, deadline, verifier)
            self._suspect()

    def _verify(self, pool: Executor, deadline: Deadline | None, verifier: TimedVerifier) -> None:
        plans = by_importance(self._plans, self._task.objectives)
        known = self._checked()
        counted = [plan for plan in plans if plan.id not in known]
        for plan, verified in count_plans(counted, verifier, pool, self._task.islands, deadline):
            self._keep(plan.id, verified, None)
            if self._held.is_cancelled:
                return
        checked = [plan for plan in plans if plan.id in self._checked()]
        self._execute_some(checked, deadline, verifier.slowdown)

    def _checked(self) -> dict[str, Mapping[str, Any]]:
        """Return the check results of the published plans that have any."""
        shown = self._store.runs.frontier(self._run_id)
        return {plan.id: plan.verified for plan in shown if plan.verified is not None}

    def _execute_some(self, plans: Sequence[Plan], deadline: Deadline | None, slowdown: float) -> None:
        """Execute the representative plans, or all, as the run requests, while there is time."""
        task, known = self._task, self._checked()
        options, program = task.request.options, work_of_program(task.graph)
        chosen = plans_to_execute(plans, task.objectives, options.verify)
        budget = ExecutionBudget(options, deadline)
        timer = ExecutionTimer(slowdown=slowdown) if chosen else None
        for number, plan in enumerate(chosen, start=1):
            if timer is None or known[plan.id]["values"]["executed"]:
                continue
            work = program.with_other(work_of_plan(plan))
            if not budget.allows(seconds := timer.seconds(work)):
                return
            self._announce(number, len(chosen), seconds)
            began_s = time.perf_counter()
            try:
                limit_s = LONGEST_S if deadline is None else min(LONGEST_S, deadline.left_s)
                record = execute(self._execution_request(plan), self._held, limit_s).record
            except Cancelled:
                return
            except ExecutionRefused as error:
                log.warning("run %s: plan %s is only counted: %s", self._run_id, plan.id, error)
            else:
                self._keep(plan.id, record.verified, record)
            took_s = time.perf_counter() - began_s
            timer.note(work, took_s)
            budget.spend(took_s)

    def _announce(self, number: int, count: int, seconds: float) -> None:
        """Report that a plan is executed, which takes about so long."""
        doing = {"number": number, "count": count, "seconds": round(seconds, 1)}
        self._jobs.executing(self._held.job, datetime.now(UTC), self._held.lease_s, doing)

    def _suspect(self) -> None:
        """Record for every plan which of its rules are suspected, if an executed plan computed other values."""
        verified = self._checked()
        if any(map(is_refuted, verified.values())):
            histories = {plan.id: plan.moves for plan in self._plans}
            for plan_id, verdict in with_suspects(histories, verified).items():
                self._keep(plan_id, verdict, None)

    def _execution_request(self, plan: Plan) -> ExecutionRequest:
        task = self._task
        return ExecutionRequest(
            plan, task.graph, task.mesh, task.request.options.compute_dtype, True, task.request.options.seed
        )

    def _keep(self, plan_id: str, verified: Mapping[str, Any], execution: NewExecution | None) -> None:
        """Store the check results of a plan; then return the run to the queue if the worker is to end."""
        self._held.check()
        now = datetime.now(UTC)
        self._jobs.verified(self._held.job, now, self._held.lease_s, plan_id, verified, execution)
        if self._held.is_draining:
            raise Drained
