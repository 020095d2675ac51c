"""Writes of a block of values into a known region of a tensor: pads, concatenations and masks instead of scatters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapestry.teg.importers.program import Compute
from tapestry.teg.importers.translate.movement import pad
from tapestry.teg.importers.translate.translation import Translation, plain_labels
from tapestry.teg.operators.monoids import identity

# How ONNX's reductions combine what was there with what comes: the monoid, and the cell function.
REDUCTIONS = {"add": ("sum", "add"), "mul": ("prod", "mul"), "max": ("max", "max"), "min": ("min", "min")}


def combine(t: Translation, site: str, base: str, part: str, output: str, reduction: str) -> str:
    """Combine old and new values element by element; adding to zeros returns the new values."""
    known = t.literal(base)
    if reduction == "add" and known is not None and not known.array.any():
        t.alias(output, part)
        return t.resolve(part)
    expr = (REDUCTIONS[reduction][1], ("input", 0), ("input", 1))
    return t.cell(site, (base, part), output, expr, t.value(base).dtype)


def paste(
    t: Translation,
    site: str,
    base: str,
    updates: str,
    output: str,
    ranges: Sequence[range],
    reduction: str = "none",
) -> str:
    """Write `updates` into `base` at the coordinates in `ranges`, one per dimension, or combine them with it."""
    shape, dtype = t.value(base).shape, t.value(base).dtype
    known = t.literal(base)
    if reduction != "none":
        spread = _spread(
            t, site, updates, f"{output}.spread", ranges, shape, identity(REDUCTIONS[reduction][0], dtype)
        )
        return combine(t, site, base, spread, output, reduction)
    if known is not None and known.array.size == 1:
        return _spread(t, site, updates, output, ranges, shape, known.array.reshape(-1)[0].item())
    if all(r.step == 1 for r in ranges):
        return _framed(t, site, base, updates, output, ranges)
    spread = _spread(t, site, updates, f"{output}.spread", ranges, shape, 0)
    expr = ("where", _inside(ranges, shape), ("input", 0), ("input", 1))
    labels = plain_labels(len(shape))
    names = (t.resolve(spread), t.resolve(base))
    t.declare(output, shape, dtype)
    attrs = {"expr": expr, "dtype": dtype}
    return t.emit(Compute(site, "cell", names, output, (labels, labels), labels, attrs))


def _framed(t: Translation, site: str, base: str, updates: str, output: str, ranges: Sequence[range]) -> str:
    """Concatenate the updates, dimension by dimension, with the parts before and after them."""
    shape = t.value(base).shape
    cut = [k for k, (r, s) in enumerate(zip(ranges, shape, strict=True)) if len(r) < s]
    if not cut:
        t.alias(output, updates)
        return t.resolve(updates)
    name = updates
    for k in reversed(cut):
        made = output if k == cut[0] else f"{output}.{k}"
        # The dimensions before are inside the region already, those after it are complete.
        inner = [r if j < k else range(s) for j, (r, s) in enumerate(zip(ranges, shape, strict=True))]
        before, after = range(ranges[k].start), range(ranges[k].stop, shape[k])
        parts = [
            t.slice(f"{site}.{side}", base, f"{made}.{side}", [*inner[:k], part, *inner[k + 1 :]])
            for side, part in (("before", before), ("after", after))
            if part
        ]
        parts.insert(1 if before else 0, name)
        name = t.concat(site, parts, made, k)
    return name


def _spread(
    t: Translation,
    site: str,
    updates: str,
    output: str,
    ranges: Sequence[range],
    shape: Sequence[int],
    fill: Any,
) -> str:
    """Place the updates at their coordinates in a tensor of `shape`, `fill` elsewhere."""
    name = updates
    backward = [r.step < 0 and len(r) > 1 for r in ranges]
    if any(backward):
        turned = [range(len(r))[::-1] if b else range(len(r)) for r, b in zip(ranges, backward, strict=True)]
        name = t.slice(f"{site}.turned", name, f"{output}.turned", turned)
    for k, r in enumerate(ranges):
        if abs(r.step) > 1 and len(r) > 1:
            name = _dilated(t, site, name, f"{output}.{k}", k, abs(r.step), shape[k] - min(r), fill)
    sizes = t.value(name).shape
    low = [min(r) if len(r) else 0 for r in ranges]
    high = [s - a - n for s, a, n in zip(shape, low, sizes, strict=True)]
    if not any((*low, *high)):
        t.alias(output, name)
        return t.resolve(name)
    return pad(t, site, name, output, low, high, fill=fill)


def _dilated(
    t: Translation, site: str, name: str, output: str, axis: int, step: int, room: int, fill: Any
) -> str:
    """Place element i of dimension `axis` at `step * i`, cut off where there is no room for the last gap."""
    shape = t.value(name).shape
    before, size, after = shape[:axis], shape[axis], shape[axis + 1 :]
    column = t.reshape(f"{site}.column", name, f"{output}.column", (*before, size, 1, *after))
    low = [0] * (len(shape) + 1)
    high = [step - 1 if k == axis + 1 else 0 for k in range(len(shape) + 1)]
    gaps = pad(t, f"{site}.gaps", column, f"{output}.gaps", low, high, fill=fill)
    whole = t.reshape(f"{site}.dilated", gaps, f"{output}.dilated", (*before, size * step, *after))
    kept = [range(s) for s in t.value(whole).shape]
    kept[axis] = range(min(size * step, room))
    return t.slice(f"{site}.room", whole, f"{output}.room", kept)


def _inside(ranges: Sequence[range], shape: Sequence[int]) -> Any:
    """Build the condition that the coordinates are in all ranges."""
    condition: Any = ("const", True)
    for k, (r, size) in enumerate(zip(ranges, shape, strict=True)):
        low, step, place = min(r), abs(r.step), ("index", f"d{k}")
        if len(r) == size:
            continue
        tests: list[Any] = [("ge", place, ("const", low)), ("le", place, ("const", max(r)))]
        if step > 1 and len(r) > 1:
            tests.append(("eq", ("mod", ("sub", place, ("const", low)), ("const", step)), ("const", 0)))
        for test in tests:
            condition = ("and", condition, test)
    return condition
