"""Tests that databases are migrated automatically: empty ones, those of older releases, with many openers at once."""

from __future__ import annotations

import gzip
import multiprocessing
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, MetaData, Table, create_engine, delete, inspect, select, text
from sqlalchemy.exc import DBAPIError

from tapestry.optimizer import RunOptions
from tapestry.service.store import Store
from tapestry.service.store.database import StoreError, open_database, writing
from tapestry.service.store.migrations import FIRST, HEAD, REVISIONS
from tapestry.service.store.migrations.upgrade import configuration, upgrade
from tapestry.service.store.schema import LOCK, VERSIONS
from tapestry.service.store.tables import Base, ExecutionRow, GraphRow, HistoryRow, PlanRow, RuleRow, RunRow
from tests.service.first_release import MOVES, NOON, PLACEMENTS, ROWS, TRACE, VERIFIED, make_first_release
from tests.service.schemas import description


@contextmanager
def opened(url: str) -> Iterator[Engine]:
    engine = open_database(url)
    try:
        yield engine
    finally:
        engine.dispose()


def open_and_close(url: str) -> list[str]:
    """Open and close a database as a starting process does; at module level, so that another process can."""
    with opened(url) as engine, engine.connect() as connection:
        return list(connection.scalars(select(VERSIONS.c.version_num)))


def migrated(url: str) -> Engine:
    """Return an empty database after all steps one by one."""
    engine = create_engine(url)
    with engine.begin() as connection:
        upgrade(connection, None)
    return engine


def test_the_list_of_revisions_is_that_of_the_steps(empty_url: str) -> None:
    engine = create_engine(empty_url)
    with engine.connect() as connection:
        steps = ScriptDirectory.from_config(configuration(connection)).walk_revisions()
        assert tuple(step.revision for step in steps) == REVISIONS[::-1]
    engine.dispose()


def test_the_steps_lead_to_exactly_the_tables_of_the_program(new_database: Callable[[], str]) -> None:
    by_steps = migrated(new_database())
    with by_steps.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
    with opened(new_database()) as at_once:
        assert description(by_steps) == description(at_once)
        assert set(inspect(at_once).get_table_names()) == {*Base.metadata.tables, VERSIONS.name}
    by_steps.dispose()


def test_nothing_of_the_first_release_is_lost(empty_url: str) -> None:
    make_first_release(empty_url)
    with opened(empty_url) as engine, engine.connect() as connection:
        assert list(connection.scalars(select(VERSIONS.c.version_num))) == [HEAD]
        check_graphs_and_runs(connection)
        check_plans(connection)
        check_executions(connection)
        (rule,) = connection.execute(select(RuleRow.__table__)).mappings()
        assert dict(rule) == ROWS["rule_statistics"][0]
        history = connection.execute(select(HistoryRow.__table__).order_by(HistoryRow.step)).mappings()
        assert [dict(row) for row in history] == ROWS["history"]


# What lists show of the first run of the first release: it follows from its plans and its history.
BEST = {"time_s": 1e-300, "compute_flops": 2**60 + 1}
TREND = [[row["seconds"], row["hypervolume"]] for row in ROWS["history"]]


