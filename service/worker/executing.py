"""Executions on the device simulator: each in a process of its own, so that the worker stays responsive."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tapestry.hardware import Mesh
from tapestry.optimizer import Plan, ProcessIslands
from tapestry.optimizer.analysis.affordability import fits_in_memory
from tapestry.service.checking import execute_plan, reference_values
from tapestry.service.store import NewExecution, Store, StoredExecution, mesh_of
from tapestry.service.verdicts import is_refuted, with_suspects
from tapestry.service.worker.heartbeat import ClaimedJob, Drained
from tapestry.teg.arrays import is_installed
from tapestry.teg.graph import Graph

POLL_S = 0.25
LONGEST_S = 600.0


class ExecutionRefused(ValueError):
    """Error raised when the execution cannot be done here; the message contains the reason and the remedy."""


class Cancelled(Exception):
    """Error raised when the user has cancelled the job."""


@dataclass(frozen=True)
class ExecutionRequest:
    """A requested execution: a plan of a program on a mesh, with seeded values or counting alone."""

    plan: Plan
    graph: Graph
    mesh: Mesh
    compute_dtype: str | None
    values: bool
    seed: int
    backend: str = "numpy"


def run_execution(request: ExecutionRequest) -> NewExecution:
    """Run the plan and compare with the reference; a pure function, for a process of its own."""
    inputs = reference = None
    if request.values:
        inputs, reference = reference_values(request.graph, request.seed)
    record, _ = execute_plan(
        request.plan,
        request.mesh,
        request.seed,
        inputs,
        reference,
        request.compute_dtype,
        trace=True,
        backend=request.backend,
    )
    return record


def execute(request: ExecutionRequest, held: ClaimedJob, limit_s: float = LONGEST_S) -> NewExecution:
    """Execute a request in a process of its own, which ends early if the result is no longer wanted.

    Raises:
        Drained, LeaseLost, Cancelled: the worker must end, another has the job, or its user cancelled it.
        Refused: it does not fit into this machine's memory, or takes too long.
    """
    if request.values and not fits_in_memory([request.plan]):
        raise ExecutionRefused(
            f"the plan's devices hold {request.plan.cost['total_memory_bytes']:,} B in all, more than half of this "
            'machine\'s memory; count without values instead ("values": false)'
        )
    if not is_installed(request.backend):
        raise ExecutionRefused(
            f"this worker has no {request.backend}: run `pip install 'tapestry[{request.backend}]'` on its machine, or "
            'compute with numpy ("backend": "numpy")'
        )
    process = ProcessIslands(1)
    try:
        return _wait(process.submit(run_execution, request), held, limit_s)
    except BrokenProcessPool:
        message = (
            "executing the plan ended its process, perhaps for want of memory; count without values instead"
        )
        raise ExecutionRefused(message) from None
    finally:
        process.abandon()


def do_execution(store: Store, held: ClaimedJob) -> None:
    """Execute the plan that the job names and store the results; raises as `execute`."""
    execution = store.executions.get(held.job.subject)
    run = store.runs.request(execution.run_id)
    request = ExecutionRequest(
        store.plans.load(execution.plan_key),
        store.graphs.load(run.graph_id),
        mesh_of(run.mesh),
        run.options.compute_dtype,
        execution.values,
        execution.seed or 0,
        execution.backend,
    )
    record = execute(request, held)
    verified = _marks(store, execution, record) if is_refuted(record.verified) else None
    store.jobs.end_execution(held.job, datetime.now(UTC), "finished", execution=record, verified=verified)


def _marks(store: Store, execution: StoredExecution, record: NewExecution) -> dict[int, Mapping[str, Any]]:
    """Collect the check results, by key, of the refuted plan and of those of its run that share suspects with it."""
    shown = {plan.id: plan for plan in store.runs.frontier(execution.run_id)}
    keys = {plan.id: plan.key for plan in shown.values()} | {execution.plan_id: execution.plan_key}
    plans = store.plans.load_all(list(keys.values()))
    histories = {plan_id: plan.moves for plan_id, plan in zip(keys, plans, strict=True)}
    known = {plan.id: plan.verified for plan in shown.values() if plan.verified is not None}
    refuted = {execution.plan_id: record.verified}
    marks = refuted | with_suspects(histories, known | refuted)
    return {keys[plan_id]: verdict for plan_id, verdict in marks.items()}


def _wait(future: Future[NewExecution], held: ClaimedJob, limit_s: float) -> NewExecution:
    until = time.monotonic() + limit_s
    while not wait([future], timeout=POLL_S).done:
        held.check()
        if held.is_draining:
            raise Drained
        if held.is_cancelled:
            raise Cancelled
        if time.monotonic() > until:
            raise ExecutionRefused(
                f"executing the plan took more than {limit_s:.3g} s; count without values instead"
            )
    return future.result()
