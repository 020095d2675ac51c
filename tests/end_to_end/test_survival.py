"""Tests that runs survive: workers and servers are killed in the middle, and nothing acknowledged or shown is lost."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tapestry.service.store import Store
from tapestry.teg.document import dumps
from tests.cases import rotating
from tests.service.databases import KINDS
from tests.service.processes import Service, eventually
from tests.service.programs import two_layers

OBJECTIVES = ("time_s", "peak_memory_bytes", "traffic_bytes", "energy_j")
RUNS = 6
WORKER_KILLS = 3
SERVER_KILLS = 2
SECONDS_PER_RUN = 2.0
ENDED = ("succeeded", "failed", "cancelled")


class Watcher:
    """A thread that reads the frontiers of runs until they have ended, and remembers every plan it ever saw."""

    def __init__(self, service: Service) -> None:
        self.seen: dict[str, dict[str, list[float]]] = {}
        self._http = httpx.Client(base_url=service.address, timeout=10, trust_env=False)
        self._runs: list[str] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._http.close()

    def watch(self, run_id: str) -> None:
        self._runs.append(run_id)

    def _look(self) -> None:
        while not self._stopping.wait(0.1):
            for run_id in list(self._runs):
                with contextlib.suppress(httpx.TransportError):
                    if self._note(run_id, self._http.get(f"/v1/runs/{run_id}/frontier")) in ENDED:
                        self._runs.remove(run_id)

    def _note(self, run_id: str, response: httpx.Response) -> str:
        assert response.status_code == 200, response.text
        frontier = response.json()
        for plan in frontier["plans"]:
            self.seen.setdefault(run_id, {})[plan["id"]] = [plan["cost"][name] for name in OBJECTIVES]
        return str(frontier["status"])


def post_until_acknowledged(service: Service, path: str, key: str, body: Any) -> Any:
    """Post with the same key until there is an answer, as a careful client does when the server may die."""

    def post() -> Any:
        with contextlib.suppress(httpx.TransportError):
            response = service.http.post(path, json=body, headers={"Idempotency-Key": key})
            assert response.status_code in (200, 201, 202), response.text
            return response.json()
        return None

    return eventually(post, 60, f"POST {path} is acknowledged")


@pytest.mark.parametrize("store_url", rotating(len(KINDS), KINDS), indirect=True)
def test_kills_of_workers_and_servers_lose_nothing(
    store_url: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    store = Store(store_url)
    with Service(store_url, tmp_path / "log", "--islands", "1") as service, Watcher(service) as watcher:
        graphs = [service.post("/v1/graphs", json=json.loads(dumps(two_layers(width=w)))) for w in (256, 512)]
        runs = []
        for number in range(RUNS):
            body = {
                "graph_id": graphs[number % 2]["id"],
                "mesh": "dgx-h100",
                "objectives": list(OBJECTIVES),
                "budget": {"seconds": SECONDS_PER_RUN},
                "seed": number,
                "verify": "dry",
            }
            if number == RUNS // 2:  # a server may die with a request in hand
                service.kill()
                threading.Timer(1.0, service.start).start()
            runs.append(post_until_acknowledged(service, "/v1/runs", f"run-{number}", body)["id"])
            watcher.watch(runs[-1])

        for number in range(WORKER_KILLS + SERVER_KILLS - 1):
            if number == WORKER_KILLS // 2:
                service.kill()
                service.start()
            else:
                kill_worker_in_the_middle(store, rng)

        eventually(lambda: all(ended(store, run_id) for run_id in runs), 600, "all runs end")

    assert [store.runs.get(run_id).status for run_id in runs] == ["succeeded"] * RUNS
    assert sorted(run.id for run in store.runs.page(100)) == sorted(set(runs))
    assert sum(store.runs.get(run_id).attempt for run_id in runs) > RUNS  # the kills did hit
    for run_id in runs:
        assert_nothing_shown_is_lost(store, run_id, watcher.seen.get(run_id, {}))
        numbers = [event.number for event in store.runs.events(run_id, limit=100_000)]
        assert numbers == list(range(1, len(numbers) + 1))
    store.close()


def ended(store: Store, run_id: str) -> bool:
    return store.runs.get(run_id).status in ENDED


def kill_worker_in_the_middle(store: Store, rng: np.random.Generator) -> None:
    """Send SIGKILL to a worker that is searching and has shown something, some time into the run."""

    def busy() -> int | None:
        for worker in store.workers.alive(5):
            if worker.status == "busy" and worker.subject and store.runs.frontier(worker.subject):
                return worker.pid
        return None

    pid = eventually(busy, 120, "a worker is in the middle of a run")
    time.sleep(float(rng.uniform(0.0, 1.0)))
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not Path(f"/proc/{pid}").exists(), 30, "the killed worker is gone")


def assert_nothing_shown_is_lost(store: Store, run_id: str, seen: dict[str, list[float]]) -> None:
    final = {plan.public_id: [plan.cost[name] for name in OBJECTIVES] for plan in store.runs.frontier(run_id)}
    assert final
    values = np.array(list(final.values()))
    for plan_id, cost in seen.items():
        assert plan_id in final or (values <= np.array(cost)).all(axis=1).any(), plan_id
