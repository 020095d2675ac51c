"""Imports: uploaded programs that wait until a worker reads them, with their content in portions.

An import is acknowledged once all of its content is stored; until then nobody sees it. One whose upload was abandoned,
as its process was killed, counts for no quota, and is deleted by a later upload or by retention.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, func, insert, select, update

from tapestry.service.lifecycle import is_ended, next_status
from tapestry.service.scheduling import IMPORT_S
from tapestry.service.store.pages import newest
from tapestry.service.store.queue import QueueLimits, lock_places, submit
from tapestry.service.store.quotas import ABANDONED
from tapestry.service.store.records import Cursor, ImportRequest, StoredImport, StoredSize
from tapestry.service.store.sessions import AlreadyEnded, Database, InUse, UnknownId
from tapestry.service.store.tables import ImportPartRow, ImportRow, LeaseRow

UNFINISHED = ("queued", "running")
_COLUMNS = (
    *(
        ImportRow.id,
        ImportRow.name,
        ImportRow.hash,
        ImportRow.request,
        ImportRow.size_bytes,
        ImportRow.status,
    ),
    *(ImportRow.attempt, ImportRow.graph_id, ImportRow.problem),
    func.coalesce(LeaseRow.cancel_requested, False).label("cancel_requested"),
    *(ImportRow.created_at, ImportRow.started_at, ImportRow.ended_at),
)


class Imports:
    """The imports of a tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, upload_hash: str, name: str, request: ImportRequest, now: datetime) -> str:
        """Begin to store the content of an upload; return the id of its import, which nobody sees yet."""
        import_id = secrets.token_hex(6)
        row = {
            "id": import_id,
            "name": name,
            "hash": upload_hash,
            "request": request.to_json(),
            "size_bytes": 0,
            "is_received": False,
            "status": "queued",
            "attempt": 0,
            "created_at": now,
        }
        with self._database.writing() as connection:
            connection.execute(delete(ImportRow).where(*_abandoned(now)))
            connection.execute(insert(ImportRow).values(row))
        return import_id

    def append(self, import_id: str, file: int, number: int, content: bytes) -> None:
        """Store a portion of a file of an import that has begun; portions are numbered from 0.

        Raises:
            UnknownId: there is no such import any more.
        """
        row = {"import_id": import_id, "file": file, "number": number, "content": content}
        with self._database.writing() as connection:
            larger = {"size_bytes": ImportRow.size_bytes + len(content)}
            if connection.execute(update(ImportRow).where(*_begun(import_id)).values(larger)).rowcount == 0:
                raise UnknownId(f"there is no upload of an import {import_id!r}; send it again")
            connection.execute(insert(ImportPartRow).values(row))

    def abandon(self, import_id: str) -> None:
        """Delete an import whose content was not stored as a whole."""
        with self._database.writing() as connection:
            connection.execute(delete(ImportRow).where(*_begun(import_id)))

    def abandoned(self, now: datetime) -> tuple[StoredSize, ...]:
        """Return the uploads that were abandoned, with the bytes of their content, the oldest first."""
        query = select(ImportRow.id, ImportRow.created_at.label("since"), ImportRow.size_bytes)
        query = query.where(*_abandoned(now)).order_by(ImportRow.created_at, ImportRow.id)
        with self._database.reading() as connection:
            return tuple(StoredSize(**row._mapping) for row in connection.execute(query))

    def submit(self, import_id: str, created_at: datetime, *, queue_limits: QueueLimits | None = None) -> str:
        """Queue an import whose content is stored; return its id, or that of an unfinished one of the same content.

        Raises:
            QueueFull: too many jobs wait already.
            UnknownId: its upload was taken for abandoned.
        """
        with self._database.writing() as connection:
            lock_places(connection)  # of two uploads of one content the second finds the first
            upload_hash = connection.scalar(select(ImportRow.hash).where(*_begun(import_id)))
            if upload_hash is None:
                raise UnknownId(f"there is no upload of an import {import_id!r}; send it again")
            same = _unfinished(connection, upload_hash)
            if same is not None:
                connection.execute(delete(ImportRow).where(ImportRow.id == import_id))
                return same

            def write() -> None:
                received = {"is_received": True, "created_at": created_at}
                connection.execute(update(ImportRow).where(ImportRow.id == import_id).values(received))

            submitted = submit(
                connection,
                "import",
                import_id,
                created_at,
                write,
                expected_s=IMPORT_S,
                queue_limits=queue_limits,
                idempotency=None,
            )
            return submitted.id

    def unfinished(self, upload_hash: str) -> str | None:
        """Return the id of the import of an upload with this hash that waits or goes on; None if there is none.

        One whose end was requested is none.
        """
        with self._database.reading() as connection:
            return _unfinished(connection, upload_hash)

    def get(self, import_id: str) -> StoredImport:
        """Return an import with its status."""
        with self._database.reading() as connection:
            return _one(connection, import_id)

    def page(self, limit: int = 50, before: Cursor | None = None) -> tuple[StoredImport, ...]:
        """Return imports, newest first; `before` is (created_at, id) of the last one seen."""
        with self._database.reading() as connection:
            rows = connection.execute(newest(_received(), ImportRow, limit, before))
            return tuple(map(_import, rows))

    def portions(self, import_id: str, file: int) -> Iterator[bytes]:
        """Yield the content of a file of an import, each portion by a transaction of its own."""
        place = (ImportPartRow.import_id == import_id, ImportPartRow.file == file)
        number = 0
        while True:
            query = select(ImportPartRow.content).where(*place, ImportPartRow.number == number)
            with self._database.reading() as connection:
                content = connection.scalar(query)
            if content is None:
                return
            yield bytes(content)
            number += 1

    def request_cancel(self, import_id: str, now: datetime) -> StoredImport:
        """Request the end of an import: at once if no worker has claimed it, else as soon as its worker notices.

        Raises:
            UnknownId, AlreadyEnded: there is no such import, or it has ended.
        """
        with self._database.writing() as connection:
            lease = (LeaseRow.kind == "import", LeaseRow.subject == import_id)
            connection.execute(update(LeaseRow).where(*lease).values(cancel_requested=True))  # takes its turn
            before = _one(connection, import_id)
            if is_ended(before.status):
                raise AlreadyEnded(
                    f"import {import_id} has ended ({before.status}); there is nothing to cancel"
                )
            after = next_status(before.status, "cancel_requested")  # type: ignore[arg-type]
            if is_ended(after):
                ended = {"status": after, "ended_at": now}
                connection.execute(update(ImportRow).where(ImportRow.id == import_id).values(ended))
                connection.execute(delete(LeaseRow).where(*lease))
                forget_content(connection, import_id)
            return _one(connection, import_id)

    def delete(self, import_id: str) -> None:
        """Delete an import that has ended; its graph stays.

        Raises:
            InUse, UnknownId: it has not ended; there is none.
        """
        with self._database.writing() as connection:
            status = _one(connection, import_id).status
            if not is_ended(status):
                raise InUse(f"import {import_id} is {status}; cancel it first")
            connection.execute(delete(ImportRow).where(ImportRow.id == import_id))

    def ended_before(self, until: datetime) -> tuple[str, ...]:
        """Return the ids of the imports that have ended before a moment, the oldest first."""
        query = select(ImportRow.id).where(ImportRow.ended_at < until)
        with self._database.reading() as connection:
            return tuple(connection.scalars(query.order_by(ImportRow.ended_at, ImportRow.id)))


