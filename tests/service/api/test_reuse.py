"""Tests that an equal request is answered with the run that is there, and that an upload is read once."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import UploadFile

from tapestry.service.api import graphs, tasks
from tapestry.service.api.task_pool import TenantPool
from tapestry.service.provenance import versions
from tapestry.service.settings import Limits
from tests.service.api.conftest import Serve, Service, complaint
from tests.service.api.test_archives import archive, divided, send
from tests.service.api.test_graphs import upload as upload_file
from tests.service.store.submissions import LEASE_S, plans, update_of
from tests.teg.importers.models import GRAPHS

MODEL = GRAPHS / "tiny_taso_bert_8layer_s64.winputs.onnx"
KEY = {"Idempotency-Key": "once"}


def answered(service: Service, **changes: Any) -> str:
    """Submit a run and do it as a worker does."""
    run_id = str(service.submit(**changes).json()["id"])
    now = datetime.now(UTC)
    job = service.store.jobs.claim("ada", now, LEASE_S)
    assert job is not None and job.subject == run_id
    service.store.jobs.begin(job, now, LEASE_S, islands=2, prior="none", versions=versions(), host={})
    service.store.jobs.checkpoint(job, now, LEASE_S, update_of(plans((1e-3, 512), (2e-3, 256))))
    service.store.jobs.end_run(job, now, "finished", stopped="budget")
    return run_id


def test_an_equal_request_is_answered_with_the_run_that_is_there(service: Service) -> None:
    objectives = ["time_s", "peak_memory_bytes"]
    run_id = answered(service, objectives=objectives)
    again = service.submit(objectives=objectives)
    assert (again.status_code, again.headers["location"]) == (200, f"/v1/runs/{run_id}")
    answer = again.json()
    assert (answer["id"], answer["status"], answer["reused"]) == (run_id, "succeeded", True)
    assert len(service.http.get(f"{again.headers['location']}/frontier").json()["plans"]) == 2


def test_a_request_written_in_another_way_is_equal(service: Service) -> None:
    run_id = answered(service, objectives=["time_s", "0.5*time_s + 0.5 * energy_j"])
    mesh = service.http.get(f"/v1/runs/{run_id}/mesh").json()
    again = service.submit(objectives=["time_s", "0.5 * time_s + 0.5*energy_j"], mesh=mesh, seed=0)
    assert (again.json()["id"], again.json()["reused"]) == (run_id, True)


def test_fresh_asks_for_another_search(service: Service) -> None:
    run_id = answered(service)
    fresh = service.submit(fresh=True)
    assert (fresh.status_code, fresh.json()["reused"]) == (202, False)
    assert fresh.json()["id"] != run_id


def test_a_run_that_waits_is_not_reused(service: Service) -> None:
    first, second = (service.submit().json() for _ in range(2))
    assert first["id"] != second["id"]
    assert (first["reused"], second["reused"]) == (False, False)


def test_a_repeated_request_is_answered_as_the_first_one(service: Service) -> None:
    run_id = answered(service)
    first, again = (service.submit(headers=KEY) for _ in range(2))
    assert first.json() == again.json()
    assert (again.json()["id"], again.json()["reused"]) == (run_id, True)
    assert again.headers["idempotent-replayed"] == "true"
    other = {"Idempotency-Key": "twice"}
    submitted = service.submit(headers=other, seed=1).json()
    repeated = service.submit(headers=other, seed=1)
    assert (repeated.json(), submitted["reused"]) == (submitted, False)


def test_pins_are_checked_unless_the_run_is_reused(service: Service) -> None:
    answered(service, pins={"y": "[gpu.0, -]"})
    assert service.submit(pins={"y": "[gpu.0, -]"}).json()["reused"] is True
    wrong = service.submit(pins={"nothing": "[gpu.0, -]"})
    assert [fault["pointer"] for fault in wrong.json()["errors"]] == ["/pins/nothing"]


def upload(service: Service, **form: str) -> Any:
    return service.http.post(
        "/v1/graphs/import", files={"file": ("tiny.onnx", MODEL.read_bytes())}, data=form
    )


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the tasks that are done, in order."""
    names = list[str]()
    do_within = TenantPool.do_within

    def counted(self: TenantPool, limit_s: float, task: Any, *arguments: Any) -> Any:
        names.append(task.__name__)
        return do_within(self, limit_s, task, *arguments)

    monkeypatch.setattr(TenantPool, "do_within", counted)
    return names


