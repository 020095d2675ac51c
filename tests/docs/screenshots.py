"""The pictures of pages in `docs/images`; `python -m tests.docs.screenshots` takes them in Chromium.

A service on an empty database runs the demo, so they take some minutes. They are pictures of one run: their figures
differ from those of any other in what depends on the machine's speed. Each is taken when its page shows what it is a
picture of, in the light and in the dark; a page that is still loading or waiting is an error.
"""

from __future__ import annotations

import base64
import contextlib
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from playwright.sync_api import Locator, Page, expect, sync_playwright

from tapestry.hardware import load_mesh
from tests.docs.generated import FOLDER
from tests.docs.tutorials import FOLDER as TUTORIALS
from tests.docs.tutorials import Reader
from tests.service.dashboard.conftest import CHROMIUM, FLAGS
from tests.service.dashboard.drawing import shades
from tests.service.processes import Service

IMAGES = FOLDER.parent / "images"
SIZE = {"width": 1400, "height": 900}
QUALITY = 82  # percent; text stays sharp
TALLEST = 1400  # pixels of a part of a page
WAIT_MS = 900_000
REPAINT_MS = 400
WAITING = re.compile("connecting|connection lost|loading|queued", re.IGNORECASE)
WITHIN_THE_SEARCH = re.compile(r"^([5-9]|1\d)(\.\d)? s of 20")

PICTURES = (
    *("welcome", "demo", "tour", "runs", "run-live", "run", "plans", "batches", "batch", "new-run"),
    *("plan", "timeline", "memory", "diagram", "changes", "sharding", "decisions", "why-not", "exports"),
    *("history", "compare-runs", "compare-plans", "program", "rules", "device", "mesh", "layout", "missing"),
)
Visit = Callable[[str], Page]


