"""Checks of a frontier within a time: all plans are proven and counted, representative ones executed with numbers."""

from __future__ import annotations

import base64
import gzip
import json
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from typing import Any

from tapestry.costmodel.objective import Objective
from tapestry.hardware import Mesh
from tapestry.optimizer import Plan, Result, RunOptions
from tapestry.optimizer.analysis.affordability import (
    ExecutionTimer,
    execution_seconds,
    fits_in_memory,
    work_of_plan,
    work_of_program,
)
from tapestry.optimizer.analysis.frontier_verification import (
    FrontierVerifier,
    Helpers,
    TimedVerifier,
    by_importance,
)
from tapestry.optimizer.archive.representatives import representative_plans
from tapestry.optimizer.run.clock import Deadline, Now, OutOfTime
from tapestry.service.checking import CheckResults, execute_plan, reference_values
from tapestry.service.store.codec import LARGEST_DATA_BYTES, graph_values, plan_values
from tapestry.service.store.records import NewExecution
from tapestry.service.verdicts import with_suspects
from tapestry.teg.graph import Graph

EXECUTED = 3  # plans that `auto` executes
SAMPLE, STEPS_OF_STORING = 2**16, 3  # elements of data that are compressed to see how long it takes
AHEAD = 2  # plans that a helping process has before it
# What is kept of a deadline for storing and reporting: a share of all of it, and at least so many seconds.
STORING_SHARE, LEAST_STORING_S = 0.05, 0.5


def checking_deadline(
    deadline: Deadline | None, options: RunOptions, storing_s: float = 0.0
) -> Deadline | None:
    """Return the deadline of the checks, which leaves time for storing what they found, `storing_s` at least."""
    if deadline is None or options.deadline_seconds is None:
        return deadline
    return replace(deadline, at_s=deadline.at_s - max(_least_storing_s(options), storing_s))


def _least_storing_s(options: RunOptions) -> float:
    """Return the seconds that are kept for storing and reporting, however little is to be stored."""
    return max(LEAST_STORING_S, STORING_SHARE * (options.deadline_seconds or 0.0))


def count_plan(plan: Plan, verifier: FrontierVerifier) -> dict[str, Any]:
    """Verify one plan with a dry run: sharding proven, memory and traffic counted."""
    return verifier.verify(plan).to_json()


def plans_to_execute(
    frontier: Sequence[Plan], objectives: Sequence[Objective], mode: str
) -> tuple[Plan, ...]:
    """Return the plans to run with numbers, in order: all, none, or the representative ones if they fit in memory."""
    if mode in ("none", "dry") or not frontier:
        return ()
    ordered = by_importance(frontier, objectives)
    if mode == "execute":
        return ordered
    chosen = ordered[: len({plan.id for plan in representative_plans(frontier, objectives).values()})]
    return chosen if fits_in_memory(chosen) else ()


class ExecutionBudget:
    """The seconds for executions: in `auto` those of the option, and never more than the deadline leaves."""

    def __init__(self, options: RunOptions, deadline: Deadline | None) -> None:
        self._deadline = deadline
        self._limit_s = options.execution_seconds if options.verify == "auto" else math.inf
        self._spent_s = 0.0

    def allows(self, seconds: float) -> bool:
        """Return whether there is time for an execution that takes about so long."""
        is_in_time = self._deadline is None or seconds <= self._deadline.left_s
        return is_in_time and self._spent_s + seconds <= self._limit_s

    def spend(self, seconds: float) -> None:
        """Note the seconds of an execution."""
        self._spent_s += seconds

    def check_stop(self) -> None:
        """Check that the deadline has not passed.

        Raises:
            OutOfTime: it has.
        """
        if self._deadline is not None and self._deadline.left_s <= 0:
            raise OutOfTime


def check_frontier(
    result: Result,
    options: RunOptions,
    *,
    executor: Executor | None = None,
    deadline: Deadline | None = None,
    verifier: TimedVerifier | None = None,
    on_plan: Callable[[int, int], None] = lambda done, total: None,
    on_execution: Callable[[int, int, float], None] = lambda number, total, seconds: None,
    now: Now = time.perf_counter,
) -> CheckResults:
    """Check the plans of a frontier, the most important ones first: all are counted, then some are executed.

    Processes of the executor are used if the search has had them at work: others would have to start first. `verifier`
    is that of the `CheckTimer` of the search, which knows some of the plans' parts.

    `on_plan(done, total)` is called for each plan that was counted, `on_execution(number, total, seconds)` before each
    execution, with the seconds that it will take. Past the deadline, and after Ctrl-C, plans are left unchecked.
    """
    checked = CheckResults()
    if options.verify == "none":
        return checked
    total = len(result.frontier)
    on_plan(0, total)
    try:
        ordered = by_importance(result.frontier, result.objectives)
        pool = (executor if result.history else None, result.islands)
        verifier = verifier or TimedVerifier(result.mesh, result.compute_dtype)
        for plan, verified in count_plans(ordered, verifier, *pool, deadline):
            checked.verified[plan.id] = verified
            on_plan(len(checked.verified), total)
        counted = [plan for plan in result.frontier if plan.id in checked.verified]
        budget = ExecutionBudget(options, deadline)
        timer = ExecutionTimer(now, verifier.slowdown)
        for plan, record in _executions(result, counted, options, budget, timer, on_execution, now):
            checked.verified[plan.id] = record.verified
            checked.executions[plan.id] = record
    except KeyboardInterrupt:
        checked.is_interrupted = True
    histories = {plan.id: plan.moves for plan in result.frontier}
    checked.verified |= with_suspects(histories, checked.verified)
    return checked


