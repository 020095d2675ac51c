"""Tests of values over HTTP: given with an execution, stored under names, fetched, and refused with all faults."""

from __future__ import annotations

import io
import json
from typing import Any

import httpx
import numpy as np
import pytest

from tapestry.service.settings import Limits
from tapestry.service.store import ComputedTensors, TensorPlace, TensorValue
from tapestry.teg.tensor_files import dump_tensors, read_tensors
from tests.service.api.conftest import Serve, Service, complaint
from tests.service.api.test_plans import first_plan
from tests.service.programs import NOON, finished_run, two_layers

BINARY = {"Content-Type": "application/octet-stream"}


def packed(arrays: dict[str, np.ndarray], ending: str = ".npz") -> bytes:
    file = io.BytesIO()
    dump_tensors(file, ending, arrays)
    return file.getvalue()


def values() -> dict[str, np.ndarray]:
    shapes = {"x": (64, 64), "up": (64, 256), "down": (256, 64)}
    return {name: np.full(shape, k, np.float32) for k, (name, shape) in enumerate(shapes.items())}


def post(service: Service, request: dict[str, Any] | str = "{}", **files: bytes) -> httpx.Response:
    text = request if isinstance(request, str) else json.dumps(request)
    parts = {"request": (None, text.encode()), **files}
    return service.http.post(f"/v1/plans/{first_plan(service)}/executions", files=parts)


def pointers(answer: httpx.Response) -> dict[str, str]:
    return {e["pointer"]: e["detail"] for e in complaint(answer, 422, "invalid")["errors"]}


@pytest.mark.parametrize("ending", [".npz", ".safetensors"])
def test_values_in_files_are_kept_for_the_worker(shared: Service, ending: str) -> None:
    given = values()
    weights = packed({name: given[name] for name in ("up", "down")}, ending)
    inputs = packed({"x": given["x"], "y": np.zeros(1)}, ending)
    answer = post(shared, {"outputs": True}, inputs=inputs, weights=weights)
    assert answer.status_code == 202, answer.text
    assert answer.json()["unread"] == ["there is no input 'y'; known are x, up, down"]
    found = shared.http.get(answer.headers["location"]).json()
    assert (found["seed"], found["status"]) == (None, "queued")
    assert found["request"] == {
        "given": ["down", "up", "x"],
        "tensors": {},
        "save": {},
        "outputs": True,
    }
    kept = shared.store.executions.tensors(found["id"], "input")
    assert {name: value.array.tolist() for name, value in kept.items()} == {
        name: array.tolist() for name, array in given.items()
    }


def test_outputs_are_fetched_once_they_are_there(shared: Service) -> None:
    plan = shared.store.plans.get(first_plan(shared))
    execution_id = shared.http.post(f"/v1/plans/{plan.public_id}/executions", json={"outputs": True}).json()[
        "id"
    ]
    path = f"/v1/executions/{execution_id}/outputs"
    assert "is queued and has no outputs" in complaint(shared.http.get(path), 409, "no_outputs")["detail"]
    job = shared.store.jobs.claim("ada", NOON, 60.0, ("execution",))
    while job is not None and job.subject != execution_id:
        job = shared.store.jobs.claim("ada", NOON, 60.0, ("execution",))
    assert job is not None
    (outcome,) = finished_run(two_layers()).executions.values()
    result = np.arange(6, dtype=np.complex128).reshape(2, 3)
    computed = ComputedTensors({"result": TensorValue.of(result)})
    shared.store.jobs.end_execution(job, NOON, "finished", execution=outcome, computed=computed)
    assert shared.http.get(f"/v1/executions/{execution_id}").json()["links"]["outputs"] == path
    answer = shared.http.get(path)
    assert answer.headers["content-disposition"] == f'attachment; filename="{execution_id}.npz"'
    with np.load(io.BytesIO(answer.content)) as found:
        np.testing.assert_array_equal(found["result"], result)
    refused = complaint(shared.http.get(path, params={"format": "safetensors"}), 422, "invalid")
    assert "'result' of type complex128" in refused["detail"] and refused["detail"].endswith("take .npz")


def test_an_execution_without_outputs_says_how_to_get_them(shared: Service) -> None:
    plan = first_plan(shared)
    execution = shared.http.get(f"/v1/plans/{plan}").json()["executions"][0]["id"]
    answer = shared.http.get(f"/v1/executions/{execution}/outputs")
    assert '"outputs": true' in complaint(answer, 409, "no_outputs")["detail"]


