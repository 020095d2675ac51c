"""The critical path of a run: the blocks and copies, one after the other, that its time consists of.

A change in the time of anything else changes the time of the run only if it is as large as the slack there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tapestry.hardware.mesh import Mesh
from tapestry.hardware.simulator.execution import ClockSpan, Execution
from tapestry.hardware.timing import TimeClass, TimeEstimate, Weights, move_class, round_weights, shared_ticks
from tapestry.teg.sharding.copies import Round

ANY = -1  # device


class Visit(NamedTuple):
    """A span on the critical path, by its number in the order of issue, with ticks from begin to end on one device."""

    number: int
    span: ClockSpan
    device: int
    start_ticks: int
    end_ticks: int


def time_estimate(execution: Execution, mesh: Mesh) -> TimeEstimate:
    """Return the time of a run on a mesh, with its error."""
    path = critical_path(execution.spans, execution.makespan_ticks)
    return TimeEstimate.of(ticks_by_class(path, mesh))


def critical_path(spans: Sequence[ClockSpan], makespan_ticks: int) -> tuple[Visit, ...]:
    """Return the spans of a run that follow each other without a gap, and so make up its time.

    What takes no time is left out.
    `spans` are in the order of issue. What comes before a block is the block before it on its device or a copy,
    whichever ends when it begins; what comes before a copy, the copy before it or a block of any device.

    Raises:
        RuntimeError: there is a gap, so the clocks are not those of one run.
    """
    issued = _Issued(spans)
    path: list[Visit] = []
    number, device, ticks = len(spans), ANY, makespan_ticks
    while ticks > 0:
        number, device = issued.before(number, device, ticks)
        span = spans[number]
        start = int(span.start_ticks[np.flatnonzero(span.numbers == device)[0]])
        if start < ticks:
            path.append(Visit(number, span, device, start, ticks))
        ticks, device = start, ANY if span.is_joint else device
    return tuple(reversed(path))


class _Issued:
    """The spans of a run by the ticks at which they end, in the order of issue."""

    def __init__(self, spans: Sequence[ClockSpan]) -> None:
        self.spans = spans
        self.by_end: defaultdict[int, list[int]] = defaultdict(list)
        for k, each in enumerate(spans):
            for end in {int(each.end_ticks[0])} if each.is_joint else set(each.end_ticks.tolist()):
                self.by_end[end].append(k)

    def before(self, number: int, device: int, ticks: int) -> tuple[int, int]:
        """Find the last span before a number that ends at a tick, on a device or on `ANY`; and its device."""
        ended = self.by_end.get(ticks, [])
        for k in reversed(ended[: bisect_left(ended, number)]):
            span = self.spans[k]
            here = span.end_ticks == ticks
            if device != ANY and not span.is_joint:
                here &= span.numbers == device
            if here.any():
                return k, int(span.numbers[here.argmax()])
        raise RuntimeError(f"nothing ends at tick {ticks}, when something on device {device} begins")


def ticks_by_class(path: Sequence[Visit], mesh: Mesh) -> dict[TimeClass, int]:
    """Add up the ticks of a critical path by what has one error in common. The sum is the time of the run."""
    found: Counter[TimeClass] = Counter()
    known: dict[tuple[Mesh, tuple[tuple[Round, int], ...]], Weights] = {}
    for _, span, _, start, end in path:
        own = span.mesh or mesh
        if not span.exchanges:
            found[move_class(own.device) if span.is_joint else span.time_class] += end - start
            continue
        key = (own, span.exchanges)
        if key not in known:
            known[key] = round_weights(own, span.exchanges)
        left = end - start
        for time_class, ticks in shared_ticks(known[key], span.exchange_ticks):
            found[time_class] += ticks
            left -= ticks
        found[move_class(own.device)] += left
    return {each: ticks for each, ticks in found.items() if ticks}
