"""Writes of what a search has found since its last checkpoint: its state, plans, progress, statistics of rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from tapestry.service.store.codec import stored_options
from tapestry.service.store.frontiers import put_plans, report, take_off
from tapestry.service.store.highlights import extended, put_best
from tapestry.service.store.queue import append_event, append_status
from tapestry.service.store.records import RunUpdate
from tapestry.service.store.tables import CheckpointRow, HistoryRow, PlanRow, RuleRow, RunRow


def put_update(connection: Connection, run_id: str, found: RunUpdate, now: datetime) -> int:
    """Store what a search has found since its last checkpoint, and return the new evaluations."""
    _put_checkpoint(connection, run_id, found.saved, now)
    take_off(connection, run_id, found.removed)
    shown = put_plans(connection, run_id, found)
    evaluations = _put_progress(connection, run_id, found, shown, now)
    _put_rules(connection, run_id, found, now)
    _put_refused(connection, run_id, found, now)
    return evaluations


def _put_checkpoint(connection: Connection, run_id: str, saved: bytes, now: datetime) -> None:
    kept = {"saved": saved, "updated_at": now}
    again = update(CheckpointRow).where(CheckpointRow.run_id == run_id).values(kept)
    if connection.execute(again).rowcount == 0:
        connection.execute(insert(CheckpointRow).values(run_id=run_id, **kept))


def _put_progress(
    connection: Connection, run_id: str, found: RunUpdate, added: Sequence[Mapping[str, Any]], now: datetime
) -> int:
    """Record the progress of a run, as a row, a point of its history and events; return the new evaluations."""
    progress = found.progress
    shown = select(func.count()).where(PlanRow.run_id == run_id, PlanRow.on_frontier.is_(True))
    size = int(connection.scalar(shown) or 0)
    before = connection.execute(
        select(RunRow.phase, RunRow.options, RunRow.evaluations, RunRow.trend).where(RunRow.id == run_id)
    ).one()
    figures = {
        "evaluations": progress.evaluations,
        "seconds": progress.seconds,
        "front": size,
        "hypervolume": progress.hypervolume,
    }
    trend = extended(before.trend, progress.seconds, progress.hypervolume)
    changes = {**figures, "phase": found.phase, "trend": trend}
    connection.execute(update(RunRow).where(RunRow.id == run_id).values(changes))
    steps = select(func.coalesce(func.max(HistoryRow.step), -1)).where(HistoryRow.run_id == run_id)
    point = {"run_id": run_id, "step": int(connection.scalar(steps) or 0) + 1, **figures}
    connection.execute(insert(HistoryRow).values(point))
    if found.phase != before.phase:
        append_status(connection, run_id, now)
    best = dict(zip(stored_options(before.options).objectives, progress.best, strict=False))
    append_event(
        connection, run_id, "progress", {**figures, "fraction": progress.fraction, "best": best}, now
    )
    if found.added or found.removed:
        put_best(connection, run_id)
        report(connection, run_id, added, found.removed, size, now)
    return max(progress.evaluations - int(before.evaluations), 0)


def _put_rules(connection: Connection, run_id: str, found: RunUpdate, now: datetime) -> None:
    """Store the rules' statistics where they have changed, as rows and as an event."""
    columns = (RuleRow.rule, RuleRow.applied, RuleRow.improved)
    stored = connection.execute(select(*columns).where(RuleRow.run_id == run_id))
    if {row.rule: (row.applied, row.improved) for row in stored} == dict(found.rules):
        return
    connection.execute(delete(RuleRow).where(RuleRow.run_id == run_id))
    rows = [
        {"run_id": run_id, "rule": rule, "applied": applied, "improved": improved}
        for rule, (applied, improved) in found.rules.items()
    ]
    if rows:
        connection.execute(insert(RuleRow), rows)
    data = {row["rule"]: {"applied": row["applied"], "improved": row["improved"]} for row in rows}
    append_event(connection, run_id, "rules", data, now)


def _put_refused(connection: Connection, run_id: str, found: RunUpdate, now: datetime) -> None:
    """Store the disabled rules if they differ from the known ones, as a column of the run and as an event."""
    refused = [dict(refusal) for refusal in found.refused]
    if refused != connection.scalar(select(RunRow.refused).where(RunRow.id == run_id)):
        connection.execute(update(RunRow).where(RunRow.id == run_id).values(refused=refused))
        append_event(connection, run_id, "refused", refused, now)
