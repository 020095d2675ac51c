"""Estimates of the time of a plan: seconds by what has one error in common, intervals, and comparisons of two plans.

The time of each class is log-normal around what is predicted. Errors of one class are the same for all its blocks and
for all plans on a mesh, and classes err independently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, hypot
from statistics import NormalDist
from typing import Any

from tapestry.hardware.timing.errors import TimeClass
from tapestry.hardware.timing.units import TICKS_PER_S
from tapestry.teg.brief import shown

PROBABILITY = 0.9  # of the intervals that are shown
NORMAL = NormalDist()


@dataclass(frozen=True)
class ClassTime:
    """The seconds of one class on the critical path of a plan, and the error of their logarithm."""

    seconds: float
    error: float

    @property
    def spread_s(self) -> float:
        """The standard deviation in seconds."""
        return self.seconds * self.error


NOTHING = ClassTime(0.0, 0.0)


@dataclass(frozen=True)
class TimeEstimate:
    """The time of a plan and its error: seconds on the critical path by class, such as `softmax.fp32`."""

    classes: Mapping[str, ClassTime]

    @staticmethod
    def of(ticks: Mapping[TimeClass, int]) -> TimeEstimate:
        """Build an estimate from ticks by class; those of one name have one error, the mean of theirs by ticks."""
        classes: dict[str, ClassTime] = {}
        for (name, error), count in sorted(ticks.items()):
            before, seconds = classes.get(name, NOTHING), count / TICKS_PER_S
            total = before.seconds + seconds
            spread_s = before.spread_s + seconds * error
            classes[name] = ClassTime(total, spread_s / total if total else 0.0)
        return TimeEstimate(classes)

    def __repr__(self) -> str:
        low, high = self.interval()
        return shown(
            "TimeEstimate", (f"{self.seconds:.4g} s", f"{low:.4g} to {high:.4g} s at {PROBABILITY:.0%}")
        )

    @property
    def seconds(self) -> float:
        """The median: what is predicted."""
        return sum(each.seconds for each in self.classes.values())

    @property
    def error(self) -> float:
        """The standard deviation of the logarithm of the time."""
        total = self.seconds
        return hypot(*(each.spread_s for each in self.classes.values())) / total if total else 0.0

    def interval(self, probability: float = PROBABILITY) -> tuple[float, float]:
        """Return the seconds between which the time lies with a probability in (0, 1)."""
        factor = exp(NORMAL.inv_cdf((1 + probability) / 2) * self.error)
        return self.seconds / factor, self.seconds * factor

    def difference(self, other: TimeEstimate, *, same_mesh: bool = True) -> TimeDifference:
        """Compare with the time of another plan: what both have in common on one mesh errs alike and cancels out."""
        names = self.classes.keys() | other.classes.keys()
        pairs = {n: (self.classes.get(n, NOTHING), other.classes.get(n, NOTHING)) for n in sorted(names)}
        spreads = ((a.spread_s, b.spread_s) for a, b in pairs.values())
        error_s = hypot(*(a - b if same_mesh else hypot(a, b) for a, b in spreads))
        seconds = other.seconds - self.seconds
        leads = {n: (b.seconds - a.seconds) * (1 if seconds >= 0 else -1) for n, (a, b) in pairs.items()}
        rests_on = max(leads, key=lambda n: leads[n], default="")
        return TimeDifference(seconds, error_s, rests_on if seconds else "", leads.get(rests_on, 0.0))

    def to_json(self) -> dict[str, Any]:
        """Convert to a JSON document: the interval, and the classes, the least certain first."""
        low, high = self.interval()
        ordered = sorted(self.classes.items(), key=lambda item: (-item[1].spread_s, item[0]))
        return {
            "seconds": self.seconds,
            "low": low,
            "high": high,
            "probability": PROBABILITY,
            "error": self.error,
            "classes": [{"name": n, "seconds": each.seconds, "error": each.error} for n, each in ordered],
        }

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> TimeEstimate:
        """Read what `to_json` wrote."""
        classes = {each["name"]: ClassTime(each["seconds"], each["error"]) for each in document["classes"]}
        return TimeEstimate(classes)


@dataclass(frozen=True)
class TimeDifference:
    """A difference of two times: the seconds by which the second is slower, with the standard deviation of that.

    The faster one leads most in the class `rests_on`: by `lead_s`, more than in total where it is behind in others.
    """

    seconds: float
    error_s: float
    rests_on: str
    lead_s: float

    @property
    def probability(self) -> float:
        """The probability that the plan that is predicted to be faster is."""
        if not self.error_s:
            return 1.0 if self.seconds else 0.5
        return NORMAL.cdf(abs(self.seconds) / self.error_s)

    @property
    def is_within_error(self) -> bool:
        """True if the interval of the difference holds zero: the model cannot say which plan is faster."""
        return self.probability < (1 + PROBABILITY) / 2

    def to_json(self) -> dict[str, Any]:
        """Convert to a JSON document."""
        return {
            "seconds": self.seconds,
            "error_s": self.error_s,
            "probability": self.probability,
            "within_error": self.is_within_error,
            "rests_on": self.rests_on,
            "lead_s": self.lead_s,
        }

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> TimeDifference:
        """Read what `to_json` wrote."""
        return TimeDifference(*(document[name] for name in ("seconds", "error_s", "rests_on", "lead_s")))
