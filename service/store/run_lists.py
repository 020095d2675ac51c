"""Lists of runs: which ones, in which order, and how a page follows another one.

A page begins after a *place*: the values by which the last run seen is ordered. So nothing is missed or repeated, in
whatever order, while runs are added, changed and deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from sqlalchemy import Connection, Select, or_, select, tuple_

from tapestry.service.store.codec import run_summary
from tapestry.service.store.records import RunSummary
from tapestry.service.store.run_rows import summaries
from tapestry.service.store.tables import BatchEntryRow, GraphRow, RunNotesRow, RunRow, RunTagRow

Place = tuple[Any, ...]

_BY_AGE = (RunRow.created_at, RunRow.id)
_COLUMNS: Mapping[str, tuple[Any, ...]] = {
    "created": _BY_AGE,
    "mesh": (RunRow.mesh_name, *_BY_AGE),
    "status": (RunRow.status, *_BY_AGE),
    "time": (RunRow.least_time_s, *_BY_AGE),
    "memory": (RunRow.least_memory_bytes, *_BY_AGE),
    "program": (GraphRow.name, RunRow.graph_id, *_BY_AGE),
}
_HAS_GAPS = ("time", "memory")  # runs without a plan have no such value
_BEST = {"time": "time_s", "memory": "peak_memory_bytes"}


class RunFilters(TypedDict, total=False):
    """The runs that a list has: those for which all of this holds; None holds for every run.

    `search` are words of which each occurs, in upper or lower case, in the program's or mesh's name, in the id, in a
    tag or in the notes.
    """

    status: str | None
    graph_id: str | None
    mesh: str | None
    tag: str | None
    batch: str | None
    search: str | None


@dataclass(frozen=True)
class RunOrder:
    """The order of a list, by one of `RUN_ORDERS`; runs without the value come last, whichever way it runs."""

    key: str = "created"
    is_descending: bool = True

    @staticmethod
    def of(sort: str) -> RunOrder:
        """Return the order that one of `SORTS` names."""
        return RunOrder(sort.removeprefix("-"), sort.startswith("-"))

    @property
    def is_by_number(self) -> bool:
        """True if places begin with a number, or with None for a run without."""
        return self.key in _HAS_GAPS

    @property
    def texts(self) -> int:
        """The number of texts that places begin with."""
        return 0 if self.is_by_number else len(_COLUMNS[self.key]) - len(_BY_AGE)

    def place_of(self, run: RunSummary) -> Place:
        """Return the place of a run in this order, after which the next page begins."""
        by_age = (run.created_at, run.id)
        firsts: Mapping[str, Place] = {
            "created": (),
            "mesh": (run.mesh_name,),
            "status": (run.status,),
            "program": (run.graph_name, run.graph_id),
        }
        first = (run.best.get(_BEST[self.key]),) if self.key in _BEST else firsts[self.key]
        return (*first, *by_age)


NEWEST_FIRST = RunOrder()


def listed(
    connection: Connection, chosen: RunFilters, order: RunOrder, limit: int, place: Place | None
) -> tuple[RunSummary, ...]:
    """Return at most `limit` runs after a place; the first ones without it."""
    columns = _COLUMNS[order.key]
    if order.key == "program":
        query = _by_program(chosen, order, limit, place)
        return tuple(run_summary(row) for row in connection.execute(query))
    query = _chosen(summaries(), chosen)
    if order.key not in _HAS_GAPS:
        rows = connection.execute(_sorted(query, columns, order, limit, place)).all()
        return tuple(run_summary(row) for row in rows)
    rows = []
    if place is None or place[0] is not None:
        known = query.where(columns[0].is_not(None))
        rows = list(connection.execute(_sorted(known, columns, order, limit, place)))
    if len(rows) < limit:
        rest = None if place is None or place[0] is not None else place[1:]
        unknown = query.where(columns[0].is_(None))
        rows += connection.execute(_sorted(unknown, columns[1:], order, limit - len(rows), rest))
    return tuple(run_summary(row) for row in rows)


def _by_program(chosen: RunFilters, order: RunOrder, limit: int, place: Place | None) -> Select[Any]:
    """Build the query of a page by program: the ids are sorted first, for no index has the names of programs."""
    ids = select(RunRow.id).join(GraphRow, GraphRow.id == RunRow.graph_id)
    ids = _sorted(_chosen(ids, chosen), _COLUMNS["program"], order, limit, place)
    query = summaries().where(RunRow.id.in_(ids.correlate(None)))
    return query.order_by(*_directed(_COLUMNS["program"], order))


def _sorted(
    query: Select[Any], columns: tuple[Any, ...], order: RunOrder, limit: int, place: Place | None
) -> Select[Any]:
    if place is not None:
        mine, last = tuple_(*columns), tuple_(*place)  # compared as one: an index leads right there
        query = query.where(mine < last if order.is_descending else mine > last)
    return query.order_by(*_directed(columns, order)).limit(limit)


def _directed(columns: tuple[Any, ...], order: RunOrder) -> list[Any]:
    return [column.desc() if order.is_descending else column.asc() for column in columns]


def _chosen(query: Select[Any], chosen: RunFilters) -> Select[Any]:
    equal = {"status": RunRow.status, "graph_id": RunRow.graph_id, "mesh": RunRow.mesh_name}
    for name, column in equal.items():
        if (value := chosen.get(name)) is not None:
            query = query.where(column == value)
    if (tag := chosen.get("tag")) is not None:
        query = query.where(_among(select(RunTagRow.run_id).where(RunTagRow.tag == tag)))
    if (batch := chosen.get("batch")) is not None:
        query = query.where(_among(select(BatchEntryRow.run_id).where(BatchEntryRow.batch_id == batch)))
    for word in (chosen.get("search") or "").split():
        query = query.where(or_(*map(_among, _found(word))))
    return query


def _found(word: str) -> tuple[Select[Any], ...]:
    """Build the queries for the runs in which a word occurs, each of few columns that an index has."""

    def occurs(column: Any) -> Any:
        return column.icontains(word, autoescape=True)

    programs = select(GraphRow.id).where(occurs(GraphRow.name)).correlate(None)
    return (
        select(RunRow.id).where(or_(occurs(RunRow.mesh_name), occurs(RunRow.id))),
        select(RunRow.id).where(RunRow.graph_id.in_(programs)),
        select(RunTagRow.run_id).where(occurs(RunTagRow.tag)),
        select(RunNotesRow.run_id).where(occurs(RunNotesRow.notes)),
    )


def _among(runs: Select[Any]) -> Any:
    return RunRow.id.in_(runs.correlate(None))