def forget_content(connection: Connection, import_id: str) -> None:
    """Delete the content of an import that ends."""
    connection.execute(delete(ImportPartRow).where(ImportPartRow.import_id == import_id))


def _begun(import_id: str) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions of an import whose content is being stored."""
    return (ImportRow.id == import_id, ImportRow.is_received.is_(False))


def _abandoned(now: datetime) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions of an upload that ended without its process being able to delete it."""
    return ImportRow.is_received.is_(False), ImportRow.created_at < now - ABANDONED


def _received() -> Any:
    lease = and_(LeaseRow.kind == "import", LeaseRow.subject == ImportRow.id)
    return select(*_COLUMNS).outerjoin(LeaseRow, lease).where(ImportRow.is_received.is_(True))


def _one(connection: Connection, import_id: str) -> StoredImport:
    row = connection.execute(_received().where(ImportRow.id == import_id)).one_or_none()
    if row is None:
        raise UnknownId(f"there is no import {import_id!r}")
    return _import(row)


def _unfinished(connection: Connection, upload_hash: str) -> str | None:
    lease = and_(LeaseRow.kind == "import", LeaseRow.subject == ImportRow.id)
    goes_on = (ImportRow.status.in_(UNFINISHED), LeaseRow.cancel_requested.is_(False))
    query = select(ImportRow.id).join(LeaseRow, lease).where(ImportRow.hash == upload_hash, *goes_on)
    return connection.scalar(query.order_by(ImportRow.created_at).limit(1))


def _import(row: Row[Any]) -> StoredImport:
    request = ImportRequest.from_json(row.request)
    return StoredImport(
        **{**row._mapping, "request": request, "cancel_requested": bool(row.cancel_requested)}
    )