def test_all_faults_of_values_are_listed_and_nothing_is_queued(shared: Service) -> None:
    before = shared.http.get("/metrics").text.count("queued")
    bad = packed({"x": np.zeros((64, 65), np.float32), "up": np.zeros((64, 256)), "Down": np.zeros(1)})
    found = pointers(post(shared, {"save": {"result": "no/name", "none": "y"}}, inputs=bad))
    assert found["/inputs/x"].startswith("input 'x' must have shape (64, 64) and type float32, not")
    assert "type float64" in found["/inputs/up"]
    assert found["/inputs/down"] == "input 'down' of shape (256, 64) and type float32 is missing"
    assert found["/inputs/Down"] == "there is no input 'Down'; did you mean down?"
    assert "is no name of a stored tensor" in found["/save/result"]
    assert found["/save/none"] == "there is no output 'none'; known are result"
    assert shared.http.get("/metrics").text.count("queued") == before


def test_faults_of_files_and_references_name_their_place(shared: Service) -> None:
    shared.http.put("/v1/tensors/narrow", content=packed({"a": np.zeros(3)}, ".npy"), headers=BINARY)
    x = packed({"x": values()["x"]})
    assert "it has 3 bytes" in pointers(post(shared, inputs=b"abc"))["/inputs"]
    assert "gives 'x' too" in pointers(post(shared, inputs=x, weights=x))["/weights/x"]
    found = pointers(post(shared, {"tensors": {"x": "narrow", "up": "narow", "z": "narrow"}}, inputs=x))
    assert "the file of 'inputs' gives 'x' too" in found["/tensors/x"]
    assert found["/tensors/up"] == "there is no tensor 'narow'; did you mean narrow?"
    assert found["/tensors/z"] == "there is no input 'z'; known are x, up, down"
    found = pointers(post(shared, {"tensors": {"x": "narrow"}}, weights=packed({})))
    assert found["/tensors/x"].startswith("input 'x' must have shape (64, 64)")
    assert found["/weights/up"].endswith("is missing")


def test_a_form_whose_request_is_wrong_names_the_member(shared: Service) -> None:
    assert "there is no member 'sede' here" in pointers(post(shared, {"sede": 1}))["/request/sede"]
    assert "/request" in pointers(post(shared, "{", inputs=b""))
    plan = first_plan(shared)
    answer = shared.http.post(f"/v1/plans/{plan}/executions", json={"values": False, "outputs": True})
    assert pointers(answer) == {
        "/values": "nothing is computed, so no value is read or kept; leave values out"
    }
    answer = shared.http.post(f"/v1/plans/{plan}/executions", content=b"x", headers=BINARY)
    assert (
        "application/json or multipart/form-data"
        in complaint(answer, 415, "unsupported_media_type")["detail"]
    )


def test_sizes_beyond_the_limit_are_refused(serve: Serve) -> None:
    service = serve(limits=Limits(tensor_bytes=20_000))
    assert complaint(post(service, inputs=bytes(30_000)), 413, "too_large")
    zeros = io.BytesIO()
    np.savez_compressed(zeros, x=np.zeros(10**6))
    assert "unpacks to 8,000,128 bytes" in pointers(post(service, inputs=zeros.getvalue()))["/inputs"]
    answer = service.http.put("/v1/tensors/zeros", content=zeros.getvalue(), headers=BINARY)
    assert "unpacks to 8,000,128 bytes" in pointers(answer)[""]
    small = serve(limits=Limits(tensor_bytes=10_000))
    answer = small.http.post(f"/v1/plans/{first_plan(small)}/executions", json={"outputs": True})
    assert pointers(answer) == {"/outputs": "they have 16,384 bytes; at most 10,000 are kept here"}


def test_the_same_values_under_the_same_key_are_one_execution(shared: Service) -> None:
    path = f"/v1/plans/{first_plan(shared)}/executions"
    files = {"inputs": packed(values())}
    key = {"Idempotency-Key": "values-1"}
    first = shared.http.post(path, files=files, headers=key)
    again = shared.http.post(path, files=files, headers=key)
    assert first.json()["id"] == again.json()["id"] and again.headers["idempotent-replayed"] == "true"
    other = {"inputs": packed({**values(), "x": np.ones((64, 64), np.float32)})}
    complaint(shared.http.post(path, files=other, headers=key), 422, "key_reused")


