"""Tests of searches on a Dask cluster: equal to those in one process, whatever happens to workers; clear errors."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tapestry.optimizer.run import cluster as cluster_module
from tapestry.optimizer.run.cluster import ClusterIslands, check_address
from tapestry.optimizer.run.release import own_release
from tapestry.optimizer.run.tls import ClusterError, Tls
from tapestry.optimizer.run.workers import InlineExecutor, WorkersLost
from tests.optimizer.run.clusters import ClusterProcesses
from tests.optimizer.run.test_reproducible import repeats
from tests.optimizer.searches import search

pytest.importorskip("distributed")

OPTIONS = {"seed": 5, "islands": 3, "evaluations": 20_000}


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    started = ClusterProcesses(tmp_path_factory.mktemp("cluster"))
    started.add_workers(2)
    try:
        yield started
    finally:
        started.close()


@pytest.fixture
def islands(processes: ClusterProcesses) -> Iterator[ClusterIslands]:
    with ClusterIslands(processes.address, connect_s=30.0) as executor:
        yield executor


@pytest.fixture
def own(tmp_path: Path) -> Iterator[ClusterProcesses]:
    """Start a scheduler that a test may leave without workers."""
    started = ClusterProcesses(tmp_path)
    try:
        yield started
    finally:
        started.close()


@pytest.mark.slow
def test_a_cluster_gives_what_one_process_gives(islands: ClusterIslands) -> None:
    inline = search(executor=InlineExecutor(), **OPTIONS)
    assert len(inline.frontier) > 5
    assert repeats(inline, search(executor=islands, **OPTIONS))
    assert repeats(inline, search(executor=islands, **OPTIONS)), "twice"


@pytest.mark.slow
def test_tasks_give_results_and_errors(islands: ClusterIslands) -> None:
    assert islands.size == 2
    assert len({islands.submit(os.getpid).result() for _ in range(20)} - {os.getpid()}) >= 1
    assert [islands.submit(pow, k, 2).result() for k in range(5)] == [0, 1, 4, 9, 16]
    with pytest.raises(ZeroDivisionError):
        islands.submit(divmod, 1, 0).result()
    cancelled = islands.submit(time.sleep, 0.3)
    assert cancelled.cancel()
    with pytest.raises(CancelledError):
        cancelled.result()
    assert islands.submit(pow, 3, 2).result(timeout=10) == 9


@pytest.mark.slow
def test_killed_workers_change_nothing(own: ClusterProcesses) -> None:
    """Check that a worker that is killed at a random moment, three times, costs time and nothing else."""
    rng = np.random.default_rng(0)
    inline = search(executor=InlineExecutor(), **OPTIONS)
    own.add_workers(2)
    with ClusterIslands(own.address, connect_s=30.0) as islands:
        for k in range(3):
            killing = threading.Timer(float(rng.uniform(0.0, 1.5)), own.kill_worker, [k])
            killing.start()
            assert repeats(inline, search(executor=islands, **OPTIONS))
            killing.join()
            own.add_workers(1)


@pytest.mark.slow
def test_without_workers_a_search_ends_with_what_it_has(own: ClusterProcesses) -> None:
    own.add_workers(1)
    messages: list[str] = []
    with ClusterIslands(own.address, connect_s=30.0, patience_s=1.0, on_change=messages.append) as islands:
        found = search(executor=islands, on_progress=lambda _: own.kill_worker(0), **OPTIONS)
        assert found.stopped == "workers lost"
        assert found.frontier
        assert (
            f"no worker of the cluster at {own.address} is there; waiting up to 1 s for workers" in messages
        )
        with pytest.raises(WorkersLost, match="were lost, and none came within 1 s"):
            islands.submit(pow, 2, 2).result(timeout=30)
        own.add_workers(1)
        islands.patience_s = 60.0
        assert islands.submit(pow, 2, 2).result(timeout=60) == 4


@pytest.mark.slow
def test_a_request_to_stop_holds_while_there_are_no_workers(own: ClusterProcesses) -> None:
    own.add_workers(1)
    with ClusterIslands(own.address, connect_s=30.0) as islands:
        rounds: list[int] = []

        def lose(_: object) -> None:
            own.kill_worker(0)
            rounds.append(1)

        found = search(executor=islands, on_progress=lose, should_stop=lambda: islands.is_stalled, **OPTIONS)
    assert rounds
    assert found.stopped == "cancelled"
    assert found.frontier


@pytest.mark.slow
def test_a_lost_scheduler_ends_a_search_with_what_it_has(own: ClusterProcesses) -> None:
    own.add_workers(1)
    with ClusterIslands(own.address, connect_s=30.0, patience_s=1.0) as islands:
        found = search(executor=islands, on_progress=lambda _: own.scheduler.kill(), **OPTIONS)
        assert found.stopped == "workers lost"
        assert found.frontier
        began = time.monotonic()
    assert time.monotonic() - began < 5.0, "nothing waits for a scheduler that is gone"


@pytest.mark.slow
def test_a_cluster_of_another_release_is_refused(
    processes: ClusterProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    for changed, message in (
        ({"tapestry": "99.1"}, rf"tapestry {own_release().tapestry}, here 99\.1"),
        ({"numba": "0.1"}, rf"numba {own_release().numba}, here 0\.1"),
        ({"sources": "abc"}, rf"sources of tapestry {own_release().sources}, here abc"),
    ):
        monkeypatch.setattr(cluster_module, "own_release", partial(own_release()._replace, **changed))
        with pytest.raises(ClusterError, match=f"install the same one on all machines: tcp://.*: {message}"):
            ClusterIslands(processes.address, connect_s=30.0)


@pytest.mark.slow
def test_a_worker_of_another_release_that_comes_later_is_left_out(own: ClusterProcesses) -> None:
    own.add_workers(1)
    messages: list[str] = []
    with ClusterIslands(own.address, connect_s=30.0, patience_s=1.0, on_change=messages.append) as islands:
        islands._release = own_release()._replace(tapestry="99.1")
        with pytest.raises(WorkersLost, match=r"refused tcp://.*: tapestry .*, here 99\.1"):
            islands.submit(pow, 2, 2).result(timeout=30)
        assert any("is left out: tapestry" in text for text in messages)
        islands._release = own_release()
        own.add_workers(1)
        islands.patience_s = 60.0
        assert islands.submit(pow, 2, 2).result(timeout=60) == 4


@pytest.mark.slow
def test_a_cluster_without_workers_is_an_error(own: ClusterProcesses) -> None:
    with pytest.raises(
        ClusterError, match=f"has no worker; start some with `tapestry worker --cluster {own.address}`"
    ):
        ClusterIslands(own.address, connect_s=30.0, first_worker_s=1.0)


@pytest.mark.slow
def test_a_first_worker_that_is_late_is_waited_for(own: ClusterProcesses) -> None:
    """Begin with a scheduler alone; the worker is started once the wait for it has been reported."""
    messages: list[str] = []

    def report(text: str) -> None:
        messages.append(text)
        own.add_workers(1)

    with ClusterIslands(own.address, connect_s=30.0, on_change=report) as islands:
        assert islands.size == 1
    assert messages == [
        f"no worker of the cluster at {own.address} is there yet; waiting up to 60 s for the first"
    ]


def test_a_cluster_that_is_not_there_is_an_error_within_seconds() -> None:
    began = time.monotonic()
    with pytest.raises(
        ClusterError, match=r"no Dask scheduler answered at tcp://127\.0\.0\.1:1 within 0\.5 s"
    ):
        ClusterIslands("tcp://127.0.0.1:1", connect_s=0.5)
    assert time.monotonic() - began < 5.0


@pytest.mark.parametrize(
    ("address", "tls", "message"),
    [
        ("localhost:8786", None, "is no address of a cluster; write one like tcp://host:8786"),
        ("tcp://localhost", None, "is no address of a cluster"),
        ("http://localhost:8786", None, "is no address of a cluster"),
        ("tcp://localhost:99999", None, "is no address of a cluster"),
        ("tcp://a b:1", None, "is no address of a cluster"),
        ("tls://localhost:8786", None, "give --tls-ca, --tls-cert and --tls-key"),
        ("tcp://localhost:8786", Tls("a", "b", "c"), "is not encrypted.*write tls://localhost:8786"),
    ],
)
def test_wrong_addresses_are_errors(address: str, tls: Tls | None, message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        check_address(address, tls)
    with pytest.raises(ClusterError, match=message):
        ClusterIslands(address, tls=tls)


@pytest.mark.parametrize("address", ["tcp://localhost:8786", "tcp://10.0.0.1:1", "tcp://[::1]:8786"])
def test_right_addresses_are_none(address: str) -> None:
    check_address(address, None)


def test_an_executor_that_was_shut_down_takes_no_tasks(islands: ClusterIslands) -> None:
    islands.shutdown()
    islands.shutdown()
    with pytest.raises(RuntimeError, match="shut down"):
        islands.submit(pow, 1, 1)
