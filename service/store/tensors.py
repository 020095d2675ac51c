"""Tensors in the store: those of executions, and those with a name, which stay until they are dropped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection, Row, delete, insert, select, update

from tapestry.service.store.insertion import insert_if_new
from tapestry.service.store.sessions import Database, UnknownId
from tapestry.service.store.tables import ExecutionTensorRow, TensorRow
from tapestry.service.store.tensor_values import NamedTensor, TensorPlace, TensorValue
from tapestry.teg.faults import no_such
from tapestry.teg.loading import LoadCost

TensorKind = Literal["input", "output"]

_SUMMARY = (
    TensorRow.name,
    TensorRow.dtype,
    TensorRow.shape,
    TensorRow.size_bytes,
    TensorRow.digest,
    TensorRow.place,
    TensorRow.load,
    TensorRow.stored_at,
)


class Tensors:
    """The tensors with a name."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> tuple[NamedTensor, ...]:
        """Return all of them without their values, sorted by name."""
        with self._database.reading() as connection:
            return tuple(map(_named, connection.execute(select(*_SUMMARY).order_by(TensorRow.name))))

    def get(self, name: str) -> NamedTensor:
        """Return a tensor without its value; raises UnknownId."""
        with self._database.reading() as connection:
            row = connection.execute(select(*_SUMMARY).where(TensorRow.name == name)).one_or_none()
            if row is None:
                raise _unknown(connection, name)
            return _named(row)

    def load(self, name: str) -> tuple[NamedTensor, TensorValue]:
        """Return a tensor and its value, as they were at one moment; raises UnknownId."""
        query = select(*_SUMMARY, TensorRow.content).where(TensorRow.name == name)
        with self._database.reading() as connection:
            row = connection.execute(query).one_or_none()
            if row is None:
                raise _unknown(connection, name)
            return _named(row), _value(row.dtype, row.shape, row.content)

    def put(
        self,
        values: Mapping[str, TensorValue],
        stored_at: datetime,
        places: Mapping[str, TensorPlace] | None = None,
        load: LoadCost | None = None,
    ) -> None:
        """Store values by name, all or none; those of the same names are replaced. One without a place is loaded, at
        the cost `load`.
        """
        with self._database.writing() as connection:
            put_tensors(connection, values, stored_at, places or {}, load)

    def copy(self, name: str, new: str, stored_at: datetime) -> None:
        """Store a tensor under another name too, in its place; one of that name is replaced. Raises UnknownId."""
        found, value = self.load(name)
        self.put({new: value}, stored_at, {} if found.place is None else {new: found.place}, found.load)

    def drop(self, names: Iterable[str]) -> None:
        """Delete tensors, all or none; raises UnknownId."""
        with self._database.writing() as connection:
            known = set(connection.scalars(select(TensorRow.name)))
            for name in dict.fromkeys(names):
                if name not in known:
                    raise UnknownId(no_such("tensor", name, sorted(known)))
                connection.execute(delete(TensorRow).where(TensorRow.name == name))


def put_tensors(
    connection: Connection,
    values: Mapping[str, TensorValue],
    stored_at: datetime,
    places: Mapping[str, TensorPlace],
    load: LoadCost | None = None,
) -> None:
    """Store values by name within a transaction."""
    for name, value in values.items():
        row = {
            "dtype": value.dtype,
            "shape": list(value.shape),
            "size_bytes": len(value.content),
            "digest": value.digest,
            "place": places[name].to_json() if name in places else None,
            "load": None if load is None or name in places else load.to_json(),
            "content": value.content,
            "stored_at": stored_at,
        }
        again = update(TensorRow).where(TensorRow.name == name).values(row)
        # Others may store or delete the same name between the two statements.
        while not connection.execute(again).rowcount and not insert_if_new(
            connection, TensorRow, {"name": name, **row}
        ):
            pass


def _unknown(connection: Connection, name: str) -> UnknownId:
    """Return the error that there is no such tensor, with near names."""
    return UnknownId(no_such("tensor", name, list(connection.scalars(select(TensorRow.name)))))


def put_values(
    connection: Connection, execution_id: str, kind: TensorKind, values: Mapping[str, TensorValue]
) -> None:
    """Store the tensors of an execution within a transaction."""
    for name, value in values.items():
        row = {
            "execution_id": execution_id,
            "kind": kind,
            "name": name,
            "dtype": value.dtype,
            "shape": list(value.shape),
            "content": value.content,
        }
        connection.execute(insert(ExecutionTensorRow).values(row))


def values_of(connection: Connection, execution_id: str, kind: TensorKind) -> dict[str, TensorValue]:
    """Return the tensors of an execution by name."""
    table = ExecutionTensorRow
    query = select(table.name, table.dtype, table.shape, table.content).order_by(table.name)
    rows = connection.execute(query.where(table.execution_id == execution_id, table.kind == kind))
    return {row.name: _value(row.dtype, row.shape, row.content) for row in rows}


def _value(dtype: str, shape: list[int], content: bytes) -> TensorValue:
    return TensorValue(dtype, tuple(shape), bytes(content))


def _named(row: Row[Any]) -> NamedTensor:
    fields = {column.key: row._mapping[column.key] for column in _SUMMARY}
    place, load = fields["place"], fields["load"]
    fields |= {
        "shape": tuple(fields["shape"]),
        "place": None if place is None else TensorPlace.from_json(place),
        "load": None if load is None else LoadCost.from_json(load),
    }
    return NamedTensor(**fields)
