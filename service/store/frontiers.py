"""Writes to a run's published frontier: plans that enter and leave it, and plans that are costed again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from tapestry.costmodel.version import cost_model_note
from tapestry.optimizer import Plan
from tapestry.service.store.codec import cost_values, plan_values
from tapestry.service.store.highlights import put_best
from tapestry.service.store.queue import append_event
from tapestry.service.store.records import RunUpdate
from tapestry.service.store.tables import ArtifactRow, PlanRow
from tapestry.service.verdicts import verdict_of

_KEPT = (
    "cost",
    "cost_model",
    "time",
    "feasible",
    "devices",
    "micro_batches",
    "recompute",
    "offload",
    "stages",
    "origin",
    "move_count",
    "verified",
)


def put_plans(connection: Connection, run_id: str, found: RunUpdate) -> list[dict[str, Any]]:
    """Put plans on the frontier; earlier ones get their old rows back. Return them in the form of a frontier.

    Costs that another version of the cost model left in such a row are replaced; its origin stays what it was first.
    """
    plans = {plan.id: plan for plan in found.added}
    known = select(PlanRow.plan_id, PlanRow.cost_model, PlanRow.verified, PlanRow.origin).where(
        PlanRow.run_id == run_id, PlanRow.plan_id.in_(plans)
    )
    rows_there = connection.execute(known).all() if plans else []
    outdated = [row.plan_id for row in rows_there if row.cost_model != plans[row.plan_id].cost_model]
    for plan_id in outdated:
        _put_costs(connection, run_id, plan_id, plans[plan_id])
    returning = {row.plan_id: None if row.plan_id in outdated else row.verified for row in rows_there}
    if returning:
        back = update(PlanRow).where(PlanRow.run_id == run_id, PlanRow.plan_id.in_(returning))
        connection.execute(back.values(on_frontier=True))
    origins = {row.plan_id: {"origin": row.origin} for row in rows_there}
    rows = [
        plan_values(run_id, plan) | {"verified": returning.get(plan.id)} | origins.get(plan.id, {})
        for plan in found.added
    ]
    new = [row for row in rows if row["plan_id"] not in returning]
    if new:
        connection.execute(insert(PlanRow), new)
    return [_shown(run_id, row) for row in rows]


def put_costs(
    connection: Connection, run_id: str, costed: Mapping[str, Plan], removed: Sequence[str], now: datetime
) -> int:
    """Store new costs of plans by id, take the `removed` ones off the frontier, and return how many are on it."""
    for plan_id, plan in costed.items():
        _put_costs(connection, run_id, plan_id, plan)
    take_off(connection, run_id, removed)
    columns = (getattr(PlanRow, name) for name in ("plan_id", *_KEPT))
    query = select(*columns).where(PlanRow.run_id == run_id, PlanRow.on_frontier.is_(True))
    shown = [dict(row._mapping) for row in connection.execute(query)]
    again = [_shown(run_id, values) for values in shown if values["plan_id"] in costed]
    put_best(connection, run_id)
    report(connection, run_id, again, removed, len(shown), now)
    return len(shown)


def _put_costs(connection: Connection, run_id: str, plan_id: str, plan: Plan) -> None:
    """Replace the costs of a stored plan, and delete what was found out and rendered with the old ones."""
    mine = (PlanRow.run_id == run_id, PlanRow.plan_id == plan_id)
    values = {**cost_values(plan), "verified": None}
    key = connection.scalar(update(PlanRow).where(*mine).values(values).returning(PlanRow.key))
    connection.execute(delete(ArtifactRow).where(ArtifactRow.plan_key == key))


def take_off(connection: Connection, run_id: str, plan_ids: Sequence[str]) -> None:
    """Take plans off the frontier; their rows stay."""
    if plan_ids:
        gone = update(PlanRow).where(PlanRow.run_id == run_id, PlanRow.plan_id.in_(plan_ids))
        connection.execute(gone.values(on_frontier=False))


def report(
    connection: Connection,
    run_id: str,
    added: Sequence[Mapping[str, Any]],
    removed: Sequence[str],
    size: int,
    now: datetime,
) -> None:
    """Report a change of the frontier as an event."""
    gone = [f"{run_id}-{plan_id}" for plan_id in removed]
    append_event(connection, run_id, "frontier", {"added": added, "removed": gone, "size": size}, now)


def _shown(run_id: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Build the form of a plan in an event, equal to that in a frontier."""
    named = {"id": f"{run_id}-{values['plan_id']}", "plan": values["plan_id"]}
    derived = {
        "cost_model_note": cost_model_note(values["cost_model"]),
        "verdict": verdict_of(values["verified"]),
    }
    return named | {name: values[name] for name in _KEPT} | derived
