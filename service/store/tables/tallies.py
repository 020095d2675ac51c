"""The table of what processes count."""

from __future__ import annotations

from sqlalchemy import (
    Float,
    String,
)
from sqlalchemy.orm import Mapped, mapped_column

from tapestry.service.store.tables.base import Base


class TallyRow(Base):
    """A number that processes counted, by name and label; of durations the sum, and that in each class (`part`)."""

    __tablename__ = "tallies"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    label: Mapped[str] = mapped_column(String(64), primary_key=True)
    part: Mapped[str] = mapped_column(String(16), primary_key=True)
    value: Mapped[float] = mapped_column(Float(53))
