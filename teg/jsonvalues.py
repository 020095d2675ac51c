"""Readers of JSON values: each returns the value it names, or reports what stands there instead.

Raises:
    MalformedError: from every reader, with the path of the value, what came and what was expected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapestry.teg.encoding import MalformedError
from tapestry.teg.faults import near_hint
from tapestry.teg.issues import clipped, key_path
from tapestry.teg.printable import is_printable
from tapestry.teg.zspace import ZRange

LONGEST_NAME = 10_000


def members(value: Any, path: str, required: Sequence[str], optional: Sequence[str] = ()) -> None:
    """Check that `value` is an object with all of `required` and nothing beyond `optional`."""
    if type(value) is not dict:
        raise MalformedError(path, kind_of(value), f"expected an object with {', '.join(required)}")
    missing = [k for k in required if k not in value]
    if missing:
        raise MalformedError(path, f"{missing[0]!r} is missing", f"an object here has {', '.join(required)}")
    if len(value) > len(required):
        known = (*required, *optional)
        for key in value:
            if key not in known:
                raise MalformedError(
                    key_path(path, key), f"unknown key {clipped(key)}", near_hint(key, known)
                )


def listed(value: Any, path: str) -> list[Any]:
    """Read a list."""
    if type(value) is not list:
        raise MalformedError(path, kind_of(value), "expected a list")
    return value


def integers(value: Any, path: str) -> tuple[int, ...]:
    """Read a list of integers."""
    for k, v in enumerate(listed(value, path)):
        if type(v) is not int:
            raise MalformedError(f"{path}[{k}]", kind_of(v), "expected an integer, written without point")
    return tuple(value)


def integer(value: Any, path: str) -> int:
    """Read an integer; bools and whole floats are rejected."""
    if type(value) is not int:
        raise MalformedError(path, kind_of(value), "expected an integer, written without point")
    return value


def sites(value: Any, path: str) -> tuple[str, ...]:
    """Read a list of names."""
    for k, v in enumerate(listed(value, path)):
        site(v, f"{path}[{k}]")
    return tuple(value)


def site(value: Any, path: str) -> str:
    """Read a name: printable text that is not empty."""
    if type(value) is not str or not value or len(value) > LONGEST_NAME or not is_printable(value):
        hint = f"expected a name: printable text, not empty, of at most {LONGEST_NAME} characters"
        raise MalformedError(path, kind_of(value), hint)
    return value


def text(value: Any, path: str) -> str:
    """Read printable text."""
    if type(value) is not str or not is_printable(value):
        raise MalformedError(path, kind_of(value), "expected printable text")
    return value


def kind_of(value: Any) -> str:
    """Describe a value as error messages quote it."""
    names = {dict: "an object", list: "a list", type(None): "null", bool: "a bool"}
    if type(value) in names:
        return names[type(value)]
    return f"{type(value).__name__} {clipped(value, 60)}"


def box(value: Any, path: str) -> ZRange:
    """Read an object with start and end as a range."""
    members(value, path, ("start", "end"))
    start, end = integers(value["start"], f"{path}.start"), integers(value["end"], f"{path}.end")
    try:
        return ZRange(start, end)
    except ValueError as error:
        raise MalformedError(path, "no range", str(error)) from None
