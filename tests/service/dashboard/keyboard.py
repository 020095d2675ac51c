"""A page by its keyboard only: what has the focus, whether one can see that, and whether one gets on from there."""

from __future__ import annotations

from typing import Any, Literal

from playwright.sync_api import Locator, Page

MOST_STOPS = 1500
SETTLING_FRAMES = 30
# What has the focus: its description, whether a part is seen, whether something marks it, whether it had it before.
FOCUS = """(target) => {
  const one = document.activeElement;
  const isNone = !one || one === document.body || one === document.documentElement;
  const visited = (window.visitedStops ??= new Set());
  if (isNone) return { isNone, stops: visited.size };
  const label = one.labels?.[0];
  const box = (label && one.getBoundingClientRect().width < 2 ? label : one).getBoundingClientRect();
  const [left, top] = [Math.max(box.left, 0), Math.max(box.top, 0)];
  const [right, bottom] = [Math.min(box.right, innerWidth), Math.min(box.bottom, innerHeight)];
  const spots = [[0.5, 0.5], [0.1, 0.5], [0.9, 0.5], [0.5, 0.1], [0.5, 0.9]];
  const isSeen = right > left && bottom > top && spots.some(([across, down]) => {
    const hit = document.elementFromPoint(left + across * (right - left), top + down * (bottom - top));
    return hit && (one.contains(hit) || hit.contains(one) || label?.contains(hit));
  });
  const marks = [one, label].filter(Boolean).map((each) => getComputedStyle(each));
  const isMarked = marks.some((style) => style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1);
  const wasVisited = visited.has(one);
  visited.add(one);
  const name = one.outerHTML.slice(0, 160);
  return { isNone, name, isSeen, isMarked, wasVisited, isTarget: one === target, stops: visited.size };
}"""
# What Tab has to reach: of radio buttons with one name, one.
REACHABLE = """() => {
  const usual = "a[href], button, input, select, textarea, summary, [tabindex]";
  const names = new Set();
  return [...document.querySelectorAll(usual)].filter((one) => {
    if (one.disabled || one.tabIndex < 0 || !one.checkVisibility({ visibilityProperty: true })) return false;
    if (one.closest("[inert]")) return false;
    if (one.type !== "radio") return true;
    return !names.has(one.name) && names.add(one.name);
  }).length;
}"""


class Keyboard:
    """The keys of a page. Every stop of the focus is checked: it is marked, and a part of it is seen."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.pressed = 0

    def press(self, *keys: str) -> None:
        """Press keys one after the other."""
        for key in keys:
            self._page.keyboard.press(key)
            self.pressed += 1

    def enter(self, text: str) -> None:
        """Enter a text into the field that has the focus, over what it has."""
        self.press("Control+a", *("Space" if letter == " " else letter for letter in text))

    def go_to(self, target: Locator, key: Literal["Tab", "Shift+Tab"] = "Tab") -> None:
        """Press Tab until an element has the focus.

        Raises AssertionError where a stop cannot be seen, and where the focus goes around without reaching it.
        """
        self._page.evaluate("window.visitedStops = new Set()")
        for _ in range(MOST_STOPS):
            self.press(key)
            stop = self._stop(target)
            if stop.get("isTarget"):
                return
            assert not stop.get("wasVisited"), f"the focus is trapped at {stop['name']}, before {target}"
        raise AssertionError(f"{target} has not the focus after {MOST_STOPS} keys")

    def go_around(self) -> int:
        """Press Tab from the top of a page to its end, and return the number of stops.

        Raises AssertionError where anything is not reached, or the focus does not leave the page at its end.
        """
        self._page.evaluate("window.visitedStops = new Set(); document.activeElement?.blur()")
        reachable = int(self._page.evaluate(REACHABLE))
        main = self._page.locator("main")
        for _ in range(MOST_STOPS):
            self.press("Tab")
            stop = self._stop(main)
            if stop["isNone"] or stop["wasVisited"]:
                assert stop["isNone"] or stop["stops"] >= reachable, f"trapped at {stop['name']}"
                if stop["stops"] >= reachable:
                    return int(stop["stops"])
        raise AssertionError(f"only {stop['stops']} of {reachable} elements are reached")

    def _stop(self, target: Locator) -> dict[str, Any]:
        stop: dict[str, Any] = target.evaluate(FOCUS)
        if stop["isNone"]:
            return stop
        assert stop["isMarked"], f"nothing marks {stop['name']}"
        for _ in range(SETTLING_FRAMES):  # what is loaded above it may move it for a moment
            if stop["isSeen"]:
                return stop
            self._page.evaluate("() => new Promise((done) => requestAnimationFrame(done))")
            stop = {**target.evaluate(FOCUS), "wasVisited": stop["wasVisited"]}
        raise AssertionError(f"no part is seen of {stop['name']}")
