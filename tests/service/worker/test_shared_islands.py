"""Tests of runs whose islands several workers share: the frontier is the same, whatever becomes of the others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import delete, func, select

from tapestry.optimizer import ProcessIslands
from tapestry.optimizer.run.epoch_bytes import EpochError, parse_answer, parse_epoch
from tapestry.service.store import SharedEpoch, Store
from tapestry.service.store.records import WorkerHeartbeat
from tapestry.service.store.tables import EpochRow, EpochVariantRow
from tapestry.service.worker.searching import SearchJob
from tapestry.service.worker.shared_islands import Helper, SharedIslands, release_text
from tapestry.teg.document import dumps
from tests.service.databases import file_with_tables
from tests.service.processes import ROOT, Service, eventually
from tests.service.programs import two_layers
from tests.service.worker.conftest import Bench, plans

pytestmark = pytest.mark.slow
OPTIONS = {
    "evaluations": 30_000,
    "islands": 4,
    "seed": 3,
    "prior": "none",
    "micro_batches": 1,
    "verify": "dry",
}


@pytest.fixture(scope="module")
def pools() -> Iterator[tuple[ProcessIslands, ProcessIslands]]:
    """Processes of two workers, one each."""
    with ProcessIslands(1) as one, ProcessIslands(1) as other:
        yield one, other


def beat(store: Store, name: str, status: str = "idle") -> None:
    store.workers.beat(name, datetime.now(UTC), host="there", pid=1, status=status, subject=None)


def left(store: Store) -> int:
    """Count what is stored of shared epochs."""
    with store._database.reading() as connection:
        tables = (EpochRow, EpochVariantRow)
        return sum(connection.scalar(select(func.count()).select_from(table)) or 0 for table in tables)


@contextmanager
def beside(store: Store, work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Let another worker do something again and again in a thread, alive for those who look."""
    over = threading.Event()

    def go_on() -> None:
        while not over.is_set():
            beat(store, "other")
            work(over)
            over.wait(0.01)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def do_shared(bench: Bench, pool: ProcessIslands) -> tuple[str, dict[str, int]]:
    """Do a run whose epochs are shared with others; return its id, and the epochs that these ran."""
    beat(bench.store, "other")
    run_id = bench.ask(two_layers(width=256), **OPTIONS)
    held = bench.claim()
    with SharedIslands(bench.store, held.job, pool) as shared:
        SearchJob(bench.store, held, shared, islands=4, checkpoint_s=1e9).do()
    assert bench.store.runs.get(run_id).status == "succeeded"
    assert left(bench.store) == 0
    return run_id, shared.helped


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    """Return the frontier of the run that one worker does alone, published once."""
    with closing(Store(file_with_tables(tmp_path_factory.mktemp("alone") / "worker.db"))) as store:
        bench = Bench(store)
        run_id = bench.ask(two_layers(width=256), **OPTIONS)
        with ProcessIslands(2) as pool:
            SearchJob(store, bench.claim(), pool, islands=4, checkpoint_s=1e9).do()
        return plans(store, run_id)


def test_a_shared_run_has_the_frontier_of_one_worker(
    bench: Bench, alone: dict[str, dict[str, float]], pools: tuple[ProcessIslands, ProcessIslands]
) -> None:
    runs: set[str | None] = set()
    with beside(bench.store, lambda over: Helper(bench.store, "other", pools[1], over, runs.add).help()):
        run_id, helped = do_shared(bench, pools[0])
    assert plans(bench.store, run_id) == alone
    assert helped["other"] > 3
    assert runs == {run_id, None}


