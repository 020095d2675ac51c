"""Tests of servers and workers as processes: drained, killed, started again; acknowledged work goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tapestry.service.store import Store, WorkerHeartbeat
from tapestry.teg.document import dumps
from tests.service.processes import ROOT, Service, eventually
from tests.service.programs import two_layers
from tests.service.worker.conftest import falls
from tests.service.worker.test_job_process import chain

pytestmark = pytest.mark.slow

LONG_S = 600.0
LONG = 3000  # blocks that take seconds to read


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'service.db'}"


def ask(service: Service, seconds: float | None = None, evaluations: int | None = None) -> str:
    graph = service.post("/v1/graphs", json=json.loads(dumps(two_layers(width=256))))
    budget = {"seconds": seconds} if evaluations is None else {"evaluations": evaluations}
    body = {"graph_id": graph["id"], "mesh": "dgx-h100", "budget": budget, "fresh": True}
    return str(service.post("/v1/runs", json=body)["id"])


def wait_until_searching(service: Service, run_id: str) -> None:
    eventually(
        lambda: service.get(f"/v1/runs/{run_id}/frontier")["plans"], 90, f"run {run_id} shows something"
    )


def is_as_good(plan: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether a plan is as good by all objectives, but for the cells of the front's grid."""
    names = ("time_s", "peak_memory_bytes", "traffic_bytes", "energy_j")
    return all(plan["cost"][name] <= 1.05 * other["cost"][name] for name in names)


def alive(store: Store, seconds: float = 3.0) -> tuple[WorkerHeartbeat, ...]:
    return store.workers.alive(seconds)


def is_gone(pid: int) -> bool:
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return True


def test_sigterm_drains_and_another_server_goes_on(tmp_path: Path, url: str) -> None:
    """Check that a run goes on where it was, also one that has begun with what others had learned."""
    with Service(url, tmp_path / "log", "--islands", "1") as service:
        assert service.wait_for_run(ask(service, evaluations=5000))["status"] == "succeeded"
        run_id = ask(service, LONG_S)
        wait_until_searching(service, run_id)
        before = service.get(f"/v1/runs/{run_id}/frontier")["plans"]
        assert service.stop() == 0
        store = Store(url)
        assert store.runs.get(run_id).options.prior == "1"
        reported = len(store.runs.history(run_id))
        assert store.runs.get(run_id).status == "queued"
        assert store.jobs.saved(run_id) is not None
        assert alive(store) == ()

        service.start()
        eventually(lambda: len(store.runs.history(run_id)) > reported + 2, 60, "the run goes on")
        assert store.runs.get(run_id).attempt == 2
        after = service.get(f"/v1/runs/{run_id}/frontier")["plans"]
        assert all(any(is_as_good(later, earlier) for later in after) for earlier in before)
        service.post(f"/v1/runs/{run_id}/cancel")
        assert service.wait_for_run(run_id)["status"] == "cancelled"
        assert falls(store, run_id) == []
        assert "anew" not in (tmp_path / "log").read_text()
        store.close()


def test_a_worker_outlives_its_killed_server_only_to_drain(tmp_path: Path, url: str) -> None:
    with Service(url, tmp_path / "log", "--islands", "1") as service:
        run_id = ask(service, LONG_S)
        wait_until_searching(service, run_id)
        store = Store(url)
        (worker,) = alive(store)
        service.kill()
        eventually(lambda: is_gone(worker.pid), 30, "the worker has ended")
        assert store.runs.get(run_id).status == "queued"
        store.close()


def test_a_worker_elsewhere_does_what_a_server_without_one_takes(tmp_path: Path, url: str) -> None:
    with Service(url, tmp_path / "log", "--no-worker") as service:
        run_id = ask(service, 1.0)
        assert service.get("/readyz")["workers"] == 0
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
        with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as worker:
            assert service.wait_for_run(run_id)["status"] == "succeeded"
            assert service.get("/readyz")["workers"] == 1
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(30) == 0


def test_an_execution_does_not_wait_for_a_long_search(tmp_path: Path, url: str) -> None:
    with Service(url, tmp_path / "log", "--islands", "1") as service:
        run_id = ask(service, LONG_S)
        wait_until_searching(service, run_id)
        plan = service.get(f"/v1/runs/{run_id}/frontier")["plans"][0]
        execution = service.post(f"/v1/plans/{plan['id']}/executions", json={"values": True})

        def ended() -> dict[str, object] | None:
            found: dict[str, object] = service.get(f"/v1/executions/{execution['id']}")
            return found if found["status"] not in ("queued", "running") else None

        found = eventually(ended, 60, "the execution ends")
        assert found["status"] == "succeeded"
        assert service.get(f"/v1/runs/{run_id}")["status"] == "running"
        service.post(f"/v1/runs/{run_id}/cancel")
        assert service.wait_for_run(run_id)["status"] == "cancelled"


def test_a_run_that_kills_every_worker_fails_and_says_so(tmp_path: Path, url: str) -> None:
    store = Store(url)
    with Service(url, tmp_path / "log", "--no-worker") as service:
        run_id = ask(service, 1.0)
        for attempt in range(10):  # workers that die before their first checkpoint
            now = datetime.now(UTC)
            assert store.jobs.claim(f"worker {attempt}", now, 60) is not None
            store.jobs.release_owner(f"worker {attempt}")
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
        with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as worker:
            run = service.wait_for_run(run_id)
            os.kill(worker.pid, signal.SIGTERM)
    assert (run["status"], run["problem"]["code"]) == ("failed", "worker_died")
    assert "10 times" in run["problem"]["detail"]
    store.close()


def test_a_large_import_outlives_its_server_and_its_worker(tmp_path: Path, url: str) -> None:
    content = dumps(chain(LONG)) + " " * (8 * 2**20)
    large = {"content": content, "headers": {"Content-Type": "application/json"}}
    broken = json.loads(content)
    broken["blocks"][-1]["inputs"] = ["nothing"]
    with Service(url, tmp_path / "log", "--islands", "1") as service:
        accepted = service.http.post("/v1/graphs", **large)
        assert accepted.status_code == 202
        path, store = accepted.headers["location"], Store(url)
        eventually(lambda: service.get(path)["status"] == "running", 90, "the import is read")
        (worker,) = alive(store)
        os.kill(worker.pid, signal.SIGKILL)
        service.kill()
        before = store.imports.get(path.rpartition("/")[2])
        assert (before.status, before.attempt) == ("running", 1)
        store.close()

        service.start()
        found = eventually(lambda: ended_import(service, path), 180, "the import is done by the next worker")
        assert (found["status"], found["attempt"]) == ("succeeded", 2)
        assert service.get(found["links"]["graph"])["blocks"] == 2 * LONG + 2
        assert service.http.post("/v1/graphs", **large).status_code == 200

        text = json.dumps(broken) + " " * (8 * 2**20)
        path = service.http.post("/v1/graphs", **{**large, "content": text}).headers["location"]
        refused = eventually(lambda: ended_import(service, path), 180, "the broken one is refused")
        assert refused["status"] == "failed"
        pointers = [fault["pointer"] for fault in refused["problem"]["errors"]]
        assert f"/blocks/{2 * LONG + 1}/inputs/0" in pointers


def ended_import(service: Service, path: str) -> dict[str, Any] | None:
    found: dict[str, Any] = service.get(path)
    return found if found["status"] not in ("queued", "running") else None
