"""The worth of better plans in money, and whether further searching is worth its price."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

from tapestry.costmodel.known_objectives import KnownObjectives
from tapestry.costmodel.objective import Objective
from tapestry.optimizer.run.improvement import HORIZON_S, expected_improvement
from tapestry.optimizer.run.plan import Progress
from tapestry.teg.quantities import scales_of

# Rounds that a search has in any case: before, its improvement says little of what is to come.
ROUNDS_IN_ANY_CASE = 24
SECONDS_PER_HOUR = 3600.0
_FORM = re.compile(r"\s*(\S*?)\s*usd\s*(?:/\s*(\S+))?\s*", re.IGNORECASE)


def usd_per_unit(objective: Objective, text: str) -> float:
    """Return what a decrease of an objective by its unit is worth, in USD: 120000.0 for `120usd/ms` of a time.

    Raises:
        ValueError: the text has another form, is no number above zero, or has an unknown unit.
    """
    unit = objective.unit or "unit"
    found = _FORM.fullmatch(text)
    example = f"120usd/{objective.unit}" if objective.unit else "120usd"
    if found is None:
        raise ValueError(
            f"expected money per unit of {objective.name}, not {text!r}; write it as {example!r}"
        )
    number, written = found.groups()
    try:
        amount = float(number)
    except ValueError:
        raise ValueError(f"{number!r} in {text!r} is not a number; write {example!r}") from None
    if not 0 < amount < inf:
        raise ValueError(
            f"expected an amount above 0, not {number} in {text!r}; leave {objective.name} out if it is worth nothing"
        )
    scales = scales_of(objective.unit)
    if (written or "") not in scales:
        known = ", ".join(name for name in scales if name) or "none"
        raise ValueError(
            f"{objective.name} is in {unit}, not {written!r} as in {text!r}; known units are {known}"
        )
    return amount / scales[written or ""]


def worth_fault(name: str, text: str, objectives: Sequence[str], known: KnownObjectives) -> str:
    """Return what is wrong with the worth of one objective of a run; empty if nothing is."""
    try:
        objective = known.named(name)
        minimized = [known.named(each).name for each in objectives]
        if objective.name not in minimized:
            return f"{name} is no objective of this run; add it to the objectives, or leave its worth out"
        usd_per_unit(objective, text)
    except (ValueError, OverflowError) as error:
        return " ".join(str(error).split())
    return ""


class Economics(NamedTuple):
    """The worth of a unit less of each objective `(m,)`, and the price of an hour of searching, in USD."""

    usd_per_unit: tuple[float, ...]
    usd_per_hour: float

    @staticmethod
    def of(
        worth: Mapping[str, str], usd_per_hour: float, known: KnownObjectives, names: Sequence[str]
    ) -> Economics:
        """Return those of a checked request, whose objectives have these names."""
        given = {known.named(name).name: text for name, text in worth.items()}
        amounts = (usd_per_unit(known.named(name), given[name]) if name in given else 0.0 for name in names)
        return Economics(tuple(amounts), usd_per_hour)

    def is_worth_it(self, history: Sequence[Progress]) -> bool:
        """Return whether what another minute is expected to gain is worth the price of that minute."""
        if not any(self.usd_per_unit) or len(history) < ROUNDS_IN_ANY_CASE:
            return True
        shares = expected_improvement(history)
        if not shares:
            return True
        terms = zip(self.usd_per_unit, shares, history[-1].best, strict=True)
        gain_usd = sum(usd * share * best for usd, share, best in terms)
        return gain_usd >= self.usd_per_hour * HORIZON_S / SECONDS_PER_HOUR
