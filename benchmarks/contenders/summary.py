"""Figures of a contender over instances: hypervolume and fastest plan at each checkpoint, beside our whole search."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from benchmarks.contenders.ours import WHOLE

Instances = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Score:
    """The medians over seeds of a contender's hypervolume and fastest time at a checkpoint; no time without a plan.

    The hypervolume is relative to that of all fronts of the instance together.
    """

    hypervolume: float
    fastest_s: float | None


@dataclass(frozen=True)
class Comparison:
    """A contender beside our whole search after so many CPU seconds, on the `instances` that have both.

    `hypervolume` and `whole` are means. Where both have plans, `gains` is what the whole search has more, per instance,
    and `slower` the geometric mean of the contender's fastest time over ours; `behind` is that over the fastest time
    which anyone found, where the contender has plans. They are None without such an instance. `empty` counts the
    instances on which the contender has no plan yet, `whole_empty` those on which ours has none.
    """

    name: str
    cpu_s: float
    instances: int
    hypervolume: float
    whole: float
    gains: tuple[float, ...]
    slower: float | None
    behind: float | None
    empty: int
    whole_empty: int


def seconds_of(instances: Instances) -> list[float]:
    """Return the CPU seconds of all checkpoints, ascending."""
    return sorted({p["cpu_s"] for i in instances for c in i["contenders"] for p in c["checkpoints"]})


def names_of(instances: Instances) -> list[str]:
    """Return the names of the contenders, our whole search first."""
    names = dict.fromkeys(c["name"] for i in instances for c in i["contenders"])
    return sorted(names, key=lambda name: name != WHOLE.name)


def score_of(instance: Mapping[str, Any], name: str, cpu_s: float) -> Score | None:
    """Return a contender's score on an instance; None where it did not run."""
    found = [
        checkpoint
        for contender in instance["contenders"]
        if contender["name"] == name
        for checkpoint in contender["checkpoints"]
        if checkpoint["cpu_s"] == cpu_s
    ]
    if not found:
        return None
    fastest = [p["fastest_s"] for p in found if p["fastest_s"] is not None]
    share = median(p["hypervolume"] for p in found) / (instance.get("union") or 1.0)
    return Score(share, median(fastest) if fastest else None)


def comparison(instances: Instances, name: str, cpu_s: float) -> Comparison | None:
    """Compare a contender with our whole search; None where no instance has both."""
    both = [(score_of(i, name, cpu_s), score_of(i, WHOLE.name, cpu_s), fastest_known(i)) for i in instances]
    known = [(one, whole, best) for one, whole, best in both if one is not None and whole is not None]
    if not known:
        return None
    pairs = [(one, whole) for one, whole, _ in known]
    ratios = [one.fastest_s / whole.fastest_s for one, whole in pairs if one.fastest_s and whole.fastest_s]
    return Comparison(
        name,
        cpu_s,
        len(pairs),
        fmean(one.hypervolume for one, _ in pairs),
        fmean(whole.hypervolume for _, whole in pairs),
        tuple(w.hypervolume - one.hypervolume for one, w in pairs if one.fastest_s and w.fastest_s),
        _geometric_mean(ratios),
        _geometric_mean([one.fastest_s / best for one, _, best in known if one.fastest_s and best]),
        sum(one.fastest_s is None for one, _ in pairs),
        sum(whole.fastest_s is None for _, whole in pairs),
    )


def comparisons(instances: Instances, names: Iterable[str], cpu_s: float) -> list[Comparison]:
    """Compare the contenders of these names that ran."""
    found = (comparison(instances, name, cpu_s) for name in names)
    return [each for each in found if each is not None]


def fastest_known(instance: Mapping[str, Any]) -> float | None:
    """Return the time of the fastest plan that any contender found at any checkpoint; None without a plan."""
    times = (p["fastest_s"] for c in instance["contenders"] for p in c["checkpoints"])
    return min((time for time in times if time is not None), default=None)


def _geometric_mean(values: Sequence[float]) -> float | None:
    return math.exp(fmean(map(math.log, values))) if values else None
