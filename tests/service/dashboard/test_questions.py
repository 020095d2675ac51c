"""Tests of ten questions that users have: the clicks that each takes from the page of a run, and its answer."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.service.dashboard.conftest import Open
from tests.service.dashboard.exchanges import named
from tests.service.processes import ROOT, Service

pytestmark = pytest.mark.slow

MODEL = ROOT / "examples" / "models" / "gpt2_small_b1_s1024.onnx"
PAGE = ROOT / "docs" / "dashboard.md"
WAIT_MS = 120_000
Document = dict[str, Any]


@dataclass
class Visitor:
    """A user at the page of a run, with the clicks so far; a drag is one, and so is a field that is filled."""

    service: Service
    page: Page
    run: str
    plans: list[Document]
    clicks: int = 0

    @property
    def plan(self) -> Document:
        """The plan in question: the one that moves the most bytes."""
        return max(self.plans, key=lambda plan: int(plan["cost"]["traffic_bytes"]))

    def click(self, target: Locator) -> None:
        target.click()
        self.clicks += 1

    def open_plan(self) -> None:
        """Go to the page of the plan in question."""
        self.click(self.row(self.plan).get_by_role("link"))
        self.page.wait_for_url(f"**/plans/{self.plan['id']}")

    def row(self, plan: Document) -> Locator:
        return self.page.locator(f'#plans tr[data-plan="{plan["id"]}"]')

    def of_plan(self, name: str) -> Document:
        """Ask the API for a document of the plan in question."""
        document: Document = self.service.get(f"/v1/plans/{self.plan['id']}{name}")
        return document


@pytest.fixture(scope="module")
def run_id(service: Service) -> str:
    """Search GPT-2 small on two nodes, and return the run's id."""
    with MODEL.open("rb") as file:
        graph = service.post("/v1/graphs/import", files={"file": file})["id"]
    options = {"graph_id": graph, "mesh": "2x-dgx-h100", "budget": {"seconds": 2}, "verify": "none"}
    made = str(service.post("/v1/runs", json=options)["id"])
    assert service.wait_for_run(made, 300)["status"] == "succeeded"
    return made


def which_tensor_lives_at_the_peak(visitor: Visitor) -> None:
    visitor.open_plan()
    visitor.page.locator("#memory").scroll_into_view_if_needed()
    memory = visitor.of_plan("/memory")
    peak, held = memory["peak"], memory["allocations"]
    size = held["bytes"][peak["class"]]
    lives = [
        k
        for k, (first, end) in enumerate(zip(held["first"], held["end"], strict=True))
        if first <= peak["sample"] < end
    ]
    largest = held["buffer"][max(lives, key=lambda k: int(size[k]))]
    expect(visitor.page.locator("#memory-words")).to_contain_text(
        f"The largest there is {largest} with", timeout=WAIT_MS
    )


def which_collective_costs_most(visitor: Visitor) -> None:
    visitor.open_plan()
    visitor.page.locator("#execution").scroll_into_view_if_needed()
    schedule = visitor.of_plan("/schedule")
    spans, took = schedule["spans"], Counter[tuple[str, ...]]()
    for what, start, end in zip(spans["what"], spans["start_ps"], spans["end_ps"], strict=True):
        if what < 0:  # the number of a copy; else that of a block
            copy = schedule["copies"][-1 - what]
            took[_without_numbers(copy["tensor"]), _without_numbers(copy["reader"]), copy["kind"]] += (
                end - start
            )
    ((longest, time_ps),) = took.most_common(1)
    first = visitor.page.locator("#longest tbody tr").first
    expect(first).to_contain_text(named(longest[-1]), timeout=WAIT_MS)
    tensor, reader = first.get_by_role("button").inner_text().split(" for ")
    assert (_without_numbers(tensor), _without_numbers(reader)) == longest[:2]
    shown = float(first.locator("td").first.inner_text())
    unit = visitor.page.locator("#longest thead .unit").inner_text().strip()
    assert shown * {"s": 1e12, "ms": 1e9, "µs": 1e6}[unit] == pytest.approx(time_ps, rel=1e-3)