def _executions(
    result: Result,
    counted: Sequence[Plan],
    options: RunOptions,
    budget: ExecutionBudget,
    timer: ExecutionTimer,
    on_execution: Callable[[int, int, float], None],
    now: Now,
) -> Iterator[tuple[Plan, NewExecution]]:
    """Yield the plans that are executed while the budget lasts, each with its record."""
    chosen = plans_to_execute(counted, result.objectives, options.verify)
    if not chosen:
        return
    program = work_of_program(result.graph)
    seconds = timer.seconds(program)
    if not budget.allows(seconds + timer.seconds(work_of_plan(chosen[0]))):
        return
    on_execution(0, len(chosen), seconds)
    began_s = now()
    inputs, reference = reference_values(result.graph, result.seed)
    took_s = now() - began_s
    timer.note(program, took_s)
    budget.spend(took_s)
    for number, plan in enumerate(chosen, start=1):
        seconds = timer.seconds(work_of_plan(plan))
        if not budget.allows(seconds):
            return
        on_execution(number, len(chosen), seconds)
        began_s = now()
        try:
            record, _ = execute_plan(
                *(plan, result.mesh, result.seed, inputs, reference, result.compute_dtype),
                check_stop=budget.check_stop,
            )
        except OutOfTime:
            return
        took_s = now() - began_s
        timer.note(work_of_plan(plan), took_s)
        budget.spend(took_s)
        yield plan, record


class CheckTimer:
    """Estimates of the seconds that the checks of a frontier take, from plans that are checked to find out.

    Its verifier then checks the frontier: it knows what these plans have in common with it. Where the run is stored
    afterwards (`is_stored`), `storing_s` are the seconds that this takes.
    """

    def __init__(
        self,
        graph: Graph,
        mesh: Mesh,
        options: RunOptions,
        processes: int,
        now: Now = time.perf_counter,
        processor_now: Now = time.process_time,
        is_stored: bool = False,
    ) -> None:
        self.verifier, self.storing_s = TimedVerifier(mesh, options.compute_dtype, now, processor_now), 0.0
        self._is_stored = is_stored and options.deadline_seconds is not None
        if self._is_stored:
            self.storing_s = storing_seconds(graph, now)
        self._kept_s = max(_least_storing_s(options), self.storing_s)
        self._graph, self._options, self._processes, self._now = graph, options, processes, now
        self._execution_s: float | None = None

    def __call__(self, plans: Sequence[Plan], count: int) -> float:
        """Check these plans dry, and return the seconds for a frontier of `count` plans.

        They include those of storing it, as far as `checking_deadline` does not keep them for the program anyway.
        """
        if self._is_stored and plans:
            self.storing_s += count * plan_storing_seconds(plans[-1], self._now)
            self._is_stored = False
        storing_s = max(0.0, self.storing_s - self._kept_s)
        if self._options.verify == "none" or not plans:
            return storing_s
        for plan in plans:
            self.verifier.verify(plan)
        if self._execution_s is None:
            self._execution_s = 0.0 if self._options.verify == "dry" else self._executions(plans[0])
        return storing_s + self.verifier.frontier_s(count, self._processes) + self._execution_s

    def _executions(self, plan: Plan) -> float:
        """Estimate the seconds of the executions, all plans like this one; 0 where none is affordable."""
        timer = ExecutionTimer(self._now, self.verifier.slowdown)
        most_s = self._options.execution_seconds
        if execution_seconds(timer, self._graph, [plan]) > most_s:
            return 0.0
        return min(execution_seconds(timer, self._graph, [plan] * EXECUTED), most_s)


def storing_seconds(graph: Graph, now: Now) -> float:
    """Estimate the seconds of storing a program: it is written without its data, of which a sample is compressed."""
    began_s = now()
    graph_values(replace(graph, data={}))
    took_s = now() - began_s
    bytes_ = sum(array.nbytes for array in graph.data.values())
    if 0 < bytes_ <= LARGEST_DATA_BYTES:
        sample = max(graph.data.values(), key=lambda array: array.nbytes).reshape(-1)[:SAMPLE]
        began_s = now()
        gzip.compress(base64.b64encode(sample.tobytes()), 6)
        took_s += (now() - began_s) * bytes_ / sample.nbytes
    return took_s


def plan_storing_seconds(plan: Plan, now: Now) -> float:
    """Estimate the seconds of storing and printing a plan: it is converted, sent to the database, and printed."""
    began_s = now()
    json.dumps(plan_values("", plan))
    return STEPS_OF_STORING * (now() - began_s)


def count_plans(
    plans: Sequence[Plan],
    verifier: TimedVerifier,
    executor: Executor | None,
    processes: int = 1,
    deadline: Deadline | None = None,
) -> Iterator[tuple[Plan, Mapping[str, Any]]]:
    """Yield plans with the results of their dry verification, about in this order, until the deadline passes.

    Processes of the executor help; a plan whose result has not come when nothing else is left is verified here. None is
    begun here that would end after the deadline, by what the last ones took.
    """
    waiting = deque(plans)
    helping: deque[tuple[Plan, Future[dict[str, Any]]]] = deque()
    helpers = None if executor is None else Helpers(executor, verifier.mesh, verifier.compute_dtype)
    try:
        while (waiting or helping) and (deadline is None or deadline.left_s > verifier.next_s):
            while helpers is not None and len(waiting) > 1 and len(helping) < AHEAD * processes:
                plan = waiting.popleft()
                helping.append((plan, helpers.verify(plan)))
            done = [pair for pair in helping if pair[1].done()]
            for pair in done:
                helping.remove(pair)
                yield pair[0], pair[1].result()
            if waiting or (helping and not done):
                plan = waiting.popleft() if waiting else helping.popleft()[0]
                yield plan, count_plan(plan, verifier)
    finally:
        for _, future in helping:
            future.cancel()
