"""Tests of the child in which a worker does its jobs: it is ended where it has to be, and what it died of is known."""

from __future__ import annotations

import math
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.util import get_temp_dir
from pathlib import Path
from typing import Any

import pytest

from tapestry.service.children import ChildLimits
from tapestry.service.store import LeaseLost, Store
from tapestry.service.worker import WorkerSettings, work
from tapestry.service.worker.job_process import GRACE_S, POLL_S, JobProcess
from tapestry.service.worker.jobs import JobOutcome, JobSettings
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Graph
from tests.service.processes import eventually
from tests.service.programs import two_layers
from tests.service.worker.conftest import LEASE_S, Bench

pytestmark = pytest.mark.slow
PATIENCE_S = 90.0
LOADED_S = 5.0  # for a busy machine to end what it has to
LITTLE = ChildLimits(120 * 2**20)


def chain(length: int) -> Graph:
    """Build a program that takes long to compile: no two of its blocks have the same sizes."""
    b = GraphBuilder("chain")
    value = b.source("x", (64, 64), "float32")
    for k in range(length):
        weight = b.source(f"w{k}", (64 + k, 65 + k), "float32", "parameter")
        labels = (("m", "k"), ("k", "n"))
        (value,) = b.apply("contract", (value, weight), site=f"y{k}", labels=labels, output=("m", "n"))
    b.sink(value, site="result")
    return b.build()


@contextmanager
def process(
    store: Store, folder: Path, limits: ChildLimits | None = None, **settings: Any
) -> Iterator[JobProcess]:
    known = JobSettings(store.address.url, "worker", 1, LEASE_S, 0.0, str(folder), "ERROR", alone=True)
    opened = JobProcess(known, limits or ChildLimits(), **settings)
    try:
        yield opened
    finally:
        opened.close()


