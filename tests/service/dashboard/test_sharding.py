"""Tests of the sharding of a plan on its page: words, tensors, mesh, redistributions and blocks follow one choice."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import tapestry.service.dashboard
from tests.service.dashboard.conftest import Open
from tests.service.dashboard.test_drawing import picture, posted
from tests.service.processes import Service
from tests.service.test_drawings import chain

pytestmark = pytest.mark.slow

TOKENS = Path(tapestry.service.dashboard.__file__).parent / "static" / "styles" / "tokens.css"
# Machado, Oliveira, Fernandes (2009), full severity, on linear RGB: no blindness, protan, deutan, tritan.
BLINDNESS = (
    np.eye(3),
    np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
)  # fmt: skip
LEAST_DISTANCE = 0.07  # in OKLab
LEAST_CONTRAST = 3.0  # WCAG 2.2, of graphics


@pytest.fixture(scope="module")
def plan(service: Service) -> dict[str, Any]:
    """Search a chain of layers, and return the plan that moves the most bytes."""
    graph = posted(service, chain(3, "model.layers."))
    options = {
        "graph_id": graph,
        "mesh": "2x-dgx-h100",
        "budget": {"evaluations": 300},
        "islands": 1,
        "verify": "none",
    }
    run = service.post("/v1/runs", json=options)["id"]
    service.wait_for_run(run)
    plans = service.get(f"/v1/runs/{run}/frontier")["plans"]
    return dict(max(plans, key=lambda each: each["cost"]["traffic_bytes"]))


@pytest.fixture
def page(service: Service, plan: dict[str, Any], visit: Open) -> Page:
    page = visit(service, f"/plans/{plan['id']}")
    expect(page.locator("#moved-count")).to_contain_text("redistribution")
    return page


def test_a_choice_is_shown_in_the_list_the_block_the_tensor_and_the_diagram(
    service: Service, plan: dict[str, Any], page: Page
) -> None:
    columns = service.get(f"/v1/plans/{plan['id']}/sharding")
    assert sum(columns["redistributions"]["bytes"]) == plan["cost"]["traffic_bytes"] > 0
    expect(page.locator("#sharding-words dt").first).to_have_text("Devices")
    count = len(columns["redistributions"]["bytes"])
    expect(page.locator("#moved-count")).to_have_text(f"{count} redistribution{'' if count == 1 else 's'}")
    expect(page.locator("#axis-table tbody tr")).to_have_count(2)

    page.locator("#moved-list .site").first.click()
    reader = page.locator("#sharding-site").input_value()
    assert reader in columns["blocks"]["site"]
    expect(page.locator("#selected-block h3")).to_have_text(reader)
    expect(page.locator("#sharding-block")).to_contain_text("comes by")
    expect(page.locator("#tensor-views .moved").first).to_contain_text("In flight")

    made = next(site for site in columns["blocks"]["site"] if site.startswith("p") and site != reader)
    page.fill("#find-block", made)
    page.press("#find-block", "Enter")
    expect(page.locator("#sharding-site")).to_have_value(made)
    expect(page.locator("#sharding-tensor")).to_have_value(made)


def test_a_cell_of_the_matrix_filters_the_list_by_keys(page: Page) -> None:
    everything = page.locator("#moved-count").inner_text()
    cell = page.locator("#matrix td button").first
    cell.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#matrix button[aria-pressed=true]")).to_be_focused()
    expect(page.locator("#moved-count")).to_contain_text(" over ")
    page.keyboard.press("Enter")
    expect(page.locator("#moved-count")).to_have_text(everything)
    page.select_option("#matrix-by", "class")
    expect(page.locator("#matrix thead")).to_contain_text("from, to")


def test_a_device_under_the_pointer_is_explained_and_diagrams_have_colors_of_the_sharding(page: Page) -> None:
    page.locator("#mesh-figure canvas").hover(position={"x": 50, "y": 60})
    expect(page.locator("#mesh-figure .tooltip")).to_contain_text("received over gpu")
    page.locator("#tensor-views canvas").first.hover(position={"x": 130, "y": 100})
    expect(page.locator("#tensor-views .tooltip").first).to_contain_text("device")
    page.click("#open-all")
    seen = set()
    for by in ("kind", "received", "seconds", "split"):
        page.select_option("#coloring", by)
        seen.add(picture(page))
    assert len(seen) >= 3  # of few layers, the bytes that blocks receive may look like another
    expect(page.locator("#coloring option")).to_have_count(7)  # no stages: this is no pipeline
    expect(page.locator("#legend")).to_contain_text("redistributed, up to")


def test_what_cannot_be_counted_says_why(service: Service, plan: dict[str, Any], visit: Open) -> None:
    answer = {"title": "Not now", "detail": "too much is being counted", "code": "busy", "status": 503}

    def refuse(page: Page) -> None:
        page.route("**/sharding", lambda route: route.fulfill(status=503, json=answer))

    page = visit(service, f"/plans/{plan['id']}", expected=("status of 503",), before=refuse)
    expect(page.locator("#sharding .notice")).to_contain_text("too much is being counted")
    expect(page.locator("#drawing")).to_contain_text("nodes for")


@pytest.mark.parametrize(("scheme", "surface"), [(0, "#ffffff"), (1, "#171c25")])
def test_colors_of_mesh_axes_differ_to_all_eyes(scheme: int, surface: str) -> None:
    found = re.findall(r"--axis-\d: light-dark\((#\w+), (#\w+)\)", TOKENS.read_text())
    colors = [_linear(pair[scheme]) for pair in found]
    assert len(colors) == 4
    for matrix in BLINDNESS:
        seen = [_oklab(np.clip(matrix @ one, 0, 1)) for one in colors]
        assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) >= LEAST_DISTANCE
    behind = _luminance(_linear(surface))
    for one in map(_luminance, colors):
        assert (max(one, behind) + 0.05) / (min(one, behind) + 0.05) >= LEAST_CONTRAST


def _linear(text: str) -> np.ndarray:
    value = np.array([int(text[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def _luminance(color: np.ndarray) -> float:
    return float(color @ np.array([0.2126, 0.7152, 0.0722]))


def _oklab(color: np.ndarray) -> np.ndarray:
    """Convert linear RGB to OKLab (Ottosson, 2020)."""
    cones = np.array(
        [
            [0.41222147, 0.53633254, 0.05144599],
            [0.21190350, 0.68069955, 0.10739696],
            [0.08830246, 0.28171884, 0.62997870],
        ]
    )
    lab = np.array(
        [
            [0.21045426, 0.79361778, -0.00407205],
            [1.97799850, -2.42859221, 0.45059371],
            [0.02590404, 0.78277177, -0.80867577],
        ]
    )
    return np.asarray(lab @ np.cbrt(cones @ color))
