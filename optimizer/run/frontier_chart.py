"""A frontier in two costs as SVG without scripts: for notebooks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tapestry.teg.html_card import text_of
from tapestry.teg.readable_html import quantity, scale_of

WIDTH, HEIGHT = 520.0, 320.0  # px
LEFT, RIGHT, TOP, BOTTOM = 64.0, 14.0, 12.0, 44.0
RADIUS, MARKED_RADIUS = 4.0, 6.0
LOGARITHMIC = 20.0  # the ratio of the largest to the least value from which on an axis is logarithmic
MOST_POINTS = 300
STEPS = (1.0, 2.0, 5.0, 10.0)
MARKS = {"fastest": "tp-fastest", "knee": "tp-knee", "smallest peak": "tp-smallest"}


class ChartPoint(NamedTuple):
    """A plan in the chart: its name, its two costs and its role on the frontier, if it has one."""

    name: str
    x: float
    y: float
    role: str = ""


class ChartAxis(NamedTuple):
    """A cost as an axis: its title and unit, whether it is logarithmic, its ends and its ticks."""

    title: str
    unit: str
    is_logarithmic: bool
    low: float
    high: float
    ticks: tuple[float, ...]

    @staticmethod
    def of(title: str, unit: str, values: Sequence[float]) -> ChartAxis:
        """Choose the ends and ticks of an axis for values of at least 0, with a margin on both sides."""
        least, most = min(values), max(values)
        if least > 0 and most > LOGARITHMIC * least:
            low, high = least / 1.15, most * 1.15
            decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
            ticks = [step * 10.0**decade for decade in decades for step in STEPS[:3]]
            return ChartAxis(title, unit, True, low, high, _within(ticks, low, high))
        margin = 0.06 * (most - least) or 0.06 * abs(most) or 1.0
        low, high = max(0.0, least - margin) if least >= 0 else least - margin, most + margin
        factor = scale_of([most], unit)[0]
        rough = (high - low) / factor / 5
        step = 10.0 ** math.floor(math.log10(rough))
        step *= next(each for each in STEPS if each * step >= rough)
        first = math.ceil(low / factor / step)
        ticks = [(first + k) * step * factor for k in range(8)]
        return ChartAxis(title, unit, False, low, high, _within(ticks, low, high))

    def share(self, value: float) -> float:
        """Return where a value is between both ends, from 0 to 1."""
        if self.is_logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def texts(self) -> list[str]:
        """Return the texts of the ticks, in one unit."""
        factor, _ = scale_of([self.high], self.unit)
        return [f"{tick / factor:,.6g}" for tick in self.ticks]

    @property
    def heading(self) -> str:
        """The title with the unit of the ticks."""
        name = scale_of([self.high], self.unit)[1]
        kind = ", logarithmic" if self.is_logarithmic else ""
        return f"{self.title} ({name}{kind})" if name or kind else self.title


def _within(ticks: Sequence[float], low: float, high: float) -> tuple[float, ...]:
    return tuple(tick for tick in ticks if low <= tick <= high)


def frontier_chart(name: str, points: Sequence[ChartPoint], x: ChartAxis, y: ChartAxis) -> str:
    """Draw points with a line through those that are best in both costs; of very many all that have a role, and some.

    `name` is the title for those who do not see it.
    """
    stride = max(1, math.ceil(len(points) / MOST_POINTS))
    drawn = [point for k, point in enumerate(points) if point.role or k % stride == 0]
    drawn.sort(key=lambda point: bool(point.role))  # those with a role lie above the others
    bottom = HEIGHT - BOTTOM
    parts = [
        f'<svg class="tp-plot" xmlns="http://www.w3.org/2000/svg" width="{WIDTH:.0f}" height="{HEIGHT:.0f}" '
        f'viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" role="img"><title>{text_of(name)}</title>'
    ]
    for tick, text in zip(x.ticks, x.texts(), strict=True):
        at = _across(x, tick)
        parts.append(f'<line x1="{at:.1f}" y1="{TOP:.0f}" x2="{at:.1f}" y2="{bottom:.0f}"/>')
        parts.append(f'<text x="{at:.1f}" y="{bottom + 15:.0f}" text-anchor="middle">{text}</text>')
    for tick, text in zip(y.ticks, y.texts(), strict=True):
        at = _down(y, tick)
        parts.append(f'<line x1="{LEFT:.0f}" y1="{at:.1f}" x2="{WIDTH - RIGHT:.0f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6:.0f}" y="{at + 4:.1f}" text-anchor="end">{text}</text>')
    axes = f"M{LEFT:.0f} {TOP:.0f}V{bottom:.0f}H{WIDTH - RIGHT:.0f}"
    parts.append(f'<path class="tp-axis" d="{axes}" fill="none"/>')
    across, down = f"{(LEFT + WIDTH - RIGHT) / 2:.0f}", f"{(TOP + bottom) / 2:.0f}"
    turned = f'x="12" y="{down}" text-anchor="middle" transform="rotate(-90 12 {down})"'
    parts.append(f'<text x="{across}" y="{HEIGHT - 8:.0f}" text-anchor="middle">{text_of(x.heading)}</text>')
    parts.append(f"<text {turned}>{text_of(y.heading)}</text>")
    line = " ".join(
        f"{_across(x, each.x):.1f},{_down(y, each.y):.1f}" for each in _best(points)[:MOST_POINTS]
    )
    parts.append(f'<polyline points="{line}"/>')
    parts += [_circle(point, x, y) for point in drawn]
    return "".join([*parts, "</svg>"])


def _circle(point: ChartPoint, x: ChartAxis, y: ChartAxis) -> str:
    kind, radius = MARKS.get(point.role, ""), MARKED_RADIUS if point.role else RADIUS
    role = f", {point.role}" if point.role else ""
    words = f"{point.name}{role}: {quantity(point.x, x.unit)}, {quantity(point.y, y.unit)}"
    return (
        f'<circle class="{kind}" cx="{_across(x, point.x):.1f}" cy="{_down(y, point.y):.1f}" r="{radius:.0f}">'
        f"<title>{text_of(words)}</title></circle>"
    )


def _best(points: Sequence[ChartPoint]) -> list[ChartPoint]:
    """Return the points that no other one is better than in both costs, from left to right."""
    found: list[ChartPoint] = []
    for point in sorted(points, key=lambda each: (each.x, each.y)):
        if not found or point.y < found[-1].y:
            found.append(point)
    return found


def _across(axis: ChartAxis, value: float) -> float:
    return LEFT + axis.share(value) * (WIDTH - LEFT - RIGHT)


def _down(axis: ChartAxis, value: float) -> float:
    return HEIGHT - BOTTOM - axis.share(value) * (HEIGHT - TOP - BOTTOM)


def roles_by_id(plans: Mapping[str, str]) -> dict[str, str]:
    """Return the role of each plan by its id, of several the first."""
    found: dict[str, str] = {}
    for role, plan in plans.items():
        found.setdefault(plan, role)
    return found
