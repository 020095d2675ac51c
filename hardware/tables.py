"""TOML tables read key by key: every fault gives its position, all are collected, unknown keys are faults."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf, isfinite, nan

from tapestry.hardware.device import SHORT_DTYPES
from tapestry.hardware.ranges import RANGES, Range
from tapestry.teg.faults import joined, near_hint, near_names, one_of, value_text

CUTOFF = 0.5  # of near names


class CatalogError(ValueError):
    """Error raised for an unknown name, or a file that is no device or mesh.

    `faults` are all reasons, one line each, with place and remedy.
    """

    def __init__(self, *faults: str) -> None:
        super().__init__(joined(faults))
        self.faults = faults

    def __reduce__(self) -> tuple[type[CatalogError], tuple[str, ...]]:
        return CatalogError, self.faults


MISSING = object()  # the value of a key that is not there, which has been noted as a fault


class Faults:
    """A collector of the faults of one document; `plausible` also refuses figures that no machine has."""

    def __init__(self, plausible: bool = True) -> None:
        self.found: list[str] = []
        self.plausible = plausible

    def add(self, where: str, fault: str) -> None:
        self.found.append(f"{where}: {fault}")

    def finish(self) -> None:
        """Check that there is none.

        Raises:
            CatalogError: all that were found.
        """
        if self.found:
            raise CatalogError(*self.found)


class Table:
    """A table of a file, read key by key, with its place in the file for error messages.

    A faulty value is added to `faults`, and a placeholder is returned for it (nan, 1, an empty text, nothing): the
    reader goes on to the next fault, and asks `faults` before it uses what it read.
    """

    def __init__(self, content: object, where: str, faults: Faults) -> None:
        self.is_table = isinstance(content, Mapping)
        self.content: Mapping[str, object] = content if isinstance(content, Mapping) else {}
        self.where = where
        self.faults = faults
        self.read: list[str] = []
        self.missing: dict[str, str] = {}  # key -> its fault
        self.expected: dict[str, str] = {}  # key -> what its value should be
        if not self.is_table and content is not MISSING:
            faults.add(where, f"expected a table, not {value_text(content)}")

    def at(self, key: str) -> str:
        return f"{self.where}: {key}"

    def fault(self, key: str, text: str) -> None:
        self.faults.add(self.at(key), text)

    def is_sound(self, *keys: str) -> bool:
        """Return whether no fault was found of these keys as yet, nor of what their tables hold."""
        places = tuple(f"{self.at(key)}{end}" for key in keys for end in (":", "["))
        return not any(fault.startswith(places) for fault in self.faults.found)

    def get(self, key: str, expected: str) -> object:
        """Return the value of `key`; if there is none, note that and return `MISSING`."""
        self.read.append(key)
        self.expected[key] = expected
        if key not in self.content and self.is_table:
            self.missing[key] = f"{self.at(key)}: missing; expected {expected}"
            self.faults.found.append(self.missing[key])
        return self.content.get(key, MISSING)

    def has(self, key: str, expected: str = "") -> bool:
        """Return whether the file states a key that may be left out; `expected` words what no figure's range does."""
        self.read.append(key)
        if expected:
            self.expected[key] = expected
        return key in self.content

    def text(self, key: str) -> str:
        value = self.get(key, "a text")
        if isinstance(value, str) and value:
            return value
        if value is not MISSING:
            self.fault(key, f"expected a text, not {value_text(value)}")
        return ""

    def optional_text(self, key: str) -> str:
        return self.text(key) if self.has(key, "a text") else ""

    def flag(self, key: str, default: bool) -> bool:
        """Return what `key` states, true or false; the default where the file does not say."""
        if not self.has(key, "true or false"):
            return default
        value = self.get(key, "true or false")
        if not isinstance(value, bool):
            self.fault(key, f"expected true or false, not {value_text(value)}")
        return value is True

    def optional_one_of(self, key: str, known: tuple[str, ...]) -> str:
        """Return the name of `key`; the first one where the file states none."""
        return self.one_of(key, known) if self.has(key, one_of(known)) else known[0]

    def one_of(self, key: str, known: tuple[str, ...]) -> str:
        value = self.text(key)
        self.expected[key] = one_of(known)
        if value and value not in known:
            near = near_names(value, known)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            self.fault(key, f"expected {one_of(known)}, not {value_text(value)}{hint}")
        return value

    def number(self, key: str, figure: str = "", zero: bool = False) -> float:
        """Return the number of `key`, in the range of `figure` (the key itself unless given)."""
        expected = self._range(figure or key, "a number, zero or more" if zero else "a number above zero")
        value = self.get(key, expected)
        if value is MISSING:
            return nan
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            hint = RANGES[figure or key].text_hint(value) if isinstance(value, str) else ""
            self.fault(key, f"expected {expected}, not {value_text(value)}{hint}")
            return nan
        known, found = RANGES[figure or key], _as_float(value)
        if not isfinite(found) or found < 0 or (found == 0 and not zero):
            self.fault(key, f"expected {expected}, not {found}")
        elif self.faults.plausible and not known.holds(found):
            self.fault(key, f"expected {expected}, not {found:g}{known.hint(found)}")
        return found

    def whole(self, key: str) -> int:
        """Return the whole number of `key`; it is above zero unless its range begins there."""
        known = RANGES.get(key)
        is_zero_allowed = known is not None and known.least == 0
        expected = f"a whole number{', zero or more' if is_zero_allowed else ' above zero'}"
        if known is not None and self.faults.plausible:
            expected = known.expected.replace("a number", "a whole number")
        value = self.get(key, expected)
        if value is MISSING:
            return 1
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or value < 0
            or (value == 0 and not is_zero_allowed)
        ):
            self.fault(key, f"expected {expected}, not {value_text(value)}{_whole_hint(value, known)}")
            return 1
        if self.faults.plausible and known is not None and not known.holds(value):
            self.fault(key, f"expected {expected}, not {value_text(value)}{known.hint(_as_float(value))}")
        return value

    def optional_whole(self, key: str) -> int | None:
        expected = "" if key in RANGES else "a whole number above zero"
        return self.whole(key) if self.has(key, expected) else None

    def _range(self, figure: str, plain: str) -> str:
        return RANGES[figure].expected if self.faults.plausible else plain

    def optional(self, key: str, zero: bool = False) -> float | None:
        return self.number(key, zero=zero) if self.has(key) else None

    def number_or(self, key: str, default: float, zero: bool = False) -> float:
        return self.number(key, zero=zero) if self.has(key) else default

    def items(self, key: str) -> list[object]:
        value = self.get(key, "a list")
        if isinstance(value, list) and value:
            return value
        if value is not MISSING:
            self.fault(key, f"expected a list that is not empty, not {value_text(value)}")
        return []

    def tables(self, key: str) -> list[Table]:
        """Return the tables in the list `key`."""
        return [
            Table(item, f"{self.at(key)}[{index}]", self.faults) for index, item in enumerate(self.items(key))
        ]

    def texts(self, key: str) -> tuple[str, ...]:
        if not self.has(key, "a list of texts"):
            return ()
        values = self.items(key)
        wrong = [value for value in values if not isinstance(value, str)]
        if wrong:
            self.fault(key, f"expected a list of texts, not {value_text(wrong[0])} in it")
        return tuple(value for value in values if isinstance(value, str))

    def ascending(self, key: str, figure: str) -> tuple[float, ...]:
        """Return the list of numbers of `key`, each in the range of `figure`, none smaller than the one before."""
        values = self.items(key)
        listed = Table({f"{key}[{k}]": value for k, value in enumerate(values)}, self.where, self.faults)
        found = tuple(listed.number(name, figure) for name in listed.content)
        for k, (before, after) in enumerate(pairwise(found), start=1):
            if after < before:
                self.fault(
                    f"{key}[{k}]", f"expected at least {before:g}, the number before it, not {after:g}"
                )
        return found

    def table(self, key: str) -> Table:
        return Table(self.get(key, "a table"), self.at(key), self.faults)

    def rates(self, key: str) -> dict[str, float]:
        table = self.table(key)
        return {SHORT_DTYPES.get(name, name): table.number(name, key) for name in table.content}

    def names(self, key: str) -> dict[str, str]:
        if not self.has(key, "a table of texts"):
            return {}
        table = self.table(key)
        return {SHORT_DTYPES.get(name, name): table.text(name) for name in table.content}

    def sources(self) -> dict[str, str]:
        """Return the sources of figures by their keys, which have been read before."""
        if not self.has("sources", "a table of texts, by key"):
            return {}
        table = self.table("sources")
        for name in table.content:
            if name not in self.read:
                hint = near_hint(str(name), sorted(set(self.read)), cutoff=CUTOFF)
                table.fault(str(name), f"source of an unknown key; {hint}")
        return {name: table.text(name) for name in table.content}

    def finish(self) -> None:
        """Note the keys that were not read: a misspelled optional field would else be ignored.

        Where the nearest key is missing, the two are one fault.
        """
        known = sorted(set(self.read))
        for key in map(str, self.content):
            if key in self.read:
                continue
            near = near_names(key, known, cutoff=CUTOFF)
            if near and near[0] in self.missing:
                self.faults.found.remove(self.missing.pop(near[0]))
                near = near[:1]
                hint = f"did you mean {near[0]}, which is missing?"
            else:
                hint = near_hint(key, known, cutoff=CUTOFF)
            self.fault(key, joined([f"unknown key; {hint}", *self._expectations(near)]))

    def _expectations(self, keys: Sequence[str]) -> list[str]:
        """Word what the values of keys should be, as the ends of a message; none where no key has a range."""
        known = {
            key: self.expected.get(key) or (RANGES[key].expected if key in RANGES else "") for key in keys
        }
        stated = {key: text for key, text in known.items() if text}
        return [
            f"{key}: expected {text}" if len(keys) > 1 else f"expected {text}" for key, text in stated.items()
        ]


def _whole_hint(value: object, known: Range | None) -> str:
    """Return what to write instead of a value that is no whole number, as the end of a message."""
    if isinstance(value, str) and known is not None:
        return known.text_hint(value, is_whole=True)
    return f"; write {value:.0f}" if isinstance(value, float) and value > 0 and value.is_integer() else ""


def _as_float(value: int | float) -> float:
    """Convert a number; a whole one that is too large becomes infinite."""
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def parsed(text: str, where: str) -> object:
    """Parse a TOML file; raise `CatalogError` if it is not TOML."""
    try:
        return tomllib.loads(text)
    except ValueError as error:  # of TOML, or of a number of thousands of digits, which Python does not read
        raise CatalogError(f"{where}: not TOML: {error}") from error