def test_an_upload_is_read_once(serve: Serve, reads: list[str]) -> None:
    service = serve()
    first, again = upload(service), upload(service)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json()
    assert reads == [tasks.save_upload.__name__]
    renamed = upload(service, name="other")
    assert (renamed.status_code, renamed.json()["name"]) == (201, "other")
    assert len(reads) == 2


def test_an_upload_is_found_by_its_hash(service: Service, tmp_path: Path) -> None:
    path, digest = "/v1/graphs/import", hashlib.sha256(MODEL.read_bytes()).hexdigest()
    query = {"sha256": digest, "filename": "tiny.onnx"}
    unknown = service.http.get(path, params=query)
    assert complaint(unknown, 404, "unknown_id")["detail"].endswith("send it (POST /v1/graphs/import)")
    sent = upload(service)
    assert service.http.get(path, params=query).json() == sent.json()
    assert service.http.get(path, params={**query, "name": "other"}).status_code == 404
    assert service.http.get(path, params={**query, "sha256": "no hash"}).status_code == 422
    files = divided(tmp_path)
    together = send(service, files["model.onnx"], ("weights.bin", files["weights.bin"]))
    hashes = [hashlib.sha256(content).hexdigest() for content in files.values()]
    divided_query = {"sha256": hashes, "filename": "model.onnx", "data": ["weights.bin"]}
    assert service.http.get(path, params=divided_query).json()["id"] == together.json()["id"]
    assert service.http.get(path, params={**divided_query, "data": ["other.bin"]}).status_code == 404


@pytest.mark.parametrize(("size_bytes", "is_in_memory"), [(2**22, True), (2**24 + 1, False)])
def test_an_upload_of_some_megabytes_is_looked_up_without_a_file(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, size_bytes: int, is_in_memory: bool
) -> None:
    service = serve(limits=Limits(import_bytes=2**25))
    found, hash_of = list[UploadFile](), graphs.content_hash

    def noted(file: Any, suffix: str) -> str:
        found.append(UploadFile(file))
        assert found[0]._in_memory == is_in_memory
        return hash_of(file, suffix)

    monkeypatch.setattr(graphs, "content_hash", noted)
    answer = upload_file(service, bytes(size_bytes), "no.onnx")
    assert (answer.status_code, len(found)) == (422, 1)


def test_an_upload_with_external_data_is_read_once(serve: Serve, reads: list[str], tmp_path: Path) -> None:
    service, files = serve(), divided(tmp_path)
    answers = [send(service, files["model.onnx"], ("weights.bin", files["weights.bin"])) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 200]
    assert answers[0].json() == answers[1].json()
    assert len(reads) == 1
    other = bytes(len(files["weights.bin"]))
    changed = send(service, files["model.onnx"], ("weights.bin", other))
    assert changed.json()["id"] != answers[0].json()["id"]
    assert send(service, files["model.onnx"], ("other.bin", other)).status_code == 422
    packed = [upload_file(service, archive(files), "model.zip") for _ in range(2)]
    assert [answer.json()["id"] for answer in packed] == [answers[0].json()["id"]] * 2
    assert len(reads) == 4


def test_a_refused_upload_is_refused_again(service: Service) -> None:
    for _ in range(2):
        broken = service.http.post("/v1/graphs/import", files={"file": ("a.onnx", b"no model")})
        assert (broken.status_code, broken.json()["code"]) == (422, "invalid_graph")
