"""Tests of claims by fair shares, and of the places of waiting runs: with many at once, and by indices."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, event, insert, select, text, update

from tapestry.service.scheduling import HALF_LIFE_S
from tapestry.service.store import Job, QueuePlace, QuotaLimits, Store, StoreError
from tapestry.service.store.claiming import shares_of
from tapestry.service.store.tables import LeaseRow, RunRow, UsageRow
from tests.service.databases import KINDS
from tests.service.programs import NOON, two_layers
from tests.service.store.clocks import ManualClock, taken_over
from tests.service.store.submissions import LEASE_S, later, plans, request_for, update_of

SECONDS = 10.0  # that each run of `submissions` may search
MANY = 10_000


def submitted(store: Store, tenant: str, count: int = 1, at: float = 0.0, priority: int = 0) -> list[str]:
    mine = store.of(tenant)
    graph = mine.graphs.save(two_layers(), NOON).id
    return [mine.runs.submit(request_for(graph), later(at + k), priority=priority).id for k in range(count)]


def claim(store: Store) -> Job:
    job = store.jobs.claim("ada", later(100), LEASE_S)
    assert job is not None
    return job


def test_of_many_runs_and_one_of_another_tenant_that_one_is_next(store: Store) -> None:
    many = submitted(store, "many", 5)
    first = claim(store)
    (one,) = submitted(store, "one", at=50)
    assert (first.subject, first.tenant) == (many[0], "many")
    taken = claim(store)
    assert (taken.subject, taken.tenant) == (one, "one")
    assert [claim(store).subject for _ in range(4)] == many[1:]


def test_all_that_a_worker_did_for_a_tenant_counts(store_url: str) -> None:
    """Check runs that compile and check for longer than they search, attempts that died, and executions."""
    clock = ManualClock()
    store = Store(store_url, clock)
    submitted(store, "a")
    died = claim(store)
    clock.seconds += 30
    store.jobs.release(died, later(101), "its process died")
    assert used(store) == {"a": pytest.approx(30.0, rel=1e-2)}
    ended = claim(store)
    clock.seconds += 12
    store.jobs.checkpoint(ended, later(110), LEASE_S, update_of(plans((1e-3, 1024))))
    store.jobs.end_run(ended, later(112), "finished", stopped="budget")
    assert used(store) == {"a": pytest.approx(42.0, rel=1e-2)}
    (plan,) = store.of("a").runs.frontier(ended.subject)
    store.of("a").executions.submit(plan.key, backend="numpy", values=False, seed=0, created_at=later(113))
    executed = store.jobs.claim("ada", later(114), LEASE_S, ("execution",))
    assert executed is not None
    clock.seconds += 100
    store.jobs.release(executed, later(214))
    assert used(store) == {"a": pytest.approx(142.0, rel=1e-2)}
    store.close()


def test_what_was_searched_counts_until_it_was_long_ago(store: Store) -> None:
    """Check that a tenant whose run searched for a second of its ten is behind one that never had any."""
    submitted(store, "a")
    ended = claim(store)
    store.jobs.checkpoint(ended, later(9), LEASE_S, update_of())
    store.jobs.end_run(ended, later(9), "finished", stopped="budget")
    assert used(store) == {"a": pytest.approx(1.0, rel=1e-2)}
    (late,), older = submitted(store, "b", at=60), submitted(store, "a", 2, at=10)
    assert [claim(store).subject for _ in range(3)] == [late, *older]
    with store._database.writing() as connection:
        connection.execute(update(UsageRow).values(at_s=UsageRow.at_s - 2 * HALF_LIFE_S))
    assert used(store) == {"a": pytest.approx(1.0 / 4 + 2 * SECONDS, rel=1e-3), "b": SECONDS}


def used(store: Store) -> dict[str, float]:
    with store._database.reading() as connection:
        return dict(shares_of(connection).used_s)


def test_a_tenant_of_twice_the_weight_gets_twice_as_much(store: Store) -> None:
    store.tenants.set_limits("a", QuotaLimits(), NOON, weight=2)
    store.tenants.set_limits("a", QuotaLimits(jobs=99), NOON)  # the weight stays
    assert [store.tenants.weight(tenant) for tenant in "ab"] == [2.0, 1.0]
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(StoreError, match="the weight of a tenant is a number above 0"):
            store.tenants.set_limits("a", QuotaLimits(), NOON, weight=wrong)
    submitted(store, "a", 8)
    submitted(store, "b", 8)
    assert Counter(claim(store).tenant for _ in range(9)) == {"a": 6, "b": 3}


def test_a_run_of_a_dead_worker_takes_its_turn_among_the_others(store: Store, clock: ManualClock) -> None:
    (lost,), (high,) = submitted(store, "a"), submitted(store, "b", at=1, priority=1)
    assert claim(store).subject == high
    assert claim(store).subject == lost
    store.jobs.release_owner("ada")
    (waiting,) = submitted(store, "c", at=2)
    assert [claim(store).subject for _ in range(2)] == [lost, high][
        ::-1
    ]  # by priority, though it waits no longer
    assert claim(store).subject == waiting
    taken = taken_over(store, clock, "bob", later(60))
    assert taken is not None and (taken.subject, taken.attempt) == (high, 3)


def test_claimers_at_once_take_as_much_of_each_tenant(store: Store, store_url: str) -> None:
    for tenant in "abc":
        submitted(store, tenant, 10)
    claimers = 6
    barrier = threading.Barrier(claimers)

    def claim_two(number: int) -> list[Job]:
        mine = store if number % 2 else Store(store_url)
        barrier.wait()
        taken = [mine.jobs.claim(f"worker {number}", later(60), LEASE_S) for _ in range(2)]
        if mine is not store:
            mine.close()
        return [job for job in taken if job]

    with ThreadPoolExecutor(claimers) as pool:
        jobs = [job for taken in pool.map(claim_two, range(claimers)) for job in taken]
    assert len({job.subject for job in jobs}) == 2 * claimers
    assert Counter(job.tenant for job in jobs) == {"a": 4, "b": 4, "c": 4}


@pytest.mark.parametrize("store_url", KINDS[1:], indirect=True)  # writers of a file wait for each other
def test_a_job_that_somebody_changes_is_left_to_them(store: Store) -> None:
    first, second = submitted(store, "a", 2)
    with store._database.writing() as connection:
        locked = select(LeaseRow.subject).where(LeaseRow.subject == first).with_for_update()
        assert connection.scalar(locked) == first
        assert claim(store).subject == second
    assert claim(store).subject == first


@contextmanager
def statements_of(store: Store) -> Iterator[list[tuple[str, Any]]]:
    """Collect the statements that are sent to the database."""
    found: list[tuple[str, Any]] = []

    def note(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        found.append((statement, parameters))

    event.listen(store._database.engine, "before_cursor_execute", note)
    yield found
    event.remove(store._database.engine, "before_cursor_execute", note)


def plan_of(connection: Connection, statement: str, parameters: Any) -> str:
    """Return how the database carries out a statement."""
    explain = "EXPLAIN QUERY PLAN " if connection.dialect.name == "sqlite" else "EXPLAIN "
    return "\n".join(str(row) for row in connection.exec_driver_sql(explain + statement, parameters))


def put_many(store: Store, run_id: str, count: int) -> None:
    """Add copies of a waiting run to the queue, of three tenants."""
    with store._database.writing() as connection:
        for table, key in ((RunRow.__table__, "id"), (LeaseRow.__table__, "subject")):
            row = dict(connection.execute(select(table).where(table.c[key] == run_id)).one()._mapping)
            copies = [{**row, key: f"{k:012x}", "tenant": f"tenant{k % 3}"} for k in range(count)]
            connection.execute(insert(table), copies)
    with store._database.engine.connect() as connection:
        connection.execute(text("ANALYZE"))
        connection.commit()


def test_a_claim_among_ten_thousand_reads_no_more_than_one_among_few(store: Store) -> None:
    """Count statements, and look at the plans of all that read leases: by an index, never all of them."""
    (run_id,) = submitted(store, "default")
    put_many(store, run_id, 30)
    with statements_of(store) as few:
        claim(store)
    with store._database.writing() as connection:
        connection.execute(LeaseRow.__table__.delete().where(LeaseRow.__table__.c.subject.like("0000%")))
        connection.execute(RunRow.__table__.delete().where(RunRow.__table__.c.id.like("0000%")))
    put_many(store, run_id, MANY)
    with statements_of(store) as many:
        claim(store)
    assert len(many) == len(few)
    queries = [(text_, values) for text_, values in many if "leases" in text_ and text_.startswith("SELECT")]
    assert len(queries) >= 6
    with store._database.engine.connect() as connection:
        for statement, parameters in queries:
            plan = plan_of(connection, statement, parameters)
            assert "SCAN leases" not in plan or "USING INDEX ix_leases_held" in plan, (
                plan
            )  # of the few that run
            assert "Seq Scan on leases" not in plan, plan


def test_a_run_that_waits_knows_its_place(store: Store) -> None:
    mine, other = submitted(store, "default", 3), submitted(store, "other", 2, at=10)
    guess = store.waiting.place(mine[0], "default", NOON, 1)
    assert guess == QueuePlace(1, NOON, NOON, NOON, is_guess=True)
    order = [mine[0], other[0], mine[1], other[1], mine[2]]
    places = [store.waiting.place(run, "default", NOON, 2) for run in order]
    assert [place.position for place in places if place] == [1, 2, 3, 4, 5]
    starts = [place.expected_start - NOON for place in places if place and place.expected_start]
    assert starts == [timedelta(seconds=s) for s in (0, 0, SECONDS, SECONDS, 2 * SECONDS)]
    assert claim(store).subject == mine[0]
    assert store.waiting.place(mine[0], "default", NOON, 1) is None
    last = store.waiting.place(mine[2], "default", NOON, 1)
    assert last is not None and last.position == 4
    nobody = store.waiting.place(other[0], "other", NOON, 0)
    assert nobody is not None and nobody.expected_start == NOON + timedelta(seconds=SECONDS)  # one runs still


def test_without_a_worker_nothing_is_expected(store: Store) -> None:
    (run,) = submitted(store, "default")
    assert store.waiting.place(run, "default", NOON, 0) == QueuePlace(1, None, None, None, is_guess=True)


def test_estimates_follow_how_long_the_runs_of_the_tenant_took(store: Store) -> None:
    """Check runs that took twice as long as they may search, and that those of others tell nothing."""
    for number in range(5):
        submitted(store, "default", at=number)
        job = store.jobs.claim("ada", later(100), LEASE_S)
        assert job is not None
        store.jobs.end_run(job, later(100 + 2 * SECONDS), "finished", stopped="budget")
    submitted(store, "default", at=50)
    claim(store)
    (run,) = submitted(store, "default", at=60)
    place = store.waiting.place(run, "default", NOON, 1)
    start = NOON + timedelta(seconds=2 * SECONDS)
    assert place == QueuePlace(1, start, start, start, is_guess=False)
    (of_other,) = submitted(store, "other", at=60)
    guess = store.waiting.place(of_other, "other", NOON, 1)
    assert guess is not None and guess.is_guess and guess.position == 1
