"""Tests of a client's requests from first to last on both kinds of database, with texts that trouble databases."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.service.api.conftest import Service, complaint, serving
from tests.service.api.test_events import find_plans, finish, reported

STRANGE = ("%00", "%ed%a0%80", "%f0%9f%98%80", "'%22;--", "%25%5f", "0" * 3000)


@pytest.fixture
def anywhere(store_url: str) -> Iterator[Service]:
    """Start a service on a database of each kind."""
    with serving(store_url) as service:
        yield service


def test_a_run_from_its_request_to_its_plans(anywhere: Service) -> None:
    key = {"Idempotency-Key": "first"}
    objectives = ["time_s", "peak_memory_bytes"]
    accepted = anywhere.submit(headers=key, objectives=objectives)
    assert accepted.status_code == 202
    assert anywhere.submit(headers=key, objectives=objectives).headers["idempotent-replayed"] == "true"
    complaint(anywhere.submit(headers=key), 422, "key_reused")
    job = anywhere.store.jobs.claim("ada", datetime.now(UTC), 600.0)
    assert job is not None
    find_plans(anywhere, job, (1e-3, 2**20), (2e-3, 2**19))
    finish(anywhere, job)

    path = accepted.headers["location"]
    kinds = [kind for _, kind, _ in reported(anywhere.http.get(f"{path}/events").text)]
    assert kinds == ["status", "status", "status", "progress", "frontier", "rules", "status"]
    plans = anywhere.http.get(f"{path}/frontier").json()["plans"]
    assert [plan["cost"]["time_s"] for plan in plans] == [1e-3, 2e-3]
    execution = anywhere.http.post(f"/v1/plans/{plans[0]['id']}/executions", json={})
    assert anywhere.http.get(execution.headers["location"]).json()["status"] == "queued"
    complaint(anywhere.http.post(f"{path}/cancel"), 409, "already_ended")
    assert anywhere.http.get("/readyz").status_code == anywhere.http.get("/metrics").status_code == 200


def test_pages_on_both(anywhere: Service) -> None:
    made = [anywhere.submit(seed=seed).json()["id"] for seed in range(5)]
    first = anywhere.http.get("/v1/runs?limit=3").json()
    second = anywhere.http.get("/v1/runs", params={"limit": 3, "cursor": first["next"]}).json()
    assert [run["id"] for run in first["items"] + second["items"]] == made[::-1]
    assert second["next"] is None


def test_strange_texts_are_answered_without_a_fault(anywhere: Service) -> None:
    for text in STRANGE:
        for path in (
            "/v1/graphs/{}",
            "/v1/runs/{}",
            "/v1/runs/{}/events",
            "/v1/plans/{}",
            "/v1/executions/{}/trace",
        ):
            assert anywhere.http.get(path.format(text)).status_code == 404, (path, text)
        for query in ("mesh", "graph_id", "cursor", "status"):
            answer = anywhere.http.get(f"/v1/runs?{query}={text}")
            assert answer.status_code in (200, 422), (query, text, answer.text)
    for seed in (2**63 - 1, 0):
        run = anywhere.http.get(anywhere.submit(seed=seed, mesh=_mesh("Маша 😀")).headers["location"]).json()
        assert (run["seed"], run["mesh"]) == (seed, "Маша 😀")
    assert len(anywhere.http.get("/v1/runs", params={"mesh": "Маша 😀"}).json()["items"]) == 2


def _mesh(name: str) -> dict[str, object]:
    axis = {"name": "gpu", "size": 2, "topology": "ring", "bandwidth_bytes_per_s": 1e9, "latency_s": 0}
    return {"name": name, "device": "h100", "axes": [axis]}