def check_graphs_and_runs(connection: Connection) -> None:
    graphs = connection.execute(select(GraphRow.__table__).order_by(GraphRow.id)).mappings()
    assert [dict(row) for row in graphs] == [
        {**graph, "tenant": "default", "summary": None, "family": None} for graph in ROWS["graphs"]
    ]
    runs = connection.execute(select(RunRow.__table__).order_by(RunRow.id)).mappings()
    ended = {
        "tenant": "default",
        "phase": "done",
        "attempt": 1,
        "last_event": 0,
        "revision": 0,
        "options": {
            "version": 1,
            "objectives": ["time_s", "compute_flops"],
            "constraints": ["peak_memory_bytes <= 1 GiB"],
            "budget": {"seconds": 1.5, "evaluations": None},
            "seed": 2**62,
            "islands": 2,
            "rules": None,
            "pins": {"y": "[gpu.0, -]"},
            "start_from": None,
            "compute_dtype": "bf16",
            "devices": "any",
            "inputs": "chosen",
            "outputs": "sharded",
            "verify": "auto",
        },
        "problem": None,
        "request_hash": None,
        "refused": [],
        "bounds": {},
        "expected": {},
        "started_at": NOON,
        "ended_at": NOON + timedelta(seconds=1.5),
    }
    assert [dict(row) for row in runs] == [
        {
            **_without_options(ROWS["runs"][0]),
            **ended,
            "front": 2,
            "hypervolume": 0.5,
            "best": BEST,
            "trend": TREND,
            "least_time_s": BEST["time_s"],
            "least_memory_bytes": None,
        },
        {
            **_without_options(ROWS["runs"][1]),
            **ended,
            "front": 0,
            "hypervolume": 0.0,
            "best": {},
            "trend": [],
            "least_time_s": None,
            "least_memory_bytes": None,
        },
    ]


def _without_options(run: dict[str, Any]) -> dict[str, Any]:
    """Return a run's row of the first release without the columns that hold options."""
    moved = {*RunOptions().to_json(), "budget_seconds", "budget_evaluations"}
    return {name: value for name, value in run.items() if name not in moved}


@contextmanager
def at_step(url: str, step: str) -> Iterator[tuple[Connection, Mapping[str, Table]]]:
    """Open an empty database after the steps up to one, with its tables and a graph; what is written stays."""
    engine = create_engine(url)
    with engine.begin() as connection:
        upgrade(connection, None, step)
        found = MetaData()
        found.reflect(connection)
        connection.execute(found.tables["graphs"].insert().values({**ROWS["graphs"][0], "summary": None}))
        yield connection, found.tables
    engine.dispose()


def ended_run(**changes: Any) -> dict[str, Any]:
    """Build the row of a run that is over, as since the fifth step."""
    options = {**_without_options(ROWS["runs"][0]), "options": RunOptions().to_stored()}
    counts = {"attempt": 1, "front": 0, "hypervolume": 0.0, "last_event": 0, "refused": []}
    return {**options, "phase": "done", **counts, **changes}


def test_options_and_attempts_of_the_fourth_step_are_moved(empty_url: str) -> None:
    given = {
        "objectives": ["energy_j", "time_s"],
        "constraints": ["time_s<=5ms"],
        "rules": ["fuse_cells"],
        "pins": {"y": "[gpu.0, -]"},
        "start_from": "0123456789ab",
        "compute_dtype": "bf16",
        "seed": 2**62 + 1,
        "islands": 3,
    }
    choices = {
        "devices": "all",
        "inputs": "replicated",
        "outputs": "gathered",
        "layouts": "native",
        "verify": "dry",
    }
    with at_step(empty_url, "0004") as (connection, tables):
        row = {
            **ROWS["runs"][0],
            **given,
            "options": choices,
            "budget_seconds": None,
            "budget_evaluations": 2**40,
            "status": "running",
            "phase": "searching",
            "attempt": 3,
            "front": 0,
            "hypervolume": 0.0,
            "last_event": 0,
            "refused": [],
        }
        lease = {"kind": "run", "subject": "run1", "number": 1, "attempt": 3, "barren": 2}
        connection.execute(tables["runs"].insert().values(row))
        connection.execute(tables["leases"].insert().values(**lease, cancel_requested=False))
    store = Store(empty_url)
    requested = store.runs.get("run1").options
    moved = {**given, **choices, "budget": {"seconds": None, "evaluations": 2**40, "deadline_seconds": None}}
    assert requested.to_json() == {**RunOptions().to_json(), **moved}
    job = store.jobs.claim("ada", NOON, 1.0)
    assert job is not None and (job.subject, job.attempt, job.attempts_without_progress) == ("run1", 4, 3)
    store.close()


