"""Padding with a line's own elements, as a sequence of parts of the line."""

from __future__ import annotations

from typing import NamedTuple

PADDING_MODES = ("edge", "reflect", "wrap")


class PaddingPart(NamedTuple):
    """The elements `kept` of a line, one by one, or a single one repeated `length` times."""

    kept: range
    length: int

    @property
    def repeated(self) -> bool:
        return self.length != len(self.kept)


def padding_parts(size: int, low: int, high: int, mode: str) -> list[PaddingPart]:
    """Pad a line of `size` elements with `low` more before and `high` after, as `numpy.pad`: edge, reflect, wrap.

    Raises:
        ValueError: the mode is unknown, a width is negative, or there are no elements to pad by.
    """
    if mode not in PADDING_MODES:
        raise ValueError(f"a line is padded by {', '.join(PADDING_MODES)}, not by {mode!r}")
    if low < 0 or high < 0:
        raise ValueError(f"padding has widths from 0 up, not {low} and {high}; cropping is a view")
    if not size and (low or high):
        raise ValueError(f"there are no elements to pad by {mode!r}")
    if mode == "edge":
        ends = [PaddingPart(range(1), low), PaddingPart(range(size), size)]
        ends.append(PaddingPart(range(size - 1, size), high))
        return [part for part in ends if part.length]
    period = size if mode == "wrap" else max(2 * size - 2, 1)
    places = [k % period for k in range(-low, size + high)] if size else []
    if mode == "reflect":
        places = [min(k, 2 * size - 2 - k) for k in places]
    return [PaddingPart(run, len(run)) for run in _runs(places)]


def _runs(places: list[int]) -> list[range]:
    """Group the positions into few runs of step 1 or -1."""
    runs: list[range] = []
    start = 0
    while start < len(places):
        end = start + 1
        step = places[end] - places[start] if end < len(places) else 1
        if abs(step) == 1:
            while end < len(places) and places[end] - places[end - 1] == step:
                end += 1
        else:
            step = 1
        runs.append(range(places[start], places[end - 1] + step, step))
        start = end
    return runs