def main() -> None:
    """Take all pictures."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)

        def visit(address: str) -> Page:
            page = browser.new_context(color_scheme="light", viewport=SIZE).new_page()
            page.set_default_timeout(WAIT_MS)
            page.goto(address, wait_until="networkidle")
            return page

        with Service(f"sqlite:///{folder}/tapestry.db", Path(folder) / "log") as service:
            take_first_visit(visit, service)
            take_plan(visit, f"{service.address}/plans/{take_run(visit, service)}")
            take_lists(visit, service)
            take_catalogs(visit, service)
        take_tutorials(visit)
        browser.close()


def take_first_visit(visit: Visit, service: Service) -> None:
    """Take the pictures of an empty installation, of the demo at work, and of the tour that follows it."""
    page = visit(service.address)
    save(page, "welcome", page.get_by_role("button", name="Run the demo"))
    page.get_by_role("button", name="Run the demo").click()
    steps = page.get_by_role("region", name="The demo").get_by_role("listitem")
    expect(steps.locator(".progress").first).to_be_visible(timeout=WAIT_MS)
    save(page, "demo", steps.nth(3))
    page.wait_for_url(re.compile(r"/runs/[0-9a-f]{12}\?tour=1$"))
    save(page, "tour", *run_contents(page), page.get_by_role("dialog"))


def take_run(visit: Visit, service: Service) -> str:
    """Take the pictures of a run, while it searches and when it has ended; return the id of its knee."""
    (first,) = service.get("/v1/runs")["items"]
    request = {"graph_id": first["graph_id"], "mesh": "dgx-h100", "budget": {"seconds": 20}, "seed": 1}
    run = service.post("/v1/runs", json=request)["id"]
    page = visit(service.address)
    page.goto(f"{service.address}/runs/{run}")  # a page that follows a run is never idle
    expect(page.locator("#live")).to_have_text("live", timeout=WAIT_MS)
    expect(page.locator("#figure-searched")).to_have_text(WITHIN_THE_SEARCH, timeout=WAIT_MS)
    save(page, "run-live", *run_contents(page))
    expect(page.locator("#status")).to_have_text("succeeded", timeout=WAIT_MS)
    page = visit(page.url)  # anew, as whoever comes later sees it
    save(page, "run", *run_contents(page))
    plans = page.get_by_role("region", name="Plans", exact=True)
    save(plans, "plans", plans.locator("tbody tr").first)
    knee = page.locator("#plans tbody tr", has=page.locator(".chip.knee")).get_attribute("data-plan")
    assert knee is not None
    return knee


def run_contents(page: Page) -> tuple[Locator, ...]:
    """Return what is drawn on the page of a run: points of the frontier, the hypervolume, rules, plans."""
    return (
        page.locator("#run:not([inert])"),
        page.locator("#frontier canvas"),
        page.locator("#parallel canvas"),
        page.locator("#history canvas"),
        page.locator("#rules tbody tr").first,
        page.locator("#plans tbody tr").first,
    )


def take_plan(visit: Visit, address: str) -> None:
    """Execute a plan, and take the pictures of its page from top to bottom."""
    page = visit(address)
    costs = page.locator("#costs tbody tr").first
    expect(costs).to_be_visible(timeout=WAIT_MS)
    save(page, "plan", costs)
    with page.expect_response(
        lambda answer: answer.request.method == "POST" and answer.url.endswith("/executions"), timeout=WAIT_MS
    ) as posted:
        page.get_by_role("button", name="Execute on the simulator").click()
    save(section(page, "Execution"), "timeline", executed(page, posted.value.json()["id"]))
    memory = section(page, "Memory over time")
    save(memory, "memory", memory.locator("canvas").first, memory.locator("tbody tr").first)
    diagram = section(page, "Diagram")
    save(diagram, "diagram", diagram.locator("canvas").first)
    sharding = section(page, "Sharding")
    save(sharding, "sharding", sharding.locator("canvas").first, sharding.locator("tbody tr").first)
    page.get_by_role("button", name="Show what changed").click()
    changed = page.locator("#changes-table tbody tr").first
    changed.get_by_role("button").click()
    expect(page.locator("#selected-change h3")).to_be_visible(timeout=WAIT_MS)
    save(page.locator("#changes"), "changes", changed)
    decisions = section(page, "Decisions")
    save(decisions, "decisions", page.locator("#decisions tbody tr").first)
    page.locator("#why-not-block").fill(page.locator("#decisions .site").first.inner_text())
    section(page, "Why not otherwise").get_by_role("button", name="Show").click()
    save(section(page, "Why not otherwise"), "why-not", page.locator("#why-not-table tbody tr").first)
    exports = section(page, "Exports")
    save(exports, "exports", exports.get_by_role("button").first)
    page.get_by_role("button", name="What each move changed").click()
    effects = page.locator(".effects tbody tr").first
    expect(effects).to_be_visible(timeout=WAIT_MS)
    page.locator("#decisions .site").first.click()
    save(section(page, "History"), "history", effects, page.locator("#block-history li").first)


def take_lists(visit: Visit, service: Service) -> None:
    """Take the pictures of lists of runs and batches, of comparisons, and of a program."""
    runs = service.get("/v1/runs")["items"]
    wanted = {"graphs": [runs[0]["graph_id"]], "meshes": ["dgx-h100"], "seeds": [2, 3, 4], "verify": "dry"}
    body = {"name": "three seeds", **wanted, "budget": {"seconds": 1}}
    batch = service.post("/v1/batches", json=body)
    page = visit(f"{service.address}/batches/{batch['id']}")
    expect(page.locator("#entries tbody tr", has_text="succeeded")).to_have_count(3, timeout=WAIT_MS)
    save(page, "batch", page.locator("#entries tbody tr").first)
    page = visit(f"{service.address}/batches")
    save(page, "batches", page.get_by_role("link", name="three seeds"))
    page = visit(service.address)
    save(page, "runs", page.locator("#runs tbody tr", has_text="succeeded").first)
    ids = [run["id"] for run in runs]
    page = visit(f"{service.address}/compare?runs={','.join(ids)}")
    save(page, "compare-runs", page.locator("canvas").first)
    plans = service.get(f"/v1/runs/{ids[0]}/frontier")["plans"]
    page = visit(f"{service.address}/compare?plans={plans[0]['id']},{plans[-1]['id']}")
    save(page, "compare-plans", page.locator("canvas").first)
    page = visit(f"{service.address}/graphs/{runs[0]['graph_id']}")
    save(page, "program", page.locator("#figures dd").first, page.locator("#runs tbody tr").first)


def take_catalogs(visit: Visit, service: Service) -> None:
    """Take the pictures of what is there without a run: the form, rules, devices, layouts, an error."""
    page = visit(f"{service.address}/runs/new")
    expect(page.locator("#stored")).to_be_enabled(timeout=WAIT_MS)
    save(page, "new-run", page.locator("#mesh-facts dd").first, page.locator("#graph-status dd").first)
    page = visit(f"{service.address}/rules?rule=online_softmax")
    save(page, "rules", page.locator("#rule svg, #rule canvas").first)
    page = visit(f"{service.address}/devices?device=h200-sxm-141gb")
    save(page, "device", page.locator("#device canvas").first, page.locator("#measured canvas"))
    page = visit(f"{service.address}/devices?mesh=t3000-ring")
    save(page, "mesh", page.locator("#mesh canvas"), page.locator("#collectives canvas"))
    page = visit(f"{service.address}/layouts?text={quote('bf16[12,20]{1,0:T(8,8)(2,1)}')}&at=5,10")
    expect(page.locator("#place")).to_contain_text("Element [5, 10] is at")
    tensor = section(page, "Tensor and memory")
    save(tensor, "layout", page.locator("#tensor-cells canvas"), page.locator("#memory-cells canvas"))
    page = visit(f"{service.address}/runs/0123456789ab")
    save(page, "missing", page.get_by_role("heading", level=1))


def executed(page: Page, execution: str) -> Locator:
    """Wait until the page shows this execution, not an earlier one, with its timeline; return the timeline."""
    expect(page.locator("#which")).to_have_value(execution, timeout=WAIT_MS)
    expect(page.locator("#execution-status")).to_have_text("succeeded", timeout=WAIT_MS)
    timeline = page.locator("#timeline canvas")
    expect(timeline).to_be_visible(timeout=WAIT_MS)
    expect(timeline).to_have_accessible_name(re.compile("^Timeline of 8 devices"), timeout=WAIT_MS)
    for _ in range(100):
        if shades(page) > 2:
            return timeline
        page.wait_for_timeout(100)
    raise TimeoutError(f"the timeline of execution {execution} is visible, but nothing is painted on it")


def section(page: Page, name: str) -> Locator:
    """Return a section of a page by its name, scrolled to, so that it loads what it shows."""
    found = page.get_by_role("region", name=name, exact=True)
    found.evaluate("element => element.scrollIntoView()")
    return found


def take_tutorials(visit: Visit) -> None:
    """Take the pictures of tutorials: of the first run of each that has a frontier to look at, or of its mesh."""
    for name in ("vit", "language-model"):
        with tempfile.TemporaryDirectory() as folder:
            for _ in Reader(Path(folder)).follow((TUTORIALS / f"{name}.md").read_text()):
                pass
            with Service(f"sqlite:///{folder}/tapestry.db", Path(folder) / "log") as service:
                run = service.http.get("/v1/runs").json()["items"][-1]["id"]
                page = visit(f"{service.address}/runs/{run}")
                expect(page.locator("#status")).to_have_text("succeeded", timeout=WAIT_MS)
                save(page, name, *run_contents(page), kind="tutorial", schemes=("light",))
    with tempfile.TemporaryDirectory() as folder:
        for _ in Reader(Path(folder)).follow((TUTORIALS / "mesh.md").read_text()):
            pass
        page = visit("about:blank")
        with contextlib.chdir(folder):  # where the mesh looks for its device
            page.set_content(load_mesh("four-boards.toml")._repr_html_())
        save(page.locator(".tapestry-card"), "mesh", kind="tutorial", schemes=("light",))


def save(
    what: Page | Locator,
    name: str,
    *contents: Locator,
    kind: str = "dashboard",
    schemes: Sequence[Literal["light", "dark"]] = ("dark", "light"),
) -> None:
    """Save pictures, light and dark, of what is seen of a page, or of a whole section, when its contents are there.

    Raises:
        RuntimeError: the page says that it is still loading, connecting or waiting for something.
    """
    assert kind != "dashboard" or name in PICTURES, f"{name} is not in the list of pictures"
    for content in contents:
        expect(content).to_be_visible(timeout=WAIT_MS)
    page = what if isinstance(what, Page) else what.page
    states = page.locator("[role=status], .badge, .empty").all()
    waiting = [text for state in states if state.is_visible() and WAITING.search(text := state.inner_text())]
    if waiting:
        raise RuntimeError(f"no picture {name}: the page still says {', '.join(waiting)}")
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(REPAINT_MS)
        (IMAGES / f"{kind}-{name}-{scheme}.webp").write_bytes(picture(page, what))


def picture(page: Page, what: Page | Locator) -> bytes:
    """Return what is seen of a page, or a section of it, as WebP, which is smaller than what Playwright saves."""
    request: dict[str, object] = {"format": "webp", "quality": QUALITY}
    if not isinstance(what, Page):
        box = what.evaluate(
            "e => { const b = e.getBoundingClientRect(); return [b.x + scrollX, b.y + scrollY, b.width, b.height]; }"
        )
        x, y, width, height = box
        request["clip"] = {"x": x, "y": y, "width": width, "height": min(height, TALLEST), "scale": 1}
        request["captureBeyondViewport"] = True
    session = page.context.new_cdp_session(page)
    try:
        return base64.b64decode(session.send("Page.captureScreenshot", request)["data"])
    finally:
        session.detach()


if __name__ == "__main__":
    main()
