"""Tests of a plan's page: the predicted timeline, memory over time, and why a block is not placed otherwise."""

from __future__ import annotations

import csv
import re
from itertools import pairwise
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tapestry.optimizer import Plan
from tapestry.service.plan_schedules import plan_schedule, schedule_document
from tapestry.service.store import Store
from tests.optimizer.analysis.shared_plans import CASES
from tests.service.dashboard.conftest import Open
from tests.service.dashboard.drawing import shades
from tests.service.processes import Service
from tests.service.programs import costed_run, finished_run, two_layers

pytestmark = pytest.mark.slow

WAIT_MS = 120_000  # the first task of a pool loads what is compiled


@pytest.fixture(scope="module")
def plan(idle_service: Service) -> str:
    """Save a run with one plan whose costs are true, and return the plan's id."""
    store = Store(idle_service.database_url)
    run = costed_run(two_layers())
    run_id = store.runs.save_finished(run)
    store.close()
    return f"{run_id}-{run.result.frontier[0].id}"


def timeline(page: Page) -> None:
    page.locator("#execution").scroll_into_view_if_needed()
    expect(page.locator("#timeline canvas")).to_be_visible(timeout=WAIT_MS)


def test_the_predicted_timeline_is_there_without_an_execution(
    idle_service: Service, plan: str, visit: Open
) -> None:
    schedule = idle_service.get(f"/v1/plans/{plan}/schedule")
    page = visit(idle_service, f"/plans/{plan}")
    timeline(page)
    expect(page.locator("#timeline canvas")).to_have_accessible_name(
        re.compile("^Timeline of each of 8 over .* critical path")
    )
    expect(page.locator("#which")).to_have_value("predicted")
    assert shades(page) > 2, "the timeline is painted"
    longest = page.locator("#longest tbody tr")
    expect(longest).to_have_count(len(schedule["copies"]))
    expect(longest.first).to_contain_text("y for result")
    expect(longest.first).to_contain_text("all-gather on gpu")
    page.get_by_label("blocks", exact=True).check()
    assert {text.split("\n")[0] for text in page.locator("#longest tbody th").all_inner_texts()} == {
        "hidden",
        "active",
        "y",
    }
    expect(page.locator("#waits tbody tr")).to_have_count(2)
    expect(page.locator("#accounts tbody tr").first).to_contain_text("time")
    expect(page.locator("#accounts-note")).to_be_hidden()
    page.locator("#timeline-menu summary").click()
    with page.expect_download() as download:
        page.locator("#timeline-menu button", has_text="CSV").click()
    head, *spans = download.value.path().read_text().splitlines()
    assert head.startswith("of,lane,name,kind,start (s),end (s),bytes (B)") and spans
    assert {span.split(",")[2] for span in spans} >= {"hidden", "active", "y"}
    assert max(float(span.split(",")[5]) for span in spans) == pytest.approx(schedule["time_s"], rel=1e-9)
    link = page.get_by_role("link", name="For Perfetto").get_attribute("href")
    assert link and idle_service.get(link)["traceEvents"]


