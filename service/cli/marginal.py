"""Printing of a plan's marginal times: what every block takes at least, and per step of its index dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.optimizer.analysis.marginal import MarginalTime
from tapestry.service.cli.output import print_table
from tapestry.teg.readable import quantity

HEADERS = ("block", "class", "time", "fixed", "per step of (its size)")
NOTE = (
    "Times are those of the slowest device. 'fixed': of a single index point. Per step: the mean over the second half "
    "of the device's part. What runs several times does so in micro-batches: times are those of one."
)


def print_marginal(times: Sequence[MarginalTime]) -> None:
    """Print one line per kind of block, those first that take longest together."""
    print_table(HEADERS, [_row(each) for each in times], right=(2, 3))
    print(f"\n{NOTE}")


def _row(each: MarginalTime) -> tuple[str, ...]:
    more = f" and {len(each.sites) - 1} more" if len(each.sites) > 1 else ""
    more += f", {each.rounds} times" if each.rounds > 1 else ""
    steps = ", ".join(f"{step.dim} ({step.size}): {quantity(step.seconds, 's')}" for step in each.steps)
    times = (quantity(each.seconds, "s"), quantity(each.fixed_s, "s"))
    return (each.sites[0] + more, each.time_class, *times, steps)
