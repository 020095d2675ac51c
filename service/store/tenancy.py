"""Tenants of a store: the rows that a transaction reads and writes are chosen here, once for all statements.

A transaction of a tenant sees the tables as if only its own rows were there, whatever is queried, and what it inserts
is its own. So a new query cannot forget it. Rows that belong to a run, a graph or a batch are visible with that. Where
something must be counted for all tenants, the statement names the table itself (`LeaseRow.__table__`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Delete, Engine, Insert, Select, Update, and_, event, exists
from sqlalchemy.orm import with_loader_criteria
from sqlalchemy.orm.util import LoaderCriteriaOption

from tapestry.service.store.database import StoreError
from tapestry.service.store.tables import (
    ApiKeyRow,
    ArtifactRow,
    AuditRow,
    Base,
    BatchEntryRow,
    BatchRow,
    CheckpointRow,
    EpochRow,
    EpochVariantRow,
    EventRow,
    ExecutionRow,
    ExecutionTensorRow,
    GraphRow,
    HistoryRow,
    IdempotencyRow,
    ImportPartRow,
    ImportRow,
    LeaseRow,
    MeasurementRow,
    PlanRow,
    RateRow,
    RewriteRow,
    RuleRow,
    RunNotesRow,
    RunRow,
    RunTagRow,
    SessionRow,
    SnapshotRow,
    TallyRow,
    TenantRow,
    TensorRow,
    UploadRow,
    UsageRow,
    WorkerRow,
)

DEFAULT = "default"  # of keys without another one, of a service without keys, and of the command line
FORM = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
OPTION = "tenant"

# Tables whose rows name their tenant, and tables with rows of all: those of the operator, and of workers.
NAMED: tuple[type[Base], ...] = (
    GraphRow,
    UploadRow,
    RunRow,
    BatchRow,
    TensorRow,
    SnapshotRow,
    RateRow,
    ImportRow,
    LeaseRow,
    IdempotencyRow,
)
SHARED: tuple[type[Base], ...] = (ApiKeyRow, AuditRow, SessionRow, TallyRow, TenantRow, UsageRow, WorkerRow)

_RUN, _GRAPH, _BATCH = (
    table.__table__.alias(f"own_{table.__tablename__}") for table in (RunRow, GraphRow, BatchRow)
)
_PLAN, _EXECUTION, _IMPORT = (
    table.__table__.alias(f"own_{table.__tablename__}") for table in (PlanRow, ExecutionRow, ImportRow)
)


def checked_tenant(name: str) -> str:
    """Return a tenant's name.

    Raises:
        StoreError: it is none.
    """
    if not FORM.fullmatch(name):
        raise StoreError(
            f"a tenant's name has 1 to 32 characters, each a-z, 0-9, - or _, and begins with none of these two; "
            f"{name[:80]!r} is none"
        )
    return name


def tenant_of(connection: Connection) -> str:
    """Return the tenant of a transaction."""
    tenant = connection.get_execution_options().get(OPTION)
    assert isinstance(tenant, str), "this transaction belongs to no tenant"
    return tenant


def confine(engine: Engine) -> None:
    """Confine the transactions of an engine that have a tenant to the rows of that."""
    event.listen(engine, "before_execute", _confined, retval=True)


def _confined(
    connection: Connection, statement: Any, many: Any, parameters: Any, options: Mapping[str, Any]
) -> tuple[Any, Any, Any]:
    tenant = connection.get_execution_options().get(OPTION)
    if tenant is not None and isinstance(statement, Select | Update | Delete):
        statement = statement.options(*_criteria(tenant))
    elif tenant is not None and isinstance(statement, Insert) and OPTION in statement.table.columns:
        statement = statement.values(tenant=tenant)
    return statement, many, parameters


@lru_cache(maxsize=1000)
def _criteria(tenant: str) -> tuple[LoaderCriteriaOption, ...]:
    """Return for every table the condition that a row belongs to a tenant."""
    of_table: dict[type[Base], ColumnElement[bool]] = {table: table.tenant == tenant for table in NAMED}  # type: ignore[attr-defined]
    of_runs = (PlanRow, RuleRow, HistoryRow, EventRow, CheckpointRow, EpochRow, EpochVariantRow)
    for table in (*of_runs, RunTagRow, RunNotesRow):
        of_table[table] = _within(table, _RUN.c.id == table.run_id, _RUN.c.tenant == tenant)
    of_table[BatchEntryRow] = _within(
        BatchEntryRow, _BATCH.c.id == BatchEntryRow.batch_id, _BATCH.c.tenant == tenant
    )
    of_table[RewriteRow] = _within(RewriteRow, _GRAPH.c.id == RewriteRow.graph_id, _GRAPH.c.tenant == tenant)
    of_table[ImportPartRow] = _within(
        ImportPartRow, _IMPORT.c.id == ImportPartRow.import_id, _IMPORT.c.tenant == tenant
    )
    of_run = and_(_PLAN.c.run_id == _RUN.c.id, _RUN.c.tenant == tenant)
    for of_plan in (ExecutionRow, MeasurementRow, ArtifactRow):
        of_table[of_plan] = _within(of_plan, _PLAN.c.key == of_plan.plan_key, of_run)
    of_table[ExecutionTensorRow] = _within(
        ExecutionTensorRow,
        _EXECUTION.c.id == ExecutionTensorRow.execution_id,
        _PLAN.c.key == _EXECUTION.c.plan_key,
        of_run,
    )
    assert {*of_table, *SHARED} == {mapper.class_ for mapper in Base.registry.mappers}
    return tuple(with_loader_criteria(table, condition) for table, condition in of_table.items())


def _within(table: type[Base], *conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return the condition that the row to which a row of a table belongs is visible."""
    return exists().where(*conditions).correlate(table.__table__)
