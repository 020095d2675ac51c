"""The tables of executions and of the values that they take and leave."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Float,
    ForeignKey,
    Integer,
    LargeBinary,
    String,
    Text,
)
from sqlalchemy.orm import Mapped, mapped_column

from tapestry.service.lifecycle import STATUSES
from tapestry.service.store.columns import CompressedJson, UtcDateTime
from tapestry.service.store.tables.base import Base


class ExecutionRow(Base):
    """A plan run on the device simulator: counts beside predictions, values beside the reference.

    `request` says which values were given and which are kept (`TensorRequest`).
    """

    __tablename__ = "executions"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    plan_key: Mapped[int] = mapped_column(ForeignKey("plans.key", ondelete="CASCADE"), index=True)
    status: Mapped[str] = mapped_column(String(16))
    backend: Mapped[str] = mapped_column(String(32))
    with_values: Mapped[bool]
    seed: Mapped[int | None] = mapped_column(BigInteger)
    counts: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    verified: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    problem: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    trace: Mapped[dict[str, Any] | None] = mapped_column(CompressedJson)
    request: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    ended_at: Mapped[datetime | None] = mapped_column(UtcDateTime)

    __table_args__ = (CheckConstraint(f"status IN ({', '.join(repr(s) for s in STATUSES)})", name="status"),)


class MeasurementRow(Base):
    """A time of a plan that was measured where it really ran; `measured_on` is where, in words."""

    __tablename__ = "measurements"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    plan_key: Mapped[int] = mapped_column(ForeignKey("plans.key", ondelete="CASCADE"), index=True)
    seconds: Mapped[float] = mapped_column(Float(53))
    repeats: Mapped[int | None] = mapped_column(Integer)
    repeat_error: Mapped[float | None] = mapped_column(Float(53))
    measured_on: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class ExecutionTensorRow(Base):
    """A tensor that an execution was given (`kind` is input) or computed (output); elements as in `TensorValue`."""

    __tablename__ = "execution_tensors"

    execution_id: Mapped[str] = mapped_column(
        ForeignKey("executions.id", ondelete="CASCADE"), primary_key=True
    )
    kind: Mapped[str] = mapped_column(String(8), primary_key=True)
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    dtype: Mapped[str] = mapped_column(String(32))
    shape: Mapped[list[int]] = mapped_column(JSON)
    content: Mapped[bytes] = mapped_column(LargeBinary)
