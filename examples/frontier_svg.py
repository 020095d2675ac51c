"""Draw a frontier: reads what `tapestry optimize --json` printed, writes an SVG of two objectives.

    tapestry optimize model.onnx --mesh dgx-h100 --json > frontier.json
    python examples/frontier_svg.py frontier.json frontier.svg

A third objective sets the colour. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence

WIDTH, HEIGHT, MARGIN = 720, 420, 64
UNITS = {"time_s": ("ms", 1e3), "traffic_bytes": ("GiB", 2**-30), "energy_j": ("J", 1.0)}


def unit_of(name: str) -> tuple[str, float]:
    """Unit to print an objective in, and the factor to it."""
    if name in UNITS:
        return UNITS[name]
    return ("MiB", 2**-20) if name.endswith("_bytes") else ("", 1.0)


def ticks(low: float, high: float) -> list[float]:
    """Round values between two positive bounds, for a logarithmic axis."""
    found = [m * 10.0**e for e in range(-12, 16) for m in (1, 2, 5)]
    return [t for t in found if low <= t <= high]


def place(value: float, low: float, high: float, start: float, end: float) -> float:
    """Position of a value on a logarithmic axis."""
    if high <= low:
        return (start + end) / 2
    return start + (end - start) * (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))


def draw(plans: Sequence[dict[str, float]], x: str, y: str, colour: str, title: str) -> str:
    """The SVG text; plans without a positive value of `x` or `y` are left out."""
    plans = [p for p in plans if p[x] > 0 and p[y] > 0]
    (x_unit, x_factor), (y_unit, y_factor), (c_unit, c_factor) = map(unit_of, (x, y, colour))
    xs, ys = [p[x] * x_factor for p in plans], [p[y] * y_factor for p in plans]
    shades = [p[colour] * c_factor for p in plans]
    x_low, x_high, y_low, y_high = min(xs) / 1.08, max(xs) * 1.08, min(ys) / 1.08, max(ys) * 1.08
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{MARGIN}" y="28" font-size="16">{title}</text>',
    ]
    left, right, top, bottom = MARGIN, WIDTH - 150, 48, HEIGHT - MARGIN
    for t in ticks(x_low, x_high):
        at = place(t, x_low, x_high, left, right)
        parts.append(f'<line x1="{at:.1f}" y1="{top}" x2="{at:.1f}" y2="{bottom}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{at:.1f}" y="{bottom + 18}" font-size="12" text-anchor="middle">{t:g}</text>')
    for t in ticks(y_low, y_high):
        at = place(t, y_low, y_high, bottom, top)
        parts.append(f'<line x1="{left}" y1="{at:.1f}" x2="{right}" y2="{at:.1f}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{left - 8}" y="{at + 4:.1f}" font-size="12" text-anchor="end">{t:g}</text>')
    low, high = min(shades), max(shades)
    for a, b, shade in zip(xs, ys, shades, strict=True):
        share = 0.0 if high <= low else (shade - low) / (high - low)
        spot = (
            f'cx="{place(a, x_low, x_high, left, right):.1f}" cy="{place(b, y_low, y_high, bottom, top):.1f}"'
        )
        parts.append(f'<circle {spot} r="5" fill="{_shade(share)}" stroke="white"/>')
    middle = (left + right) / 2
    parts.append(
        f'<text x="{middle}" y="{HEIGHT - 20}" font-size="13" text-anchor="middle">{x} ({x_unit})</text>'
    )
    turned = f'transform="rotate(-90 18 {(top + bottom) / 2})"'
    parts.append(
        f'<text x="18" y="{(top + bottom) / 2}" font-size="13" text-anchor="middle" {turned}>{y} ({y_unit})</text>'
    )
    for k, value in enumerate((low, high)):
        parts.append(f'<circle cx="{right + 24}" cy="{top + 20 + 24 * k}" r="5" fill="{_shade(float(k))}"/>')
        parts.append(
            f'<text x="{right + 36}" y="{top + 24 + 24 * k}" font-size="12">{value:.3g} {c_unit}</text>'
        )
    parts.append(f'<text x="{right + 18}" y="{top + 2}" font-size="12">{colour}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _shade(share: float) -> str:
    """Blue for little, orange for much."""
    little, much = (37, 99, 235), (234, 120, 20)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(little, much, strict=True))


def main(argv: Sequence[str] | None = None) -> None:
    """Read the frontier, write the drawing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("frontier", help="JSON of `tapestry optimize --json`")
    parser.add_argument("svg", help="file to write")
    parser.add_argument("--x", default="time_s")
    parser.add_argument("--y", default="peak_memory_bytes")
    parser.add_argument("--colour", default="traffic_bytes")
    given = parser.parse_args(argv)
    with open(given.frontier, encoding="utf-8") as file:
        document = json.load(file)
    title = f"{len(document['frontier'])} plans of {document['graph']} on {document['mesh']}"
    text = draw([p["cost"] for p in document["frontier"]], given.x, given.y, given.colour, title)
    with open(given.svg, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
