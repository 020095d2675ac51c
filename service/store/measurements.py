"""Measurements in the store: what a plan took where it really ran, as those report it who ran it."""

from __future__ import annotations

import secrets
from datetime import datetime

from sqlalchemy import delete, insert, select

from tapestry.service.store.records import NewMeasurement, StoredMeasurement
from tapestry.service.store.sessions import Database, UnknownId
from tapestry.service.store.tables import MeasurementRow, PlanRow

MOST = 100  # of a plan; the oldest make place

_ORDER = (MeasurementRow.created_at, MeasurementRow.id)


class Measurements:
    """Times of plans that were measured outside the simulator."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, plan_key: int, measurement: NewMeasurement, created_at: datetime) -> StoredMeasurement:
        """Store a measurement of a plan; of more than `MOST` the oldest are deleted.

        Raises:
            UnknownId: there is no such plan.
        """
        stored = StoredMeasurement(**vars(measurement), id=secrets.token_hex(6), created_at=created_at)
        older = select(MeasurementRow.id).where(MeasurementRow.plan_key == plan_key)
        older = older.order_by(*(column.desc() for column in _ORDER)).offset(MOST)
        with self._database.writing() as connection:
            if connection.scalar(select(PlanRow.key).where(PlanRow.key == plan_key)) is None:
                raise UnknownId(f"there is no plan with key {plan_key}")
            connection.execute(insert(MeasurementRow).values(plan_key=plan_key, **vars(stored)))
            too_many = connection.scalars(older).all()
            connection.execute(delete(MeasurementRow).where(MeasurementRow.id.in_(too_many)))
        return stored

    def of_plan(self, plan_key: int) -> tuple[StoredMeasurement, ...]:
        """Return the measurements of a plan, the newest first."""
        columns = [getattr(MeasurementRow, name) for name in StoredMeasurement.__dataclass_fields__]
        query = select(*columns).where(MeasurementRow.plan_key == plan_key)
        with self._database.reading() as connection:
            rows = connection.execute(query.order_by(*(column.desc() for column in _ORDER)))
            return tuple(StoredMeasurement(**row._mapping) for row in rows)

    def delete(self, plan_key: int, measurement_id: str) -> None:
        """Delete a measurement of a plan.

        Raises:
            UnknownId: the plan has none with this id.
        """
        own = (MeasurementRow.plan_key == plan_key, MeasurementRow.id == measurement_id)
        with self._database.writing() as connection:
            if connection.execute(delete(MeasurementRow).where(*own)).rowcount == 0:
                raise UnknownId(f"the plan has no measurement {measurement_id!r}")
