"""Faults in what a caller gave: the record of one, the error that lists all, and the wording that messages share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NoReturn

from tapestry.teg.brief import brief

NEAR = 3
CUTOFF = 0.6
LONGEST_NAME = 200
MOST_LISTED = 40
# Types whose values a message quotes as Python writes them; of another type it says the name.
_QUOTED = (str, bytes, bool, int, float, complex, type(None), list, tuple, dict, set, frozenset, range)


@dataclass(frozen=True)
class Fault:
    """One fault: its place (a JSON pointer), a description, and the allowed values."""

    pointer: str
    detail: str
    allowed: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON as the API answers it."""
        document: dict[str, Any] = {"pointer": self.pointer, "detail": self.detail}
        if self.allowed:
            document["allowed"] = list(self.allowed)
        return document


def escape(name: str) -> str:
    """Escape a name as a part of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


def unescape(part: str) -> str:
    """Return the name that a part of a JSON pointer stands for."""
    return part.replace("~1", "/").replace("~0", "~")


class ArgumentError(TypeError, ValueError):
    """Error raised for arguments that a function cannot use; `faults` are all of them, one line each.

    It is both a `TypeError` and a `ValueError`, since one call may have faults of both kinds.
    """

    def __init__(self, *faults: str) -> None:
        super().__init__(joined(faults))
        self.faults = faults

    def __reduce__(self) -> tuple[type[ArgumentError], tuple[str, ...]]:
        return type(self), self.faults


def refuse(argument: str, wanted: str, given: object, hint: str = "") -> NoReturn:
    """Raise an `ArgumentError` that names an argument, what was expected and what was given.

    Raises:
        ArgumentError: always.
    """
    raise ArgumentError(expected(argument, wanted, given, hint))


def expected(argument: str, wanted: str, given: object, hint: str = "") -> str:
    """Word the fault of an argument: `mesh: expected a mesh, not 3`, and what to do."""
    return f"{argument}: expected {wanted}, not {value_text(given)}" + (f"; {hint}" if hint else "")


def one_of(known: Iterable[object]) -> str:
    """Word what was expected where a few names are allowed: `one of A, B, C`, or the only one."""
    names = [str(name) for name in known]
    return names[0] if len(names) == 1 else f"one of {', '.join(names)}"


def near_names(name: str, known: Iterable[str], most: int = NEAR, cutoff: float = CUTOFF) -> tuple[str, ...]:
    """Return the known names that are spelled almost like `name`, the nearest first."""
    return tuple(get_close_matches(name[:LONGEST_NAME], list(known), n=most, cutoff=cutoff))


def near_hint(
    name: str, known: Collection[str], shown: Collection[str] | None = None, cutoff: float = CUTOFF
) -> str:
    """Return what to write instead of an unknown name: `did you mean A or B?`, else `known are A, B, C`.

    `shown` are the names to list where none is near; by default all that are known. Many are cut short.
    """
    if near := near_names(name, known, cutoff=cutoff):
        return f"did you mean {' or '.join(near)}?"
    names = list(dict.fromkeys(known if shown is None else shown))
    if not names:
        return "there are none"
    more = f", ... ({len(names)} in all)" if len(names) > MOST_LISTED else ""
    return f"known are {', '.join(names[:MOST_LISTED])}{more}"


def no_such(
    what: str,
    name: str,
    known: Collection[str],
    shown: Collection[str] | None = None,
    hint: str = "",
) -> str:
    """Word the fault of an unknown name: `there is no mesh 'dgx-h10'; did you mean dgx-h100?`; or another `hint`."""
    return f"there is no {what} {brief(repr(name), 80)}; {hint or near_hint(name, known, shown)}"


def value_text(value: object) -> str:
    """Return a value as a message quotes it: short, on one line, without addresses in memory."""
    if isinstance(value, _QUOTED):
        try:
            return brief(" ".join(repr(value).split()))
        except ValueError:  # whole numbers of thousands of digits, which Python does not write
            return "a number too long to write" if isinstance(value, int) else f"a {type(value).__name__}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if callable(value):
        name = getattr(value, "__name__", type(value).__name__)
        return f"the function {name}"
    kind = type(value).__name__
    return f"a value of type {kind}"


def joined(faults: Sequence[str]) -> str:
    """Join faults to one line; one that ends in a question mark needs no semicolon."""
    return " ".join(
        fault if k == len(faults) - 1 or fault.endswith("?") else f"{fault};"
        for k, fault in enumerate(faults)
    )
