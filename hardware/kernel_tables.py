"""The tables `kernels` of a device file: figures of kernel classes, each checked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from math import isfinite, nan

from tapestry.hardware.kernels import EFFICIENCIES, Donor, KernelFigures, Relative, completed
from tapestry.hardware.tables import CUTOFF, Table
from tapestry.teg.faults import near_hint, value_text
from tapestry.teg.operators.kernel_classes import KERNEL_CLASSES

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
        rows=tuple(_row(item, table) for item in table.items("rows")) if table.has("rows") else (),
        k_step=table.whole("k_step") if table.has("k_step") else None,
        split_k=table.whole("split_k") if table.has("split_k") else 1,
        origin=table.text("origin") if table.has("origin") else "",
        overlaps=table.has("overlaps") and table.get("overlaps", "true or false") is True,
    )
    if all(isfinite(value) for pair in figures.rows for value in pair) and (fault := figures.row_fault()):
        table.fault("rows", fault)
    table.finish()
    return figures


def _row(item: object, table: Table) -> tuple[float, float]:
    """Read a pair of row length and share."""
    pair = item if isinstance(item, list) else []
    numbers = [float(x) for x in pair if isinstance(x, (int, float)) and not isinstance(x, bool) and x > 0]
    if len(numbers) != 2 or len(pair) != 2:
        table.fault("rows", f"expected pairs of a row length and a share above zero, not {value_text(item)}")
        return nan, nan
    if numbers[1] > 1:
        table.fault("rows", f"expected shares of at most 1, not {numbers[1]:g}")
    return numbers[0], numbers[1]


def own_kernels(table: Table) -> dict[str, KernelFigures]:
    """Read the tables of kernel classes, keyed by class or `class.precision`."""
    if not table.has("kernels"):
        return {}
    tables = table.table("kernels")
    for key in tables.content:
        table.read.append(f"kernels.{key}")  # what has a source
        kernel, _, family = key.partition(".")
        if kernel not in KERNEL_CLASSES:
            tables.fault(key, f"unknown kernel class; {near_hint(kernel, KERNEL_CLASSES, cutoff=CUTOFF)}")
        if family not in ("", "fp16", "fp32"):
            tables.fault(key, f"expected a class, or a class with .fp16 or .fp32, not {value_text(key)}")
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
    """Return what says how alike the device is to others; None if its figures are faulty."""
    rate, power = content.get("memory_bytes_per_s"), content.get("tdp_w", 250.0)
    if not isinstance(rate, (int, float)) or not isinstance(power, (int, float)) or min(rate, power) <= 0:
        return None
    peaks = content.get("peak_flops_per_s")
    peak = peaks.get("fp32") if isinstance(peaks, Mapping) else None
    single = float(peak) if isinstance(peak, (int, float)) and peak > 0 else 0.0
    vendor, architecture = str(content.get("vendor")), str(content.get("architecture", ""))
    return Relative(vendor, architecture, float(rate), float(power), single)
