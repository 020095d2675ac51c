"""Tests of layouts over HTTP: the answers, the drawings, and the positions of errors."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

import pytest

from tapestry.hardware.layouts import NOTATIONS
from tapestry.service.layout_maps import layout_map
from tapestry.service.layouts import describe, read_layout
from tests.service.api.conftest import Service, complaint

TILED = "f32[3,5]{1,0:T(2,2)}"


@pytest.mark.parametrize("notation", NOTATIONS, ids=lambda n: n.name)
def test_every_notation_is_described_as_the_command_line_does_and_drawn(shared: Service, notation) -> None:
    for text in notation.examples[:3]:
        layout = read_layout(text)
        at, offset = [0] * len(layout.shape), layout.buffer_count * layout.buffer_elements - 1
        answer = shared.http.post("/v1/layouts/describe", json={"text": text, "at": at, "offset": offset})
        assert (answer.status_code, answer.json()) == (200, describe(layout, at, offset))
        diagram = shared.http.post("/v1/layouts/draw", json={"text": text})
        assert (diagram.status_code, diagram.headers["content-type"]) == (200, "image/svg+xml")
        assert ElementTree.fromstring(diagram.content).tag.endswith("svg")


def test_a_map_has_both_directions(shared: Service) -> None:
    answer = shared.http.post("/v1/layouts/map", json={"text": "f32[2,1]{1,0:T(2,2)}"})
    assert answer.status_code == 200
    assert answer.json() == layout_map(read_layout("f32[2,1]{1,0:T(2,2)}"))
    assert (answer.json()["elements"], answer.json()["slots"]) == ([0, 2], [0, -1, 1, -1])


@pytest.mark.parametrize(
    ("requested", "pointer"),
    [
        ({"text": "f32[600,600]"}, "/text"),
        ({"text": "f32["}, "/text"),
        ({"text": "4:1", "dtype": "thing"}, "/dtype"),
    ],
)
def test_what_cannot_be_mapped_is_refused(shared: Service, requested: dict[str, str], pointer: str) -> None:
    fault = complaint(shared.http.post("/v1/layouts/map", json=requested), 422, "invalid")["errors"][0]
    assert fault["pointer"] == pointer


def test_a_type_is_taken_where_the_text_has_none(shared: Service) -> None:
    requested = {"text": "(4,5):(1,4)", "dtype": "bf16"}
    assert shared.http.post("/v1/layouts/describe", json=requested).json()["size_bytes"] == 40


@pytest.mark.parametrize(
    ("requested", "pointers"),
    [
        ({"text": "float*** x"}, {"/text"}),
        ({"text": "f32[3,5]{1,0:T(2,2)"}, {"/text"}),
        ({"text": "(4,5):(1,4)", "dtype": "thing"}, {"/dtype"}),
        ({"text": TILED, "at": [3, 0], "offset": 24}, {"/at", "/offset"}),
        ({"text": TILED, "at": [0]}, {"/at"}),
        ({"text": TILED, "at": [-1, 0]}, {"/at/0"}),
        ({"text": TILED, "offset": 2**63}, {"/offset"}),
        ({"text": TILED, "at": ["0", 0]}, {"/at/0"}),
        ({"text": TILED, "color": 1}, {"/color"}),
        ({"text": "f32[" + "9" * 30000}, {"/text"}),
        ({"text": "\ud800"}, {"/text"}),
        ({}, {"/text"}),
    ],
)
def test_faults_are_pointed_at(shared: Service, requested: dict[str, Any], pointers: set[str]) -> None:
    content = json.dumps(requested)
    answer = shared.http.post(
        "/v1/layouts/describe", content=content, headers={"Content-Type": "application/json"}
    )
    found = complaint(answer, 422, "invalid")["errors"]
    assert {fault["pointer"] for fault in found} == pointers


def test_what_is_too_large_to_draw_is_refused(shared: Service) -> None:
    answer = shared.http.post("/v1/layouts/draw", json={"text": "f32[5000,5000]"})
    fault = complaint(answer, 422, "invalid")["errors"][0]
    assert fault["pointer"] == "/text" and "too large to draw" in fault["detail"]
