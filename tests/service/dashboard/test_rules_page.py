"""Tests of the page of rules: rules are found, drawn before and after, and reached by keys and by address."""

from __future__ import annotations

import re
import struct
from xml.etree import ElementTree

import pytest
from playwright.sync_api import expect

from tests.service.dashboard.conftest import Open
from tests.service.processes import Service

pytestmark = pytest.mark.slow


def test_a_rule_is_found_and_drawn_before_and_after(idle_service: Service, visit: Open) -> None:
    page = visit(idle_service, "/rules")
    page.fill("#rule-find", "flashattention")
    page.get_by_role("button", name="fuse_attention Scores").click()
    expect(page.locator("#rule h2")).to_have_text("fuse_attention")
    expect(page.locator("#rule figure").first.locator(".removed rect")).to_have_count(4)
    expect(page.locator("#rule figure").last.locator(".made rect")).to_have_count(1)
    assert "fused" in (page.locator("#rule svg.sketch").last.get_attribute("aria-label") or "")
    costs = page.locator(".rule-costs tbody tr")
    expect(costs.first).to_contain_text("less")
    expect(costs.nth(1)).to_contain_text("the same")
    expect(page.get_by_role("region", name="When, and why")).to_contain_text("Dao et al.")
    expect(page).to_have_url(re.compile("rule=fuse_attention&find=flashattention$"))


def test_the_drawings_of_a_rule_are_saved_beside_each_other(idle_service: Service, visit: Open) -> None:
    page = visit(idle_service, "/rules?rule=fuse_attention")
    saved = {}
    for form in ("SVG", "PNG", "CSV"):
        page.locator(".rule-costs summary").click()
        with page.expect_download() as download:
            page.locator(".rule-costs .save-menu").get_by_role("button", name=form).click()
        saved[form] = download.value.path().read_bytes()
    drawing = ElementTree.fromstring(saved["SVG"])
    texts = [text.text for text in drawing.iter("{http://www.w3.org/2000/svg}text")]
    shown = page.locator("#rule svg.sketch text").all_text_contents()
    assert texts == shown and len(texts) > 10
    boxes = list(drawing.iter("{http://www.w3.org/2000/svg}rect"))
    assert all(box.get("fill", "").startswith(("rgb", "none", "color")) for box in boxes[1:])
    width, height = (2 * int(drawing.get(side, "")) for side in ("width", "height"))
    assert struct.unpack(">II", saved["PNG"][16:24]) == (width, height)
    assert len(saved["PNG"]) > 4000, "something is painted"
    assert saved["CSV"].decode().splitlines()[0] == "on this example,unit,before,after"


def test_keys_and_an_address_lead_to_rules(idle_service: Service, visit: Open) -> None:
    page = visit(idle_service, "/rules?rule=fuse_cells&family=fusion")
    expect(page.locator("#rule h2")).to_have_text("fuse_cells")
    expect(page.locator("#rule-count")).not_to_contain_text("277 rules of")
    page.locator("#catalog [aria-pressed=true]").focus()
    following = page.locator("#catalog button").nth(
        page.locator("#catalog button").evaluate_all(
            "buttons => buttons.findIndex(b => b.ariaPressed === 'true') + 1"
        )
    )
    name = following.get_attribute("data-rule")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#rule h2")).to_have_text(str(name))
    expect(following).to_be_focused()


def test_placement_rules_say_that_there_is_nothing_to_draw(idle_service: Service, visit: Open) -> None:
    page = visit(idle_service, "/rules?rule=reshard")
    expect(page.locator("#rule .empty").first).to_contain_text("changes where blocks run")
    page.fill("#rule-find", "no rule has these words")
    expect(page.locator("#catalog")).to_contain_text("No rule says this")


def test_sides_that_are_stacked_have_an_arrow_down(idle_service: Service, visit: Open) -> None:
    page = visit(idle_service, "/rules?rule=fuse_attention", width=1100)
    sides, table = page.locator(".rule-sides"), page.locator(".rule-costs table")
    expect(sides).to_have_class(re.compile("is-stacked"))
    card, costs = page.locator("#rule").bounding_box(), table.bounding_box()
    assert card is not None and costs is not None
    assert costs["x"] >= card["x"] + 16
    page.set_viewport_size({"width": 1900, "height": 900})
    expect(sides).not_to_have_class(re.compile("is-stacked"))
    page.set_viewport_size({"width": 390, "height": 900})
    for sketch in page.locator(".rule-sketch").all():
        assert sketch.evaluate("(one) => one.scrollWidth <= one.clientWidth")


def test_the_page_fits_a_phone(idle_service: Service, visit: Open) -> None:
    page = visit(idle_service, "/rules?rule=factor_contracts", width=390)
    expect(page.locator("#rule svg.sketch")).to_have_count(2)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("rule", ["fuse_attention", "factor_contracts", "expand_softmax", "stream_softmax"])
def test_what_a_rule_keeps_is_at_the_same_place_on_both_sides(
    idle_service: Service, visit: Open, rule: str
) -> None:
    page = visit(idle_service, f"/rules?rule={rule}")
    sides = page.locator("#rule svg.sketch")
    expect(sides).to_have_count(2)
    kept = sides.evaluate_all(
        """both => both.map(side => Object.fromEntries(
          [...side.querySelectorAll(".node:not(.removed):not(.made)")].map(node => [
            node.querySelector(".name").textContent + " " + node.querySelector("text").getAttribute("x"),
            node.querySelector("text").getAttribute("y")])))"""
    )
    assert kept[0] == kept[1] and kept[0]
    assert sides.nth(0).get_attribute("viewBox") == sides.nth(1).get_attribute("viewBox")
