"""Relations between the figures of a device or mesh file: those that no machine has are refused, each with a reason."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise

from tapestry.hardware.collective_tables import CollectiveTable
from tapestry.hardware.mesh import MeshAxis

# Precision -> those with fewer mantissa bits or fewer bytes, whose products take no longer on any matrix unit.
# Integers are apart: some devices have left them out, others have nothing else.
NO_SLOWER: Mapping[str, tuple[str, ...]] = {
    "fp64": ("fp32",),
    "fp32": ("tf32", "fp16", "bf16"),
    "tf32": ("fp16", "bf16"),
    "fp16": ("fp8", "bfp8"),
    "bf16": ("fp8", "bfp8"),
    "fp8": ("fp4",),
    "bfp8": ("bfp4",),
}
ROOM = 0.9  # of a figure that another one may not fall below: data sheets round, and measurements scatter
SHORTEST_NAME = 4  # letters of a name that another one with a letter changed is a misspelling of


def slow_precisions(
    peaks: Mapping[str, float], defaults: Mapping[str, str]
) -> Iterator[tuple[str, str, float]]:
    """Yield each precision whose peak falls below that of a wider one, with the widest peak and its precision.

    Where `defaults` say that a precision runs as itself, it is known to be slow: so emulated ones are stated.
    """
    for name, peak in peaks.items():
        wider = [(peaks[w], w) for w, narrower in NO_SLOWER.items() if name in narrower and w in peaks]
        if wider and peak < ROOM * max(wider)[0] and defaults.get(name) != name:
            rate, than = max(wider)
            yield name, than, rate


def misspelled(name: str, known: Collection[str]) -> str:
    """Return the known name that a name is a misspelling of; empty if it is known or a name of its own.

    Cases, spaces and signs do not tell names apart, nor does one letter left out, added, changed or swapped. Digits
    do: generations of chips differ in them.
    """
    if not name or name in known:
        return ""
    return next((each for each in sorted(known) if _is_almost(_letters(name), _letters(each))), "")


def _letters(name: str) -> str:
    return re.sub(r"[\W_]", "", name).casefold()


def _is_almost(one: str, other: str) -> bool:
    """Return whether two names are equal or one edit apart (Damerau, 1964)."""
    if one == other:
        return True
    if len(other) < SHORTEST_NAME or re.sub(r"\D", "", one) != re.sub(r"\D", "", other):
        return False
    start = next(
        (k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    a, b = one[start:], other[start:]
    swapped = a[:2] == b[1::-1] and len(b) > 1 and a[2:] == b[2:]
    return swapped or a[1:] == b[1:] or a[1:] == b or a == b[1:]


def least_s(table: CollectiveTable, axis: MeshAxis, size_bytes: float) -> float:
    """Return the time below which no links let a collective of so many bytes end: what a device has to receive.

    Of a group with devices `inside`, these share what a node has to receive.
    """
    count = table.members * table.inside
    kept = 1 / count if table.kind == "all_to_all" and table.inside == 1 else 1 / table.members
    share = 1.0 if table.kind in ("broadcast", "send_recv") else 1 - kept
    together = 1 if table.kind in ("all_to_all", "send_recv") else table.inside
    return share * size_bytes / together / axis.device_rate(table.members)


def fast_point(table: CollectiveTable, axis: MeshAxis) -> tuple[int, float] | None:
    """Return the first time of a table that its links do not allow, as a position, and the least; None without any."""
    for k, (size, time_s) in enumerate(zip(table.bytes, table.seconds, strict=False)):
        if time_s < ROOM * (least := least_s(table, axis, size)):
            return k, least
    return None


def unordered_axes(axes: Collection[MeshAxis]) -> Iterator[tuple[MeshAxis, MeshAxis]]:
    """Yield pairs of neighboring axes of more than one device of which the outer one is the faster one."""
    for outer, inner in pairwise([axis for axis in axes if axis.size > 1]):
        if ROOM * outer.device_rate() > inner.device_rate():
            yield outer, inner
