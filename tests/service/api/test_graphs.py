"""Tests of programs posted as documents or ONNX files: one per content, refused with the position of the error."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path

import httpx
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tapestry.service.settings import Limits
from tapestry.teg.document import dumps, from_document
from tests.service.api.conftest import PATIENCE_S, Serve, Service, complaint
from tests.service.programs import two_layers
from tests.teg.importers.models import GRAPHS
from tests.teg.importers.test_loom import layer
from tests.teg.sharding.test_external_graphs import paper

JSON = {"Content-Type": "application/json"}


def model(rows: int | str = 4, weights: onnx.TensorProto | None = None) -> onnx.ModelProto:
    """Build `x @ w` as an ONNX model."""
    w = weights or numpy_helper.from_array(np.ones((8, 2), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 2])],
        [w],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def upload(service: Service, content: bytes, filename: str = "product.onnx", **fields: str) -> httpx.Response:
    return service.http.post("/v1/graphs/import", files={"file": (filename, content)}, data=fields)


def test_a_document_is_kept_by_its_content(service: Service) -> None:
    document = dumps(two_layers())
    first = service.http.post("/v1/graphs", content=document, headers=JSON)
    again = service.http.post("/v1/graphs", content=document.replace(": ", ":  "), headers=JSON)

    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    graph = first.json()
    assert (graph["name"], graph["blocks"], graph["lacks_values"]) == ("two_layers", 7, False)
    assert graph["summary"]["operators"] == {"source": 3, "contract": 2, "cell": 1, "sink": 1}
    assert first.headers["location"] == graph["links"]["self"] == f"/v1/graphs/{graph['id']}"
    assert service.http.get(graph["links"]["self"]).json() == graph
    (listed,) = service.http.get("/v1/graphs").json()["items"]
    assert set(graph["summary"]) - set(listed["summary"]) == {"sources", "sinks"}
    assert listed["summary"].items() <= graph["summary"].items()
    kept = service.http.get(graph["links"]["document"])
    assert from_document(kept.json()).structural_hash == two_layers().structural_hash


def test_a_document_comes_packed_only_to_those_who_can_unpack_it(shared: Service) -> None:
    path = f"/v1/graphs/{shared.graph()}/document"
    with shared.http.stream("GET", path, headers={"Accept-Encoding": "gzip"}) as packed:
        assert packed.headers["content-encoding"] == "gzip"
        content = b"".join(packed.iter_raw())
    plain = shared.http.get(path, headers={"Accept-Encoding": "gzip;q=0, identity"})
    assert "content-encoding" not in plain.headers
    assert plain.content == gzip.decompress(content)


def test_faults_of_a_document_have_pointers_into_it(shared: Service) -> None:
    document = json.loads(dumps(two_layers()))
    document["blocks"][4]["inputs"] = ["hiden"]
    document["tensors"][2]["shape"] = [-1, 64]
    answer = shared.http.post("/v1/graphs", json=document)
    faults = complaint(answer, 422, "invalid_graph")["errors"]
    pointers = [fault["pointer"] for fault in faults]
    assert "/tensors/2/shape/0" in pointers or "/tensors/2/shape" in pointers
    assert all(pointer.startswith("/") for pointer in pointers)


def test_what_is_no_document_is_refused(shared: Service) -> None:
    for content in (b"", b"{", b"[1, 2]", b'"text"', b"\xff\xfe", b'{"teg": 1}', b"[" * 100_000):
        answer = shared.http.post("/v1/graphs", content=content, headers=JSON)
        complaint(answer, 422, "invalid_graph")


def test_a_name_that_nobody_can_print_is_refused(shared: Service) -> None:
    document = json.loads(dumps(two_layers())) | {"name": "a\u0000b"}
    faults = complaint(shared.http.post("/v1/graphs", json=document), 422, "invalid_graph")["errors"]
    assert [fault["pointer"] for fault in faults] == ["/name"]


def test_a_program_of_too_many_blocks_is_too_large(serve: Serve) -> None:
    service = serve(limits=Limits(graph_blocks=3, import_seconds=PATIENCE_S))
    posted = service.http.post("/v1/graphs", content=dumps(two_layers()), headers=JSON)
    message = complaint(posted, 413, "too_large")["errors"][0]["detail"]
    assert message == "the program has 7 blocks; at most 3 are accepted here"
    message = complaint(upload(service, model().SerializeToString()), 413, "too_large")["errors"][0]["detail"]
    assert message == "the program has 4 blocks; at most 3 are accepted here"


def test_stablehlo_comes_in_by_its_ending(shared: Service) -> None:
    pytest.importorskip("jaxlib")
    program = GRAPHS / "jax" / "jax_kmeans_5iter.stablehlo.mlir.gz"

    answer = upload(shared, program.read_bytes(), filename="k means.v2.mlir.gz")

    assert answer.status_code == 201
    assert answer.json()["name"] == "k means.v2"
    assert answer.json()["summary"]["sinks"] == ["result"]


@pytest.mark.parametrize("filename", ["damaged.pt2", "damaged.mlir"])
def test_what_is_no_program_is_refused_by_its_own_name(shared: Service, filename: str) -> None:
    pytest.importorskip("jaxlib")

    answer = upload(shared, b"PK nothing", filename=filename)

    assert answer.status_code == 422
    assert "tapestry-upload" not in answer.text
    assert answer.json()["errors"][0]["pointer"] == "/file"


def test_an_onnx_file_is_imported_under_its_own_name(shared: Service) -> None:
    answer = upload(shared, model().SerializeToString(), "folder/product.onnx")
    assert answer.status_code == 201
    assert answer.json()["name"] == "product"
    assert answer.json()["summary"]["parameters"] == 16
    assert upload(shared, model().SerializeToString()).status_code == 200


def test_an_onnx_file_takes_sizes_and_a_name(shared: Service) -> None:
    content = model(rows="batch").SerializeToString()
    message = complaint(upload(shared, content), 422, "invalid_graph")["errors"][0]
    assert message["pointer"] == "/file"
    assert "'batch' of input 'x'" in message["detail"]
    assert "-F dims=batch=8" in message["detail"]
    answer = upload(shared, content, dims="batch=3", name="three rows")
    assert answer.status_code == 201
    assert answer.json()["name"] == "three rows"
    assert answer.json()["summary"]["sources"][0]["shape"] == [3, 8]


def test_sizes_that_are_none_are_refused(shared: Service) -> None:
    for dims in (
        "batch",
        "batch=0",
        "batch=-1",
        "batch=x",
        "=3",
        f"batch={10**30}",
        f"batch={2**31}",
        "a=1,=2",
    ):
        answer = upload(shared, b"x", dims=dims)
        assert complaint(answer, 422, "invalid")["errors"][0]["pointer"] == "/dims"


def test_external_data_is_refused_and_its_file_never_read(shared: Service, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"\x42" * 64)
    weights = numpy_helper.from_array(np.zeros((8, 2), np.float32), "w")
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    for key, value in (("location", str(secret)), ("offset", "0"), ("length", "64")):
        weights.external_data.add(key=key, value=value)
    answer = upload(shared, model(weights=weights).SerializeToString())
    message = complaint(answer, 422, "invalid_graph")["errors"][0]["detail"]
    assert "initializer 'w' lies in another file, '/" in message
    assert "-F data=@FILE" in message
    sent = {
        "file": ("product.onnx", model(weights=weights).SerializeToString()),
        "data": ("w.bin", bytes(64)),
    }
    answer = shared.http.post("/v1/graphs/import", files=sent)
    message = complaint(answer, 422, "invalid_graph")["errors"][0]["detail"]
    assert "which was not sent along" in message and "tapestry-upload" not in message


def test_what_is_no_onnx_file_is_refused(shared: Service) -> None:
    whole = model().SerializeToString()
    for content in (b"", b"no model", whole[: len(whole) // 2], bytes(range(256)) * 40):
        document = complaint(upload(shared, content), 422, "invalid_graph")
        assert document["errors"][0]["pointer"] == "/file"


def test_an_upload_without_a_file_is_refused(shared: Service) -> None:
    answer = shared.http.post("/v1/graphs/import", data={"name": "a"}, files={"other": b"x"})
    assert complaint(answer, 422, "invalid")["errors"][0]["pointer"] == "/file"


def test_unknown_graphs_are_not_found(shared: Service) -> None:
    for graph_id in ("0" * 32, "nothing", "%00", "..%2f..%2fetc", "0" * 5000, "%ed%a0%80"):
        for path in (f"/v1/graphs/{graph_id}", f"/v1/graphs/{graph_id}/document"):
            answer = shared.http.get(path)
            assert answer.status_code == 404, answer.text
            assert answer.json()["code"] in ("unknown_id", "unknown_path")


def test_uploads_leave_no_files(shared: Service) -> None:
    before = set(Path(tempfile.gettempdir()).glob("tapestry-upload-*"))
    upload(shared, b"no model")
    shared.http.post("/v1/graphs", content=b"{", headers=JSON)
    assert set(Path(tempfile.gettempdir()).glob("tapestry-upload-*")) <= before


@pytest.mark.slow
def test_a_sharded_program_is_kept_as_it_came_and_flagged(service: Service) -> None:
    answer = service.http.post("/v1/graphs", content=dumps(paper(concat=False)), headers=JSON)
    assert answer.status_code == 201
    summary = answer.json()["summary"]
    assert summary["is_explicit"] is True
    assert summary["shards"] == {"devices": 2, "verified": True, "issues": []}
    kept = service.http.get(answer.json()["links"]["document"])
    assert from_document(kept.json()) == paper(concat=False)


@pytest.mark.slow
def test_a_loom_document_comes_in_and_its_breaches_have_places(service: Service) -> None:
    document = layer()
    assert service.http.post("/v1/graphs", content=json.dumps(document), headers=JSON).status_code == 201
    document["nodes"][0]["body"]["dtype"] = "i8"
    refused = service.http.post("/v1/graphs", content=json.dumps(document), headers=JSON)
    assert refused.status_code == 422
    assert "/nodes/0/body/dtype" in refused.text
