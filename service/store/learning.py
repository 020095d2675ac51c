"""Rates of moves that runs have learned, in numbered snapshots, and the prior that they make together.

A snapshot is the sum of the rates of all runs up to its number, so it never changes. Rates of another release tell
nothing of this one's moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.metadata import version
from typing import Any

from sqlalchemy import BigInteger, Connection, cast, func, insert, select

from tapestry.optimizer.run.learning import Prior, focus_of, merged, mesh_kind, weight_of
from tapestry.optimizer.run.plan import Rate
from tapestry.service.store.codec import mesh_of, stored_options
from tapestry.service.store.insertion import insert_if_new
from tapestry.service.store.records import LearnedRate
from tapestry.service.store.sessions import Database, UnknownId
from tapestry.service.store.tables import GraphRow, RateRow, RuleRow, RunRow, SnapshotRow

NEXT_NUMBER = 0x7461706573747272  # the number by which those who number snapshots on PostgreSQL take turns
_COUNTS = (RateRow.applicable, RateRow.applied, RateRow.improved)
# PostgreSQL's sums of integers are decimals.
_SUMS = (
    *(cast(func.sum(column), BigInteger).label(column.key) for column in _COUNTS),
    *(func.sum(column).label(column.key) for column in (RateRow.credit, RateRow.volume)),
)


class Learning:
    """The rates of moves that stored runs have learned."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def newest(self) -> int:
        """Return the number of the newest snapshot of this release, 0 if there is none."""
        query = select(func.max(SnapshotRow.number)).where(SnapshotRow.version == version("tapestry"))
        with self._database.reading() as connection:
            return connection.scalar(query) or 0

    def prior(self, number: int, mesh: Mapping[str, Any], objectives: Sequence[str]) -> Prior:
        """Return what all runs up to a snapshot tell of a search on a mesh for these objectives; 0: nothing.

        Raises:
            UnknownId: there is no such snapshot, or it is of another release.
        """
        if number == 0:
            return Prior()
        kind, focus, here = mesh_kind(mesh_of(mesh)), focus_of(objectives), version("tapestry")
        keys = (SnapshotRow.mesh_kind, SnapshotRow.focus, RateRow.rule, RateRow.operator_class)
        query = (
            select(*keys, *_SUMS)
            .join(SnapshotRow, SnapshotRow.number == RateRow.snapshot)
            .where(SnapshotRow.number <= number, SnapshotRow.version == here)
            .group_by(*keys)
            .order_by(*keys)
        )
        self.require(number)
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
        rates = ((_rate(row), weight_of(row.mesh_kind == kind, row.focus == focus)) for row in rows)
        return Prior(number, merged(rates))

    def require(self, number: int) -> None:
        """Check that a snapshot exists and is of this release.

        Raises:
            UnknownId: it does not, or is not.
        """
        with self._database.reading() as connection:
            of = connection.scalar(select(SnapshotRow.version).where(SnapshotRow.number == number))
        if of is None:
            raise UnknownId(f"there is no prior {number}; `tapestry rules --learned` names the newest")
        if of != version("tapestry"):
            raise UnknownId(
                f"prior {number} was learned by Tapestry {of}, whose moves are not those of {version('tapestry')}; "
                "give latest or none"
            )

    def rates(self) -> tuple[LearnedRate, ...]:
        """Return the rates of all runs together, by rule, class of operator, kind of mesh and objective focus.

        Those of other releases are left out. `snapshots` are the runs that made such a move.
        """
        keys = (RateRow.rule, RateRow.operator_class, SnapshotRow.mesh_kind, SnapshotRow.focus)
        query = (
            select(*keys, func.count().label("snapshots"), *_SUMS)
            .join(SnapshotRow, SnapshotRow.number == RateRow.snapshot)
            .where(SnapshotRow.version == version("tapestry"))
            .group_by(*keys)
            .order_by(*keys)
        )
        with self._database.reading() as connection:
            return tuple(LearnedRate(**row._mapping) for row in connection.execute(query))

    def over_time(self, most: int = 64) -> tuple[dict[str, Any], ...]:
        """Return for the last snapshots, oldest first, the counts that each run told of every rule."""
        numbers = (
            select(SnapshotRow.number)
            .where(SnapshotRow.version == version("tapestry"))
            .order_by(SnapshotRow.number.desc())
            .limit(most)
        )
        query = (
            select(RateRow.snapshot, RateRow.rule, *_SUMS)
            .where(RateRow.snapshot.in_(numbers))
            .group_by(RateRow.snapshot, RateRow.rule)
            .order_by(RateRow.snapshot, RateRow.rule)
        )
        with self._database.reading() as connection:
            return tuple(dict(row._mapping) for row in connection.execute(query))

    def runs_with(self, rule: str, most: int) -> tuple[tuple[dict[str, Any], ...], int]:
        """Return the newest runs in which a rule was applied, the newest first, and the number of all of them."""
        query = (
            select(
                *(RunRow.id.label("run"), GraphRow.name.label("graph"), RunRow.mesh_name.label("mesh")),
                *(RunRow.created_at, RuleRow.applied, RuleRow.improved),
            )
            .join(RunRow, RunRow.id == RuleRow.run_id)
            .join(GraphRow, GraphRow.id == RunRow.graph_id)
            .where(RuleRow.rule == rule, RuleRow.applied > 0)
        )
        newest = query.order_by(RunRow.created_at.desc(), RunRow.id.desc()).limit(most)
        with self._database.reading() as connection:
            total = connection.scalar(select(func.count()).select_from(query.subquery())) or 0
            return tuple(dict(row._mapping) for row in connection.execute(newest)), total


def put_rates(connection: Connection, run_id: str, rates: Sequence[Rate], now: datetime) -> None:
    """Write the rates of a run as the next snapshot, within a transaction; a run has one at most."""
    if not rates or connection.scalar(select(SnapshotRow.number).where(SnapshotRow.run_id == run_id)):
        return
    if connection.dialect.name == "postgresql":  # SQLite's writers wait for each other anyway
        connection.execute(select(func.pg_advisory_xact_lock(NEXT_NUMBER)))
    run = connection.execute(select(RunRow.mesh, RunRow.options).where(RunRow.id == run_id)).one()
    number = (connection.scalar(select(func.max(SnapshotRow.number))) or 0) + 1
    insert_if_new(
        connection,
        SnapshotRow,
        {
            "number": number,
            "run_id": run_id,
            "version": version("tapestry"),
            "mesh_kind": mesh_kind(mesh_of(run.mesh)),
            "focus": focus_of(stored_options(run.options).objectives),
            "created_at": now,
        },
    )
    connection.execute(insert(RateRow), [{"snapshot": number, **rate._asdict()} for rate in rates])


def _rate(row: Any) -> Rate:
    return Rate(*(getattr(row, name) for name in Rate._fields))
