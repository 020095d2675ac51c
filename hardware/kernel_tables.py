"""The tables `kernels` of a device file: figures of kernel classes, each checked."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from math import isfinite, nan

from tapestry.hardware.kernels import EFFICIENCIES, Donor, KernelFigures, Relative, completed
from tapestry.hardware.ranges import RANGES
from tapestry.hardware.tables import CUTOFF, Table
from tapestry.teg.faults import joined, near_hint, value_text
from tapestry.teg.operators.kernel_classes import KERNEL_CLASSES

CLASS_KEY = "a class, or a class with .fp16 or .fp32"
ROWS = "a list of pairs of a row length and a share above zero and at most 1"
USUAL_POWER_W = 250.0  # of a device that states none, when it is compared with others
KERNEL_SHARES = ("efficiency", "memory_efficiency", "tile_exponent", "error")
KERNEL_NUMBERS = (
    *KERNEL_SHARES,
    "overhead_s",
    "eager_s",
    "dispatch_s",
    "k_prologue",
    "wave_share",
    "wide_columns",
)


def kernel_lines(figures: KernelFigures) -> Iterator[str]:
    """Write the figures of a class as lines of a TOML table; those at their defaults are left out."""
    plain = KernelFigures()
    for field in fields(figures):
        value = getattr(figures, field.name)
        if value != getattr(plain, field.name):
            yield f"{field.name} = {json.dumps(value)}"


def _kernel(table: Table) -> KernelFigures:
    """Read the figures of one class of kernels; those left out have their defaults."""
    plain = KernelFigures()
    numbers = {
        name: table.number_or(name, getattr(plain, name), zero=name not in KERNEL_SHARES)
        for name in KERNEL_NUMBERS
    }
    figures = KernelFigures(
        **numbers,
        cache_efficiency=table.optional("cache_efficiency"),
        sharpness=table.optional("sharpness"),
        row_bytes_per_s=table.optional("row_bytes_per_s"),
        rows=tuple(_row(item, table) for item in table.items("rows")) if table.has("rows", ROWS) else (),
        k_step=table.optional_whole("k_step"),
        split_k=table.optional_whole("split_k") or 1,
        origin=table.optional_text("origin"),
        overlaps=table.flag("overlaps", False),
    )
    if all(isfinite(value) for pair in figures.rows for value in pair) and (fault := figures.row_fault()):
        table.fault("rows", fault)
    table.finish()
    return figures


def _row(item: object, table: Table) -> tuple[float, float]:
    """Read a pair of row length and share."""
    pair = item if isinstance(item, list) else []
    numbers = [
        float(x)
        for x in pair
        if isinstance(x, (int, float)) and not isinstance(x, bool) and 0 < x <= sys.float_info.max
    ]
    if len(numbers) != 2 or len(pair) != 2:
        table.fault(
            "rows",
            f"expected pairs of a row length and a share above zero and at most 1, not {value_text(item)}",
        )
        return nan, nan
    if numbers[1] > 1:
        table.fault("rows", f"expected shares of at most 1, not {numbers[1]:g}")
    return numbers[0], numbers[1]


def own_kernels(table: Table) -> dict[str, KernelFigures]:
    """Read the tables of kernel classes, keyed by class or `class.precision`."""
    if not table.has("kernels", "a table of figures for each class"):
        return {}
    tables = table.table("kernels")
    for key in tables.content:
        table.read.append(f"kernels.{key}")  # what has a source
        kernel, _, family = key.partition(".")
        if kernel not in KERNEL_CLASSES:
            hint = near_hint(kernel, KERNEL_CLASSES, cutoff=CUTOFF)
            tables.fault(
                key,
                joined((f"unknown kernel class; {hint}", f"expected {CLASS_KEY}, with a table of figures")),
            )
        if family not in ("", "fp16", "fp32"):
            tables.fault(key, f"expected {CLASS_KEY}, not {value_text(key)}")
    return {key: _kernel(tables.table(key)) for key in tables.content}


def kernels_of(table: Table, donors: Callable[[], Iterable[Donor]]) -> dict[str, KernelFigures]:
    """Read a device's kernel classes; what it does not state it inherits, if it names its architecture.

    A device that states efficiencies of its own, or no architecture, has these for all classes that it does not state.
    """
    own = own_kernels(table)
    if any(table.has(name) for name in EFFICIENCIES) or "architecture" not in table.content:
        return own
    relative = relative_of(table.content)
    return own if relative is None else completed(own, relative, donors())


def relative_of(content: Mapping[str, object]) -> Relative | None:
    """Return what says how alike the device is to others; None if any of its figures is faulty."""
    peaks = content.get("peak_flops_per_s")
    stated = peaks["fp32"] if isinstance(peaks, Mapping) and "fp32" in peaks else None
    rate = _plausible("memory_bytes_per_s", content.get("memory_bytes_per_s"))
    power = _plausible("tdp_w", content.get("tdp_w", USUAL_POWER_W))
    single = 0.0 if stated is None else _plausible("peak_flops_per_s", stated)
    if rate is None or power is None or single is None:
        return None
    vendor, architecture = content.get("vendor"), content.get("architecture", "")
    if not isinstance(vendor, str) or not isinstance(architecture, str):
        return None
    return Relative(vendor, architecture, rate, power, single)


def _plausible(figure: str, value: object) -> float | None:
    """Return a figure as a number; None if it is none, or not in its range, so that ratios of it mean nothing."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not RANGES[figure].holds(value):
        return None
    return float(value)
