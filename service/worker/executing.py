"""Executions on the device simulator: requested ones in the process of their job, those of a run's checks beside it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from tapestry.hardware import Mesh
from tapestry.optimizer import Plan, ProcessIslands
from tapestry.optimizer.analysis.affordability import fits_in_memory
from tapestry.service.checking import execute_plan, given_values, reference_values
from tapestry.service.store import (
    ComputedTensors,
    NewExecution,
    Store,
    StoredExecution,
    TenantStore,
    TensorPlace,
    TensorRequest,
    TensorValue,
    UnknownId,
    mesh_of,
)
from tapestry.service.tensor_moves import HeldTensor, moves_to, places_of, with_moves
from tapestry.service.verdicts import is_refuted, with_suspects
from tapestry.service.worker.heartbeat import ClaimedJob, Drained
from tapestry.teg.arrays import is_installed
from tapestry.teg.graph import Graph
from tapestry.teg.interface import unpack_outputs

POLL_S = 0.25
LONGEST_S = 600.0
EXECUTION_MEMORY = 0.25  # of the machine's
SIMULATED_MEMORY = 0.2  # of the machine's, for the memories of all simulated devices


class ExecutionRefused(ValueError):
    """Error raised when the execution cannot be done here; the message contains the reason and the remedy."""


class Cancelled(Exception):
    """Error raised when the user has cancelled the job."""


@dataclass(frozen=True)
class ExecutionRequest:
    """A requested execution: a plan of a program on a mesh, with seeded or given values, or counting alone.

    `given` are values by input, in the program's shapes; `named` are those of them that are stored tensors.
    """

    plan: Plan
    graph: Graph
    mesh: Mesh
    compute_dtype: str | None
    values: bool
    seed: int | None
    backend: str = "numpy"
    tensors: TensorRequest = field(default_factory=TensorRequest)
    given: Mapping[str, TensorValue] = field(default_factory=dict)
    named: Mapping[str, HeldTensor] = field(default_factory=dict)


class Executed(NamedTuple):
    """The record of an execution, and its tensors that stay."""

    record: NewExecution
    computed: ComputedTensors


def run_execution(request: ExecutionRequest) -> Executed:
    """Run the plan and compare with the reference; a pure function, for a process of its own.

    Raises:
        ExecutionRefused: stored tensors are wanted of a plan that has no places for them.
    """
    try:
        moves = moves_to(request.plan, request.mesh, request.graph, request.named)
        places = places_of(request.plan, request.mesh, request.tensors.save)
    except ValueError as error:
        raise ExecutionRefused(str(error)) from error
    inputs = reference = None
    if request.values and request.tensors.is_seeded:
        inputs, reference = reference_values(request.graph, request.seed or 0)
    elif request.values:
        arrays = {name: value.array for name, value in request.given.items()}
        inputs, reference = given_values(request.graph, arrays)
    seed = request.seed if request.tensors.is_seeded else None
    record, run = execute_plan(
        request.plan,
        request.mesh,
        seed,
        inputs,
        reference,
        request.compute_dtype,
        trace=True,
        backend=request.backend,
    )
    if moves:
        record = replace(record, counts=with_moves(record.counts, moves))
    return Executed(record, _computed(request, run.outputs, places))


def _computed(
    request: ExecutionRequest, found: Mapping[str, np.ndarray], places: Mapping[str, TensorPlace]
) -> ComputedTensors:
    """Return the outputs that the request keeps with the execution or stores under a name."""
    requested, graph = request.tensors, request.plan.graph
    outputs = {
        site: TensorValue.of(array)
        for site, array in unpack_outputs(graph, found).items()
        if requested.outputs or site in requested.save
    }
    return ComputedTensors(
        outputs if requested.outputs else {},
        {name: outputs[site] for site, name in requested.save.items()},
        {name: places[site] for site, name in requested.save.items()},
    )


def execute(request: ExecutionRequest, held: ClaimedJob, limit_s: float = LONGEST_S) -> Executed:
    """Execute a request in a process of its own, which ends early if the result is no longer wanted.

    Raises:
        Drained, LeaseLost, Cancelled: the worker must end, another has the job, or its user cancelled it.
        Refused: it does not fit into this machine's memory, or takes too long.
    """
    check_executable(request)
    process = ProcessIslands(1)
    try:
        return _wait(process.submit(run_execution, request), held, limit_s)
    except (BrokenProcessPool, MemoryError):
        message = (
            "executing the plan ended its process, perhaps for want of memory; count without values instead"
        )
        raise ExecutionRefused(message) from None
    finally:
        process.abandon()


def check_executable(request: ExecutionRequest) -> None:
    """Check that a request fits into this machine's memory, and that its backend is installed.

    Raises:
        ExecutionRefused: it does not, or it is not.
    """
    if request.values and not fits_in_memory([request.plan], SIMULATED_MEMORY):
        raise ExecutionRefused(
            f"the plan's devices hold {request.plan.cost['total_memory_bytes']:,} B in all, more than a fifth of this "
            'machine\'s memory; count without values instead ("values": false)'
        )
    if not is_installed(request.backend):
        raise ExecutionRefused(
            f"this worker has no {request.backend}: run `pip install 'tapestry[{request.backend}]'` on its machine, or "
            'compute with numpy ("backend": "numpy")'
        )


def do_execution(store: Store, held: ClaimedJob) -> None:
    """Execute the plan that the job names, in this process, and store the results.

    Raises:
        ExecutionRefused: it does not fit into this machine's memory, or a stored tensor is gone.
    """
    mine = store.of(held.job.tenant)
    execution = mine.executions.get(held.job.subject)
    run = mine.runs.request(execution.run_id)
    given, named = _values(mine, execution)
    request = ExecutionRequest(
        mine.plans.load(execution.plan_key),
        mine.graphs.load(run.graph_id),
        mesh_of(run.mesh),
        run.options.compute_dtype,
        execution.values,
        execution.seed,
        execution.backend,
        execution.request,
        given,
        named,
    )
    check_executable(request)
    record, computed = run_execution(request)
    verified = _marks(mine, execution, record) if is_refuted(record.verified) else None
    store.jobs.end_execution(
        held.job, datetime.now(UTC), "finished", execution=record, verified=verified, computed=computed
    )


def _values(
    store: TenantStore, execution: StoredExecution
) -> tuple[dict[str, TensorValue], dict[str, HeldTensor]]:
    """Return the given values of an execution by input, and those of them that are stored tensors now."""
    given = store.executions.tensors(execution.id, "input")
    named: dict[str, HeldTensor] = {}
    for site, name in execution.request.tensors.items():
        try:
            tensor, given[site] = store.tensors.load(name)
            named[site] = HeldTensor(name, tensor.place, tensor.load)
        except UnknownId as error:
            raise ExecutionRefused(f"input {site!r}: {error}; it was dropped after the request") from error
    return given, named


def _marks(
    store: TenantStore, execution: StoredExecution, record: NewExecution
) -> dict[int, Mapping[str, Any]]:
    """Collect the check results, by key, of the refuted plan and of those of its run that share suspects with it."""
    shown = {plan.id: plan for plan in store.runs.frontier(execution.run_id)}
    keys = {plan.id: plan.key for plan in shown.values()} | {execution.plan_id: execution.plan_key}
    plans = store.plans.load_all(list(keys.values()))
    histories = {plan_id: plan.moves for plan_id, plan in zip(keys, plans, strict=True)}
    known = {plan.id: plan.verified for plan in shown.values() if plan.verified is not None}
    refuted = {execution.plan_id: record.verified}
    marks = refuted | with_suspects(histories, known | refuted)
    return {keys[plan_id]: verdict for plan_id, verdict in marks.items()}


def _wait(future: Future[Executed], held: ClaimedJob, limit_s: float) -> Executed:
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
