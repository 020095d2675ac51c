"""Tests of the pool of islands: it outlives its workers, they do not outlive it, and its owner handles signals."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from tapestry.optimizer import ProcessIslands


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that has ended and waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def are_gone(pids: set[int], within_s: float = 20.0) -> bool:
    end = time.monotonic() + within_s
    while any(map(is_alive, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(map(is_alive, pids))


def children_of(pid: int) -> set[int]:
    """Return the living children of all threads of a process; threads may end during the call."""
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.update(map(int, (task / "children").read_text().split()))
    return found


def command_of(pid: int) -> str:
    """Return the command line of a process; empty where it has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""


@pytest.fixture
def strangers() -> set[int]:
    """Return the processes that other tests of this session keep."""
    return children_of(os.getpid())


@pytest.fixture
def islands():
    pool = ProcessIslands(2)
    yield pool
    pool.shutdown(wait=False, cancel_futures=True)


def test_workers_leave_signals_to_their_owner(islands: ProcessIslands) -> None:
    worker = islands.submit(os.getpid).result()
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(worker, number)
    time.sleep(0.2)
    assert is_alive(worker)
    assert islands.submit(os.getpid).result() == worker


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_the_others_of_its_pool_go(
    strangers: set[int], islands: ProcessIslands
) -> None:
    busy = [islands.submit(time.sleep, 0.3) for _ in range(2)]
    for future in busy:
        future.result()
    children = children_of(os.getpid()) - strangers
    before = {pid for pid in children if "spawn_main" in command_of(pid)}
    victim = islands.submit(os.getpid).result()
    waiting = [islands.submit(pow, k, 2) for k in range(5)]
    os.kill(victim, signal.SIGKILL)
    waiting += [islands.submit(pow, k, 2) for k in range(5, 10)]
    assert [future.result() for future in waiting] == [k * k for k in range(10)]
    assert victim in before
    until = time.monotonic() + 30  # the pool hears of the death in its own time
    while (replacement := islands.submit(os.getpid).result()) in before:
        assert time.monotonic() < until
    assert replacement not in before
    assert are_gone(before)


def ends_its_worker() -> None:
    os._exit(1)


@pytest.mark.slow
def test_a_task_that_ends_its_worker_again_and_again_fails(islands: ProcessIslands) -> None:
    with pytest.raises(Exception, match="terminated abruptly"):
        islands.submit(ends_its_worker).result()
    assert islands.submit(pow, 2, 5).result() == 32


def test_a_cancelled_task_is_not_reported_again(islands: ProcessIslands) -> None:
    running = islands.submit(time.sleep, 0.2)
    assert running.cancel()
    with pytest.raises(CancelledError):
        running.result()
    assert islands.submit(pow, 3, 2).result() == 9


@pytest.mark.slow
@pytest.mark.parametrize("idle_victim", [False, True])
def test_after_a_shutdown_the_workers_end(idle_victim: bool) -> None:
    pool = ProcessIslands(2)
    for future in [pool.submit(time.sleep, 0.3) for _ in range(2)]:
        future.result()
    workers = {pool.submit(os.getpid).result() for _ in range(20)}
    if idle_victim:
        os.kill(min(workers), signal.SIGKILL)
    last = pool.submit(pow, 2, 3) if not idle_victim else None
    pool.shutdown()
    assert last is None or last.result() == 8
    assert are_gone(workers)
    with pytest.raises(RuntimeError, match="shut down"):
        pool.submit(pow, 1, 1)


@pytest.mark.slow
def test_workers_end_when_their_owner_is_killed(root: Path) -> None:
    command = [sys.executable, "-m", "tests.optimizer.run.owner"]
    owner = subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True)
    try:
        assert owner.stdout is not None
        workers = {int(pid) for pid in owner.stdout.readline().split()}
        children = children_of(owner.pid)
        assert workers
        assert workers <= children
        assert all(map(is_alive, children))
    finally:
        owner.kill()
        owner.wait()
    assert are_gone(children)
