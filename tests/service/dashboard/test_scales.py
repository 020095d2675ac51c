"""Tests of the scales of charts: what their ends are, and which ticks they have, in the browser that draws them."""

from __future__ import annotations

import math
import random

import pytest
from playwright.sync_api import Browser, Page

from tests.service.dashboard.test_units import source_of

SOURCE = source_of("units.js") + source_of("charts/scale.js")
TICKS = """([low, high, most, options]) => new Scale(low, high, options).ticks(most)"""


@pytest.fixture(scope="module")
def page(browser: Browser) -> Page:
    """Open a page that has the module's functions."""
    found = browser.new_page()
    found.add_script_tag(content=SOURCE)
    return found


@pytest.mark.parametrize("unit", ["", "s", "B", "flop"])
@pytest.mark.parametrize("is_log", [False, True])
def test_every_scale_has_two_ticks_at_least_with_different_texts(page: Page, unit: str, is_log: bool) -> None:
    rng = random.Random(7)
    for _ in range(200):
        low = 10 ** rng.uniform(-7, 9)
        high = low * (1 + 10 ** rng.uniform(-6, 7))
        most = rng.randint(2, 9)
        ticks = page.evaluate(TICKS, [low, high, most, {"unit": unit, "isLog": is_log}])
        assert len(ticks) >= 2, (low, high, most)
        assert len({tick["text"] for tick in ticks}) == len(ticks), (low, high, most, ticks)
        edge = 1e-5 * (high - low)
        assert all(low - edge <= tick["value"] <= high + edge for tick in ticks)


@pytest.mark.parametrize("values", [[0.4477308, 0.4477314], [0.3, 0.3], [0.1, 0.9]])
def test_a_share_is_not_drawn_over_less_than_a_hundredth_of_it(page: Page, values: list[float]) -> None:
    low, high = page.evaluate("values => extent(values, { leastSpan: SHARE_SPAN })", values)
    assert low < min(values) <= max(values) < high
    assert high - low >= 0.0099 * max(values)
    assert math.isclose((low + high) / 2, (min(values) + max(values)) / 2)
