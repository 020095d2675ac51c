"""Tests of the layouts page: a text is described and drawn, and an error is shown at its field."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.service.dashboard.conftest import Open
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
