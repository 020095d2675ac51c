"""The base of all tables, and the types of their columns.

Constraints and indices have derived names, so that migrations can refer to them.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Integer,
    MetaData,
    String,
)
from sqlalchemy.orm import DeclarativeBase

CONVENTION = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
KEY = BigInteger().with_variant(Integer, "sqlite")
TENANT = String(32)


class Base(DeclarativeBase):
    """The base of all rows."""

    metadata = MetaData(naming_convention=CONVENTION)
