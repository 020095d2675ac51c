"""The tables of programs: graphs, what they came from, imports that are under way, and tensors with names."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Text,
)
from sqlalchemy.orm import Mapped, mapped_column

from tapestry.service.lifecycle import STATUSES
from tapestry.service.store.columns import CompressedJson, UtcDateTime
from tapestry.service.store.tables.base import TENANT, Base


class GraphRow(Base):
    """A graph of a tenant: `document` is its gzipped TEG document; `lacks_values` is true if large data was left out.

    `family` is shared by programs that differ in sizes and depth only; it is unknown of what earlier releases stored.
    `is_given` distinguishes programs that users stored from those that rewriting made in the first release.
    """

    __tablename__ = "graphs"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    tenant: Mapped[str] = mapped_column(TENANT)
    name: Mapped[str] = mapped_column(Text)
    structural_hash: Mapped[str] = mapped_column(String(64), index=True)
    family: Mapped[str | None] = mapped_column(String(64), index=True)
    blocks: Mapped[int] = mapped_column(Integer)
    document: Mapped[bytes] = mapped_column(LargeBinary, deferred=True)
    lacks_values: Mapped[bool]
    is_given: Mapped[bool]
    summary: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)

    __table_args__ = (Index(None, "tenant", "created_at", "id"),)


class UploadRow(Base):
    """An upload that was read before: a hash of its bytes and of all that decides how they are read, and its graph."""

    __tablename__ = "uploads"

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    graph_id: Mapped[str] = mapped_column(ForeignKey("graphs.id"))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class RewriteRow(Base):
    """The derivation of a program from another by moves; `part` is the part of their result, empty for all."""

    __tablename__ = "rewrites"

    graph_id: Mapped[str] = mapped_column(ForeignKey("graphs.id"), primary_key=True)
    source_id: Mapped[str] = mapped_column(ForeignKey("graphs.id"), primary_key=True)
    part: Mapped[str] = mapped_column(String(16), primary_key=True)
    moves: Mapped[list[dict[str, Any]]] = mapped_column(CompressedJson)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class ImportRow(Base):
    """A program to be read by a worker: how, and what became of it. `hash` is that of its upload (`UploadRow`).

    `request` is `ImportRequest` as JSON. It is seen, and waits, once its content `is_received` as a whole.
    """

    __tablename__ = "imports"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    tenant: Mapped[str] = mapped_column(TENANT)
    name: Mapped[str] = mapped_column(Text)
    hash: Mapped[str] = mapped_column(String(64))
    request: Mapped[dict[str, Any]] = mapped_column(JSON)
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    is_received: Mapped[bool]
    status: Mapped[str] = mapped_column(String(16))
    attempt: Mapped[int] = mapped_column(Integer)
    graph_id: Mapped[str | None] = mapped_column(ForeignKey("graphs.id", ondelete="SET NULL"), index=True)
    problem: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    started_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    ended_at: Mapped[datetime | None] = mapped_column(UtcDateTime)

    __table_args__ = (
        CheckConstraint(f"status IN ({', '.join(repr(s) for s in STATUSES)})", name="status"),
        Index(None, "tenant", "created_at", "id"),
        Index(None, "tenant", "hash"),
    )


class ImportPartRow(Base):
    """A portion of a file that is to be imported; `file` is its place in the request. Deleted when the import ends."""

    __tablename__ = "import_parts"

    import_id: Mapped[str] = mapped_column(ForeignKey("imports.id", ondelete="CASCADE"), primary_key=True)
    file: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    content: Mapped[bytes] = mapped_column(LargeBinary)


class TensorRow(Base):
    """A tensor with a name that stays between executions; `place` is where it lies on a mesh, none: on the host.

    `load` is what loading it from there costs, none: nothing.
    """

    __tablename__ = "tensors"

    tenant: Mapped[str] = mapped_column(TENANT, primary_key=True)
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    dtype: Mapped[str] = mapped_column(String(32))
    shape: Mapped[list[int]] = mapped_column(JSON)
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    digest: Mapped[str] = mapped_column(String(64))
    place: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    load: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    content: Mapped[bytes] = mapped_column(LargeBinary)
    stored_at: Mapped[datetime] = mapped_column(UtcDateTime)
