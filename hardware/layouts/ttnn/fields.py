"""Checked access to the fields of a parsed value; a missing or unexpected field raises an error with its position."""

from collections.abc import Sequence
from typing import TypeVar

from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.ttnn.grammar import CallText, Items, Name, NoneText, Number, ValueText, refuse
from tapestry.hardware.layouts.ttnn.tile import Pair
from tapestry.hardware.layouts.ttnn.words import Word

W = TypeVar("W", bound=Word)


class Fields:
    """The fields of a call that are not yet taken."""

    def __init__(self, call: CallText) -> None:
        self._call = call
        self._left: dict[str, ValueText] = {}
        for name, value in call.fields:
            if not name:
                refuse(value.at, f"name=value inside {call.name or 'an object'}")
            if name in self._left:
                refuse(value.at, f"{name} only once")
            self._left[name] = value

    @classmethod
    def of(cls, value: ValueText, name: str) -> "Fields":
        """Return the fields of a call of a name, or of an object without one."""
        if not isinstance(value, CallText) or value.name.removeprefix("ttnn.") not in ("", name):
            refuse(value.at, f"{name}(...)")
        return cls(value)

    def take(self, name: str) -> ValueText | None:
        """Take a field; None where it is missing or `std::nullopt`."""
        value = self._left.pop(name, None)
        return None if isinstance(value, NoneText) else value

    def need(self, name: str) -> ValueText:
        """Take a required field."""
        value = self.take(name)
        if value is None:
            refuse(self._call.at, f"{self._call.name or 'an object'} with {name}")
        return value

    def number(self, name: str) -> int:
        """Take a required field that must be a number."""
        value = self.need(name)
        if not isinstance(value, Number):
            refuse(value.at, "a number")
        return value.value

    def word_of(self, kind: type[W], name: str, default: W) -> W:
        """Take a field that is a value of an enumeration, or return `default` if it is missing."""
        value = self.take(name)
        if value is None:
            return default
        try:
            return kind.named(word(value))
        except LayoutError as error:
            raise LayoutError(f"at character {value.at}: {error}") from error

    def done(self) -> None:
        """Raise `LayoutError` if a field was not taken."""
        for name, value in self._left.items():
            refuse(value.at, f"no field {name} in {self._call.name or 'an object'}")


def word(value: ValueText) -> str:
    """Return the text of a word, or a number as text."""
    if isinstance(value, Number):
        return str(value.value)
    if not isinstance(value, Name):
        refuse(value.at, "a name")
    return value.text


def numbers(value: ValueText, name: str) -> tuple[int, ...]:
    """Convert `[1, 2]`, `{1, 2}` or `Shape([1, 2])` to a tuple of numbers."""
    if isinstance(value, CallText) and value.name.removeprefix("ttnn.") == name and len(value.fields) == 1:
        value = value.fields[0][1]
    if not isinstance(value, Items):
        refuse(value.at, f"{name}([...])")
    return tuple(_numbers(value.items))


def _numbers(items: Sequence[ValueText]) -> list[int]:
    found = []
    for item in items:
        if not isinstance(item, Number):
            refuse(item.at, "a number")
        found.append(item.value)
    return found


def pair(value: ValueText) -> Pair:
    """Convert a list of two numbers to a pair."""
    found = numbers(value, "Shape")
    if len(found) != 2:
        refuse(value.at, f"two numbers, not {len(found)}")
    return found[0], found[1]
