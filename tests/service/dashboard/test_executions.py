"""Tests that the page of a plan offers what computes an execution, and says where that is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.sync_api import Page, Route, expect

from tapestry.service.store import Store
from tests.service.dashboard.conftest import Open
from tests.service.processes import Service
from tests.service.programs import finished_run, two_layers

pytestmark = pytest.mark.slow


@pytest.fixture
def plan_path(idle_service: Service) -> str:
    store = Store(idle_service.database_url)
    finished = replace(finished_run(two_layers()), executions={})
    run_id = store.runs.save_finished(finished)
    store.close()
    return f"/plans/{run_id}-{finished.result.frontier[0].id}"


def test_an_execution_is_requested_of_the_library_that_is_chosen(
    idle_service: Service, visit: Open, plan_path: str
) -> None:
    page = visit(idle_service, plan_path)
    expect(page.locator("#backend option")).to_have_count(2)
    page.get_by_label("computed by").select_option("torch")
    page.get_by_role("button", name="Execute on the simulator").click()
    expect(page.locator("#which option")).to_have_count(2)
    expect(page.locator("#which option:checked")).to_contain_text("with numbers by torch, queued")
    (execution,) = idle_service.get(f"/v1{plan_path}")["executions"]
    assert (execution["backend"], execution["values"]) == ("torch", True)


def test_a_missing_library_is_named_with_what_to_do(
    idle_service: Service, visit: Open, plan_path: str
) -> None:
    def without_torch(route: Route) -> None:
        text = route.fetch().text()
        option = '<option value="torch" data-missing="'
        assert option in text
        route.fulfill(content_type="text/html", body=text.replace(f'{option}"', f'{option}torch"'))

    def before(page: Page) -> None:
        page.route(idle_service.address + plan_path, lambda route, request: without_torch(route))

    page = visit(idle_service, plan_path, before=before)
    notice = page.locator("#backend-missing")
    expect(notice).to_be_hidden()
    page.get_by_label("computed by").select_option("torch")
    expect(notice).to_contain_text("has no torch. Run pip install 'tapestry[torch]'")
    page.get_by_label("with numbers").uncheck()
    expect(notice).to_be_hidden()
    expect(page.get_by_label("computed by")).to_be_disabled()