def _without_numbers(name: str) -> str:
    return re.sub(r"_?\d+", "", name)


def what_did_this_rule_change(visitor: Visitor) -> None:
    visitor.open_plan()
    visitor.click(visitor.page.get_by_role("button", name="What each move changed"))
    explanation = visitor.of_plan("/explanation")
    costs = [explanation["start"], *(step["cost"] for step in explanation["steps"])]
    changes = [after["time_s"] / before["time_s"] - 1 for before, after in pairwise(costs)]
    largest = max(range(len(changes)), key=lambda k: abs(changes[k]))
    row = visitor.page.locator(".effects tbody tr").nth(1 + largest)
    expect(row).to_contain_text(explanation["steps"][largest]["moves"][0]["rule"], timeout=WAIT_MS)
    shown = re.search(r"([+−-])\s?([\d.]+)\s%", row.locator("td.effect").first.inner_text())
    assert shown
    assert float(shown[2]) == pytest.approx(100 * abs(changes[largest]), rel=0.05)
    assert (shown[1] == "+") == (changes[largest] > 0)


def which_plan_needs_the_least_memory(visitor: Visitor) -> None:
    least = min(visitor.plans, key=lambda plan: float(plan["cost"]["peak_memory_bytes"]))
    marked = visitor.page.locator("#plans tbody tr").filter(has_text="smallest")
    expect(marked).to_have_attribute("data-plan", least["id"])
    expect(marked.locator("td.best")).not_to_have_count(0)


def which_plans_keep_a_bound(visitor: Visitor) -> None:
    page, axes = visitor.page, visitor.page.locator("#parallel canvas")
    axes.scroll_into_view_if_needed()
    box = axes.bounding_box()
    assert box is not None
    x = box["x"] + 72  # the first axis: the time
    page.mouse.move(x, box["y"] + box["height"] - 2)
    page.mouse.down()
    page.mouse.move(x, box["y"] + 0.7 * box["height"])
    page.mouse.move(x, box["y"] + 0.5 * box["height"])
    page.mouse.up()
    visitor.clicks += 1
    expect(page.locator("#held")).to_contain_text("within the bounds")
    limit = float(page.url.partition("in.time_s=..")[2].partition("&")[0])
    kept = {plan["id"] for plan in visitor.plans if plan["cost"]["time_s"] <= limit}
    assert 0 < len(kept) < len(visitor.plans)
    expect(page.locator("#plans tbody tr")).to_have_count(len(kept))
    assert {row.get_attribute("data-plan") for row in page.locator("#plans tbody tr").all()} == kept


def how_much_better_could_any_plan_be(visitor: Visitor) -> None:
    bound = visitor.service.get(f"/v1/runs/{visitor.run}")["bounds"]["time_s"]
    least = min(plan["cost"]["time_s"] for plan in visitor.plans)
    assert bound["best"] == pytest.approx(least)
    row = visitor.page.locator("#bounds tbody tr").filter(has_text=re.compile("^time"))
    shown = row.locator("td").last.inner_text()
    gap = 1 - bound["bound"] / least
    assert shown == "none" if gap < 5e-4 else float(shown.split()[0]) == pytest.approx(100 * gap, rel=0.05)


def why_is_a_block_not_placed_otherwise(visitor: Visitor) -> None:
    visitor.open_plan()
    block = next(iter(visitor.of_plan("")["placements"]["blocks"]))
    visitor.click(visitor.page.locator("#why-not-block"))
    visitor.page.keyboard.type(block)
    visitor.click(visitor.page.locator("#why-not").get_by_role("button", name="Show"))
    found = visitor.of_plan(f"/alternatives?block={block}")
    rows = visitor.page.locator("#why-not-table tbody tr")
    expect(rows).to_have_count(1 + len(found["alternatives"]), timeout=WAIT_MS)
    for k, each in enumerate(found["alternatives"][:3]):
        expect(rows.nth(1 + k)).to_contain_text(each["verdict"])


