"""Tests of the places that show plug-ins: what they add, what was left out; texts of strangers stay texts."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.service.processes import Service

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.mark.slow
def test_plug_ins_stand_beside_the_form_and_nothing_where_there_are_none(
    idle_service: Service, visit: Callable[..., Page]
) -> None:
    page = visit(idle_service, "/runs/new")
    expect(page.locator("#rules input").first).to_be_attached()
    expect(page.locator("#plug-ins-card")).to_be_hidden()
    reported = {
        "name": "acme",
        "distribution": "acme-rules",
        "version": "1.2",
        "members": ["acme_cube"],
        "faults": [{"member": HOSTILE, "message": "its example fails", "hint": "repair it"}],
    }
    body = json.dumps({"items": [reported]})

    page.route("**/v1/plugins", lambda route: route.fulfill(body=body, content_type="application/json"))
    page.reload()

    expect(page.locator("#plug-ins-card")).to_be_visible()
    expect(page.locator("#plug-ins")).to_contain_text("acme-rules 1.2 adds acme_cube")
    expect(page.locator("#plug-ins .fault")).to_have_text(f"{HOSTILE}: its example fails; repair it")
    assert page.locator("#plug-ins img").count() == 0
