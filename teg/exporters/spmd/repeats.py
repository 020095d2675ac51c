"""Repeated stretches of a sequence, by a suffix array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

# Longer stretches than this are found in pieces.
LONGEST = 400


def repeats(sequence: Sequence[int]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield `(length, starts)` of every stretch that stands in several places and cannot be longer in all of them.

    Stretches may overlap.
    """
    count = len(sequence)
    order = sorted(range(count), key=lambda k: tuple(sequence[k : k + LONGEST]))
    common = [0, *(_common(sequence, a, b) for a, b in pairwise(order)), 0]
    # Intervals of the order whose members begin alike, the longer ones inside the shorter ones.
    open_intervals: list[tuple[int, int]] = []
    for k in range(1, count + 1):
        left = k - 1
        while open_intervals and open_intervals[-1][0] > common[k]:
            length, left = open_intervals.pop()
            yield length, tuple(sorted(order[left:k]))
        if common[k] and (not open_intervals or open_intervals[-1][0] < common[k]):
            open_intervals.append((common[k], left))


def _common(sequence: Sequence[int], a: int, b: int) -> int:
    """Count the elements that two suffixes begin with alike."""
    length = 0
    while (
        length < LONGEST
        and max(a, b) + length < len(sequence)
        and sequence[a + length] == sequence[b + length]
    ):
        length += 1
    return length