@pytest.fixture(autouse=True)
def folder(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Have temporary files, but those of the store, lie in a folder with a name that is short enough for sockets."""
    get_temp_dir()  # that of `multiprocessing` stays where it is
    with tempfile.TemporaryDirectory(prefix="t-") as place:
        monkeypatch.setattr(tempfile, "tempdir", place)
        yield Path(place)


def test_a_run_is_done_in_a_child_which_leaves_no_files(bench: Bench, folder: Path) -> None:
    run_id = bench.ask(two_layers(width=64), evaluations=500, rules=(), verify="dry")
    with process(bench.store, folder) as jobs:
        assert jobs.do(bench.claim()) == JobOutcome("done")
    run = bench.store.runs.get(run_id)
    assert (run.status, run.stopped) == ("succeeded", "budget")
    assert not list(folder.glob("jobs-*"))


@pytest.mark.parametrize(("how", "event"), [("cancel", "cancelled"), ("drain", "released")])
def test_a_child_that_does_not_end_by_itself_is_ended(
    bench: Bench, folder: Path, how: str, event: str
) -> None:
    run_id = bench.ask(chain(400), seconds=600)
    held = bench.claim()
    with process(bench.store, folder) as jobs, ThreadPoolExecutor(1) as threads:
        doing = threads.submit(jobs.do, held)
        eventually(lambda: bench.store.runs.get(run_id).phase == "compiling", PATIENCE_S, "it compiles")
        pid = jobs._child.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)  # it hears nothing
        began_s = time.monotonic()
        if how == "cancel":
            held.is_cancelled = True
        else:
            bench.draining.set()
        assert doing.result(PATIENCE_S).event == event
    assert time.monotonic() - began_s < GRACE_S + 2 * POLL_S + LOADED_S
    assert not Path(f"/proc/{pid}/cwd").exists()


def test_a_job_that_is_lost_is_ended_at_once(bench: Bench, folder: Path) -> None:
    run_id = bench.ask(chain(400), seconds=600)
    held = bench.claim()
    with process(bench.store, folder) as jobs, ThreadPoolExecutor(1) as threads:
        doing = threads.submit(jobs.do, held)
        eventually(lambda: bench.store.runs.get(run_id).phase == "compiling", PATIENCE_S, "it compiles")
        held.is_lost = True
        with pytest.raises(LeaseLost):
            doing.result(PATIENCE_S)
        assert jobs._child.pid is None


def test_a_phase_that_takes_too_long_fails_with_its_name(bench: Bench, folder: Path) -> None:
    bench.ask(chain(400), seconds=600)
    with process(bench.store, folder, phases_s={"compiling": 0.1}) as jobs:
        outcome = jobs.do(bench.claim())
    assert outcome.event == "failed" and outcome.problem is not None
    assert outcome.problem["code"] == "too_slow"
    assert str(outcome.problem["detail"]).startswith("compiling took more than is allowed")


def test_want_of_memory_is_a_death_and_a_kill_is_none(bench: Bench, folder: Path) -> None:
    bench.ask(chain(400), seconds=600)
    held = bench.claim()
    with process(bench.store, folder, LITTLE) as jobs:
        assert jobs.do(held).event == "died"
    with process(bench.store, folder) as jobs, ThreadPoolExecutor(1) as threads:
        doing = threads.submit(jobs.do, held)
        eventually(lambda: jobs._child.pid, PATIENCE_S, "it begins")
        os.kill(jobs._child.pid or 0, signal.SIGKILL)
        outcome = doing.result(PATIENCE_S)
    assert outcome.event == "killed" and "not by this service" in outcome.message


@contextmanager
def working(store: Store, **settings: Any) -> Iterator[None]:
    draining = threading.Event()
    known = WorkerSettings(islands=1, poll_s=0.02, alone=True, **settings)
    worker = threading.Thread(target=work, args=(store, known, draining))
    worker.start()
    try:
        yield
    finally:
        draining.set()
        worker.join()


def test_a_run_whose_process_dies_again_and_again_fails_with_the_reason(bench: Bench) -> None:
    poison = bench.ask(chain(400), seconds=600)
    innocent = bench.ask(two_layers(width=64), evaluations=500, rules=(), verify="none")
    with working(bench.store, memory_bytes=LITTLE.memory_bytes):
        ended(bench, poison)
    with working(bench.store):
        ended(bench, innocent)
    run = bench.store.runs.get(poison)
    assert (run.status, run.attempt) == ("failed", 3)
    assert run.problem is not None and run.problem["code"] == "worker_died"
    assert "its process died 3 times" in run.problem["detail"]
    assert "more than the 120 MiB that are allowed" in run.problem["detail"]
    assert bench.store.runs.get(innocent).status == "succeeded"


def test_a_lane_goes_on_after_a_fault(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    make, failures = tempfile.mkdtemp, [OSError(28, "No space left on device"), ValueError("a fault")]

    def fail(*arguments: Any, **keywords: Any) -> str:
        if failures and str(keywords.get("prefix", "")).startswith("jobs-"):
            raise failures.pop(0)
        return make(*arguments, **keywords)

    monkeypatch.setattr(tempfile, "mkdtemp", fail)
    run_id = bench.ask(two_layers(width=64), evaluations=500, rules=(), verify="none")
    with working(bench.store, lease_s=0.5):
        ended(bench, run_id)
    assert bench.store.runs.get(run_id).status == "succeeded"
    assert failures == [] and bench.store.runs.get(run_id).attempt == 3


def test_a_search_that_its_user_limits_has_a_limit_of_its_own(bench: Bench, folder: Path) -> None:
    bench.ask(two_layers(width=64), seconds=30, evaluations=20_000, rules=(), verify="none")
    reported: list[tuple[str, float]] = []
    with process(bench.store, folder) as jobs:
        take = jobs._child.take

        def noted(wait_s: float) -> Any:
            outcome = take(wait_s)
            if outcome is not None and not outcome.is_last:
                reported.append(outcome.result)
            return outcome

        jobs._child.take = noted  # type: ignore[method-assign]
        assert jobs.do(bench.claim()) == JobOutcome("done")
    limits = dict(reported)
    assert limits["compiling"] == math.inf
    assert 90 < limits["searching"] < 92


def test_runs_are_done_side_by_side(bench: Bench) -> None:
    run_ids = [bench.ask(two_layers(width=64 * k), evaluations=10**9, verify="none") for k in (1, 2)]
    with working(bench.store, runs=2):
        eventually(
            lambda: all(bench.store.runs.get(run_id).phase == "searching" for run_id in run_ids),
            PATIENCE_S,
            "both are searched",
        )
    assert [bench.store.runs.get(run_id).status for run_id in run_ids] == ["queued", "queued"]


def ended(bench: Bench, run_id: str) -> None:

    eventually(lambda: bench.store.runs.get(run_id).ended_at is not None, PATIENCE_S, f"run {run_id} ends")