def test_without_idle_workers_nothing_is_written(
    bench: Bench, pools: tuple[ProcessIslands, ProcessIslands], monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    monkeypatch.setattr(bench.store.epochs, "share", lambda *_: written.append(1))
    beat(bench.store, "busy one", "busy")
    held = bench.claim() if bench.ask(two_layers(width=256), **OPTIONS) else None
    assert held is not None
    with SharedIslands(bench.store, held.job, pools[0]) as shared:
        SearchJob(bench.store, held, shared, islands=4, checkpoint_s=1e9).do()
    assert written == [] and shared.helped == {}


def test_who_takes_epochs_and_is_gone_costs_time_alone(
    bench: Bench, alone: dict[str, dict[str, float]], pools: tuple[ProcessIslands, ProcessIslands]
) -> None:
    taken: list[SharedEpoch] = []

    def take(_: threading.Event) -> None:
        if len(taken) < 3 and (found := bench.store.epochs.take("other", release_text())):
            taken.append(found)

    with beside(bench.store, take):
        run_id, helped = do_shared(bench, pools[0])
    assert len(taken) == 3 and helped == {}
    assert plans(bench.store, run_id) == alone
    for late in taken:  # its answer is not expected any more
        bench.store.epochs.answer(late, "other", b"late")
    assert left(bench.store) == 0


def test_what_is_no_answer_is_run_here(
    bench: Bench, alone: dict[str, dict[str, float]], pools: tuple[ProcessIslands, ProcessIslands]
) -> None:
    answered: list[int] = []

    def answer(_: threading.Event) -> None:
        found = bench.store.epochs.take("other", release_text())
        if found is not None:
            wrong = found.content if len(answered) % 2 else b"nothing"
            bench.store.epochs.answer(found, "other", wrong)
            answered.append(found.number)

    with beside(bench.store, answer):
        run_id, helped = do_shared(bench, pools[0])
    assert answered and helped == {}
    assert plans(bench.store, run_id) == alone


def test_epochs_are_taken_by_workers_of_their_release_while_a_worker_has_their_run(bench: Bench) -> None:
    run_id = bench.ask(two_layers(), **OPTIONS)
    job = bench.claim().job
    store = bench.store.epochs
    store.put_variant(job, "ab", b"arrays")
    store.share(job, "one/release", 1, "ab", b"epoch")
    assert store.take("other", "another/release") is None
    bench.store.jobs.release_owner(job.owner)
    assert store.take("other", "one/release") is None
    job = bench.claim().job
    store.put_variant(job, "ab", b"arrays")
    store.share(job, "one/release", 1, "ab", b"epoch")
    found = store.take("other", "one/release")
    assert found is not None and (found.run_id, found.content) == (run_id, b"epoch")
    assert store.take("a third", "one/release") is None
    assert store.variant(run_id, "ab") == b"arrays"
    assert not store.withdraw(job, 1)
    store.answer(found, "a third", b"not its own")
    assert store.answers(job) == ()
    store.answer(found, "other", None, "no memory")
    (answered,) = store.answers(job)
    assert (answered.number, answered.worker, answered.fault) == (1, "other", "no memory")
    store.share(job, "one/release", 2, "ab", b"epoch")
    bench.store.jobs.release(job, datetime.now(UTC))
    assert left(bench.store) == 0


def test_a_worker_that_has_lost_its_run_shares_nothing(bench: Bench) -> None:
    """Refuse epochs of an attempt that has ended: another worker has the run, or none."""
    bench.ask(two_layers(), **OPTIONS)
    job = bench.claim().job
    bench.store.jobs.release(job, datetime.now(UTC))
    bench.store.epochs.put_variant(job, "ab", b"arrays")
    assert not bench.store.epochs.share(job, release_text(), 1, "ab", b"epoch")
    assert left(bench.store) == 0 and bench.store.epochs.unanswered(job) == {}


def test_epochs_that_vanish_from_the_database_run_here(
    bench: Bench, alone: dict[str, dict[str, float]], pools: tuple[ProcessIslands, ProcessIslands]
) -> None:
    vanished: list[int] = []

    def vanish(_: threading.Event) -> None:
        with bench.store._database.writing() as connection:
            if sum(vanished) < 5:
                vanished.append(connection.execute(delete(EpochRow)).rowcount)

    with beside(bench.store, vanish):
        run_id, helped = do_shared(bench, pools[0])
    assert sum(vanished) >= 5 and helped == {} and plans(bench.store, run_id) == alone


def test_an_epoch_that_cannot_be_read_is_answered_by_the_reason(
    bench: Bench, pools: tuple[ProcessIslands, ProcessIslands]
) -> None:
    bench.ask(two_layers(), **OPTIONS)
    job = bench.claim().job
    bench.store.epochs.put_variant(job, "ab", b"arrays")
    bench.store.epochs.share(job, release_text(), 1, "ab", b"epoch")
    Helper(bench.store, "other", pools[1], threading.Event(), lambda _: None).help()
    (answered,) = bench.store.epochs.answers(job)
    assert answered.fault == "the arrays of variant ab are damaged"
    with pytest.raises(EpochError, match="are no epoch: they begin with"):
        parse_epoch(b"tapestry answer 1\n")
    with pytest.raises(EpochError, match="are no answer to an epoch"):
        parse_answer(b"")


def test_a_run_that_waits_ends_the_help(bench: Bench, pools: tuple[ProcessIslands, ProcessIslands]) -> None:
    """Have a worker that helps one run begin the next one at once, though epochs go on being shared."""
    began: list[float] = []

    def on_run(run_id: str | None) -> None:
        if run_id is not None and not began:
            began.append(time.monotonic())
            bench.ask(two_layers(), evaluations=100)
        if run_id is None:
            began.append(time.monotonic())

    helper = Helper(bench.store, "other", pools[1], threading.Event(), on_run)
    with ExitStack() as stack:
        run_id = bench.ask(two_layers(width=256), **{**OPTIONS, "evaluations": 10_000_000})
        held = bench.claim()
        shared = stack.enter_context(SharedIslands(bench.store, held.job, pools[0]))
        beat(bench.store, "other")
        job = SearchJob(bench.store, held, shared, islands=4, checkpoint_s=0.5)
        thread = threading.Thread(target=job.do)
        thread.start()
        while not began:
            beat(bench.store, "other")
            helper.help()
            time.sleep(0.01)
        assert began[1] - began[0] < 10
        assert bench.store.runs.get(run_id).status == "running"
        held.is_cancelled = True
        thread.join()
    assert left(bench.store) == 0


@pytest.mark.parametrize("victim", ["the one that helps", "the one that has the run"])
def test_two_workers_of_a_service_on_one_run_of_which_one_is_killed(tmp_path: Path, victim: str) -> None:
    url = f"sqlite:///{tmp_path / 'service.db'}"
    command = [
        sys.executable,
        "-m",
        "tapestry.service.cli",
        "worker",
        "--database-url",
        url,
        "--islands",
        "1",
    ]
    with Service(url, tmp_path / "log", "--no-worker") as service, ExitStack() as stack:
        store = Store(url)
        stack.callback(store.close)
        workers = {}
        for _ in range(2):
            process = stack.enter_context(subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL))
            stack.callback(process.kill)
            workers[process.pid] = process
        eventually(lambda: service.get("/readyz")["workers"] == 2, 60, "both are there")
        run_id = long_run(service)
        (helping,) = eventually(lambda: helpers(store), 90, "one worker helps")
        before = eventually(
            lambda: service.get(f"/v1/runs/{run_id}/frontier")["plans"], 60, "plans are shown"
        )
        other = next(pid for pid in workers if pid != helping.pid)
        os.kill(helping.pid if victim == "the one that helps" else other, signal.SIGKILL)
        assert service.wait_for_run(run_id)["status"] == "succeeded"
        after = service.get(f"/v1/runs/{run_id}/frontier")["plans"]
        names = ("time_s", "peak_memory_bytes")
        for plan in before:
            assert any(all(b["cost"][n] <= 1.05 * plan["cost"][n] for n in names) for b in after)
        assert left(store) == 0


def long_run(service: Service) -> str:
    """Request a run of six islands that takes some seconds."""
    graph = service.post("/v1/graphs", json=json.loads(dumps(two_layers(width=256))))
    body = {
        "graph_id": graph["id"],
        "mesh": "dgx-h100",
        "objectives": ["time_s", "peak_memory_bytes"],
        "islands": 6,
        "budget": {"seconds": 8.0},
        "fresh": True,
    }
    return str(service.post("/v1/runs", json=body)["id"])


def helpers(store: Store) -> tuple[WorkerHeartbeat, ...]:
    """Return the workers that were seen helping in the last seconds."""
    seen = store.workers.alive(3)
    return tuple(one for one in seen if one.status == "helping")
