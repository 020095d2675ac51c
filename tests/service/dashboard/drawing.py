"""The drawing on the canvas of a page, which no element of the page shows."""

from __future__ import annotations

from playwright.sync_api import Page


def shades(page: Page) -> int:
    """Count the colors along a line across the first device's lanes of the timeline."""
    return int(
        page.evaluate(
            """() => {
              const canvas = document.querySelector("#timeline canvas");
              const pen = canvas.getContext("2d");
              const pixels = pen.getImageData(0, 26, canvas.width, 30).data;
              const found = new Set();
              for (let k = 0; k < pixels.length; k += 4) found.add(pixels.slice(k, k + 3).join());
              return found.size;
            }"""
        )
    )


def drag_along_the_first_axis(page: Page, *heights: float) -> None:
    """Drag from the lower end of the first of the parallel axes up to heights, each a share of that of the drawing."""
    axes = page.locator("#parallel canvas")
    axes.scroll_into_view_if_needed()
    box = axes.bounding_box()
    assert box is not None
    x = box["x"] + 72
    page.mouse.move(x, box["y"] + box["height"] - 2)
    page.mouse.down()
    for share in heights:
        page.mouse.move(x, box["y"] + share * box["height"])
    page.mouse.up()
