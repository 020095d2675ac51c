"""Tests of programs stored in another precision over HTTP."""

from __future__ import annotations

import pytest

import tapestry
from tapestry.rewrites.storage_precision import stored_in
from tapestry.service.api import precisions
from tapestry.service.cli.options import shared as options
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
    assert refused.status_code == 422 and "carries state" in refused.json()["detail"]
    assert shared.http.post(f"/v1/graphs/{given}/precisions/int4").status_code == 422
    assert shared.http.post(f"/v1/graphs/{'0' * 32}/precisions/bf16").status_code == 404


@pytest.mark.parametrize("dtype", options.PRECISIONS)
def test_the_service_has_every_precision(dtype: str) -> None:
    assert dtype in str(precisions.store_in_precision.__annotations__["dtype"])
