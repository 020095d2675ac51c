"""Policies: one plan of a frontier, by an objective and bounds on others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from tapestry.client.errors import NoPlanError
from tapestry.teg.faults import ArgumentError, no_such
from tapestry.teg.quantities import quantity

UNUSABLE = ("failed", "untrusted")
# The unit of a cost is the last word of its name.
UNITS = {"bytes": "B", "s": "s", "flops": "flop", "j": "J", "usd": "USD"}


class Costed(Protocol):
    """A plan: its id, its costs by objective, and what its checks say."""

    @property
    def id(self) -> str: ...

    @property
    def cost(self) -> Mapping[str, float]: ...

    @property
    def verdict(self) -> str: ...


P = TypeVar("P", bound=Costed)


def least_plan(plans: Sequence[P], objective: str, under: Mapping[str, float | str], where: str) -> P:
    """Return the usable plan with the least cost by an objective within bounds; of equal ones the first.

    Raises:
        ArgumentError: an objective or a unit that is not known.
        NoPlanError: no plan, or none within the bounds.
    """
    usable = [plan for plan in plans if plan.verdict not in UNUSABLE]
    if not usable:
        raise NoPlanError(
            f"{where} has no plan to choose from" + (": all failed their checks" if plans else "")
        )
    known = usable[0].cost.keys()
    for name in (objective, *under):
        if name not in known:
            raise ArgumentError(no_such("objective", name, sorted(known)))
    bounds = {name: _bound(name, bound) for name, bound in under.items()}
    within = [plan for plan in usable if all(plan.cost[name] <= bound for name, bound in bounds.items())]
    if not within:
        wanted = ", ".join(f"{name} <= {under[name]}" for name in bounds)
        least = ", ".join(f"{name} {min(plan.cost[name] for plan in usable):.6g}" for name in bounds)
        raise NoPlanError(f"no plan of {where} has {wanted}; the least that any has: {least}")
    return min(within, key=lambda plan: plan.cost[objective])


def _bound(name: str, bound: float | str) -> float:
    if not isinstance(bound, str):
        return float(bound)
    try:
        return quantity(bound, UNITS.get(name.rpartition("_")[2], ""))
    except ArgumentError as error:
        raise ArgumentError(f"under[{name!r}]: {error}") from None
