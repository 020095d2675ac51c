"""The page about notebooks, run as a notebook: every cell shows a card, as formatted by IPython."""

from __future__ import annotations

from typing import Any

import pytest

from tests.docs.notebooks import IMAGES, PAGE, PICTURES, cells
from tests.teg.test_graph_card import is_inert


@pytest.fixture(scope="module")
def shown() -> list[tuple[Any, str]]:
    """Return the values of the cells, and the HTML that a notebook has of each."""
    formatters = pytest.importorskip("IPython.core.formatters")
    formatter = formatters.DisplayFormatter()
    return [(value, formatter.format(value)[0]["text/html"]) for value in cells()]


@pytest.mark.slow
def test_every_cell_shows_its_value(shown: list[tuple[Any, str]]) -> None:
    (graph, program), (mesh, devices), (result, frontier), (plan, costs), (found, checks) = shown
    assert {"12 × layers", "layers.0, the first of 12", f"program of {len(graph.blocks):,} blocks"} <= set(
        is_inert(program).texts
    )
    assert {"Mesh 4x-dgx-h100", f"{mesh.device_count} devices {mesh.device.name}"} <= set(
        is_inert(devices).texts
    )
    assert is_inert(frontier).tags.count("circle") == len(result.frontier)
    assert f"Plan {plan.id}" in is_inert(costs).texts
    assert found.ok and {"proven", "counted"} <= set(is_inert(checks).texts)
    assert max(len(markup) for _, markup in shown) < 40_000


def test_every_picture_is_on_the_page_and_there() -> None:
    for name in PICTURES:
        assert (
            f"(images/notebook-{name}.png)" in PAGE.read_text()
            and (IMAGES / f"notebook-{name}.png").is_file()
        )
