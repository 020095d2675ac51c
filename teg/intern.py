"""Interning: equal immutable values are the same object, so hashing and equality cost O(1)."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any
from weakref import WeakValueDictionary

_table: WeakValueDictionary[tuple[Any, ...], Any] = WeakValueDictionary()


class Interned(type):
    """Metaclass of frozen dataclasses (`eq=False`) whose equal instances are one object."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        candidate = super().__call__(*args, **kwargs)
        return _table.setdefault((cls, *map(exact, _values(candidate))), candidate)


def _values(node: Any) -> tuple[Any, ...]:
    return tuple([getattr(node, name) for name in _field_names(node.__class__)])


@cache
def _field_names(cls: Any) -> tuple[str, ...]:
    return tuple(f.name for f in fields(cls))


def exact(value: Any) -> Any:
    """Return a key that distinguishes what `==` confuses (1, 1.0 and True; 0.0 and -0.0) and finds NaN equal to NaN."""
    kind = type(value)
    if kind is str or kind is int or value is None:
        return value
    if isinstance(value, tuple):
        return tuple(map(exact, value))
    return kind, value.hex() if kind is float else value


class InternedValue(metaclass=Interned):
    """The base class of interned values; unpickling looks them up in the table again."""

    __slots__ = ("__weakref__",)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), _values(self)