def test_the_audit_log_of_a_migrated_database_is_append_only(empty_url: str) -> None:
    engine = migrated(empty_url)
    columns = "(at, actor, address, action, subject, outcome, request_id)"
    with engine.begin() as connection:
        connection.execute(
            text(f"INSERT INTO audit {columns} VALUES ('2026-01-02', 'a', '', '', '', 'done', '')")
        )
    with pytest.raises(DBAPIError, match="never changed"), engine.begin() as connection:
        connection.execute(text("UPDATE audit SET actor = 'b'"))
    engine.dispose()


def test_what_was_stored_before_there_were_tenants_is_of_the_default_one(empty_url: str) -> None:
    make_first_release(empty_url)
    store = Store(empty_url)
    assert {run.id for run in store.runs.page()} == {run["id"] for run in ROWS["runs"]}
    assert store.of("ada").runs.page() == () == store.of("ada").graphs.page()
    store.close()


def test_hints_of_the_fifth_step_get_their_name(empty_url: str) -> None:
    refused = [{"rule": "cube", "reason": "its guard fails", "cure": "repair it"}]
    with at_step(empty_url, "0005") as (connection, tables):
        events = [
            {"run_id": "run1", "number": 1, "kind": "refused", "data": refused, "created_at": NOON},
            {"run_id": "run1", "number": 2, "kind": "rules", "data": {"cure": {}}, "created_at": NOON},
        ]
        connection.execute(tables["runs"].insert().values(ended_run(last_event=2, refused=refused)))
        connection.execute(tables["events"].insert(), events)
    store = Store(empty_url)
    renamed = [{"rule": "cube", "reason": "its guard fails", "hint": "repair it"}]
    assert store.runs.details("run1").refused == renamed
    assert [event.data for event in store.runs.events("run1", 0)] == [renamed, {"cure": {}}]
    store.close()


@pytest.mark.parametrize(
    ("step", "plan", "kinds", "kept"),
    [
        ("0006", {}, ["explanation 2"], []),
        (
            "0007",
            {"cost_model": 2},
            ["explanation 3, model 2", "explicit-graph, model 2"],
            ["explanation 3, model 2"],
        ),
    ],
    ids=["plans were costed by the first model", "explicit graphs are not stored any more"],
)
def test_plans_keep_their_costs_and_what_is_still_stored_for_them(
    empty_url: str, step: str, plan: dict[str, Any], kinds: list[str], kept: list[str]
) -> None:
    costs = dict.fromkeys(RunOptions().objectives, 1.0)
    store = upgraded_plan(empty_url, step, {"cost": costs, **plan}, kinds)
    (stored,) = store.runs.frontier("run1")
    assert (stored.key, stored.cost_model, stored.cost) == (7, plan.get("cost_model", 1), costs)
    found = {kind: store.plans.artifact(7, kind) for kind in kinds}
    assert found == {kind: b"rendered" if kind in kept else None for kind in kinds}
    store.close()


@pytest.mark.parametrize("step", ["0012", "0013"])
def test_earlier_runs_have_no_bounds_and_no_expectations(empty_url: str, step: str) -> None:
    proven = {"bounds": {}} if step == "0013" else {}
    with at_step(empty_url, step) as (connection, tables):
        connection.execute(tables["runs"].insert().values(ended_run(**proven)))
    store = Store(empty_url)
    run = store.runs.details("run1")
    assert (run.bounds, run.expected) == ({}, {})
    store.close()


def test_tensors_of_the_tenth_step_are_loaded_at_no_cost(empty_url: str) -> None:
    row = {"name": "w", "dtype": "int8", "shape": [2], "size_bytes": 2, "digest": "d", "content": b"ab"}
    with at_step(empty_url, "0010") as (connection, tables):
        connection.execute(tables["tensors"].insert().values(**row, stored_at=NOON))
    store = Store(empty_url)
    assert (store.tensors.get("w").load, store.tensors.load("w")[1].content) == (None, b"ab")
    store.close()