def test_many_faults_are_counted_and_the_first_are_listed(shared: Service) -> None:
    answer = post(shared, {"tensors": {f"t{k}": "nowhere" for k in range(3000)}})
    problem = complaint(answer, 422, "invalid")
    assert len(problem["errors"]) == 100
    assert problem["detail"].endswith("(and 2995 more)")


@pytest.mark.parametrize("ending", [".npy", ".npz", ".safetensors"])
def test_a_tensor_is_stored_shown_fetched_copied_and_dropped(service: Service, ending: str) -> None:
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    answer = service.http.put("/v1/tensors/a.b", content=packed({"any": array}, ending), headers=BINARY)
    assert answer.status_code == 200, answer.text
    shown = service.http.get("/v1/tensors/a.b").json()
    assert (shown["dtype"], shown["shape"], shown["size_bytes"], shown["place"]) == (
        "int32",
        [2, 3],
        24,
        None,
    )
    with np.load(io.BytesIO(service.http.get(shown["links"]["content"]).content)) as found:
        np.testing.assert_array_equal(found["a.b"], array)
    copied = service.http.put("/v1/tensors/c", params={"copy_of": "a.b"})
    assert copied.json()["digest"] == shown["digest"]
    assert [t["name"] for t in service.http.get("/v1/tensors").json()["items"]] == ["a.b", "c"]
    assert service.http.delete("/v1/tensors/a.b").status_code == 204
    message = complaint(service.http.get("/v1/tensors/a.b"), 404, "unknown_id")["detail"]
    assert message == "there is no tensor 'a.b'; known are c"
    complaint(service.http.put("/v1/tensors/d", params={"copy_of": "none"}), 404, "unknown_id")


def test_what_loading_a_tensor_takes_is_stored_with_it(shared: Service) -> None:
    content = packed({"a": np.zeros(3)}, ".npy")
    cost = {"load_seconds": 0.5, "load_bytes_per_s": 25e9, "load_device": "gpu:0"}
    stored = shared.http.put("/v1/tensors/far", params=cost, content=content, headers=BINARY)
    assert stored.json()["load"] == {"seconds": 0.5, "bytes_per_s": 25e9, "device": "gpu:0"}
    plain = shared.http.put("/v1/tensors/far", content=content, headers=BINARY)
    assert plain.json()["load"] is None
    wrong = {"load_seconds": -1, "load_bytes_per_s": 0}
    answer = shared.http.put("/v1/tensors/far", params=wrong, content=content, headers=BINARY)
    assert set(pointers(answer)) == {"#query/load_seconds", "#query/load_bytes_per_s"}


def test_what_is_no_single_tensor_is_refused(shared: Service) -> None:
    def put(content: bytes) -> str:
        return pointers(shared.http.put("/v1/tensors/wrong", content=content, headers=BINARY))[""]

    assert "expected a file with one tensor, not 3" in put(packed(values()))
    assert "the body cannot be read: it has 0 bytes" in put(b"")
    assert "plain bytes (2 each) without a type; send .safetensors" in put(packed({"x": np.zeros(2, "V2")}))
    complaint(shared.http.get("/v1/tensors/wrong"), 404, "unknown_id")
    answer = shared.http.put("/v1/tensors/a%2Fb", content=b"", headers=BINARY)
    assert answer.status_code == 404


def test_a_saved_tensor_says_where_it_lies(shared: Service, tmp_path: Any) -> None:
    place = TensorPlace("dgx-h100", "0" * 32, "gpu:4", (2, 3), "[gpu.0, -]", "")
    value = TensorValue.of(np.arange(6, dtype=np.float32).reshape(2, 3))
    shared.store.tensors.put({"saved": value}, NOON, {"saved": place})
    shown = shared.http.get("/v1/tensors/saved").json()
    assert shown["place"] == place.to_json()
    answer = shared.http.get("/v1/tensors/saved/content", params={"format": "safetensors"})
    (tmp_path / "saved.safetensors").write_bytes(answer.content)
    np.testing.assert_array_equal(read_tensors(tmp_path / "saved.safetensors")["saved"], value.array)
