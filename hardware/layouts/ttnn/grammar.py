"""Parsing of ttnn's printed text: calls, enumerations, numbers, arrays, cores and JSON objects, with positions.

`Name(key=value,...)` is a `CallText`, `A::B` a word, `[...]` and `{...}` lists, `{"key":value}` an object,
`(x=0,y=0)` a call without a name, `a - b` inside a list a `TextSpan`, `std::nullopt` nothing.
"""

import re
from dataclasses import dataclass
from typing import NoReturn

from tapestry.hardware.layouts.layout import LayoutError

LONGEST_TEXT = 2**17
DEEPEST = 24
TOKEN = re.compile(
    r"(?P<number>[0-9]+)|(?P<word>[A-Za-z_]\w*(?:(?:::|\.)[A-Za-z_]\w*)*)|(?P<quoted>\"[^\"\\]*\")"
)
LONGEST_NUMBER = 20
NOTHING = ("std::nullopt", "nullopt", "None", "null")


@dataclass(frozen=True)
class ValueText:
    """A parsed value, and the character where it begins."""

    at: int


@dataclass(frozen=True)
class Number(ValueText):
    """A natural number."""

    value: int


@dataclass(frozen=True)
class Name(ValueText):
    """A word, its enumeration included."""

    text: str


@dataclass(frozen=True)
class NoneText(ValueText):
    """The value `std::nullopt`."""


@dataclass(frozen=True)
class Items(ValueText):
    """A list in brackets or braces."""

    items: tuple[ValueText, ...]


@dataclass(frozen=True)
class TextSpan(ValueText):
    """A span of two values joined by a minus sign: the corners of a core range."""

    first: ValueText
    last: ValueText


@dataclass(frozen=True)
class CallText(ValueText):
    """A call: named fields in parentheses after a name ('' for none), or a JSON object; positional ones are unnamed."""

    name: str
    fields: tuple[tuple[str, ValueText], ...]


def refuse(at: int, expected: str, text: str = "") -> NoReturn:
    """Raise `LayoutError` with the position where something else was expected."""
    found = f", found {text[at : at + 20]!r}" if at < len(text) else ", found the end" if text else ""
    raise LayoutError(f"at character {at}: expected {expected}{found}")


def read(text: str) -> ValueText:
    """Parse a whole text into a value; `LayoutError` names the position of the error."""
    if len(text) > LONGEST_TEXT:
        raise LayoutError(f"a text of {len(text)} characters is too long; expected at most {LONGEST_TEXT}")
    reader = _Reader(text)
    value = reader.value()
    reader.skip()
    if reader.at < len(text):
        refuse(reader.at, "the end", text)
    return value


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0

    def skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def peek(self) -> str:
        self.skip()
        return self.text[self.at : self.at + 1]

    def take(self, mark: str) -> bool:
        if self.peek() != mark:
            return False
        self.at += 1
        return True

    def need(self, *marks: str) -> str:
        for mark in marks:
            if self.take(mark):
                return mark
        refuse(self.at, " or ".join(repr(mark) for mark in marks), self.text)

    def value(self) -> ValueText:
        self.depth += 1
        if self.depth > DEEPEST:
            refuse(self.at, f"at most {DEEPEST} levels", self.text)
        found = self._value()
        self.depth -= 1
        return found

    def _value(self) -> ValueText:
        mark, at = self.peek(), self.at
        if mark == "[":
            return Items(at, self._items("[", "]"))
        if mark == "{":
            return self._object(at) if self._is_object() else Items(at, self._items("{", "}"))
        if mark == "(":
            return CallText(at, "", self._fields("(", "=", ")"))
        token = TOKEN.match(self.text, self.at)
        if token is None:
            refuse(self.at, "a name, a number, '[', '{' or '('", self.text)
        self.at = token.end()
        return self._token(token, at)

    def _token(self, token: re.Match[str], at: int) -> ValueText:
        found = token.group()
        if token.lastgroup == "number":
            if len(found) > LONGEST_NUMBER:
                refuse(at, f"a number of at most {LONGEST_NUMBER} digits", self.text)
            return Number(at, int(found))
        if token.lastgroup == "quoted":
            return Name(at, found[1:-1])
        if found in NOTHING:
            return NoneText(at)
        if self.peek() == "(":
            return CallText(at, found, self._fields("(", "=", ")"))
        return Name(at, found)

    def _items(self, begin: str, end: str) -> tuple[ValueText, ...]:
        self.need(begin)
        items: list[ValueText] = []
        if self.take(end):
            return ()
        while True:
            first = self.value()
            items.append(TextSpan(first.at, first, self.value()) if self.take("-") else first)
            if self.need(",", end) == end:
                return tuple(items)

    def _is_object(self) -> bool:
        rest = self.text[self.at + 1 : self.at + 64].lstrip()
        return rest.startswith('"')

    def _object(self, at: int) -> CallText:
        return CallText(at, "", self._fields("{", ":", "}"))

    def _fields(self, begin: str, joint: str, end: str) -> tuple[tuple[str, ValueText], ...]:
        self.need(begin)
        fields: list[tuple[str, ValueText]] = []
        if self.take(end):
            return ()
        while True:
            first = self.value()
            named = isinstance(first, Name) and self.take(joint)
            fields.append((first.text, self.value()) if named and isinstance(first, Name) else ("", first))
            if self.need(",", end) == end:
                return tuple(fields)
