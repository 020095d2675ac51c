"""Tests of the layouts page: a text is described, drawn, and explored from index to address and back."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.service.dashboard.conftest import Open
from tests.service.layout_examples import BROADCAST, CORES, EXAMPLES, FACES, TILED, LayoutExample
from tests.service.processes import Service

pytestmark = pytest.mark.slow


def test_a_layout_is_described_and_drawn(idle_service: Service, visit: Open) -> None:
    page = visit(idle_service, "/layouts", expected=("status of 422",))
    expect(page.locator("#figures")).to_contain_text("96 B")
    page.fill("#text", "(4,5):(1,4)")
    page.fill("#dtype", "bf16")
    page.fill("#at", "3, 4")
    page.click("text=Describe")
    expect(page.locator("#figures")).to_contain_text("[3, 4] at offset 19: buffer 0, slot 19, byte 38")
    expect(page.locator("#picture img")).to_be_visible()
    page.wait_for_function("document.querySelector('#picture img').naturalWidth > 100")

    page.fill("#at", "4, x")
    page.click("text=Describe")
    expect(page.locator("[data-fault='/at']")).not_to_be_empty()
    expect(page.locator("#result")).to_be_hidden()


def test_an_example_and_an_address_lead_to_a_picture(idle_service: Service, visit: Open) -> None:
    page = visit(idle_service, "/layouts?text=f32%5B8%2C8%5D%7B1%2C0%3AT(2%2C4)(2%2C1%2C1%2C1)%7D")
    expect(page.locator("#figures code")).to_have_text("f32[8,8]{1,0:T(2,4)(2,1,1,1)}")
    page.select_option("#example", index=0)
    expect(page.locator("#figures code")).to_have_text("f32[3,5]{1,0:T(2,2)}")


def address(example: LayoutExample, **more: str) -> str:
    """Return the address at which a layout is explored."""
    return f"/layouts?{urlencode({'text': example.text, 'dtype': example.dtype, **more})}"


def saved(page: Page, which: str, form: str) -> str:
    """Save one of the drawings, or its figures, and return the text of the file."""
    page.locator(f"#{which}-save summary").click()
    with page.expect_download() as download:
        page.locator(f"#{which}-save").get_by_role("button", name=form).click()
    return Path(download.value.path()).read_text()


def go(page: Page, which: str, steps: str) -> None:
    """Go from the first cell of a drawing by arrow keys: `r` right, `d` down."""
    expect(page.locator(f"#{which}-note")).not_to_be_empty()
    page.locator(f"#{which}-cells canvas").focus()
    page.keyboard.press("Home")
    for step in steps:
        page.keyboard.press({"r": "ArrowRight", "d": "ArrowDown"}[step])


@pytest.mark.parametrize("example", EXAMPLES, ids=["xla", "cute", "ttnn", "tt_metal"])
def test_all_indices_and_addresses_are_those_of_the_formula(
    idle_service: Service, visit: Open, example: LayoutExample
) -> None:
    page = visit(idle_service, address(example))
    expect(page.locator("#memory-note")).to_contain_text("numbers are indices of elements")
    tensor = list(csv.reader(saved(page, "tensor", "CSV").splitlines()))
    assert tensor[0] == ["index 0", "index 1", "offset (slots)", "buffer", "slot", "byte"]
    indices = np.array([row[:2] for row in tensor[1:]], int)
    offsets = np.array([row[2] for row in tensor[1:]], int)
    assert np.array_equal(indices, np.indices(indices.max(0) + 1).reshape(2, -1).T)
    assert np.array_equal(offsets, example.offset(*indices.T))

    memory = list(csv.reader(saved(page, "memory", "CSV").splitlines()))
    held: dict[int, list[str]] = {}
    for index, offset in zip(indices.tolist(), offsets.tolist(), strict=True):
        held.setdefault(offset, []).append(str(index))
    assert len(memory) - 1 > max(held)
    assert [row[4] for row in memory[1:]] == [
        " ".join(held[k]) if k in held else "padding" for k in range(len(memory) - 1)
    ]


def test_an_index_marks_its_address_and_an_address_its_index(idle_service: Service, visit: Open) -> None:
    page = visit(idle_service, address(TILED))
    go(page, "tensor", "drrr")
    offset = TILED.offset(1, 3)
    place = page.locator("#place")
    expect(place).to_have_text(
        f"Element [1, 3] is at offset {offset}: buffer 0, slot {offset}, byte {4 * offset}."
    )
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"at=1%2C3$"))
    expect(page.locator("#at")).to_have_value("1, 3")
    assert re.findall(r"font:650[^>]*>([^<]*)<", saved(page, "memory", "SVG")) == ["1,3"]
    assert re.findall(r"font:650[^>]*>([^<]*)<", saved(page, "tensor", "SVG")) == [str(offset)]

    go(page, "memory", "d" * 2 + "r")  # rows of four slots, a tile each
    expect(place).to_have_text("Offset 9: buffer 0, slot 9, byte 36 has padding.")
    page.keyboard.press("Enter")
    assert re.findall(r"font:650[^>]*>([^<]*)<", saved(page, "tensor", "SVG")) == []
    go(page, "memory", "ddd")
    expect(place).to_have_text("Offset 12: buffer 0, slot 12, byte 48 has element [2, 0].")


def test_the_pointer_marks_both_ways(idle_service: Service, visit: Open) -> None:
    page = visit(idle_service, address(TILED))
    place = page.locator("#place")
    expect(place).to_contain_text("Point at a cell")
    page.locator("#tensor-cells canvas").hover(position={"x": 14, "y": 14})
    expect(place).to_contain_text("Element [0, 0] is at offset 0:")
    page.locator("#memory-cells canvas").hover(position={"x": 14, "y": 14})
    expect(place).to_contain_text("Offset 0: buffer 0, slot 0, byte 0 has element [0, 0].")
    page.locator("#memory-cells canvas").click(position={"x": 14, "y": 14})
    expect(page).to_have_url(re.compile("offset=0$"))
    page.locator("h1").hover()
    expect(place).to_contain_text("Offset 0: buffer 0")
    page.locator("#memory-cells canvas").click(position={"x": 14, "y": 14})
    page.locator("h1").hover()
    expect(place).to_contain_text("Point at a cell")


def test_elements_that_share_a_slot_are_all_marked(idle_service: Service, visit: Open) -> None:
    page = visit(idle_service, address(BROADCAST, offset="10"))
    expect(page.locator("#place")).to_have_text(
        "Offset 10: buffer 0, slot 10, byte 20 has 2 elements: [1, 2], [1, 3]."
    )
    assert re.findall(r"font:650[^>]*>([^<]*)<", saved(page, "tensor", "SVG")) == ["10", "10"]
    go(page, "tensor", "drr")
    expect(page.locator("#place")).to_have_text(
        "Element [1, 2] is at offset 10: buffer 0, slot 10, byte 20. It shares this slot with [1, 3]."
    )


@pytest.mark.parametrize(
    ("example", "row", "column", "buffer"), [(CORES, 40, 50, "core [2, 1]"), (FACES, 3, 20, "buffer 0")]
)
def test_an_address_leads_to_a_cell_of_tiles_on_cores(
    idle_service: Service, visit: Open, example: LayoutExample, row: int, column: int, buffer: str
) -> None:
    page = visit(idle_service, address(example, at=f"{row},{column}"))
    offset = example.offset(row, column)
    expect(page.locator("#place")).to_contain_text(
        f"Element [{row}, {column}] is at offset {offset}: {buffer}, slot {offset % 1024}"
    )
    shown = saved(page, "memory", "SVG")
    assert re.findall(r"font:650[^>]*>([^<]*)<", shown) == [f"{row},{column}"], "what is marked is in view"


def test_rows_and_sizes_of_cells_are_chosen(idle_service: Service, visit: Open) -> None:
    page = visit(idle_service, address(CORES))
    expect(page.locator("#row-width")).to_have_value("16")
    page.select_option("#row-width", "32")
    go(page, "memory", "d")
    expect(page.locator("#place")).to_contain_text(
        "Offset 32: core [0, 0], slot 32, byte 64 has element [1, 0]"
    )
    width = page.locator("#memory-cells .cell-space").bounding_box()
    page.click("#memory-smaller")
    smaller = page.locator("#memory-cells .cell-space").bounding_box()
    assert width is not None and smaller is not None
    assert smaller["width"] < width["width"]


def test_what_is_too_large_to_show_says_so(idle_service: Service, visit: Open) -> None:
    page = visit(idle_service, "/layouts?text=f32%5B5000%2C5000%5D", expected=("status of 422",))
    expect(page.locator("#unexplored")).to_contain_text("expected at most 262,144 elements and slots")
    expect(page.locator("#explorer")).to_be_hidden()
    expect(page.locator("#figures")).to_contain_text("100,000,000 B")


def test_the_page_fits_a_phone(idle_service: Service, visit: Open) -> None:
    page = visit(idle_service, address(CORES), width=390)
    expect(page.locator("#memory-note")).to_contain_text("slots")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
