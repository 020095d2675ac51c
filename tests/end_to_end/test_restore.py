"""Tests of a copy that is made under load: a second service serves all of it and ends what was under way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tapestry.teg.document import dumps
from tests.service.processes import Service, eventually
from tests.service.programs import two_layers


def submitted(service: Service, width: int, **budget: float) -> str:
    graph = service.post("/v1/graphs", json=json.loads(dumps(two_layers(width=width))))
    body = {"graph_id": graph["id"], "mesh": "dgx-h100", "budget": budget, "verify": "none"}
    return str(service.post("/v1/runs", json=body)["id"])


def tapestry(*argv: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tapestry.service.cli", *map(str, argv)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def frontier(service: Service, run_id: str) -> list[Any]:
    found: list[Any] = service.get(f"/v1/runs/{run_id}/frontier")["plans"]
    return found


@pytest.fixture
def programs_of_postgresql(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put pg_dump and pg_restore of the server on the path where a test is on PostgreSQL."""
    if "postgresql" in request.node.callspec.id:
        folder = request.getfixturevalue("postgres").programs
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.slow
@pytest.mark.usefixtures("programs_of_postgresql")
def test_a_copy_made_under_load_becomes_a_service_that_goes_on(
    new_database: Callable[[], str], tmp_path: Path
) -> None:
    copy, first, second = tmp_path / "copy", new_database(), new_database()
    stopping = threading.Event()

    with Service(first, tmp_path / "first.log", "--islands", "1") as service:
        ended = submitted(service, 128, evaluations=3000)
        assert service.wait_for_run(ended)["status"] == "succeeded"
        under_way = submitted(service, 256, seconds=16)  # it is not over when the copy is made
        eventually(lambda: frontier(service, under_way), 60, "the run shows plans")

        def write() -> None:
            with httpx.Client(base_url=service.address, timeout=30, trust_env=False) as http:
                for number in range(10_000):
                    if stopping.is_set():
                        return
                    document = json.loads(dumps(two_layers(f"while copied {number}")))
                    assert http.post("/v1/graphs", json=document).is_success

        writer = threading.Thread(target=write)
        writer.start()
        before = {run: frontier(service, run) for run in (ended, under_way)}
        attempt = service.get(f"/v1/runs/{under_way}")["attempt"]
        answer = tapestry("backup", copy, "--database-url", first)
        stopping.set()
        writer.join()
        assert answer.returncode == 0, answer.stderr

        restored = tapestry("restore", copy, "--database-url", second, "--json")
        assert restored.returncode == 0, restored.stderr
        content = json.loads(restored.stdout)
        assert (content["runs"], content["unfinished"]) == (2, 1)
        assert "is not empty" in tapestry("restore", copy, "--database-url", second).stderr

    with Service(second, tmp_path / "second.log", "--islands", "1") as service:
        assert frontier(service, ended) == before[ended]
        found = {plan["id"] for plan in frontier(service, under_way)}
        assert found
        for plan in (*before[ended], *frontier(service, under_way)):
            assert service.get(f"/v1/plans/{plan['id']}")["cost"] == plan["cost"]
        checked = service.post(f"/v1/plans/{before[ended][0]['id']}/executions", json={})["id"]
        run = service.wait_for_run(under_way)
        assert (run["status"], run["attempt"]) == ("succeeded", attempt + 1)
        execution = eventually(lambda: _ended(service, checked), 60, "the plan is executed")
        assert execution["verified"]["values"]["ok"] is True
        numbers = [event["id"] for event in _events(service, under_way)]
        assert numbers[0] == 1 and numbers == list(range(1, len(numbers) + 1))


def _ended(service: Service, execution_id: str) -> Any:
    execution = service.get(f"/v1/executions/{execution_id}")
    return execution if execution["status"] in ("succeeded", "failed") else None


def _events(service: Service, run_id: str) -> list[dict[str, Any]]:
    lines = service.http.get(f"/v1/runs/{run_id}/events").text.splitlines()
    return [{"id": int(line.removeprefix("id: "))} for line in lines if line.startswith("id: ")]
