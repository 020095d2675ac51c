"""Tests of runs that a worker of a service searches on a Dask cluster, whose workers may be lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tapestry.optimizer.run.cluster import ClusterIslands
from tapestry.optimizer.run.workers import WorkersLost
from tapestry.service.worker.searching import SearchJob
from tests.optimizer.run.clusters import ClusterProcesses
from tests.service.programs import two_layers
from tests.service.worker.conftest import OBJECTIVES, Bench, plans

pytest.importorskip("distributed")
pytestmark = pytest.mark.slow
# With micro-batches the front has more plans than are published, and others are, depending on when that is done.
OPTIONS = {
    "evaluations": 60_000,
    "islands": 2,
    "seed": 3,
    "prior": "none",
    "micro_batches": 1,
    "verify": "dry",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    started = ClusterProcesses(tmp_path)
    started.add_workers(1)
    try:
        yield started
    finally:
        started.close()


def test_a_run_whose_cluster_is_lost_goes_on_with_the_next_one(
    bench: Bench, cluster: ClusterProcesses
) -> None:
    here = bench.run(two_layers(width=256), **OPTIONS)
    run_id = bench.ask(two_layers(width=256), **OPTIONS)
    with ClusterIslands(cluster.address, connect_s=30.0, patience_s=0.5) as islands:

        def kill() -> None:
            while bench.store.jobs.saved(run_id) is None:
                time.sleep(0.01)
            cluster.kill_worker(0)

        killing = threading.Thread(target=kill)
        killing.start()
        held = bench.claim()
        with pytest.raises(WorkersLost):
            SearchJob(bench.store, held, islands, islands=2, checkpoint_s=0.0).do()
        killing.join()
        bench.store.jobs.release(held.job, datetime.now(UTC))
        before = bench.store.runs.get(run_id)
        assert before.status == "queued" and 0 < before.evaluations < 60_000

        cluster.add_workers(1)
        islands.patience_s = 60.0
        assert islands.submit(pow, 2, 3).result(timeout=60) == 8
        SearchJob(bench.store, bench.claim("another"), islands, islands=2, checkpoint_s=0.0).do()
    after = bench.store.runs.get(run_id)
    assert (after.status, after.stopped) == ("succeeded", "budget")
    found, expected = plans(bench.store, run_id).values(), plans(bench.store, here).values()
    for cost in expected:  # which of near plans are shown depends on when they are published
        assert any(all(plan[name] <= 1.01 * cost[name] for name in OBJECTIVES) for plan in found)
    assert all(
        plan.verified and plan.verified["sharding"]["ok"] for plan in bench.store.runs.frontier(run_id)
    )