def in_what_do_two_plans_differ(visitor: Visitor) -> None:
    one, other = visitor.plans[0], visitor.plans[-1]
    for plan in (one, other):
        visitor.click(visitor.row(plan).get_by_role("checkbox"))
    visitor.click(visitor.page.locator("#selection").get_by_role("link", name="Compare"))
    found = visitor.service.get(f"/v1/comparisons/plans?plan={one['id']}&plan={other['id']}")
    expect(visitor.page.locator("#subjects a")).to_have_text([one["plan"], other["plan"]])
    groups = found["decisions"]["groups"]
    expect(visitor.page.locator("#decisions tbody tr")).to_have_count(len(groups), timeout=WAIT_MS)


def over_which_axis_do_most_bytes_go(visitor: Visitor) -> None:
    visitor.open_plan()
    sharding = visitor.of_plan("/sharding")
    bytes_by_axis = Counter[str]()
    exchanges = sharding["exchanges"]
    for axis, size in zip(exchanges["axis"], exchanges["bytes"], strict=True):
        bytes_by_axis[axis] += size
    rows = visitor.page.locator("#axis-table tbody tr")
    expect(rows).to_have_count(len(sharding["mesh"]["axes"]), timeout=WAIT_MS)
    total = visitor.plan["cost"]["traffic_bytes"]
    assert sum(bytes_by_axis.values()) == total > 0
    for axis, row in zip(sharding["mesh"]["axes"], rows.all(), strict=True):
        expect(row.locator("th")).to_contain_text(axis["name"])
        share = float(row.locator("td").nth(4).inner_text().split()[0])
        assert share == pytest.approx(100 * bytes_by_axis[axis["name"]] / total, rel=0.05, abs=0.05)


def how_do_i_run_this_plan(visitor: Visitor) -> None:
    visitor.open_plan()
    visitor.click(visitor.page.get_by_role("link", name="Export", exact=True))
    with visitor.page.expect_download() as download:
        visitor.click(visitor.page.locator("#exports").get_by_role("button", name="torch", exact=True))
    module = ast.parse(Path(download.value.path()).read_text())
    assert f"Plan {visitor.plan['plan']} for 2x-dgx-h100" in str(ast.get_docstring(module))


QUESTIONS: dict[str, Callable[[Visitor], None]] = {
    "Which plan needs the least memory, and what does that cost?": which_plan_needs_the_least_memory,
    "How much better could any plan be?": how_much_better_could_any_plan_be,
    "Which plans take at most so long?": which_plans_keep_a_bound,
    "Which tensor lives at the peak?": which_tensor_lives_at_the_peak,
    "Which collective costs most?": which_collective_costs_most,
    "Over which mesh axis do most bytes go?": over_which_axis_do_most_bytes_go,
    "What did this rule change?": what_did_this_rule_change,
    "In what do two plans differ?": in_what_do_two_plans_differ,
    "Why is this block not placed otherwise?": why_is_a_block_not_placed_otherwise,
    "How do I run this plan with PyTorch?": how_do_i_run_this_plan,
}


def documented() -> dict[str, int]:
    """Return the clicks by question, as the table of the documentation has them."""
    _, _, section = PAGE.read_text().partition("## Ten questions\n")
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return {cells[0]: int(cells[1]) for cells in rows[2:]}


def test_the_documentation_has_every_question() -> None:
    assert list(documented()) == list(QUESTIONS)
    assert len(QUESTIONS) == 10


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_answered_in_as_many_clicks_as_the_documentation_states(
    service: Service, run_id: str, visit: Open, question: str
) -> None:
    page = visit(service, f"/runs/{run_id}")
    plans = service.get(f"/v1/runs/{run_id}/frontier")["plans"]
    expect(page.locator("#plans tbody tr")).to_have_count(len(plans))
    visitor = Visitor(service, page, run_id, plans)
    QUESTIONS[question](visitor)
    assert visitor.clicks == documented()[question]
