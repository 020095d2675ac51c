"""Graphs in the store: addressed by content, so that equal graphs are stored once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, select, update

from tapestry.service.store.codec import graph_of, graph_values
from tapestry.service.store.insertion import insert_if_new
from tapestry.service.store.pages import newest
from tapestry.service.store.records import Cursor, Kin, Rewriting, SavedGraph, StoredGraph
from tapestry.service.store.sessions import Database, UnknownId
from tapestry.service.store.tables import GraphRow, RewriteRow, UploadRow
from tapestry.teg.graph import Graph

_SUMMARY = (
    GraphRow.id,
    GraphRow.name,
    GraphRow.blocks,
    GraphRow.lacks_values,
    GraphRow.created_at,
    GraphRow.summary,
)


class Graphs:
    """The stored programs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(
        self, graph: Graph, created_at: datetime, summary: Mapping[str, Any] | None = None
    ) -> SavedGraph:
        """Store a graph, with the summary of its import."""
        values = graph_values(graph, self._database.tenant)
        with self._database.writing() as connection:
            return put_graph(connection, values, created_at, summary)

    def save_rewritten(
        self, graph: Graph, made: Rewriting, summary: Mapping[str, Any] | None = None
    ) -> SavedGraph:
        """Store a graph that was derived from another; an existing derivation is kept."""
        values = graph_values(graph, self._database.tenant)
        with self._database.writing() as connection:
            saved = put_graph(connection, values, made.created_at, summary)
            if saved.id != made.source_id:
                row = {"graph_id": saved.id, **asdict(made), "moves": [dict(move) for move in made.moves]}
                insert_if_new(connection, RewriteRow, row)
            return saved

    def uploaded(self, upload_hash: str) -> str | None:
        """Return the id of the graph that an upload with this hash was read as; None if there was none."""
        query = select(UploadRow.graph_id).where(UploadRow.hash == upload_hash)
        with self._database.reading() as connection:
            return connection.scalar(query)

    def save_upload(self, upload_hash: str, graph_id: str, created_at: datetime) -> None:
        """Store which graph an upload was read as, so that it need not be read again."""
        row = {"hash": upload_hash, "graph_id": graph_id, "created_at": created_at}
        with self._database.writing() as connection:
            insert_if_new(connection, UploadRow, row)

    def rewritings(self, graph_id: str) -> tuple[Rewriting, ...]:
        """Return the graphs from which a graph was derived, and how; oldest first."""
        columns = (RewriteRow.source_id, RewriteRow.part, RewriteRow.moves, RewriteRow.created_at)
        query = select(*columns).where(RewriteRow.graph_id == graph_id)
        with self._database.reading() as connection:
            rows = connection.execute(query.order_by(RewriteRow.created_at, RewriteRow.source_id))
            return tuple(Rewriting(*row) for row in rows)

    def kin(self, graph_id: str) -> Kin:
        """Return by what a graph is related to others."""
        query = select(GraphRow.structural_hash, GraphRow.family, GraphRow.blocks)
        with self._database.reading() as connection:
            row = connection.execute(query.where(GraphRow.id == graph_id)).one_or_none()
        if row is None:
            raise UnknownId(f"there is no graph {graph_id!r}")
        return Kin(*row)

    def load(self, graph_id: str) -> Graph:
        """Load the graph with this id, as it was stored."""
        return graph_of(self.document(graph_id))

    def document(self, graph_id: str) -> bytes:
        """Return a graph's TEG document, gzipped."""
        with self._database.reading() as connection:
            found = connection.scalar(select(GraphRow.document).where(GraphRow.id == graph_id))
        if found is None:
            raise UnknownId(f"there is no graph {graph_id!r}")
        return bytes(found)

    def get(self, graph_id: str) -> StoredGraph:
        """Return the summary of a graph without its document."""
        with self._database.reading() as connection:
            row = connection.execute(select(*_SUMMARY).where(GraphRow.id == graph_id)).one_or_none()
        if row is None:
            raise UnknownId(f"there is no graph {graph_id!r}")
        return _graph_summary(row)

    def page(self, limit: int = 50, before: Cursor | None = None) -> tuple[StoredGraph, ...]:
        """Return graphs, newest first; `before` is (created_at, id) of the last one seen."""
        query = select(*_SUMMARY).where(GraphRow.is_given.is_(True))
        with self._database.reading() as connection:
            rows = connection.execute(newest(query, GraphRow, limit, before))
            return tuple(_graph_summary(row) for row in rows)


def put_graph(
    connection: Connection,
    values: Mapping[str, Any],
    created_at: datetime,
    summary: Mapping[str, Any] | None = None,
) -> SavedGraph:
    """Store a graph within a transaction; `values` are the columns that follow from it."""
    kept = None if summary is None else dict(summary)
    row = {**values, "is_given": True, "summary": kept, "created_at": created_at}
    added = insert_if_new(connection, GraphRow, row)
    if not added:  # the first release also kept graphs that rewriting made, and none of them with a summary
        changes: dict[str, Any] = {"is_given": True} | ({} if kept is None else {"summary": kept})
        connection.execute(update(GraphRow).where(GraphRow.id == values["id"]).values(changes))
    return SavedGraph(values["id"], added)


def _graph_summary(row: Row[Any]) -> StoredGraph:
    return StoredGraph(**row._mapping)
