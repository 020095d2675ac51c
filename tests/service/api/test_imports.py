"""Tests of imports: what is large or slow to read is acknowledged, done by a worker, and answered as at once."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tapestry.service.api.preferences import Preferences, preferences_of
from tapestry.service.settings import Limits
from tapestry.service.store import ImportRequest
from tapestry.service.worker.heartbeat import ClaimedJob
from tapestry.service.worker.importing import READING, do_import
from tapestry.teg.document import dumps
from tests.service.api.conftest import PATIENCE_S, Serve, Service, complaint
from tests.service.api.test_archives import archive, divided, send
from tests.service.programs import NOON, two_layers
from tests.service.store.submissions import LEASE_S

JSON = {"Content-Type": "application/json"}
ASYNC = {"Prefer": "respond-async"}
TEXT = dumps(two_layers())
SMALL = Limits(import_bytes=2 * len(TEXT), import_seconds=PATIENCE_S)


def post(service: Service, content: str = TEXT, **headers: str) -> httpx.Response:
    return service.http.post("/v1/graphs", content=content, headers={**JSON, **headers})


def broken() -> str:
    document = json.loads(TEXT)
    document["blocks"][4]["inputs"] = ["hiden"]
    return json.dumps(document)


def worked(service: Service) -> Any:
    """Do the next import as a worker does, and return how the API shows it then."""
    phases = list[str]()
    held = ClaimedJob(service.claimed("import"), LEASE_S, threading.Event())
    do_import(service.store, held, phases.append)
    assert phases == [READING]
    return service.http.get(f"/v1/imports/{held.job.subject}").json()


def test_a_large_program_is_acknowledged_and_read_by_a_worker(serve: Serve) -> None:
    service, large = serve(limits=SMALL), TEXT + " " * (len(TEXT) + 1)
    answer = post(service, large)
    found = answer.json()
    path = f"/v1/imports/{found['id']}"
    assert (answer.status_code, answer.headers["location"], answer.headers["retry-after"]) == (202, path, "1")
    assert "preference-applied" not in answer.headers
    assert (found["status"], found["size_bytes"], found["position"]) == ("queued", len(large), 1)
    assert service.http.get(path).json() == found == post(service, large).json()
    assert service.http.get("/v1/imports").json() == {"items": [found], "next": None}
    complaint(service.http.delete(path), 409, "in_use")
    assert 'tapestry_imports{status="queued"} 1.0' in service.http.get("/metrics").text

    ended = worked(service)
    assert (ended["status"], ended["attempt"], ended["problem"], ended["position"]) == (
        "succeeded",
        1,
        None,
        None,
    )
    assert ended["links"] == {**found["links"], "graph": f"/v1/graphs/{ended['graph_id']}"}
    again = post(service, large)
    assert (again.status_code, again.json()["id"]) == (200, ended["graph_id"])
    assert again.json() == service.http.get(ended["links"]["graph"]).json()
    at_once = post(service)
    assert (at_once.status_code, at_once.json()) == (200, again.json())  # the same program in fewer bytes
    assert service.http.delete(path).status_code == 204
    complaint(service.http.get(path), 404, "unknown_id")


def test_a_small_program_is_read_at_once_unless_its_sender_does_not_wait(serve: Serve) -> None:
    service = serve(limits=SMALL)
    assert post(service).status_code == 201
    answer = post(service, dumps(two_layers("another")), **ASYNC)
    assert (answer.status_code, answer.headers["preference-applied"]) == (202, "respond-async")
    known = post(service, **ASYNC)
    assert (known.status_code, "preference-applied" in known.headers) == (200, False)
    assert len(service.http.get("/v1/imports").json()["items"]) == 1


def test_a_program_that_takes_long_to_read_becomes_a_job(serve: Serve) -> None:
    service = serve(limits=Limits(import_seconds=1e-6))
    answer = post(service)
    assert answer.status_code == 202
    assert worked(service)["status"] == "succeeded"
    waited = post(service, dumps(two_layers("patient")), Prefer=f"wait={PATIENCE_S:.0f}")
    assert (waited.status_code, "preference-applied" in waited.headers) == (
        202,
        False,
    )  # no process is held longer


@pytest.mark.parametrize("is_broken_document", [True, False])
def test_what_is_wrong_with_a_large_program_is_what_an_answer_at_once_says(
    serve: Serve, is_broken_document: bool
) -> None:
    service = serve(limits=SMALL)

    def sent(**headers: str) -> httpx.Response:
        if is_broken_document:
            return post(service, broken(), **headers)
        files = {"file": ("no.onnx", b"no model")}
        return service.http.post("/v1/graphs/import", files=files, headers=headers)

    at_once = complaint(sent(), 422, "invalid_graph")
    assert sent(**ASYNC).status_code == 202
    ended = worked(service)
    assert (ended["status"], ended["graph_id"], ended["problem"]) == ("failed", None, at_once)
    assert sent(**ASYNC).json()["id"] != ended["id"]


def test_a_program_of_too_many_blocks_is_refused_by_a_worker_too(serve: Serve) -> None:
    service = serve(limits=Limits(graph_blocks=3))
    post(service, **ASYNC)
    ended = worked(service)
    assert (ended["problem"]["status"], ended["problem"]["code"]) == (413, "too_large")


def test_external_data_and_archives_are_read_by_a_worker_as_at_once(serve: Serve, tmp_path: Path) -> None:
    service, files = serve(limits=Limits(import_bytes=10, import_seconds=PATIENCE_S)), divided(tmp_path)
    part = ("weights.bin", files["weights.bin"])
    answer = send(service, files["model.onnx"], part)
    assert answer.status_code == 202
    assert answer.json()["size_bytes"] == sum(map(len, files.values()))
    together = worked(service)
    assert together["status"] == "succeeded"
    packed = service.http.post("/v1/graphs/import", files={"file": ("model.zip", archive(files))})
    assert packed.status_code == 202
    assert worked(service)["graph_id"] == together["graph_id"]
    assert send(service, files["model.onnx"], part).json()["id"] == together["graph_id"]


def test_an_import_is_cancelled_and_sent_again(serve: Serve) -> None:
    service = serve(limits=SMALL)
    path = post(service, **ASYNC).headers["location"]
    cancelled = service.http.post(f"{path}/cancel")
    assert (cancelled.status_code, cancelled.json()["status"]) == (202, "cancelled")
    complaint(service.http.post(f"{path}/cancel"), 409, "already_ended")
    again = post(service, **ASYNC)
    assert again.headers["location"] != path
    held = service.claimed("import")
    assert service.http.post(f"{again.headers['location']}/cancel").json()["cancel_requested"] is True
    assert service.store.jobs.cancelled([held]) == {held.subject}


def test_a_full_queue_refuses_a_large_program_and_keeps_nothing_of_it(serve: Serve) -> None:
    service = serve(limits=Limits(queued_jobs=1))
    assert post(service, **ASYNC).status_code == 202
    refused = post(service, dumps(two_layers("second")), **ASYNC)
    complaint(refused, 429, "queue_full")
    assert len(service.http.get("/v1/imports").json()["items"]) == 1


def test_imports_of_another_tenant_are_unknown(service: Service) -> None:
    mine = service.store.of("ada").imports
    how = ImportRequest(True, "", "", {}, (), 2**20, 100, {})
    import_id = mine.submit(mine.begin("a" * 64, "", how, NOON), datetime.now(UTC))
    path = f"/v1/imports/{import_id}"
    for method, at in (("GET", path), ("POST", f"{path}/cancel"), ("DELETE", path)):
        complaint(service.http.request(method, at), 404, "unknown_id")
    assert service.http.get("/v1/imports").json()["items"] == []


def test_preferences_are_read_and_unknown_ones_left_out() -> None:
    assert preferences_of(None) == Preferences()
    assert preferences_of(["respond-async, wait=10"]) == Preferences(True, 10.0)
    assert preferences_of(["handling=lenient", 'Wait="5"; x=1']) == Preferences(False, 5.0)
    assert preferences_of(["wait=soon", "wait=-1"]) == Preferences()
    assert Preferences(True, 10.0).applied(10.0) == {"Preference-Applied": "respond-async, wait=10"}
    assert Preferences(True, 10.0).applied(9.0) == {"Preference-Applied": "respond-async"}
    assert Preferences(wait_s=10.0).applied(9.0) == {}
