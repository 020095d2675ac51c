"""Steps back: what each step added to the tables, and which rows the tables of before it have no place for.

The inverse of a step follows from what it added: that is dropped, once no row has anything else in it than what the
step itself gave to the rows that were there. A step up later gives the same again, so that no row has changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Connection

from tapestry.service.store.migrations import REVISIONS

# The steps up to this one rewrote rows in place, and releases of before it cannot read the options of today's runs.
OLDEST = "0009"


@dataclass(frozen=True)
class StepBack:
    """The additions of a step by name, each kind in the order in which it is dropped.

    `columns` have the value that the step gave to existing rows, and `options` are the members of a run's options that
    releases of before the step refuse, with their defaults. Rows of `tables`, and other values than these, are lost.
    `remade` are tables and columns that matter to running processes alone, which fill them anew, or that the step up
    fills from others. `change` is whatever else there is to do, before columns and tables are dropped.
    """

    tables: tuple[str, ...] = ()
    columns: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    remade: tuple[str, ...] = ()
    indices: tuple[str, ...] = ()
    change: Callable[[Operations], None] | None = None


@dataclass(frozen=True)
class LostRows:
    """Rows that would lose something: `name` is a table, or TABLE.COLUMN; the last part may be a member of JSON."""

    name: str
    rows: int

    @property
    def may_be_accepted(self) -> bool:
        """Return whether somebody may accept it: without its tenant, a row would belong to the default one instead."""
        return not self.name.endswith(".tenant")


def losses(connection: Connection, found: str, target: str) -> tuple[LostRows, ...]:
    """Count the rows that would lose something by the steps from `found` back to `target`; nothing is changed."""
    return tuple(loss for step in _between(found, target) for loss in _losses(connection, step) if loss.rows)


def names_of_losses() -> frozenset[str]:
    """Return the names of everything that a step back may lose."""
    return frozenset(
        name
        for step in STEPS_BACK.values()
        for name in (*step.tables, *step.columns, *map(_member, step.options))
    )


def step_back(connection: Connection, found: str, target: str) -> None:
    """Take the steps from `found` back to `target`, in a transaction that the caller opened; see `losses` first."""
    operations = Operations(MigrationContext.configure(connection))
    for step in _between(found, target):
        _undo(operations, step)
    connection.execute(
        sa.table("alembic_version", sa.column("version_num")).update().values(version_num=target)
    )


def _between(found: str, target: str) -> Sequence[StepBack]:
    undone = REVISIONS[REVISIONS.index(target) + 1 : REVISIONS.index(found) + 1]
    return [STEPS_BACK[revision] for revision in reversed(undone)]


def _losses(connection: Connection, step: StepBack) -> Iterator[LostRows]:
    for table in step.tables:
        yield LostRows(table, _count(connection, table, sa.true()))
    for name, before in step.columns.items():
        table, _, column = name.partition(".")
        yield LostRows(name, _count(connection, table, _differs(column, before)))
    if step.options:
        stored = list(connection.scalars(sa.select(_RUNS.c.options)))
        for option, default in step.options.items():
            rows = sum(options.get(option, default) != default for options in stored)
            yield LostRows(_member(option), rows)


def _member(option: str) -> str:
    return f"runs.options.{option}"


def _count(connection: Connection, table: str, where: sa.ColumnElement[bool]) -> int:
    query = sa.select(sa.func.count()).select_from(sa.table(table)).where(where)
    return connection.execute(query).scalar_one()


def _differs(column: str, before: Any) -> sa.ColumnElement[bool]:
    if isinstance(before, dict):  # PostgreSQL compares no JSON
        return sa.cast(sa.column(column), sa.Text) != json.dumps(before)
    return sa.column(column).is_distinct_from(before)


def _undo(operations: Operations, step: StepBack) -> None:
    for index in step.indices:
        operations.drop_index(index)
    if step.change is not None:
        step.change(operations)
    for name in (*step.columns, *step.remade, *step.tables):
        table, _, column = name.partition(".")
        if column:
            operations.drop_column(table, column)
        else:
            operations.drop_table(table)
    if step.options:
        _drop_options(operations.get_bind(), step.options)


def _drop_options(connection: Connection, dropped: Mapping[str, Any]) -> None:
    for run_id, options in connection.execute(sa.select(_RUNS.c.id, _RUNS.c.options)).all():
        if options.keys() & dropped.keys():
            kept = {name: value for name, value in options.items() if name not in dropped}
            connection.execute(_RUNS.update().where(_RUNS.c.id == run_id).values(options=kept))


def _let_leases_end(operations: Operations) -> None:
    """Give leases the moment of their end again; nobody has one meanwhile."""
    operations.add_column("leases", sa.Column("expires_at", sa.DateTime(timezone=True)))
    operations.get_bind().execute(_LEASES.update().values(owner=None))


def _leave_one_tenant(operations: Operations) -> None:
    """Take the tenant out of keys and indices."""
    keys = {
        "uploads": ("hash",),
        "tensors": ("name",),
        "idempotency_keys": ("scope", "key"),
        "snapshots": ("number",),
        "rates": ("snapshot", "rule", "operator_class"),
    }
    with operations.batch_alter_table("rates") as rates:
        rates.drop_constraint("fk_rates_tenant_snapshot_snapshots", type_="foreignkey")
    for table, columns in keys.items():
        with operations.batch_alter_table(table) as changed:
            changed.drop_constraint(f"pk_{table}", type_="primary")
            changed.create_primary_key(f"pk_{table}", list(columns))
    with operations.batch_alter_table("rates") as rates:
        rates.create_foreign_key(
            "fk_rates_snapshot_snapshots", "snapshots", ["snapshot"], ["number"], ondelete="CASCADE"
        )
    for table in ("graphs", "runs", "batches"):
        operations.create_index(f"ix_{table}_created_at_id", table, ["created_at", "id"])
    operations.create_index("ix_runs_status_created_at_id", "runs", ["status", "created_at", "id"])


def _let_audit_lines_change(operations: Operations) -> None:
    """Drop the trigger of the audit log; SQLite drops it with the table."""
    if operations.get_bind().dialect.name == "postgresql":
        operations.execute("DROP FUNCTION audit_append_only() CASCADE")


def _end_imports(operations: Operations) -> None:
    operations.get_bind().execute(_LEASES.delete().where(_LEASES.c.kind == "import"))


_RUNS = sa.table("runs", sa.column("id"), sa.column("options", sa.JSON))
_LEASES = sa.table("leases", sa.column("kind"), sa.column("owner"))
_OF_TENANTS = (
    *("api_keys", "leases", "graphs", "runs", "batches"),
    *("uploads", "tensors", "idempotency_keys", "snapshots", "rates"),
)

STEPS_BACK: Mapping[str, StepBack] = {
    "0010": StepBack(tables=("execution_tensors", "tensors"), columns={"executions.request": None}),
    "0011": StepBack(columns={"tensors.load": None}),
    "0012": StepBack(columns={"plans.time": None}, options={"dtype": None, "launch": None, "robust": None}),
    "0013": StepBack(columns={"runs.bounds": {}}),
    "0014": StepBack(columns={"runs.expected": {}}, options={"gap": None, "search_price": 0.2, "worth": {}}),
    "0015": StepBack(tables=("rates", "snapshots"), options={"prior": None}),
    "0016": StepBack(tables=("batch_entries", "batches")),
    "0017": StepBack(indices=("ix_graphs_family",), columns={"graphs.family": None}),
    "0018": StepBack(remade=("epochs", "epoch_variants")),
    "0019": StepBack(columns={"plans.micro_batches": 1}, options={"micro_batches": None}),
    "0020": StepBack(columns={"plans.recompute": None}),
    "0021": StepBack(columns={"plans.stages": None}),
    "0022": StepBack(columns={"plans.offload": None}),
    "0023": StepBack(
        remade=("leases.beat", "leases.lease_s", "workers.beat", "workers.ahead_s"),
        options={"data_parallel": None, "stages": None, "tensor_parallel": None},
        change=_let_leases_end,
    ),
    "0024": StepBack(tables=("api_keys",), remade=("sessions",)),
    "0025": StepBack(indices=("ix_batch_entries_run_id", "ix_idempotency_keys_subject")),
    "0026": StepBack(columns={"leases.priority": 0, "leases.expected_s": 20.0}),
    "0027": StepBack(remade=("runs.revision",)),
    "0028": StepBack(
        tables=("tenants",),
        columns={f"{table}.tenant": "default" for table in _OF_TENANTS},
        indices=(
            *(f"ix_{table}_tenant_created_at_id" for table in ("graphs", "runs", "batches")),
            "ix_runs_tenant_status_created_at_id",
        ),
        change=_leave_one_tenant,
    ),
    "0029": StepBack(tables=("audit",), change=_let_audit_lines_change),
    "0030": StepBack(tables=("usage",), indices=("ix_leases_waiting", "ix_leases_held")),
    "0031": StepBack(columns={"leases.deaths": 0, "leases.last_death": None}),
    "0032": StepBack(
        indices=("ix_runs_tenant_mesh_name_created_at_id", "ix_runs_tenant_graph_id_created_at_id")
    ),
    "0033": StepBack(columns={"leases.origin": {}}, remade=("tallies", "workers.pss_bytes")),
    "0034": StepBack(tables=("import_parts", "imports"), change=_end_imports),
    "0035": StepBack(
        tables=("run_tags", "run_notes"),
        remade=("runs.best", "runs.trend", "runs.least_time_s", "runs.least_memory_bytes"),
        indices=(
            "ix_runs_tenant_least_time_s_created_at_id",
            "ix_runs_tenant_least_memory_bytes_created_at_id",
        ),
    ),
    "0036": StepBack(tables=("measurements",)),
    "0037": StepBack(columns={"plans.origin": None}),
}
