"""Tests of the exports on a plan's page: all that the API has, saved as it answers, or refused with its reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tapestry.service.api.plan_exports import EXPORTS, INTO_PROGRAMS
from tapestry.service.store import Store
from tests.service.dashboard.conftest import Open
from tests.service.processes import Service
from tests.service.programs import costed_run, two_layers

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def plan(idle_service: Service) -> str:
    """Save a plan of a finished run and return its id."""
    store = Store(idle_service.database_url)
    run = costed_run(two_layers())
    run_id = store.runs.save_finished(run)
    store.close()
    return f"{run_id}-{run.result.frontier[0].id}"


def test_every_export_of_the_api_has_a_button_with_its_description(
    idle_service: Service, plan: str, visit: Open
) -> None:
    page = visit(idle_service, f"/plans/{plan}")
    buttons = page.locator("#exports li button")
    expect(buttons.first).to_be_enabled()
    assert set(buttons.all_inner_texts()) == {form.name for form in (*EXPORTS, *INTO_PROGRAMS)}
    for export in EXPORTS:
        button = page.get_by_role("button", name=export.name, exact=True)
        expect(button).to_have_accessible_description(export.description)


@pytest.mark.parametrize("name", ["torch", "jax", "dtensor", "csv", "placements", "perfetto"])
def test_a_file_is_saved_as_the_api_answers(
    idle_service: Service, plan: str, visit: Open, tmp_path: Path, name: str
) -> None:
    page = visit(idle_service, f"/plans/{plan}")
    page.get_by_role("link", name="Export", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("button", name=name, exact=True).click()
    download.value.save_as(tmp_path / "saved")
    answer = idle_service.http.get(f"/v1/plans/{plan}/export", params={"to": name})
    assert f'"{download.value.suggested_filename}"' in answer.headers["content-disposition"]
    assert download.value.suggested_filename.startswith(f"{plan}.")
    assert (tmp_path / "saved").read_bytes() == answer.content
    expect(page.locator("#export-status")).to_contain_text(f"Saved {download.value.suggested_filename}, ")


def test_a_refusal_is_shown_as_the_api_words_it(
    idle_service: Service, plan: str, visit: Open, tmp_path: Path
) -> None:
    page = visit(idle_service, f"/plans/{plan}", expected=("status of 422",))
    into = page.get_by_role("button", name="shardy", exact=True)
    into.click()
    expect(page.locator("#export-status")).to_contain_text("Choose the file of your program first")
    expect(page.get_by_label("your program")).to_be_focused()
    program = tmp_path / "other.mlir"
    program.write_text("module @other {")
    page.get_by_label("your program").set_input_files(program)
    into.click()
    with program.open("rb") as file:
        answer = idle_service.http.post(f"/v1/plans/{plan}/export", files={"file": file})
    assert answer.status_code == 422
    expect(page.locator("#export-problem [role=alert]")).to_contain_text(answer.json()["errors"][0]["detail"])
    expect(page.locator("#export-status")).to_have_text("")
    expect(into).to_be_enabled()
