"""Highlights of runs for lists: the best values of each, and how its hypervolume grew.

Both follow from the plans and the history of a run. They are written in the transaction that changes these, so that a
list of runs reads one row per run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, func, select, update

from tapestry.service.store.codec import stored_options
from tapestry.service.store.tables import PlanRow, RunRow

MOST_POINTS = 32
TIME, MEMORY = "time_s", "peak_memory_bytes"

Points = Sequence[Sequence[float]]


def best_values(costs: Iterable[Mapping[str, float]], objectives: Sequence[str]) -> dict[str, Any]:
    """Build the columns of a run for the best values of its plans: of its objectives, and of time and peak memory."""
    best: dict[str, float] = {}
    for cost in costs:
        best |= {
            name: min(cost[name], best.get(name, cost[name])) for name in _shown(objectives) if name in cost
        }
    return _columns(best)


def put_best(connection: Connection, run_id: str) -> None:
    """Store the best values of the plans that are on the frontier of a run now.

    The database takes the minima: this is part of the transaction of each checkpoint, and to read the costs of a large
    frontier takes longer than anything else in it.
    """
    options = connection.scalar(select(RunRow.options).where(RunRow.id == run_id))
    names = _shown(stored_options(options or {}).objectives)
    least = (func.min(PlanRow.cost[name].as_float()) for name in names)
    shown = select(*least).where(PlanRow.run_id == run_id, PlanRow.on_frontier.is_(True))
    values = zip(names, connection.execute(shown).one(), strict=True)
    best = {name: value for name, value in values if value is not None}
    connection.execute(update(RunRow).where(RunRow.id == run_id).values(_columns(best)))


def _shown(objectives: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*objectives, TIME, MEMORY)))


def _columns(best: Mapping[str, float]) -> dict[str, Any]:
    return {"best": dict(best), "least_time_s": best.get(TIME), "least_memory_bytes": best.get(MEMORY)}


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