def upgraded_plan(url: str, step: str, plan: dict[str, Any], kinds: list[str]) -> Store:
    """Open a store whose tables were at a migration, with a plan whose key is 7 and artifacts of these kinds."""
    with at_step(url, step) as (connection, tables):
        common = {"run_id": "run1", "plan_id": "p1", "on_frontier": True, "feasible": True, "devices": "all"}
        moves = {"move_count": 0, "moves": gzip.compress(b"[]"), "placements": gzip.compress(b"{}")}
        rendered = {"plan_key": 7, "content": b"rendered", "created_at": NOON}
        connection.execute(tables["runs"].insert().values(ended_run(front=1)))
        connection.execute(tables["plans"].insert().values(key=7, **common, **moves, **plan))
        for kind in kinds:
            connection.execute(tables["artifacts"].insert().values(kind=kind, **rendered))
    return Store(url)


def check_plans(connection: Connection) -> None:
    plans = connection.execute(select(PlanRow.__table__).order_by(PlanRow.key)).mappings()
    found = [dict(row) for row in plans]
    common = {
        "feasible": True,
        "placements": PLACEMENTS,
        "cost_model": 1,
        "time": None,
        "on_frontier": True,
        "verified": None,
        "micro_batches": 1,
        "recompute": None,
        "offload": None,
        "stages": None,
        "origin": None,
    }
    first = {**common, "key": 1, "run_id": "run1", "plan_id": "p1", "devices": "all", "verified": VERIFIED}
    second = {**common, "key": 2, "run_id": "run1", "plan_id": "p2", "devices": "gpu:4"}
    third = {**common, "key": 3, "run_id": "run2", "plan_id": "p1", "devices": "all", "on_frontier": False}
    assert found == [
        {**first, "cost": {"time_s": 0.1, "compute_flops": 2**60 + 1}, "move_count": 1, "moves": MOVES[1]},
        {**second, "cost": {"time_s": 1e-300, "compute_flops": 2.0**70}, "move_count": 2, "moves": MOVES[2]},
        {**third, "cost": {"time_s": 1 / 3}, "move_count": 0, "moves": []},
    ]
    assert type(found[0]["cost"]["compute_flops"]) is int


def check_executions(connection: Connection) -> None:
    executions = connection.execute(select(ExecutionRow.__table__).order_by(ExecutionRow.id)).mappings()
    common = {"plan_key": 1, "status": "succeeded", "problem": None, "created_at": NOON, "ended_at": NOON}
    common["request"] = None
    common |= {"counts": {"time_s": 1e-3}, "verified": VERIFIED}
    computed = {"id": "000000000001", "backend": "numpy", "with_values": True, "seed": 7, "trace": TRACE}
    counted = {"id": "00000000012c", "backend": "dry", "with_values": False, "seed": None, "trace": None}
    assert [dict(row) for row in executions] == [{**common, **computed}, {**common, **counted}]


def test_references_and_keys_work_on_after_the_steps(empty_url: str) -> None:
    make_first_release(empty_url)
    with opened(empty_url) as engine, writing(engine).begin() as connection:
        plan = {"run_id": "run2", "plan_id": "p9", "on_frontier": True, "feasible": True, "cost": {}}
        plan |= {"cost_model": 2}
        moves = {"devices": "all", "move_count": 0, "moves": [], "placements": {}}
        made = connection.execute(PlanRow.__table__.insert().values(**plan, **moves))
        assert made.inserted_primary_key == (4,)
        connection.execute(delete(RunRow).where(RunRow.id == "run1"))
        assert list(connection.scalars(select(PlanRow.key).order_by(PlanRow.key))) == [3, 4]
        assert list(connection.scalars(select(ExecutionRow.id))) == []
        with pytest.raises(Exception, match=r"(?i)foreign key"):
            connection.execute(delete(GraphRow).where(GraphRow.id == "a" * 32))


