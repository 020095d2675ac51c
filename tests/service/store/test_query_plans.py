"""Tests of query plans: lists and what many read are found by indices, in their order, however many rows there are."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from sqlalchemy import Connection, event

from tapestry.service.store import RunOrder, Store
from tests.service.programs import NOON, finished_run, two_layers

SEEN = (NOON, "0" * 12)  # the cursor of a page


def _in_order(order: RunOrder) -> Callable[[Store, str, str], object]:
    return lambda store, run, graph: store.runs.page(50, order=order)


READS: Mapping[str, Callable[[Store, str, str], object]] = {
    "runs": lambda store, run, graph: store.runs.page(50),
    "more runs": lambda store, run, graph: store.runs.page(50, SEEN),
    "runs of a status": lambda store, run, graph: store.runs.page(50, status="failed"),
    "more runs of a status": lambda store, run, graph: store.runs.page(50, SEEN, status="failed"),
    "runs of a graph": lambda store, run, graph: store.runs.page(50, graph_id=graph),
    "more runs of a graph": lambda store, run, graph: store.runs.page(50, SEEN, graph_id=graph),
    "runs on a mesh": lambda store, run, graph: store.runs.page(50, mesh="dgx-h100"),
    "more runs on a mesh": lambda store, run, graph: store.runs.page(50, SEEN, mesh="dgx-h100"),
    **{
        f"runs by {key}, {way}": _in_order(RunOrder(key, way == "descending"))
        for key in ("mesh", "status", "time", "memory")
        for way in ("ascending", "descending")
    },
    "more runs by time": lambda store, run, graph: store.runs.page(50, (0.1, *SEEN), order=RunOrder("time")),
    "last runs by time": lambda store, run, graph: store.runs.page(50, (None, *SEEN), order=RunOrder("time")),
    "runs of a batch": lambda store, run, graph: store.runs.page(50, batch="0" * 12),
    "runs with a tag": lambda store, run, graph: store.runs.page(50, tag="good"),
    "runs with a rule": lambda store, run, graph: store.learning.runs_with("reshard", 20),
    "graphs": lambda store, run, graph: store.graphs.page(50),
    "more graphs": lambda store, run, graph: store.graphs.page(50, SEEN),
    "batches": lambda store, run, graph: store.batches.page(50),
    "more batches": lambda store, run, graph: store.batches.page(50, SEEN),
    "a run": lambda store, run, graph: store.runs.details(run),
    "a frontier": lambda store, run, graph: store.runs.frontier(run),
    "a plan": lambda store, run, graph: store.plans.get(f"{run}-{store.runs.frontier(run)[0].id}"),
    "revisions": lambda store, run, graph: store.run_watch.revisions([("default", run)] * 3),
    "last events": lambda store, run, graph: store.run_watch.last_events([run] * 3),
    "events": lambda store, run, graph: store.run_watch.events(run, 1, 50),
}
BY_INDEX = {
    "runs": "ix_runs_tenant_created_at_id",
    "runs of a status": "ix_runs_tenant_status_created_at_id",
    "runs of a graph": "ix_runs_tenant_graph_id_created_at_id",
    "runs on a mesh": "ix_runs_tenant_mesh_name_created_at_id",
    "runs by mesh, descending": "ix_runs_tenant_mesh_name_created_at_id",
    "runs by status, ascending": "ix_runs_tenant_status_created_at_id",
    "runs of a batch": "",
    "runs with a tag": "",
    "graphs": "ix_graphs_tenant_created_at_id",
    "batches": "ix_batches_tenant_created_at_id",
}


def plans(store: Store, read: Callable[[], object]) -> list[str]:
    """Return the plan of each query of a read, as the database explains it."""
    engine, queries = store._database.engine, []

    def note(_: Connection, __: Any, statement: str, parameters: Any, *others: Any) -> None:
        if statement.startswith("SELECT"):
            queries.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    try:
        read()
    finally:
        event.remove(engine, "before_cursor_execute", note)
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            explain, column = "EXPLAIN QUERY PLAN", 3
        else:  # tables of few rows are read whole, unless that costs more than anything
            explain, column = "EXPLAIN", 0
            for way in ("seqscan", "bitmapscan", "sort"):
                connection.exec_driver_sql(f"SET LOCAL enable_{way} = off")
        return [
            "\n".join(str(row[column]) for row in connection.exec_driver_sql(f"{explain} {text}", given))
            for text, given in queries
        ]


@pytest.mark.parametrize("name", READS)
def test_what_is_read_is_found_by_indices_and_needs_no_sorting(store: Store, name: str) -> None:
    run = store.runs.save_finished(finished_run(two_layers()))
    graph = store.runs.get(run).graph_id
    found = plans(store, lambda: READS[name](store, run, graph))
    assert found
    for plan in found:
        assert not re.search(r"\bSCAN (?!CONSTANT)|\bSeq Scan\b", plan), plan
    by_index = BY_INDEX.get(name.removeprefix("more "))
    if by_index is not None:
        (plan,) = found
        assert not re.search(r"TEMP B-TREE|\bSort\b", plan), plan
        if store._database.dialect == "sqlite":  # PostgreSQL chooses among indices by the rows that there are
            assert by_index in plan
