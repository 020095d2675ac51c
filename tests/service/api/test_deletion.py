"""Tests of deletion over HTTP: what goes, and what is refused with the reason."""

from __future__ import annotations

import pytest

from tests.service.api.conftest import Service, complaint


def test_a_run_is_deleted_once_it_has_ended(service: Service) -> None:
    run_id = service.submit().json()["id"]
    refused = complaint(service.http.delete(f"/v1/runs/{run_id}"), 409, "in_use")
    assert refused["detail"] == f"run {run_id} is queued; cancel it first"
    assert service.http.post(f"/v1/runs/{run_id}/cancel").status_code == 202
    answer = service.http.delete(f"/v1/runs/{run_id}")
    assert (answer.status_code, answer.content) == (204, b"")
    for method, path in (("GET", ""), ("GET", "/frontier"), ("DELETE", ""), ("POST", "/cancel")):
        complaint(service.http.request(method, f"/v1/runs/{run_id}{path}"), 404, "unknown_id")
    assert service.http.get("/v1/runs").json()["items"] == []


def test_who_follows_a_run_that_is_deleted_is_let_go(service: Service) -> None:
    """Check a viewer between whose looks the run was cancelled and deleted: it saw no end."""
    run_id = service.submit().json()["id"]
    with service.http.stream("GET", f"/v1/runs/{run_id}/events", timeout=30) as stream:
        lines = stream.iter_lines()
        assert next(line for line in lines if line.startswith("event:")) == "event: status"
        service.store.runs.request_cancel(run_id, service.now())
        service.store.deletions.run(run_id)
        assert not any("succeeded" in line for line in lines)  # and it ends
    assert service.http.get("/healthz").status_code == 200


def test_plans_and_executions_go_with_their_run(service: Service) -> None:
    run_id = service.finished()
    plan = service.http.get(f"/v1/runs/{run_id}/frontier").json()["plans"][0]["id"]
    execution_id = service.http.post(f"/v1/plans/{plan}/executions", json={}).json()["id"]
    complaint(service.http.delete(f"/v1/executions/{execution_id}"), 409, "in_use")
    assert (
        f"execution {execution_id}"
        in complaint(service.http.delete(f"/v1/runs/{run_id}"), 409, "in_use")["detail"]
    )
    service.store.jobs.end_execution(
        service.claimed("execution"), service.now(), "failed", problem={"code": "x"}
    )
    assert service.http.delete(f"/v1/executions/{execution_id}").status_code == 204
    complaint(service.http.get(f"/v1/executions/{execution_id}"), 404, "unknown_id")
    assert service.http.delete(f"/v1/runs/{run_id}").status_code == 204
    complaint(service.http.get(f"/v1/plans/{plan}"), 404, "unknown_id")


def test_a_program_is_deleted_after_its_runs(service: Service) -> None:
    run_id = service.finished()
    graph_id = service.http.get(f"/v1/runs/{run_id}").json()["graph_id"]
    refused = complaint(service.http.delete(f"/v1/graphs/{graph_id}"), 409, "in_use")
    assert refused["detail"] == f"graph {graph_id} is needed by run {run_id}, which must be deleted first"
    assert service.http.delete(f"/v1/runs/{run_id}").status_code == 204
    assert service.http.delete(f"/v1/graphs/{graph_id}").status_code == 204
    complaint(service.http.delete(f"/v1/graphs/{graph_id}"), 404, "unknown_id")


@pytest.mark.parametrize("with_runs", [False, True])
def test_a_batch_is_deleted_alone_or_with_its_runs(service: Service, with_runs: bool) -> None:
    body = {"name": "seeds", "graphs": [service.graph()], "meshes": ["dgx-h100"], "seeds": [0, 1]}
    batch = service.http.post("/v1/batches", json=body).json()
    run_id = batch["entries"][0]["run"]
    assert batch["id"] in complaint(service.http.delete(f"/v1/runs/{run_id}"), 409, "in_use")["detail"]
    address = f"/v1/batches/{batch['id']}" + ("?runs=true" if with_runs else "")
    if with_runs:
        complaint(service.http.delete(address), 409, "in_use")
        service.http.post(f"/v1/batches/{batch['id']}/cancel")
    assert service.http.delete(address).status_code == 204
    complaint(service.http.get(f"/v1/batches/{batch['id']}"), 404, "unknown_id")
    assert service.http.get(f"/v1/runs/{run_id}").status_code == (404 if with_runs else 200)


@pytest.mark.parametrize(
    "path", ["runs/0", "runs/0123456789ab", "graphs/no", "batches/0123456789ab", "executions/x"]
)
def test_nothing_is_deleted_by_a_wrong_id(service: Service, path: str) -> None:
    complaint(service.http.delete(f"/v1/{path}"), 404, "unknown_id")
