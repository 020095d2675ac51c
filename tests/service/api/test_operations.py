"""Tests of monitoring: health checks, metrics, request ids, logs, the reference, and answers to server errors."""

from __future__ import annotations

import json
import logging
import re
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tapestry.service.logs import JsonLines
from tapestry.service.store import StoreError
from tapestry.service.store.runs import Runs
from tapestry.service.store.store import Store
from tests.service.api.conftest import Service, complaint

UNEXPECTED = "a secret of the database"


def figure(service: Service, name: str) -> float:
    """Return the value of one line of the metrics."""
    lines = service.http.get("/metrics").text.splitlines()
    return float(next(line.rpartition(" ")[2] for line in lines if line.startswith(f"{name} ")))


def test_a_service_lives_and_says_whether_anybody_works(service: Service) -> None:
    assert service.http.get("/healthz").json() == {"status": "ok"}
    assert service.http.get("/readyz").json() == {"status": "ok", "workers": 0, "clock_skew_s": 0.0}
    service.store.workers.beat("ada", datetime.now(UTC), host="h", pid=1, status="idle", subject=None)
    assert service.http.get("/readyz").json() == {"status": "ok", "workers": 1, "clock_skew_s": 0.0}


def test_a_service_without_its_database_lives_and_is_not_ready(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise StoreError(UNEXPECTED)

    monkeypatch.setattr(Store, "ping", broken)
    answer = service.http.get("/readyz")
    assert UNEXPECTED not in complaint(answer, 503, "unavailable")["detail"]
    assert int(answer.headers["retry-after"]) > 0
    assert service.http.get("/healthz").status_code == 200


def test_a_database_that_takes_no_writes_says_so(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: object) -> None:
        raise StoreError(UNEXPECTED)

    run_id = service.finished()
    monkeypatch.setattr(Store, "check_writes", full)
    detail = complaint(service.http.get("/readyz"), 503, "read_only")["detail"]
    assert (
        detail == "the database answers, but takes no writes: its disk is full, or another process holds it"
    )
    assert service.http.get(f"/v1/runs/{run_id}").status_code == 200


def test_a_database_that_is_locked_is_a_pause(service: Service, tmp_path: Path) -> None:
    requested = service.request()
    with sqlite3.connect(tmp_path / "api.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        assert service.http.get("/v1/runs").status_code == 200  # readers wait for nobody
        other.execute("ROLLBACK")
    assert service.http.post("/v1/runs", json=requested).status_code == 202


def test_metrics_count_requests_runs_workers_and_viewers(service: Service) -> None:
    run_id = service.submit().json()["id"]
    service.finished()
    service.http.get(f"/v1/runs/{run_id}")
    service.http.get("/v1/runs/0123456789ab")
    service.http.get("/nowhere/at/all")
    route = 'method="GET",route="/v1/runs/{run_id}"'
    assert figure(service, f'tapestry_requests_total{{{route},status="200"}}') == 1
    assert figure(service, f'tapestry_requests_total{{{route},status="404"}}') == 1
    assert figure(service, f"tapestry_request_seconds_count{{{route}}}") == 2
    assert figure(service, 'tapestry_requests_total{method="GET",route="other",status="404"}') == 1
    assert figure(service, 'tapestry_runs{status="queued"}') == 1
    assert figure(service, 'tapestry_runs{status="succeeded"}') == 1
    assert figure(service, 'tapestry_runs{status="failed"}') == 0
    assert figure(service, "tapestry_queued_jobs") == 1
    assert figure(service, "tapestry_workers") == figure(service, "tapestry_event_viewers") == 0


def test_strange_requests_make_no_new_figures(service: Service) -> None:
    for k in range(3):
        service.http.request(f"M{k}", f"/x{k}")
        service.http.get(f"/v1/runs/{k}")
    text = service.http.get("/metrics").text
    assert 'method="other",route="other"' in text
    assert not re.search(r'"M\d|x\d"', text)


def test_a_request_keeps_the_id_that_it_came_with(service: Service) -> None:
    assert (
        service.http.get("/healthz", headers={"X-Request-ID": "mine-1"}).headers["x-request-id"] == "mine-1"
    )
    for strange in ("", "a" * 101, "a\tb", "\xe4"):
        given = {"X-Request-ID": strange.encode("latin-1")}
        assert re.fullmatch(
            "[0-9a-f]{16}", service.http.get("/healthz", headers=given).headers["x-request-id"]
        )
    assert "x-request-id" in service.http.get("/v1/runs", headers={"Host": "example.org"}).headers


def test_a_request_is_one_line_in_the_log(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    run_id = service.submit().json()["id"]
    with caplog.at_level(logging.INFO, logger="tapestry.api"):
        service.http.get(f"/v1/runs/{run_id}", headers={"X-Request-ID": "mine-2"})
        service.http.get("/healthz")
    lines = [
        json.loads(JsonLines().format(record)) for record in caplog.records if record.name == "tapestry.api"
    ]
    assert [line["message"] for line in lines] == [f"GET /v1/runs/{run_id} 200"]
    assert (lines[0]["request_id"], lines[0]["run_id"], lines[0]["status"]) == ("mine-2", run_id, 200)


def test_our_own_faults_disclose_nothing_but_the_requests_id(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError(UNEXPECTED)

    monkeypatch.setattr(Runs, "page", broken)
    answer = service.http.get("/v1/runs", headers={"X-Request-ID": "mine-3"})
    assert "mine-3" in complaint(answer, 500, "internal")["detail"]
    assert UNEXPECTED not in answer.text
    assert answer.headers["x-request-id"] == "mine-3"
    assert "content-security-policy" in answer.headers
    record = next(record for record in caplog.records if record.exc_info)
    assert (record.request_id, UNEXPECTED in str(record.exc_info[1])) == ("mine-3", True)  # type: ignore[attr-defined, index]
    monkeypatch.undo()
    assert figure(service, 'tapestry_requests_total{method="GET",route="/v1/runs",status="500"}') == 1


def test_the_reference_comes_from_here(service: Service) -> None:
    page = service.http.get("/docs").text
    addresses = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(addresses) == 3
    assert all(address.startswith("/") for address in addresses)
    assert "<script>" not in page  # the policy allows no scripts inside a page
    for address in addresses:
        assert service.http.get(address).status_code == 200, address


def test_unknown_addresses_are_problems_to_programs_and_pages_to_people(service: Service) -> None:
    for path in (
        "/nowhere",
        "/v1",
        "/v1/",
        "/v1/runs/",
        "/v2/runs",
        "/static/%2e%2e/app.py",
        "/static/none.js",
    ):
        complaint(service.http.get(path), 404, "unknown_path")
    page = service.http.get("/nowhere", headers={"Accept": "text/html,*/*"})
    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    complaint(service.http.get("/v1/nowhere", headers={"Accept": "text/html"}), 404, "unknown_path")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/v1/runs", "GET, HEAD, POST"),
        ("PUT", "/v1/graphs", "GET, HEAD, POST"),
        ("PUT", "/v1/graphs/import", "GET, HEAD, POST"),
        ("GET", "/v1/runs/0123456789ab/cancel", "POST"),
        ("POST", "/v1/meshes", "GET, HEAD"),
        ("TRACE", "/healthz", "GET, HEAD"),
    ],
)
def test_other_methods_are_refused_by_what_there_is(
    shared: Service, method: str, path: str, allowed: str
) -> None:
    answer = shared.http.request(method, path)
    complaint(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == allowed
