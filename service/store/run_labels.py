"""Tags and notes of runs: what people write about them, to find them again."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, func, insert, select

from tapestry.service.store.tables import RunNotesRow, RunRow, RunTagRow


def put_tags(connection: Connection, run_id: str, tags: Sequence[str]) -> None:
    """Give a run these tags, and no others."""
    connection.execute(delete(RunTagRow).where(RunTagRow.run_id == run_id))
    if rows := [{"run_id": run_id, "tag": tag} for tag in sorted(set(tags))]:
        connection.execute(insert(RunTagRow), rows)


def put_notes(connection: Connection, run_id: str, notes: str) -> None:
    """Replace the notes of a run; an empty text removes them."""
    connection.execute(delete(RunNotesRow).where(RunNotesRow.run_id == run_id))
    if notes:
        connection.execute(insert(RunNotesRow).values(run_id=run_id, notes=notes))


def used_tags(connection: Connection) -> dict[str, int]:
    """Return the tags that runs have, each with the number of its runs."""
    query = select(RunTagRow.tag, func.count().label("runs")).group_by(RunTagRow.tag)
    return {row.tag: row.runs for row in connection.execute(query.order_by(RunTagRow.tag))}


def used_meshes(connection: Connection) -> dict[str, int]:
    """Return the names of the meshes that runs have, each with the number of its runs."""
    query = select(RunRow.mesh_name, func.count().label("runs")).group_by(RunRow.mesh_name)
    return {row.mesh_name: row.runs for row in connection.execute(query.order_by(RunRow.mesh_name))}
