"""Highlights of runs for lists: the best values of each, and how its hypervolume grew.

Both follow from the plans and the history of a run. They are written in the transaction that changes these, so that a
list of runs reads one row per run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, select, update

from tapestry.service.store.codec import stored_options
from tapestry.service.store.tables import PlanRow, RunRow

MOST_POINTS = 32
TIME, MEMORY = "time_s", "peak_memory_bytes"

Points = Sequence[Sequence[float]]


def best_values(costs: Iterable[Mapping[str, float]], objectives: Sequence[str]) -> dict[str, Any]:
    """Build the columns of a run for the best values of its plans: of its objectives, and of time and peak memory."""
    known = list(costs)
    names = dict.fromkeys((*objectives, TIME, MEMORY))
    best = {
        name: min(cost[name] for cost in known)
        for name in names
        if known and all(name in cost for cost in known)
    }
    return {"best": best, "least_time_s": best.get(TIME), "least_memory_bytes": best.get(MEMORY)}


def put_best(connection: Connection, run_id: str) -> None:
    """Store the best values of the plans that are on the frontier of a run now."""
    shown = select(PlanRow.cost).where(PlanRow.run_id == run_id, PlanRow.on_frontier.is_(True))
    costs = connection.scalars(shown).all()
    options = connection.scalar(select(RunRow.options).where(RunRow.id == run_id))
    values = best_values(costs, stored_options(options or {}).objectives)
    connection.execute(update(RunRow).where(RunRow.id == run_id).values(values))


def extended(trend: Points, seconds: float, hypervolume: float) -> list[list[float]]:
    """Return a thinned curve with one more point: of more than 32 the ones that matter least are left out.

    That are points whose removal changes the area below the curve least (Visvalingam and Whyatt 1993); the first and
    the last stay.
    """
    points = [*map(list, trend), [seconds, hypervolume]]
    while len(points) > MOST_POINTS:
        least = min(range(1, len(points) - 1), key=lambda k: _area(*points[k - 1 : k + 2]))
        del points[least]
    return points


def trend_of(history: Iterable[tuple[float, float]]) -> list[list[float]]:
    """Return the thinned curve of a whole history of (seconds, hypervolume)."""
    trend: list[list[float]] = []
    for seconds, hypervolume in history:
        trend = extended(trend, seconds, hypervolume)
    return trend


def _area(before: Sequence[float], point: Sequence[float], after: Sequence[float]) -> float:
    return abs(
        (point[0] - before[0]) * (after[1] - before[1]) - (after[0] - before[0]) * (point[1] - before[1])
    )
