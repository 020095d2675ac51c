"""The looks of a page: what axe-core finds in it, and texts that are cut off or printed over each other."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

GRAVE = ("moderate", "serious", "critical")
CONTRAST = {"runOnly": ["color-contrast"]}
SHOWN = 200  # characters of an element in a message
AXE = Axe()
# How far the page is wider than its window, in pixels.
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
# Pairs of texts whose boxes share more than a margin. What is hidden, clipped away or in a layer above is left out.
PRINTED_OVER = """() => {
  const MARGIN = 3;
  const boxes = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (!node.data.trim() || !parent.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    if (parent.closest("script, style, dialog, .unseen, option, [popover], svg")) continue;
    let clip = { left: 0, top: -Infinity, right: innerWidth, bottom: Infinity };
    let isLayer = false;
    for (let one = parent; one; one = one.parentElement) {
      const style = getComputedStyle(one);
      if (["absolute", "fixed", "sticky"].includes(style.position)) isLayer = true;
      if (style.overflowX === "visible" && style.overflowY === "visible") continue;
      const box = one.getBoundingClientRect();
      clip = {
        left: Math.max(clip.left, box.left), top: Math.max(clip.top, box.top),
        right: Math.min(clip.right, box.right), bottom: Math.min(clip.bottom, box.bottom),
      };
    }
    if (isLayer) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const line of range.getClientRects()) {
      const box = {
        left: Math.max(line.left, clip.left), top: Math.max(line.top, clip.top),
        right: Math.min(line.right, clip.right), bottom: Math.min(line.bottom, clip.bottom),
        text: node.data.trim().slice(0, 60),
      };
      if (box.right - box.left > MARGIN && box.bottom - box.top > MARGIN) boxes.push(box);
    }
  }
  boxes.sort((a, b) => a.top - b.top);
  const found = [];
  boxes.forEach((one, k) => {
    for (let n = k + 1; n < boxes.length && boxes[n].top < one.bottom - MARGIN; n += 1) {
      const other = boxes[n];
      const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      const down = Math.min(one.bottom, other.bottom) - other.top;
      if (across > MARGIN && down > MARGIN) found.push([one.text, other.text]);
    }
  });
  return found;
}"""


def grave(page: Page, options: dict[str, Any] | None = None) -> list[str]:
    """Return what axe-core finds that is moderate or worse: its rule and the first element."""
    violations = AXE.run(page, options=options or {"resultTypes": ["violations"]}).response["violations"]
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:SHOWN]}" for each in violations if each["impact"] in GRAVE
    ]


def printed_over(page: Page) -> list[list[str]]:
    """Return the pairs of texts that are printed over each other."""
    found: list[list[str]] = page.evaluate(PRINTED_OVER)
    return found
