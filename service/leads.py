"""The leads of plans in time: by how much a plan is faster than another, whether that is certain, and on what it rests.

Each plan of a frontier is compared with the fastest one, and that with the next. Command line, API and pages show what
is found here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tapestry.hardware.timing import TimeDifference, TimeEstimate


@dataclass(frozen=True)
class Lead:
    """A comparison of a plan's time with that of the plan `other`, negative seconds where the other is faster."""

    other: str
    difference: TimeDifference

    def to_json(self) -> dict[str, Any]:
        """Convert to a JSON document: the other plan, and the members of the difference."""
        return {"other": self.other, **self.difference.to_json()}


def time_document(
    time: Mapping[str, Any] | None, verified: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """Return the time of a plan with its error as JSON, from these members of the plan; None where neither has it.

    Plans that were stored without their `time` have it if they were checked, by the cost model of their costs.
    """
    if time is None and verified is not None and "cost_model" not in verified:
        time = verified.get("time")
    return None if time is None else dict(time)


def time_of(time: Mapping[str, Any] | None, verified: Mapping[str, Any] | None) -> TimeEstimate | None:
    """Return the time of a plan with its error, from these members of its JSON; None where neither has it."""
    found = time_document(time, verified)
    return None if found is None else TimeEstimate.from_json(found)


def leads(times: Mapping[str, TimeEstimate | None]) -> dict[str, Lead]:
    """Compare plans on one mesh, given their times by id: each with the fastest, that with the next.

    The fastest is the one with the least median, of equal ones the first id. Plans without a time are left out, as is
    a plan alone.
    """
    known = sorted((time.seconds, plan_id, time) for plan_id, time in times.items() if time is not None)
    if len(known) < 2:
        return {}
    (_, first, fastest), (_, second, following) = known[:2]
    found = {plan_id: Lead(first, time.difference(fastest)) for _, plan_id, time in known[1:]}
    return {first: Lead(second, fastest.difference(following)), **found}


def with_leads(plans: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the documents of the plans of a frontier with their `lead`; only costs of one model are compared."""
    found: dict[str, Lead] = {}
    for version in {plan["cost_model"] for plan in plans}:
        mine = (plan for plan in plans if plan["cost_model"] == version)
        found |= leads({plan["id"]: time_of(plan["time"], plan["verified"]) for plan in mine})
    return [{**plan, "lead": found[plan["id"]].to_json() if plan["id"] in found else None} for plan in plans]


def lead_among(plan: Mapping[str, Any], frontier: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the lead of a plan as JSON, compared with those of a frontier, on which it may be or not."""
    others = [each for each in frontier if each["id"] != plan["id"]]
    lead: dict[str, Any] | None = with_leads([plan, *others])[0]["lead"]
    return lead
