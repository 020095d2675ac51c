"""Pages under a pointer: a frontier of many plans that is pointed at and bounded, and the one cursor of a comparison.

The pointer is moved as a person would, by events of the browser; pictures are counted in the page.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from playwright.sync_api import Browser, Page

WAIT_MS = 120_000
MOVES = 120
WINDOW = {"width": 1400, "height": 1000}
Way = Callable[[float], tuple[float, float]]
TOGETHER = "compare:together"
# Note the milliseconds between pictures until `stopNoting` is called, which returns them.
NOTE = """() => {
  const times = [];
  let isOn = true;
  const step = (now) => {
    times.push(now);
    if (isOn) requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
  window.stopNoting = () => {
    isOn = false;
    return times.slice(1).map((time, k) => time - times[k]);
  };
}"""
# The milliseconds from the end of a drag until the page's bounds are painted, in `painted` of the window.
NOTE_RELEASE = """() => {
  window.painted = new Promise((done) => {
    addEventListener("pointerup", () => {
      const began = performance.now();
      const note = document.getElementById("held");
      const before = note.textContent;
      const look = () => {
        if (note.textContent === before) return requestAnimationFrame(look);
        return requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - began)));
      };
      look();
    }, { once: true, capture: true });
  });
}"""
DURATIONS = f"() => performance.getEntriesByName('{TOGETHER}').map((one) => one.duration)"


def frontier(browser: Browser, address: str, plans: int) -> dict[str, float]:
    """Point at the plans of a run in its views, drag along an axis and let go; return pictures a second and times."""
    context = browser.new_context(viewport=WINDOW)
    page = context.new_page()
    page.goto(address)
    page.locator("#plans tbody tr").nth(plans - 1).wait_for(timeout=WAIT_MS)
    page.wait_for_load_state("networkidle")
    found = _moved(page, "plot", "#frontier canvas", lambda k: (0.15 + 0.7 * k, 0.15 + 0.7 * k))
    found |= _moved(page, "axes", "#parallel canvas", lambda k: (0.1 + 0.8 * k, 0.3 + 0.5 * k))
    box = page.locator("#parallel canvas").bounding_box() or {}
    x = box["x"] + 72
    page.mouse.move(x, box["y"] + box["height"] - 20)
    page.evaluate(NOTE_RELEASE)
    page.mouse.down()
    found |= _moved(page, "drag", "#parallel canvas", lambda k: (72 / box["width"], 0.95 - 0.45 * k))
    page.mouse.up()
    found["bounded_ms"] = page.evaluate("() => window.painted")
    page.get_by_label("scatter matrix").check()
    page.locator("#matrix canvas").wait_for(timeout=WAIT_MS)
    found |= _moved(page, "matrix", "#matrix canvas", lambda k: (0.1 + 0.8 * k, 0.1 + 0.8 * k))
    context.close()
    return found


def comparison(browser: Browser, address: str, view: str) -> dict[str, float]:
    """Move to and fro over a view of a comparison; return until when all views follow, in milliseconds."""
    context = browser.new_context(viewport=WINDOW)
    page = context.new_page()
    page.goto(address)
    page.locator(view).first.wait_for(timeout=WAIT_MS)
    page.wait_for_load_state("networkidle")
    page.evaluate(f"() => performance.clearMeasures('{TOGETHER}')")
    found = _moved(page, "together", view, lambda k: (0.6 + 0.35 * np.sin(20 * k), 0.5))
    times = page.evaluate(DURATIONS)
    context.close()
    middle, slowest = (float(np.percentile(times, q)) for q in (50, 100))
    return found | {"followed": len(times), "median_ms": middle, "slowest_ms": slowest}


def _moved(page: Page, name: str, view: str, way: Way) -> dict[str, float]:
    """Move the pointer over a view, `way` gives shares of its size; return pictures a second and the slowest."""
    place = page.locator(view).first
    place.scroll_into_view_if_needed()
    box = place.bounding_box()
    assert box is not None, f"{view} is not shown"
    page.evaluate(NOTE)
    for k in range(MOVES):
        across, down = way(k / (MOVES - 1))
        page.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"])
    between = page.evaluate("() => window.stopNoting()")
    return {
        f"{name}_frames_per_s": 1e3 * len(between) / sum(between),
        f"{name}_slowest_frame_ms": max(between),
    }
