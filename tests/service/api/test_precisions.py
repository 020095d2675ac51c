"""Tests of programs stored in another precision over HTTP."""

from __future__ import annotations

import pytest

import tapestry
from tapestry.rewrites.storage_precision import PRECISIONS, stored_in
from tapestry.service.api import precisions
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Graph
from tests.service.api.conftest import Service
from tests.service.programs import NOON


def layer() -> Graph:
    with tapestry.program("layer") as p:
        x, w = p.input("x", batch=16, width=64), p.parameter("w", width=64, out=32)
        p.output("y", x.contract(w, "width"))
    return p.graph


def test_the_program_in_another_precision_is_one_of_its_own(shared: Service) -> None:
    given = shared.store.graphs.save(layer(), NOON).id

    made = shared.http.post(f"/v1/graphs/{given}/precisions/fp16")
    again = shared.http.post(f"/v1/graphs/{given}/precisions/fp16")

    assert (made.status_code, again.status_code) == (201, 200)
    answer = made.json()
    assert shared.store.graphs.load(answer["graph"]["id"]) == stored_in(layer(), "fp16")
    assert answer["source"] == given and 0 < answer["stored"]["max_error"]["y"] < 0.004
    assert made.headers["location"] == f"/v1/graphs/{answer['graph']['id']}"


def test_what_is_not_converted_is_refused_with_the_reason(shared: Service) -> None:
    b = GraphBuilder("counter")
    state = b.source("state", (4,), "float32", "parameter")
    b.sink(state, site="next", carries="state")
    given = shared.store.graphs.save(b.build(), NOON).id
    refused = shared.http.post(f"/v1/graphs/{given}/precisions/bf16")
    assert refused.status_code == 422 and "step of training" in refused.json()["detail"]
    assert shared.http.post(f"/v1/graphs/{given}/precisions/int4").status_code == 422
    assert shared.http.post(f"/v1/graphs/{'0' * 32}/precisions/bf16").status_code == 404


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_the_service_has_every_precision(dtype: str) -> None:
    assert dtype in str(precisions.store_in_precision.__annotations__["dtype"])


def test_a_run_in_another_precision_searches_the_program_that_is_stored_so(shared: Service) -> None:
    given = shared.store.graphs.save(layer(), NOON).id
    request = {"graph_id": given, "mesh": "dgx-h100", "dtype": "bf16", "launch": "eager", "seed": 5}

    submitted = shared.http.post("/v1/runs", json=request)

    assert submitted.status_code == 202
    run = shared.http.get(submitted.headers["location"]).json()
    assert shared.store.graphs.load(run["graph_id"]) == stored_in(layer(), "bf16")
    assert (run["graph"], run["dtype"], run["launch"]) == ("layer-bf16", "bf16", "eager")
    assert shared.http.get(run["links"]["mesh"]).json()["device"]["launch"] == "eager"
    assert {"title": "Storage precision", "text": "bf16"} in run["options"]
    again = shared.http.post("/v1/runs", json={**request, "graph_id": run["graph_id"], "fresh": True})
    assert shared.http.get(again.headers["location"]).json()["graph_id"] == run["graph_id"]


def test_what_is_wrong_with_a_run_in_another_precision_is_reported_at_its_place(shared: Service) -> None:
    b = GraphBuilder("counter")
    b.sink(b.source("state", (4,), "float32", "optimizer_state"), site="next", carries="state")
    given = shared.store.graphs.save(b.build(), NOON).id
    request = {"graph_id": given, "mesh": "dgx-h100"}

    wrong = shared.http.post("/v1/runs", json={**request, "dtype": "bf61", "launch": "eger", "robust": 90})
    refused = shared.http.post("/v1/runs", json={**request, "dtype": "bf16"})

    assert {fault["pointer"]: fault["detail"] for fault in wrong.json()["errors"]} == {
        "/dtype": "expected one of bf16, fp16, fp8, not 'bf61'; did you mean bf16?",
        "/launch": "expected one of captured, eager, unfused, not 'eger'; did you mean eager?",
        "/robust": "expected a number from 0.5 to 0.999, not 90",
    }
    (fault,) = refused.json()["errors"]
    assert (refused.status_code, fault["pointer"]) == (422, "/dtype")
    assert "step of training: it carries 'state' (optimizer state)" in fault["detail"]
