"""Executions in the store: plans that have run, run or will run on the device simulator."""

from __future__ import annotations

import gzip
import json
import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, LargeBinary, Row, insert, select, type_coerce

from tapestry.service.scheduling import EXECUTION_S
from tapestry.service.store.queue import QueueLimits, submit
from tapestry.service.store.records import Idempotency, NewExecution, StoredExecution, Submitted
from tapestry.service.store.sessions import Database, UnknownId
from tapestry.service.store.tables import ExecutionRow, PlanRow, RunRow
from tapestry.service.store.tensor_values import TensorRequest, TensorValue
from tapestry.service.store.tensors import TensorKind, put_values, values_of

# The backend of an execution that counts without computing values.
DRY = "dry"
_SUMMARY = (
    ExecutionRow.id,
    ExecutionRow.plan_key,
    PlanRow.plan_id,
    PlanRow.run_id,
    ExecutionRow.status,
    ExecutionRow.backend,
    ExecutionRow.with_values.label("values"),
    ExecutionRow.seed,
    ExecutionRow.counts,
    ExecutionRow.verified,
    ExecutionRow.problem,
    ExecutionRow.trace.is_not(None).label("has_trace"),
    ExecutionRow.request,
    ExecutionRow.created_at,
    ExecutionRow.ended_at,
)


class Executions:
    """Runs of plans on the device simulator."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def submit(
        self,
        plan_key: int,
        *,
        backend: str,
        values: bool,
        seed: int | None,
        created_at: datetime,
        request: TensorRequest | None = None,
        given: Mapping[str, TensorValue] | None = None,
        queue_limits: QueueLimits | None = None,
        idempotency: Idempotency | None = None,
    ) -> Submitted:
        """Queue an execution; raises as `Runs.submit`. `given` are the values of inputs that `request` names."""
        execution_id = secrets.token_hex(6)
        row = {
            "id": execution_id,
            "plan_key": plan_key,
            "status": "queued",
            "backend": backend,
            "with_values": values,
            "seed": seed,
            "counts": None,
            "verified": None,
            "problem": None,
            "trace": None,
            "request": None if request is None else request.to_json(),
            "created_at": created_at,
            "ended_at": None,
        }
        with self._database.writing() as connection:

            def write() -> None:
                _keep_run(connection, plan_key)
                _put(connection, row)
                put_values(connection, execution_id, "input", given or {})

            return submit(
                connection,
                "execution",
                execution_id,
                created_at,
                write,
                expected_s=EXECUTION_S,
                queue_limits=queue_limits,
                idempotency=idempotency,
            )

    def save(self, plan_key: int, execution: NewExecution) -> str:
        """Store the results of an execution of a stored plan; return its id."""
        row = ended_values(plan_key, execution)
        with self._database.writing() as connection:
            _put(connection, row)
        return str(row["id"])

    def get(self, execution_id: str) -> StoredExecution:
        """Return an execution with its status."""
        query = select(*_SUMMARY).join(PlanRow, PlanRow.key == ExecutionRow.plan_key)
        with self._database.reading() as connection:
            row = connection.execute(query.where(ExecutionRow.id == execution_id)).one_or_none()
        if row is None:
            raise UnknownId(f"there is no execution {execution_id!r}")
        return _execution(row)

    def of_plan(self, plan_key: int) -> tuple[StoredExecution, ...]:
        """Return the executions of a plan, oldest first."""
        query = select(*_SUMMARY).join(PlanRow, PlanRow.key == ExecutionRow.plan_key)
        query = query.where(ExecutionRow.plan_key == plan_key)
        with self._database.reading() as connection:
            rows = connection.execute(query.order_by(ExecutionRow.created_at, ExecutionRow.id))
            return tuple(_execution(row) for row in rows)

    def tensors(self, execution_id: str, kind: TensorKind) -> dict[str, TensorValue]:
        """Return the tensors that an execution was given, or the outputs that it kept, by name."""
        with self._database.reading() as connection:
            return values_of(connection, execution_id, kind)

    def trace(self, execution_id: str) -> dict[str, Any] | None:
        """Return the timeline of events on each device, in Perfetto's format; None if it was not stored."""
        content = self.packed_trace(execution_id)
        return None if content is None else dict(json.loads(gzip.decompress(content)))

    def packed_trace(self, execution_id: str) -> bytes | None:
        """Return the trace as gzipped JSON, as it is stored; None if it was not."""
        trace = type_coerce(ExecutionRow.trace, LargeBinary).label("trace")
        with self._database.reading() as connection:
            row = connection.execute(select(trace).where(ExecutionRow.id == execution_id)).one_or_none()
        if row is None:
            raise UnknownId(f"there is no execution {execution_id!r}")
        return None if row.trace is None else bytes(row.trace)


def _keep_run(connection: Connection, plan_key: int) -> None:
    """Keep the run of a plan from being deleted until this transaction has ended.

    Who deletes a run locks its row and looks for executions that have not ended; without this an execution that is
    being queued would be deleted with its plan, and its lease would stay.

    Raises:
        UnknownId: the run has been deleted, and its plans with it.
    """
    run = select(RunRow.id).join(PlanRow, PlanRow.run_id == RunRow.id).where(PlanRow.key == plan_key)
    if connection.scalar(run.with_for_update(read=True, of=RunRow)) is None:
        raise UnknownId(f"there is no plan with key {plan_key}; its run may have been deleted")


def _put(connection: Connection, row: Mapping[str, Any]) -> None:
    key = row["plan_key"]
    if connection.scalar(select(PlanRow.key).where(PlanRow.key == key)) is None:
        raise UnknownId(f"there is no plan with key {key}")
    connection.execute(insert(ExecutionRow).values(row))


def ended_values(plan_key: int, execution: NewExecution) -> dict[str, Any]:
    """Build the row of an execution that has ended."""
    return {
        "id": secrets.token_hex(6),
        "plan_key": plan_key,
        "status": "succeeded",
        **outcome_values(execution),
        "request": None if execution.request is None else execution.request.to_json(),
        "created_at": execution.created_at,
        "ended_at": execution.created_at,
    }


def outcome_values(execution: NewExecution) -> dict[str, Any]:
    """Build the columns of an execution's row that hold its results."""
    return {
        "backend": execution.backend,
        "with_values": execution.backend != DRY,
        "seed": execution.seed,
        "counts": dict(execution.counts),
        "verified": dict(execution.verified),
        "trace": None if execution.trace is None else dict(execution.trace),
    }


def _execution(row: Row[Any]) -> StoredExecution:
    request = TensorRequest.from_json(row.request)
    return StoredExecution(**{**row._mapping, "has_trace": bool(row.has_trace), "request": request})