def test_measured_times_are_beside_the_predicted_one(idle_service: Service, plan: str, visit: Open) -> None:
    predicted = idle_service.get(f"/v1/plans/{plan}")["cost"]["time_s"]
    page = visit(idle_service, f"/plans/{plan}")
    timeline(page)
    expect(page.locator("#measured")).to_contain_text(f"tapestry validate --plan {plan} --save")
    expect(page.locator("#accounts th", has_text="measured")).to_have_count(0)
    for factor, where in ((3, "eight old cards"), (1.05, "eight new cards")):
        body = {"seconds": factor * predicted, "measured_on": where, "repeat_error": 0.02}
        idle_service.post(f"/v1/plans/{plan}/measurements", json=body)
    page.reload()
    timeline(page)
    time = page.locator("#accounts tbody tr").first
    expect(time).to_contain_text("+5.00 %")
    rows = page.locator("#measured tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text(re.compile(r"eight new cards.*2.0 %.*\+5.00 %", re.S))
    expect(rows.nth(1)).to_contain_text(re.compile(r"eight old cards.*2.0 %.*\+200.00 %", re.S))
    rows.nth(0).get_by_role("button", name="Delete").click()
    expect(rows).to_have_count(1)
    expect(time).to_contain_text("+200.00 %")
    rows.nth(0).get_by_role("button", name="Delete").click()
    expect(page.locator("#measured")).to_contain_text("Not measured yet")


def test_a_block_is_found_in_the_timeline_by_keys(idle_service: Service, plan: str, visit: Open) -> None:
    page = visit(idle_service, f"/plans/{plan}")
    timeline(page)
    search = page.locator("#find-span")
    search.fill("hid")
    expect(page.locator("#found-spans")).to_have_text("1 place; Enter goes to the next")
    search.press("Enter")
    search.fill("nowhere")
    expect(page.locator("#found-spans")).to_have_text("0 places")
    page.locator("#longest button", has_text="y for result").click()
    expect(page.locator("#found-spans")).to_have_text("1 place marked")
    page.get_by_role("checkbox", name="critical path").uncheck()
    for key in ("+", "ArrowRight", "-", "0"):
        page.locator("#timeline canvas").press(key)
    assert shades(page) > 2, "the timeline is painted"


def test_what_lives_at_the_peak_is_shown_and_adds_up(idle_service: Service, plan: str, visit: Open) -> None:
    memory = idle_service.get(f"/v1/plans/{plan}/memory")
    peak = memory["peak"]
    page = visit(idle_service, f"/plans/{plan}")
    page.locator("#memory").scroll_into_view_if_needed()
    live = page.locator("#memory-live tbody tr")
    expect(live).to_have_count(peak["live_count"], timeout=WAIT_MS)
    expect(live.first).to_contain_text(peak["live"][0]["buffer"])
    expect(page.locator("#memory-words")).to_contain_text(
        f"The largest there is {peak['live'][0]['buffer']} with"
    )
    expect(page.locator("#memory-moment")).to_have_text(f"At the peak, in {peak['block']}")
    rows = page.locator("#memory-roles tbody tr")
    names = [name for name, size in peak["roles"].items() if size]
    for name in names:
        expect(rows.filter(has_text=name)).to_have_count(1)
    page.locator("#memory-role").select_option("parameters")
    expect(live).to_have_count(sum(each["role"] == "parameters" for each in peak["live"]))

    # A moment is chosen by keys; Escape goes back to the peak.
    page.locator("#memory-role").select_option("")
    chart = page.locator("#memory-chart canvas")
    chart.press("ArrowRight")
    first = page.locator("#memory-moment").inner_text()
    assert first.startswith("At ") and "the peak" not in first
    chart.press("Escape")
    expect(page.locator("#memory-moment")).to_have_text(f"At the peak, in {peak['block']}")


def test_the_curve_of_the_memory_reaches_its_peak_even_where_that_lasts_no_time(
    idle_service: Service, plan: str, visit: Open
) -> None:
    memory = idle_service.get(f"/v1/plans/{plan}/memory")
    own, allocations, last = memory["classes"][0], memory["allocations"], len(memory["slots"]["block"]) - 1
    own["block_s"][last] = own["start_s"][last]  # the copies for the last block have ended before
    own["peak_bytes"], own["peak_sample"] = 2 * own["peak_bytes"], 2 * last + 1
    memory["peak"] |= {"class": 0, "sample": own["peak_sample"]}
    live = range(len(allocations["first"]))
    at_peak = [k for k in live if allocations["first"][k] <= 2 * last + 1 < allocations["end"][k]]
    missing = own["peak_bytes"] - sum(allocations["bytes"][0][k] for k in at_peak)
    staging = {"buffer": "staged", "tensor": 0, "role": memory["roles"].index("staging")}
    for name, value in {**staging, "first": 2 * last + 1, "end": 2 * last + 2}.items():
        allocations[name].append(value)
    for sizes in allocations["bytes"]:
        sizes.append(missing)

    def changed(page: Page) -> None:
        page.route("**/memory", lambda route: route.fulfill(json=memory))

    page = visit(idle_service, f"/plans/{plan}", before=changed)
    page.locator("#memory").scroll_into_view_if_needed()
    expect(page.locator("#memory-moment")).to_contain_text("At the peak, as copies begin", timeout=WAIT_MS)
    drawn = saved_svg(page, "memory-menu")
    assert re.search(r">peak [\d.,]+ \w*B</text>", drawn)
    ((x, y),) = re.findall(r'd="M([\d.]+) ([\d.]+)A3 3 ', drawn)
    corners = [
        (float(across), float(down))
        for path in re.findall(r'<path d="(M[^"A]*Z)" fill', drawn)
        for across, down in re.findall(r"[ML]([\d.]+) ([\d.]+)", path)
    ]
    top = min(down for _, down in corners)
    assert top == pytest.approx(float(y), abs=0.01)
    across = [one for one, down in corners if down == top]
    assert max(across) - min(across) >= 1 and min(across) == pytest.approx(float(x) - 3, abs=1)


def saved_svg(page: Page, menu: str) -> str:
    page.locator(f"#{menu} summary").click()
    with page.expect_download() as download:
        page.locator(f"#{menu} button", has_text="SVG").click()
    return download.value.path().read_text()


def test_the_timeline_cuts_names_in_the_middle_and_shares_its_axis_with_the_use_of_links(
    idle_service: Service, plan: str, visit: Open
) -> None:
    schedule = idle_service.get(f"/v1/plans/{plan}/schedule")
    longest, long = "node_long_name_of_an_attention_that_is_scaled_6", "node_attention_mm_22"
    shares = {longest: (0, 0.1), "node_mm_1": (0.1, 0.12), long: (0.2, 0.27), "result": (0.3, 0.3)}
    copy, whole = (0.3, 1), 1e6
    for block, site in zip(schedule["blocks"], shares, strict=True):
        block["site"] = site
    spans = schedule["spans"]
    for k, what in enumerate(spans["what"]):
        start, end = copy if what < 0 else shares[schedule["blocks"][what]["site"]]
        spans["start_ps"][k], spans["end_ps"][k] = start * whole, end * whole
    schedule["time_s"] = 1e-6

    def changed(page: Page) -> None:
        page.route("**/schedule", lambda route: route.fulfill(json=schedule))

    page = visit(idle_service, f"/plans/{plan}", before=changed)
    timeline(page)
    drawn = saved_svg(page, "timeline-menu")
    assert re.search(r">long_\w*…\w*led_6</text>", drawn)
    assert re.search(r">att\w*…\w*_22</text>", drawn)
    assert "node_" not in drawn.replace(" for node_", "")
    moments = r'<text x="([\d.]+)"[^>]*>([\d.]+)( [µm]?s)?</text>'
    above = {text: x for x, text, unit in re.findall(moments, drawn) if unit}
    page.locator("#link-use").scroll_into_view_if_needed()
    links = saved_svg(page, "link-use-menu")
    below = {
        text: x
        for x, text, _ in re.findall(moments.replace("[^>]*", '[^>]*text-anchor="middle"[^>]*'), links)
    }
    assert len(above) > 3 and list(above) == [text for text in below if text in above]
    inner = list(above)[1:-1]
    assert [float(above[text]) for text in inner] == [float(below[text]) for text in inner]
    above_box, below_box = (
        page.locator(f"#{name} canvas").bounding_box() for name in ("timeline", "link-use")
    )
    assert above_box and below_box
    assert (above_box["x"], above_box["width"]) == (below_box["x"], below_box["width"])


def saved_csv(page: Page, button: Locator) -> list[dict[str, str]]:
    with page.expect_download() as download:
        button.click()
    return list(csv.DictReader(download.value.path().read_text().splitlines()))


@pytest.mark.parametrize("name", ["pipeline 5", "a step in rounds"])
def test_the_use_of_links_and_what_takes_longest_have_the_traffic_once(
    idle_service: Service, plan: str, visit: Open, name: str
) -> None:
    case = CASES[name]()
    known = Plan(case.graph, case.placements, (), {}, True)
    schedule = schedule_document(plan_schedule(known, case.mesh))
    made = [schedule["copies"][-1 - what] for what in schedule["spans"]["what"] if what < 0]
    traffic = sum(copy["traffic_bytes"] for copy in made)
    assert name == "a step in rounds" or any(copy["stage"] != copy["to_stage"] for copy in made)

    def changed(page: Page) -> None:
        page.route("**/schedule", lambda route: route.fulfill(json=schedule))

    page = visit(idle_service, f"/plans/{plan}?longest=kinds", before=changed)
    timeline(page)
    page.locator("#link-use-menu summary").click()
    rows = saved_csv(page, page.locator("#link-use-menu button", has_text="CSV"))
    moved = sum(
        float(rate or 0) * (float(after["seconds"]) - float(row["seconds"]))
        for row, after in pairwise(rows)
        for head, rate in row.items()
        if head != "seconds"
    )
    assert moved == pytest.approx(traffic, rel=1e-6)
    used = {axis for copy in made for axis in copy["axis_bytes"]}
    assert {head.removesuffix(" B/s") for head in rows[0]} == {"seconds", *used}
    for axis in schedule["axes"]:
        if axis["name"] in used:
            expect(page.locator("#link-use-legend")).to_contain_text(
                re.compile(rf"{axis['name']}: at most (below )?[\d.]+ % of [\d.]+ .B/s")
            )
    kinds = saved_csv(page, page.locator("#longest").get_by_role("button", name="CSV"))
    assert sum(float(row["bytes (B)"]) for row in kinds) == traffic
    assert sum(int(row["times"]) for row in kinds if row["kind"] in {copy["kind"] for copy in made}) == len(
        made
    )


def test_equal_layers_take_from_the_least_to_the_most(idle_service: Service, plan: str, visit: Open) -> None:
    schedule = idle_service.get(f"/v1/plans/{plan}/schedule")
    for number, block in enumerate(schedule["blocks"][:3]):
        block |= {"site": f"mm_{number}", "kind": "product"}
    schedule["copies"][0]["kind"] = "reduce_scatter on gpu + all_gather on gpu"
    times = iter((82_400_000, 43_300_000, 43_300_000, 0))
    spans = schedule["spans"]
    for k, what in enumerate(spans["what"]):
        if what >= 0:
            spans["end_ps"][k] = spans["start_ps"][k] + next(times)

    def changed(page: Page) -> None:
        page.route("**/schedule", lambda route: route.fulfill(json=schedule))

    page = visit(idle_service, f"/plans/{plan}", before=changed)
    timeline(page)
    longest = page.locator("#longest tbody tr")
    expect(longest.first).to_contain_text("reduce-scatter on gpu + all-gather on gpu")
    page.get_by_label("blocks", exact=True).check()
    expect(longest).to_have_count(1)
    expect(longest.first).to_contain_text("with others alike, 3 times, 43.30 to 82.40 µs each")
    page.get_by_label("kinds", exact=True).check()
    expect(page.locator("#longest")).to_contain_text("reduce-scatter on gpu + all-gather on gpu")


def test_a_form_cannot_be_sent_before_its_page_is_ready(
    idle_service: Service, plan: str, visit: Open
) -> None:
    held: list[Route] = []

    def hold(page: Page) -> None:
        def keep(route: Route) -> None:
            held.append(route)

        page.route(f"**/v1/plans/{plan}", keep)

    page = visit(idle_service, f"/plans/{plan}", before=hold)
    whole = page.locator("#plan")
    expect(whole).to_have_attribute("inert", "")
    held[0].continue_()
    expect(whole).not_to_have_attribute("inert", "", timeout=WAIT_MS)
    expect(whole).not_to_have_attribute("aria-busy", "true")


def test_decisions_are_saved_as_they_were_searched(idle_service: Service, visit: Open) -> None:
    store = Store(idle_service.database_url)
    run = finished_run(two_layers())
    plan = f"{store.runs.save_finished(run)}-{run.result.frontier[1].id}"
    store.close()
    blocks = idle_service.get(f"/v1/plans/{plan}")["placements"]["blocks"]
    assert blocks
    page = visit(idle_service, f"/plans/{plan}")
    for search, names in (("", set(blocks)), ("y", {name for name in blocks if "y" in name})):
        page.locator("#search").fill(search)
        with page.expect_download() as download:
            page.get_by_role("button", name="CSV of Decisions").click()
        saved = {row["block"]: row for row in csv.DictReader(download.value.path().read_text().splitlines())}
        assert saved.keys() == names
        assert all(row["strategy"] == blocks[name]["strategy"] for name, row in saved.items())


def test_decisions_have_names_of_their_own_and_what_most_have_once(
    idle_service: Service, plan: str, visit: Open
) -> None:
    document = idle_service.get(f"/v1/plans/{plan}")
    blocks = document["placements"]["blocks"]
    for k in range(6):
        strategy = "(gpu.0, -)" if k in (0, 3, 4) else "(-, gpu.0)" if k < 3 else "(-, -)"
        blocks[f"node_mm_{k}"] = {"strategy": strategy, "prefetch": [4, 4]}
    blocks["node_add_1"] = {"strategy": "(-)", "prefetch": [0, 2]}
    blocks["node_out"] = {"strategy": "(-)", "prefetch": [0, 0]}
    for site in {*blocks, "up"}:
        if not site.startswith("node_"):
            blocks[site] = {"strategy": "(-)", "prefetch": [4]}

    def changed(page: Page) -> None:
        page.route(f"**/v1/plans/{plan}", lambda route: route.fulfill(json=document))
        page.route("**/v1/graphs/*", with_sources)

    def with_sources(route: Route) -> None:
        found = route.fetch().json()
        up = {"site": "up", "role": "parameter", "dtype": "float32", "logical_shape": [64, 256]}
        route.fulfill(json=found | {"summary": {**(found.get("summary") or {}), "sources": [up]}})

    page = visit(idle_service, f"/plans/{plan}", before=changed)
    usual = f"Of {len(blocks)} blocks {len(blocks) - 2} have this beyond their strategy"
    expect(page.locator("#usual")).to_have_text(
        f"{usual}, and no note of it below: fetches early: every input by 4 slots."
    )
    table = page.locator("#decisions")
    expect(table.locator("thead th")).to_have_text(["block", "strategy"])
    rows = table.locator("tbody tr:visible")
    names = [text.split("\n")[0] for text in rows.locator("th").all_inner_texts()]
    assert {"node_mm_0 … node_mm_4", "node_mm_1, node_mm_2", "node_mm_5"} <= set(names)
    assert len(set(names)) == len(names)
    expect(rows.filter(has_text="node_add_1")).to_contain_text("fetches early: input 1 by 2 slots")
    expect(rows.filter(has_text="node_out")).to_contain_text("nothing beyond it")
    expect(rows.filter(has_text="parameter, float32 [64, 256]").locator("button")).to_have_text("up")
    assert table.inner_text().count("every input") == 0


def test_why_a_block_is_not_placed_otherwise(idle_service: Service, plan: str, visit: Open) -> None:
    found = idle_service.get(f"/v1/plans/{plan}/alternatives?block=y")
    page = visit(idle_service, f"/plans/{plan}")
    section = page.locator("#why-not")
    section.scroll_into_view_if_needed()
    page.locator("#why-not-block").fill("y")
    section.get_by_role("button", name="Show").click()
    rows = page.locator("#why-not-table tbody tr")
    expect(rows).to_have_count(1 + len(found["alternatives"]), timeout=WAIT_MS)
    expect(rows.first).to_contain_text("this is the plan")
    best = found["alternatives"][0]
    expect(rows.nth(1)).to_contain_text(best["strategy"])
    expect(rows.nth(1)).to_contain_text(best["verdict"])
    assert page.url.endswith("#block=y")
    rows.nth(1).get_by_role("button").click()
    detail = page.locator("#why-not-detail")
    expect(detail).to_contain_text("The block itself takes")
    expect(detail.locator("tbody tr")).to_have_count(len(best["copies"]))
    expect(page.locator("#why-not-words")).to_contain_text("below 800.0 µs, as is proven")

    with page.expect_download() as download:
        section.get_by_role("button", name="CSV of Alternatives of y").click()
    saved = list(csv.DictReader(download.value.path().read_text().splitlines()))
    costs = [float(row["time_s (s)"]) for row in saved]
    assert costs == [one["cost"]["time_s"] for one in (found["current"], *found["alternatives"])]
    assert [row["strategy"] for row in saved[1:]] == [one["strategy"] for one in found["alternatives"]]

    page.get_by_label("neighbors").select_option("time_s")
    followed = idle_service.get(f"/v1/plans/{plan}/alternatives?block=y&follow=time_s")
    expect(rows.nth(1)).to_contain_text(followed["alternatives"][0]["strategy"])


def test_the_block_that_takes_longest_is_one_click_from_its_answer(
    idle_service: Service, plan: str, visit: Open
) -> None:
    schedule = idle_service.get(f"/v1/plans/{plan}/schedule")
    times = dict.fromkeys((block["site"] for block in schedule["blocks"]), 0)
    spans = schedule["spans"]
    for what, start, end in zip(spans["what"], spans["start_ps"], spans["end_ps"], strict=True):
        site = schedule["blocks"][what]["site"] if what >= 0 else schedule["copies"][-1 - what]["reader"]
        times[site] += end - start
    placed = idle_service.get(f"/v1/plans/{plan}")["placements"]["blocks"]
    page = visit(idle_service, f"/plans/{plan}")
    timeline(page)
    section = page.locator("#why-not")
    section.scroll_into_view_if_needed()
    longest = max(placed, key=lambda site: times.get(site, 0))
    expect(page.locator("#why-not-block")).to_have_value(longest, timeout=WAIT_MS)
    expect(page.locator("#why-not-status")).to_contain_text("It takes longest")
    expect(page.locator("#why-not-answer")).to_be_hidden()
    section.get_by_role("button", name="Show").click()
    expect(page.locator("#why-not-words")).to_contain_text(f"{longest} (", timeout=WAIT_MS)


def test_a_question_is_in_the_address_and_a_wrong_one_is_answered(
    idle_service: Service, plan: str, visit: Open
) -> None:
    page = visit(idle_service, f"/plans/{plan}#block={quote('hidden')}")
    expect(page.locator("#why-not-words")).to_contain_text(
        "hidden (contract) has a strategy", timeout=WAIT_MS
    )
    expect(page.locator("#why-not-block")).to_have_value("hidden")
    wrong = visit(idle_service, f"/plans/{plan}#block=nowhere", expected=("status of 422",))
    expect(wrong.locator("#why-not-problem [role=alert]")).to_contain_text(
        "no block 'nowhere'", timeout=WAIT_MS
    )
