"""Padding with a line's own elements, as a sequence of parts of the line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from operator import index
from typing import NamedTuple

from tapestry.teg.faults import one_of, value_text

PADDING_MODES = ("edge", "reflect", "wrap")
# Padding that goes over the line more often than this is refused: each time is a part of its own.
MOST_PARTS = 4096

IndexFunction = Callable[[int, int], int]
"""The position of the element that is put at a position outside a line: `(position, size) -> position`."""


class PaddingPart(NamedTuple):
    """The elements `kept` of a line, one by one, or a single one repeated `length` times."""

    kept: range
    length: int

    @property
    def repeated(self) -> bool:
        return self.length != len(self.kept)


def padding_parts(size: int, low: int, high: int, mode: str | IndexFunction) -> list[PaddingPart]:
    """Pad a line of `size` elements with `low` more before and `high` after, as `numpy.pad`: edge, reflect, wrap.

    An index function is asked for each position before (-`low` to -1) and after (`size` to `size + high - 1`) for the
    position of the element to put there; `lambda k, size: k % size` is wrap.

    Raises:
        ValueError: the mode is unknown, a width is negative, there are no elements to pad by, the line is repeated
            too often, or the index function gives a position outside the line.
    """
    if not callable(mode) and mode not in PADDING_MODES:
        raise ValueError(f"expected {one_of(PADDING_MODES)} or an index function, not {value_text(mode)}")
    if low < 0 or high < 0:
        raise ValueError(f"padding has widths from 0 up, not {low} and {high}; cropping is a view")
    if not size and (low or high):
        raise ValueError(
            f"there are no elements to pad by {'an index function' if callable(mode) else repr(mode)}"
        )
    if callable(mode):
        before, after = (_positions(mode, size, range(*ends)) for ends in ((-low, 0), (size, size + high)))
        whole = [PaddingPart(range(size), size)] if size else []
        return [*_repeats(before), *whole, *_repeats(after)]
    if mode == "edge":
        ends = [PaddingPart(range(1), low), PaddingPart(range(size), size)]
        ends.append(PaddingPart(range(size - 1, size), high))
        return [part for part in ends if part.length]
    if size <= 1:
        return [PaddingPart(range(1), low + size + high)] if size else []
    return [PaddingPart(run, len(run)) for run in _turns(size, low, high, mode)]


def _turns(size: int, low: int, high: int, mode: str) -> list[range]:
    """Return the runs of a line that is repeated (wrap), or read to and fro (reflect), around itself.

    Raises:
        ValueError: there are too many.
    """
    stretch = size if mode == "wrap" else size - 1
    if (low + high) // stretch > MOST_PARTS:
        raise ValueError(
            f"padding a line of {size} elements by {low} and {high} more repeats it more than {MOST_PARTS} times"
        )
    runs, at, end = [], -low, size + high
    while at < end:
        turn, past = divmod(at, stretch)
        if mode == "wrap":
            count = min(stretch - past, end - at)
            runs.append(range(past, past + count))
        else:  # both ends of a stretch belong to it: the next one begins behind them
            count = min(stretch - past + 1, end - at)
            runs.append(range(past, past + count) if turn % 2 == 0 else _down(stretch - past, count))
        at += count
    return runs


def _down(first: int, count: int) -> range:
    """Return `count` positions from `first` downwards; a single one as a range upwards."""
    return range(first, first - count, -1) if count > 1 else range(first, first + 1)


def _positions(function: IndexFunction, size: int, places: range) -> list[int]:
    """Ask an index function for the position of the element at each of the places."""
    if not _takes_two(function):
        raise ValueError(
            "the index function takes other arguments than a position and the size: write `lambda k, size: ...`"
        )
    found = []
    for place in places:
        value = function(place, size)
        try:
            position = index(value)
        except TypeError:
            position = -1
        if not 0 <= position < size:
            raise ValueError(
                f"the index function gives {value!r} for position {place}; a line of {size} elements has "
                f"the positions 0 to {size - 1}"
            )
        found.append(position)
    return found


def _takes_two(function: IndexFunction) -> bool:
    """Return whether a function can be called with two arguments; one that does not say so is believed."""
    try:
        signature(function).bind(0, 1)
    except TypeError:
        return False
    except ValueError:  # a function of a compiled library
        return True
    return True


def _repeats(places: Sequence[int]) -> list[PaddingPart]:
    """Group the positions into runs, those of a position that repeats into one."""
    parts: list[PaddingPart] = []
    for run in _runs(list(places)):
        last = parts[-1].kept if parts else range(0)
        if len(run) == 1 and len(last) == 1 and last == run:
            parts[-1] = PaddingPart(run, parts[-1].length + 1)
        else:
            parts.append(PaddingPart(run, len(run)))
    return parts


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
