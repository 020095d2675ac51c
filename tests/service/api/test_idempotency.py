"""Tests of Idempotency-Key: a request that is sent again is carried out once."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.service.api.conftest import Service, complaint

KEY = {"Idempotency-Key": "7d1c-my-first-run"}


def test_a_run_that_is_requested_again_is_one_run(service: Service) -> None:
    first = service.submit(headers=KEY)
    again = service.submit(headers=KEY)
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json() == again.json()
    assert first.headers["location"] == again.headers["location"]
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert len(service.http.get("/v1/runs").json()["items"]) == 1


def test_the_same_request_may_be_written_in_another_way(service: Service) -> None:
    requested = service.request(seed=3)
    service.http.post("/v1/runs", json=requested, headers=KEY)
    written = json.dumps(dict(reversed(requested.items())), indent=4)
    again = service.http.post(
        "/v1/runs", content=written, headers={**KEY, "Content-Type": "application/json"}
    )
    assert again.headers["idempotent-replayed"] == "true"


def test_a_key_means_one_request(service: Service) -> None:
    service.submit(headers=KEY)
    faults = complaint(service.submit(headers=KEY, seed=1), 422, "key_reused")["errors"]
    assert [fault["pointer"] for fault in faults] == ["#header/Idempotency-Key"]
    assert len(service.http.get("/v1/runs").json()["items"]) == 1


def test_a_refused_request_uses_no_key_up(service: Service) -> None:
    complaint(service.submit(headers=KEY, seed=-1), 422, "invalid")
    answer = service.submit(headers=KEY)
    assert (answer.status_code, "idempotent-replayed" in answer.headers) == (202, False)


def test_a_repeated_request_is_answered_with_the_state_of_the_run(service: Service) -> None:
    path = service.submit(headers=KEY).headers["location"]
    service.http.post(f"{path}/cancel")
    again = service.submit(headers=KEY)
    assert (again.status_code, again.json()["status"]) == (202, "cancelled")


def test_of_many_at_once_one_is_carried_out(service: Service) -> None:
    requested = service.request()

    def post(_: int) -> str:
        return str(service.http.post("/v1/runs", json=requested, headers=KEY).json()["id"])

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(post, range(16)))) == 1
    assert service.store.jobs.counts()["queued"] == 1


def test_keys_of_executions_are_of_their_plan(service: Service) -> None:
    plans = service.http.get(f"/v1/runs/{service.finished()}/frontier").json()["plans"]
    paths = [f"/v1/plans/{plan['id']}/executions" for plan in plans]
    first, again = (service.http.post(paths[0], json={}, headers=KEY) for _ in range(2))
    assert (first.json(), again.headers["idempotent-replayed"]) == (again.json(), "true")
    complaint(service.http.post(paths[1], json={}, headers=KEY), 422, "key_reused")


@pytest.mark.parametrize("key", ["", "a" * 256, "a\tb", "ä"])
def test_a_key_is_printable_and_short(shared: Service, key: str) -> None:
    faults = complaint(shared.submit(headers={"Idempotency-Key": key.encode("latin-1")}), 422, "invalid")[
        "errors"
    ]
    assert [fault["pointer"] for fault in faults] == ["#header/Idempotency-Key"]
