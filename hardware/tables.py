"""TOML tables read key by key: every error gives its position in the file, and unknown keys are errors."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from math import isfinite

from tapestry.hardware.mesh import SHORT_DTYPES


class CatalogError(ValueError):
    """Error raised for an unknown name, or a file that is no device or mesh; its message gives place and remedy."""


class Table:
    """A table of a file, read key by key, with its place in the file for error messages."""

    def __init__(self, content: object, where: str) -> None:
        if not isinstance(content, Mapping):
            raise CatalogError(f"{where}: expected a table, got {shown(content)}")
        self.content: Mapping[str, object] = content
        self.where = where
        self.asked: list[str] = []

    def at(self, key: str) -> str:
        return f"{self.where}: {key}"

    def get(self, key: str, expected: str) -> object:
        self.asked.append(key)
        if key not in self.content:
            raise CatalogError(f"{self.at(key)}: missing; expected {expected}")
        return self.content[key]

    def has(self, key: str) -> bool:
        self.asked.append(key)
        return key in self.content

    def text(self, key: str) -> str:
        value = self.get(key, "a text")
        if not isinstance(value, str) or not value:
            raise CatalogError(f"{self.at(key)}: expected a text, got {shown(value)}")
        return value

    def number(self, key: str, zero: bool = False) -> float:
        expected = "a number, zero or more" if zero else "a number above zero"
        return checked_number(self.get(key, expected), self.at(key), expected, zero)

    def whole(self, key: str) -> int:
        expected = "a whole number above zero"
        value = self.get(key, expected)
        if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            raise CatalogError(f"{self.at(key)}: expected {expected}, got {shown(value)}")
        return value

    def optional(self, key: str, zero: bool = False) -> float | None:
        return self.number(key, zero) if self.has(key) else None

    def number_or(self, key: str, default: float, zero: bool = False) -> float:
        return self.number(key, zero) if self.has(key) else default

    def items(self, key: str) -> list[object]:
        value = self.get(key, "a list")
        if not isinstance(value, list) or not value:
            raise CatalogError(f"{self.at(key)}: expected a list that is not empty, got {shown(value)}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        if not self.has(key):
            return ()
        values = self.items(key)
        wrong = [value for value in values if not isinstance(value, str)]
        if wrong:
            raise CatalogError(f"{self.at(key)}: expected a list of texts, got {shown(wrong[0])} in it")
        return tuple(str(value) for value in values)

    def table(self, key: str) -> Table:
        return Table(self.get(key, "a table"), self.at(key))

    def rates(self, key: str) -> dict[str, float]:
        table = self.table(key)
        return {SHORT_DTYPES.get(name, name): table.number(name) for name in table.content}

    def names(self, key: str) -> dict[str, str]:
        if not self.has(key):
            return {}
        table = self.table(key)
        return {SHORT_DTYPES.get(name, name): table.text(name) for name in table.content}

    def sources(self) -> dict[str, str]:
        if not self.has("sources"):
            return {}
        table = self.table("sources")
        return {name: table.text(name) for name in table.content}

    def finish(self) -> None:
        """Raise `CatalogError` for keys that were not read: a misspelled optional field would else be ignored."""
        for key in self.content:
            if key not in self.asked:
                raise CatalogError(f"{self.at(str(key))}: unknown key{near_names(str(key), self.asked)}")


def shown(value: object) -> str:
    """Format a value and its type, truncated where it is long."""
    return f"{type(value).__name__} {value!r}"[:80]


def near_names(name: str, known: list[str] | tuple[str, ...]) -> str:
    """Format suggestions for a misspelled name, as the end of a message."""
    close = get_close_matches(name, known, n=3, cutoff=0.5)
    return (
        f"; did you mean {' or '.join(close)}?" if close else f"; known are {', '.join(sorted(set(known)))}"
    )


def checked_number(value: object, where: str, expected: str, zero: bool) -> float:
    """Check that a value is a finite number above zero, or zero where that is allowed; return it as a float."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise CatalogError(f"{where}: expected {expected}, got {shown(value)}")
    if not isfinite(value) or value < 0 or (value == 0 and not zero):
        raise CatalogError(f"{where}: expected {expected}, got {value}")
    return float(value)


def parsed(text: str, where: str) -> object:
    """Parse a TOML file; raise `CatalogError` if it is not TOML."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CatalogError(f"{where}: not TOML: {error}") from error
