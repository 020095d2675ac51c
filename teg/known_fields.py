"""Constructors of public dataclasses that refuse unknown names in our words. Loads nothing heavy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Any, TypeVar

from tapestry.teg.faults import ArgumentError, near_hint

Record = TypeVar("Record")


def known_fields(error: type[ArgumentError]) -> Callable[[type[Record]], type[Record]]:
    """Return a decorator of dataclasses whose constructor refuses unknown names by an `error` of ours.

    Python's own message names the first, without near ones; this one lists all, and the faults of the values too.
    """

    def decorate(record: type[Record]) -> type[Record]:
        construct: Callable[..., None] = vars(record)["__init__"]
        known = {field.name: field for field in fields(record) if field.init}.keys()  # type: ignore[arg-type]

        @wraps(construct)
        def checked(self: Record, *given: Any, **named: Any) -> None:
            faults = [
                f"{record.__name__}() has no argument {name!r}; {near_hint(name, known)}"
                for name in named
                if name not in known
            ]
            if faults and not given and known.isdisjoint(named):
                raise error(*faults)  # that nothing is given is no fault of its own
            try:
                construct(self, *given, **{name: named[name] for name in named if name in known})
            except TypeError as raised:
                if not faults:
                    raise
                faults += getattr(raised, "faults", ())
            if faults:
                raise error(*faults)

        setattr(record, "__init__", checked)  # noqa: B010, a type checker forbids the assignment
        return record

    return decorate
