"""An execution's job: a stored plan runs on the device simulator, in a process of its own."""

from __future__ import annotations

from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass
from datetime import UTC, datetime

from hardware import Mesh
from optimizer import Plan
from service.checking import execute_plan, fits_in_memory, reference_values
from service.store import Execution, Store, mesh_of
from service.worker.heart import Drained, Held
from teg.graph import Graph

POLL_S = 0.25


class Refused(ValueError):
    """The execution cannot be done here; the message says why and what to do."""


@dataclass(frozen=True)
class Order:
    """What is to be executed: a plan of a program on a machine, with seeded values or counting alone."""

    plan: Plan
    graph: Graph
    mesh: Mesh
    compute_dtype: str | None
    values: bool
    seed: int


def carry_out(order: Order) -> Execution:
    """Run the plan and compare; a pure function, for a process of its own."""
    inputs = reference = None
    if order.values:
        inputs, reference = reference_values(order.graph, order.seed)
    record, _ = execute_plan(
        order.plan, order.mesh, order.seed, inputs, reference, order.compute_dtype, trace=True
    )
    return record


def do_execution(store: Store, held: Held, pool: Executor) -> None:
    """Execute the plan that the job names and keep what came out.

    Raises:
        Drained: the worker must end; another will execute.
        LeaseLost: another does already.
        Refused: it does not fit into this machine's memory.
    """
    execution = store.executions.get(held.job.subject)
    plan = store.plans.load(execution.plan_key)
    request = store.runs.request(execution.run_id)
    if execution.values and not fits_in_memory([plan]):
        raise Refused(
            f"the plan's devices hold {plan.cost['total_memory_bytes']:,} B in all, more than half of this "
            'machine\'s memory; count without values instead ("values": false)'
        )
    order = Order(
        plan,
        store.graphs.load(request.graph_id),
        mesh_of(request.mesh),
        request.compute_dtype,
        execution.values,
        execution.seed or 0,
    )
    future = pool.submit(carry_out, order)
    try:
        record = _wait(future, held)
    finally:
        future.cancel()
    store.jobs.end_execution(held.job, datetime.now(UTC), "finished", execution=record)


def _wait(future: Future[Execution], held: Held) -> Execution:
    while not wait([future], timeout=POLL_S).done:
        held.check()
        if held.is_draining:
            raise Drained
    return future.result()
