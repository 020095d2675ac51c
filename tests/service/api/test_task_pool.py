"""Tests of the task pool: processes may die, hang or break without affecting other tasks."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tapestry.service.api import preload
from tapestry.service.api import task_pool as pool_module
from tapestry.service.api.problems import Problem
from tapestry.service.api.task_pool import TaskPool, TenantPool
from tapestry.service.store import StoreError
from tests.service.processes import eventually

PATIENCE_S = 60.0  # of tests on a loaded machine; usually a moment
LEAST_URGENT = 19  # the highest niceness there is


@pytest.fixture(scope="module")
def pool() -> Iterator[TenantPool]:
    with closing(TaskPool(workers=1)) as opened:
        yield opened.of("a")


def test_a_task_is_done_elsewhere_and_gives_way(pool: TenantPool) -> None:
    assert pool.do(os.getpid) != os.getpid()
    assert pool.do(os.getpid) == pool.do(os.getpid)
    assert pool.do(os.nice, 0) == min(os.nice(0) + pool_module.NICENESS, LEAST_URGENT)


def test_the_modules_of_all_tasks_are_loaded_before_processes_fork() -> None:
    folder = Path(preload.__file__).parent
    assert sorted(preload.__all__) == sorted(path.stem for path in folder.glob("*tasks.py"))


def test_what_a_task_raises_is_a_fault_and_the_pool_goes_on(pool: TenantPool) -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        pool.do(divmod, 1, 0)
    with pytest.raises(StoreError, match="no such place"):
        pool.do(_refuse, "no such place")
    assert pool.do(divmod, 7, 2) == (3, 1)


def test_a_process_is_started_before_the_first_task() -> None:
    with closing(TaskPool(workers=1)) as opened:
        (worker,) = opened._workers
        opened.prepare()
        eventually(lambda: worker.pid is not None and worker.tasks_begun == 1, PATIENCE_S, "it is started")
        started = worker.pid
        opened.prepare()  # once is enough
        assert opened.of("a").do(os.getpid) == started
        assert worker.tasks_begun == 2


@pytest.mark.slow
def test_a_process_that_dies_is_replaced_and_its_task_done_again(pool: TenantPool, tmp_path: Path) -> None:
    before = pool.do(os.getpid)
    os.kill(before, signal.SIGKILL)
    assert pool.do(os.getpid) != before
    assert pool.do(_die_once, str(tmp_path / "mark")) == "done"


@pytest.mark.slow
def test_a_task_that_always_kills_its_process_is_given_up(pool: TenantPool) -> None:
    with pytest.raises(Problem, match="brought its process down, twice") as refusal:
        pool.do(os._exit, 1)
    assert (refusal.value.status, refusal.value.code) == (503, "unavailable")
    assert pool.do(divmod, 7, 2) == (3, 1)


@pytest.mark.slow
def test_a_task_that_takes_too_long_is_ended_with_its_process(tmp_path: Path) -> None:
    pool = TaskPool(workers=1, limit_s=5.0)
    with pytest.raises(Problem, match="more than the 5 s that are allowed") as refusal:
        pool.of("a").do(_say_and_sleep, str(tmp_path / "pid"))
    assert (refusal.value.status, refusal.value.code) == (503, "too_slow")
    pid = int((tmp_path / "pid").read_text())
    eventually(lambda: not Path(f"/proc/{pid}").exists(), PATIENCE_S, "the process has ended")
    assert pool.of("a").do(divmod, 7, 2) == (3, 1)
    pool.close()


@pytest.mark.slow
def test_a_process_is_replaced_after_some_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "TASKS_PER_PROCESS", 2)
    pool = TaskPool(workers=1)
    pids = [pool.of("a").do(os.getpid) for _ in range(4)]
    pool.close()
    assert pids[0] == pids[1] != pids[2] == pids[3]


@pytest.mark.slow
def test_too_many_who_wait_are_sent_away(tmp_path: Path) -> None:
    pool = TaskPool(workers=1, places=4)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(pool.of("a").do, _say_and_wait, str(tmp_path / "busy"))
        eventually((tmp_path / "busy").exists, PATIENCE_S, "the task pool is busy")
        second = threads.submit(pool.of("a").do, divmod, 7, 2)
        eventually(lambda: pool.waiting == 1, PATIENCE_S, "one waits")
        with pytest.raises(Problem) as refusal:
            pool.of("a").do(divmod, 7, 2)
        (tmp_path / "busy").unlink()
        assert (first.result(), second.result()) == ("done", (3, 1))
    pool.close()
    assert (refusal.value.status, refusal.value.code) == (503, "busy")
    assert refusal.value.headers == {"Retry-After": "5"}


@pytest.mark.slow
def test_a_tenant_that_sends_much_leaves_places_and_turns_to_others(tmp_path: Path) -> None:
    files = [tmp_path / f"a {k}" for k in range(8)]
    with closing(TaskPool(workers=2)) as pool, ThreadPoolExecutor(16) as threads:
        tasks = []
        for k, file in enumerate(files):
            tasks.append(threads.submit(pool.of("a").do, _say_and_wait, str(file)))
            if k < 2:
                eventually(file.exists, PATIENCE_S, "a alone has all processes")
        eventually(lambda: pool.waiting == 6, PATIENCE_S, "a waits")
        with pytest.raises(Problem, match="your share") as refusal:
            pool.of("a").do(os.getpid)
        other = tmp_path / "b"
        tasks.append(threads.submit(pool.of("b").do, _say_and_wait, str(other)))
        eventually(lambda: pool.waiting == 7, PATIENCE_S, "b waits")
        files[0].unlink()
        eventually(other.exists, PATIENCE_S, "the next turn is of b")
        assert [file.exists() for file in files[1:]] == [True] + [False] * 6
        other.unlink()
        for file in files[1:]:
            eventually(file.exists, PATIENCE_S, "the turns of a come in order")
            file.unlink()
        assert [task.result(PATIENCE_S) for task in tasks] == ["done"] * 9
    assert (refusal.value.status, refusal.value.code) == (503, "busy")


@pytest.mark.slow
def test_closing_ends_processes_and_notifies_those_who_wait(tmp_path: Path) -> None:
    pool = TaskPool(workers=1)
    refusals: list[Problem] = []

    def wait() -> None:
        try:
            pool.of("a").do(_say_and_sleep, str(tmp_path / "pid"))
        except Problem as refusal:
            refusals.append(refusal)

    waiting = threading.Thread(target=wait)
    waiting.start()
    eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), PATIENCE_S, "it works")
    pool.close()
    waiting.join(5)
    assert [refusal.code for refusal in refusals] == ["unavailable"]
    pid = int((tmp_path / "pid").read_text())
    eventually(lambda: not Path(f"/proc/{pid}").exists(), PATIENCE_S, "the process has ended")


def test_results_of_a_generator_are_taken_one_by_one(pool: TenantPool) -> None:
    assert list(pool.stream(range, 3)) == [0, 1, 2]
    before = pool.do(os.getpid)
    assert list(pool.stream(_pids, 2)) == [before, before]


def test_a_generator_that_fails_is_a_fault_behind_its_results(pool: TenantPool) -> None:
    results = pool.stream(_fail_at, 2)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        next(results)
    assert list(results) == []
    with pytest.raises(StoreError, match="no such place"):
        next(pool.stream(_refuse_at_once, "no such place"))
    assert pool.do(divmod, 7, 2) == (3, 1)


@pytest.mark.slow
def test_a_generator_waits_while_its_results_are_not_taken(pool: TenantPool, tmp_path: Path) -> None:
    results = pool.stream(_count_bytes, str(tmp_path / "count"), 2**20, 200)
    assert len(next(results)) == 2**20
    time.sleep(0.5)
    assert int((tmp_path / "count").read_text()) < 10
    results.end()


@pytest.mark.slow
def test_work_that_is_not_wanted_any_more_ends_with_its_process(pool: TenantPool) -> None:
    results = pool.stream(_pids, 10**9)
    pid = next(results)
    results.end()
    results.end()
    eventually(lambda: not Path(f"/proc/{pid}").exists(), PATIENCE_S, "the process has ended")
    assert list(results) == []
    assert pool.do(os.getpid) != pid


@pytest.mark.slow
def test_who_waits_for_a_result_hears_of_the_end(pool: TenantPool, tmp_path: Path) -> None:
    results = pool.stream(_hang, str(tmp_path / "pid"))
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(list, results)
        eventually((tmp_path / "pid").exists, PATIENCE_S, "it works")
        results.end()
        assert waiting.result(PATIENCE_S) == []


@pytest.mark.slow
def test_a_process_that_dies_within_a_generator_is_reported(pool: TenantPool) -> None:
    results = pool.stream(_die_at, 1)
    assert next(results) == 0
    with pytest.raises(Problem, match="the process that computes this has ended"):
        next(results)
    assert pool.do(divmod, 7, 2) == (3, 1)


def _pids(count: int) -> Iterator[int]:
    return (os.getpid() for _ in range(count))


def _fail_at(count: int) -> Iterator[int]:
    yield from range(count)
    raise ZeroDivisionError


def _refuse_at_once(why: str) -> Iterator[int]:
    raise StoreError(why)


def _count_bytes(path: str, size: int, count: int) -> Iterator[bytes]:
    for k in range(count):
        Path(path).write_text(str(k))
        yield bytes(size)


def _hang(path: str) -> Iterator[int]:
    Path(path).touch()
    time.sleep(1000)
    yield 0


def _die_at(count: int) -> Iterator[int]:
    yield from range(count)
    os._exit(1)


def _refuse(why: str) -> None:
    raise StoreError(why)


def _die_once(mark: str) -> str:
    if Path(mark).exists():
        return "done"
    Path(mark).touch()
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


def _say_and_sleep(path: str) -> None:
    Path(path).write_text(str(os.getpid()))
    time.sleep(60)


def _say_and_wait(path: str) -> str:
    Path(path).touch()
    while Path(path).exists():
        time.sleep(0.01)
    return "done"
