"""The changes that passes of XLA for processors make to collectives, by the names of the passes."""

from __future__ import annotations

from collections import Counter

from tests.teg.exporters.xla import Change, Kind


def total(change: Change, of: str) -> int:
    """Count the arrays that the collectives of one side carry."""
    kinds: Counter[Kind] = getattr(change, of)
    return sum(kind.operands * count for kind, count in kinds.items())


def is_promoted(change: Change) -> bool:
    """Return whether the same collectives carry elements of four bytes instead of two."""
    wide = Counter[Kind]()
    for kind, count in change.removed.items():
        wide[kind._replace(dtype="f32", received_bytes=2 * kind.received_bytes)] += count
    return {kind.dtype for kind in change.removed} <= {"bf16", "f16"} and wide == change.added


def is_combined(change: Change) -> bool:
    """Return whether fewer all-reduces carry the same arrays among the same devices."""
    kinds = {kind.kind for kind in (*change.removed, *change.added)}
    fewer = sum(change.added.values()) < sum(change.removed.values())
    same = total(change, "removed") == total(change, "added") and change.saved_bytes == 0
    return kinds == {"all-reduce"} and fewer and same


def is_merged(change: Change) -> bool:
    """Return whether nothing new came, and equal ones are gone."""
    return not change.added


def is_decomposed(change: Change) -> bool:
    """Return whether the same exchanges have one array for each device instead of one for all."""
    split = Counter[Kind]()
    for kind, count in change.removed.items():
        split[kind._replace(operands=kind.group)] += count
    return {kind.kind for kind in change.removed} == {"all-to-all"} and split == change.added


# What each pass of XLA for processors may do to collectives (docs/programs.md).
PASSES = {
    "all-reduce-promotion": is_promoted,
    "float-normalization-bf16": is_promoted,
    "cpu-all-reduce-combiner": is_combined,
    "cse": is_merged,
    "all_to_all_decomposer": is_decomposed,
}
