"""The card of a mesh: its figures, its devices drawn along its axes, and the links of each axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Protocol

from tapestry.teg.brief import brief, counted
from tapestry.teg.html_card import Html, card, figures, paragraph, picture, table, text_of
from tapestry.teg.readable_html import quantity

MOST_PLACES = 8  # drawn along an axis
CELL, GAP, MARGIN, HEAD = 18.0, 4.0, 8.0, 16.0  # px
LETTER = 6.4  # px
DRAWN_AXES = 3  # the fastest ones


class DeviceFigures(Protocol):
    """The figures of a device that its mesh's card names."""

    @property
    def name(self) -> str: ...
    @property
    def memory_bytes(self) -> int: ...
    @property
    def memory_bytes_per_s(self) -> float: ...
    @property
    def peak_flops_per_s(self) -> Mapping[str, float]: ...


class AxisFigures(Protocol):
    """The figures of an axis in its table."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def topology(self) -> str: ...
    @property
    def bandwidth_bytes_per_s(self) -> float: ...
    @property
    def latency_s(self) -> float: ...


def mesh_card(
    name: str, device: DeviceFigures, axes: Sequence[AxisFigures], kinds: Sequence[str] = ()
) -> str:
    """Return the card of a mesh as HTML; `kinds` are the names of its devices where nodes differ."""
    count = prod(axis.size for axis in axes)
    peaks = [f"{_scaled(rate, 'flop/s')} {dtype}" for dtype, rate in sorted(device.peak_flops_per_s.items())]
    rows = [
        (
            axis.name,
            f"{axis.size:,}",
            axis.topology,
            _scaled(axis.bandwidth_bytes_per_s, "B/s"),
            quantity(axis.latency_s, "s"),
        )
        for axis in axes
    ]
    mixed = paragraph(
        f"Nodes differ: {', '.join(map(brief, kinds))}. Figures are those of the slowest.", True
    )
    return card(
        f"Mesh {brief(name)}",
        f"{counted(count, 'device')} {brief(device.name)}",
        (
            figures(
                (
                    ("memory of a device", _scaled(device.memory_bytes, "B")),
                    ("memory of all", _scaled(device.memory_bytes * count, "B")),
                    ("memory rate", _scaled(device.memory_bytes_per_s, "B/s")),
                    ("peak of matrix products", ", ".join(peaks)),
                )
            ),
            *([mixed] if len(kinds) > 1 else []),
            picture(_drawn(name, axes), "Devices along the axes, the fastest inside"),
            table(
                "Axes, the slowest first", ("axis", "size", "topology", "rate", "latency"), rows, (1, 3, 4)
            ),
        ),
    )


def _scaled(value: float, unit: str) -> str:
    """Return a figure as makers of devices write it: `80 GB`, `900 GB/s`, `989.4 Tflop/s`."""
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:,.4g} {prefix}{unit}"
    return f"{value:,.4g} {unit}"


def _drawn(name: str, axes: Sequence[AxisFigures]) -> str:
    """Draw boxes in boxes: of each axis at most `MOST_PLACES`, and how many there are."""
    slower, drawn = axes[: max(0, len(axes) - DRAWN_AXES)], axes[max(0, len(axes) - DRAWN_AXES) :]
    parts, width, height = _box(drawn, 0.0, 0.0)
    title = " × ".join(f"{axis.size:,} {axis.name}" for axis in axes)
    outer = f"each of {' × '.join(f'{axis.size:,} {axis.name}' for axis in slower)}" if slower else ""
    width = max(width, LETTER * len(outer) + MARGIN)
    shift = HEAD if outer else 0.0
    head = f'<text class="type" x="0" y="12">{text_of(outer)}</text>' if outer else ""
    return (
        f'<svg class="teg" xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height + shift:.0f}" '
        f'viewBox="0 {-shift:.0f} {width:.0f} {height + shift:.0f}" role="img" font-family="ui-monospace,monospace" '
        f'font-size="11"><title>{text_of(f"{name}: {title}")}</title>'
        f'<g transform="translate(0 {-shift:.0f})">{head}</g>{parts}</svg>'
    )


def _box(axes: Sequence[AxisFigures], x: float, y: float) -> tuple[Html, float, float]:
    """Return the box of an axis at a point with all that is in it, and its width and height."""
    if not axes:
        device = f'<rect x="{x:.0f}" y="{y:.0f}" width="{CELL:.0f}" height="{CELL:.0f}" rx="3"/>'
        return Html(f'<g class="fold">{device}</g>'), CELL, CELL
    axis, *inner = axes
    shown = min(axis.size, MOST_PLACES)
    label = f"{axis.name}: {axis.size:,}" + ("" if shown == axis.size else f", {shown} drawn")
    parts: list[str] = []
    is_row = (
        len(axes) % 2 == 1
    )  # places of the fastest axis are side by side, those of the next one below each other
    at_x, at_y, width, height = x + MARGIN, y + MARGIN + HEAD, 0.0, 0.0
    for _ in range(shown):
        part, wide, high = _box(inner, at_x, at_y)
        parts.append(part)
        width, height = max(width, at_x + wide - x), max(height, at_y + high - y)
        at_x, at_y = (at_x + wide + GAP, at_y) if is_row else (at_x, at_y + high + GAP)
    width, height = max(width, LETTER * len(label) + MARGIN) + MARGIN, height + MARGIN
    frame = f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" rx="5"/>'
    text = f'<text x="{x + MARGIN:.0f}" y="{y + MARGIN + 7:.0f}">{text_of(label)}</text>'
    return Html(f"<g>{frame}{text}</g>{''.join(parts)}"), width, height