def test_a_step_that_fails_changes_nothing(empty_url: str) -> None:
    broken = [{**plan, "moves": b"no moves"} for plan in ROWS["plans"]]
    make_first_release(empty_url, {**ROWS, "plans": broken})
    before = create_engine(empty_url)
    tables = description(before)
    with pytest.raises(StoreError, match=f"could not be brought up to date from version {FIRST} to {HEAD}"):
        open_database(empty_url)
    assert description(before) == tables
    with before.connect() as connection:
        assert connection.scalar(text("SELECT version FROM schema_version")) == 1
        assert connection.scalar(text("SELECT count(*) FROM costs")) == len(ROWS["costs"])
    before.dispose()


@pytest.mark.parametrize("is_old", [False, True], ids=["empty", "first release"])
def test_openers_on_many_threads_take_turns(empty_url: str, is_old: bool) -> None:
    if is_old:
        make_first_release(empty_url)
    barrier = threading.Barrier(6)

    def start(_: int) -> list[str]:
        barrier.wait()
        return open_and_close(empty_url)

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(start, range(6))) == [[HEAD]] * 6
    if is_old:
        with opened(empty_url) as engine, engine.connect() as connection:
            check_plans(connection)


@pytest.mark.slow
def test_openers_in_many_processes_take_turns(empty_url: str) -> None:
    make_first_release(empty_url)
    with ProcessPoolExecutor(3, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert list(pool.map(open_and_close, [empty_url] * 3)) == [[HEAD]] * 3
    with opened(empty_url) as engine, engine.connect() as connection:
        check_plans(connection)


def test_an_opener_waits_for_the_turn_of_another(empty_url: str) -> None:
    """Check that tables appear only after another process, which holds the lock, releases it."""
    other = create_engine(empty_url)
    with other.connect() as connection, ThreadPoolExecutor(1) as pool:
        if other.dialect.name == "postgresql":
            connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK})"))
        else:
            connection.exec_driver_sql("BEGIN EXCLUSIVE")
        waiting = pool.submit(open_and_close, empty_url)
        with pytest.raises(TimeoutError):
            waiting.result(timeout=0.3)
        connection.rollback() if other.dialect.name == "postgresql" else connection.exec_driver_sql(
            "ROLLBACK"
        )
        assert waiting.result(timeout=30) == [HEAD]
    other.dispose()


@pytest.mark.slow
def test_a_current_database_is_opened_without_a_turn_and_without_alembic(store_url: str) -> None:
    with opened(store_url) as engine, writing(engine).begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK})"))
        program = (
            "import sys; from tapestry.service.store.database import open_database; "
            f"open_database({store_url!r}).dispose(); sys.exit('alembic' in sys.modules)"
        )
        assert subprocess.run([sys.executable, "-c", program], timeout=20).returncode == 0


def test_tables_of_a_newer_release_are_refused(store_url: str) -> None:
    with opened(store_url) as engine, writing(engine).begin() as connection:
        connection.execute(VERSIONS.update().values(version_num="0099"))
    with pytest.raises(StoreError) as caught:
        open_database(store_url)
    assert f"has tables of version 0099, this program knows versions up to {HEAD}" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("table", ["aunts", "runs", "alembic_version"])
def test_tables_of_another_program_are_refused_and_left_alone(empty_url: str, table: str) -> None:
    other = create_engine(empty_url)
    with other.begin() as connection:
        connection.execute(text(f"CREATE TABLE {table} (name TEXT)"))
    with pytest.raises(StoreError, match=f"holds tables of another program .{table}.; give one of its own"):
        open_database(empty_url)
    assert inspect(other).get_table_names() == [table]
    other.dispose()
