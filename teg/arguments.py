"""Kinds of arguments of public functions: what each accepts, and how a message names it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from tapestry.teg.faults import ArgumentError, expected


class ArgumentKind(NamedTuple):
    """A kind of argument: its name in messages, what it accepts, and what to do about others."""

    wanted: str
    accepts: Callable[[Any], bool]
    hint: str = ""


def check_arguments(kinds: Mapping[str, ArgumentKind], given: Mapping[str, object]) -> None:
    """Check the arguments of a function by name.

    Raises:
        ArgumentError: arguments of another kind, all of them.
    """
    if faults := argument_faults(kinds, given):
        raise ArgumentError(*faults)


def argument_faults(kinds: Mapping[str, ArgumentKind], given: Mapping[str, object]) -> tuple[str, ...]:
    """Return the faults of arguments by name; those that are not given have none."""
    return tuple(
        expected(name, kind.wanted, given[name], kind.hint)
        for name, kind in kinds.items()
        if name in given and not kind.accepts(given[name])
    )


def optional(kind: ArgumentKind) -> ArgumentKind:
    """Return the kind that accepts None too, for what has a default."""
    return kind._replace(accepts=lambda value: value is None or kind.accepts(value))


def a_value_of(types: type | tuple[type, ...], wanted: str, hint: str = "") -> ArgumentKind:
    """Return the kind of the values of a type."""
    return ArgumentKind(wanted, lambda value: isinstance(value, types), hint)


def several(kind: ArgumentKind, wanted: str) -> ArgumentKind:
    """Return the kind of single values and of lists of them."""

    def accepts(value: Any) -> bool:
        return kind.accepts(value) or (isinstance(value, (list, tuple)) and all(map(kind.accepts, value)))

    return ArgumentKind(wanted, accepts)


def by_name(kind: ArgumentKind, wanted: str) -> ArgumentKind:
    """Return the kind of mappings from texts to values of `kind`."""

    def accepts(value: Any) -> bool:
        return isinstance(value, Mapping) and all(
            isinstance(name, str) and kind.accepts(member) for name, member in value.items()
        )

    return ArgumentKind(wanted, accepts)


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


TEXT = ArgumentKind("a text", lambda value: isinstance(value, str))
WHOLE = ArgumentKind("a whole number", _is_whole)
SEED = ArgumentKind("a whole number of at least 0", lambda value: _is_whole(value) and value >= 0)
COUNT = ArgumentKind("a whole number of at least 1", lambda value: _is_whole(value) and value >= 1)
NUMBER = ArgumentKind("a number", lambda value: _is_whole(value) or isinstance(value, (float, np.floating)))
FLAG = a_value_of(bool, "True or False")
FUNCTION = ArgumentKind("a function", callable)
PATH = a_value_of((str, PathLike), "a path")
SIZES = by_name(COUNT, "whole numbers above 0 by name, such as {'batch': 8}")
TEXTS_BY_NAME = by_name(TEXT, "texts by name")
ARRAYS_BY_NAME = by_name(
    ArgumentKind(
        "", lambda value: isinstance(value, (np.ndarray, np.generic, int, float, complex, Sequence))
    ),
    "arrays by name",
)
