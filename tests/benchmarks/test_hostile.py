"""Tests that hostile programs and requests are answered as they should be; `benchmarks.hostile` measures the times."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from benchmarks.hostile import send
from benchmarks.hostile_cases import programs, requests, small
from tests.service.api.conftest import serving
from tests.service.programs import finished_run, two_layers

pytestmark = pytest.mark.slow
LARGEST_BYTES = 2**20  # larger ones are for the benchmark


def test_hostile_requests_have_the_right_status(tmp_path: Path) -> None:
    with serving(tmp_path) as service, httpx.Client(base_url=service.address, timeout=120) as http:
        graph_id = service.http.post("/v1/graphs", json=small()).json()["id"]
        run_id = service.store.runs.save_finished(finished_run(two_layers()))
        plan_id = service.http.get(f"/v1/runs/{run_id}/frontier").json()["plans"][0]["id"]
        cases = [
            case
            for case in (*programs(), *requests(graph_id, run_id, plan_id))
            if len(case.content or b"") <= LARGEST_BYTES
        ]
        wrong = {case.name: status for case in cases if (status := send(http, case)) not in case.statuses}
        assert len(cases) > 100
        assert wrong == {}
        assert http.post("/v1/graphs", json={**small(), "name": "innocent"}).status_code == 201
