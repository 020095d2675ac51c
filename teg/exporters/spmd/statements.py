"""Statements of a program that all devices run: lines of text in which variables are marked, not yet named.

A variable is the key of a buffer of the plan, or a temporary value inside a block. Names are given when the text is
put together, so that the statements of equal layers can be recognized and written once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

_OPEN, _CLOSE, _WEIGHT, _TAKEN = "\x01", "\x02", "\x03", "\x04"
_MARK = re.compile(f"[{_OPEN}{_WEIGHT}{_TAKEN}]([^{_CLOSE}]*){_CLOSE}")

_STARTED = ">started"


def variable(key: str) -> str:
    """Return the text that stands for the variable `key`."""
    return f"{_OPEN}{key}{_CLOSE}"


def started(key: str) -> str:
    """Return the key of the copy under way that will be the buffer `key`."""
    return f"{key}{_STARTED}"


def is_started(key: str) -> bool:
    """Return whether a variable is a copy under way: it holds nothing any more when it was waited for."""
    return key.endswith(_STARTED)


def source_value(site: str) -> str:
    """Return the text that stands for the value of the source `site`."""
    return f"{_WEIGHT}{site}{_CLOSE}"


def taken_source(site: str) -> str:
    """Return the text that stands for the value of the source `site`, which is given up with it."""
    return f"{_TAKEN}{site}{_CLOSE}"


def apparent_length(text: str) -> int:
    """Return about how long the text will be with names in place of its marks."""

    def stand_in(match: re.Match[str]) -> str:
        key = match.group(1)
        return "x" * (min(len(key), 32) if match.group(0)[0] == _OPEN else len(key) + 5)

    return len(_MARK.sub(stand_in, text))


@dataclass(frozen=True)
class Statement:
    """Lines that belong together: `(indentation level, text)`, with the variables that they set.

    `comment` is about the last one. The variables `inner` live inside the lines only.
    """

    lines: tuple[tuple[int, str], ...]
    sets: tuple[str, ...]
    comment: str = ""
    inner: tuple[str, ...] = ()

    @property
    def marks(self) -> tuple[tuple[str, bool], ...]:
        """All marks in order of appearance: the key, and whether it is a source."""
        return tuple(
            (m.group(1), m.group(0)[0] != _OPEN) for _, text in self.lines for m in _MARK.finditer(text)
        )

    @property
    def reads(self) -> tuple[str, ...]:
        """The variables that the lines mention without setting them, each once."""
        found = dict.fromkeys(key for key, is_source in self.marks if not is_source)
        return tuple(key for key in found if key not in (*self.sets, *self.inner))

    @property
    def pattern(self) -> str:
        """The text with an empty mark for every variable and source: equal for statements that do the same."""
        return "\n".join(f"{indent} {_MARK.sub(_blank, text)}" for indent, text in self.lines)

    def rendered(self, names: Mapping[str, str], sources: Sequence[str]) -> list[tuple[int, str]]:
        """Return the lines with names in place of marks; `sources` in their order of appearance."""
        waiting = iter(sources)

        def name(match: re.Match[str]) -> str:
            if match.group(0)[0] == _OPEN:
                return names[match.group(1)]
            source = next(waiting)
            return f"w.pop({source[2:-1]})" if match.group(0)[0] == _TAKEN else source

        return [(indent, _MARK.sub(name, text)) for indent, text in self.lines]


def named(text: str, names: Mapping[str, str]) -> str:
    """Return a text outside all statements, with names in place of marks."""
    return Statement(((0, text),), ()).rendered(names, [f'w["{key}"]' for key in sources_in(text)])[0][1]


def sources_in(text: str) -> list[str]:
    """Return the sources that a text mentions, in order of appearance."""
    return [key for key, is_source in Statement(((0, text),), ()).marks if is_source]


def variables_in(text: str) -> tuple[str, ...]:
    """Return the variables that a text mentions."""
    return Statement(((0, text),), ()).reads


def _blank(match: re.Match[str]) -> str:
    return match.group(0)[0] + _CLOSE


@dataclass
class StatementList:
    """Statements under construction; `guard` collects lines that some devices skip."""

    done: list[Statement] = field(default_factory=list)
    temporaries: int = 0

    def assign(self, key: str, text: str, comment: str = "") -> None:
        """Append `key = text`."""
        self.done.append(Statement(((0, f"{variable(key)} = {text}"),), (key,), comment))

    def assign_all(self, keys: tuple[str, ...], text: str, comment: str = "") -> None:
        """Append the assignment of several results at once."""
        self.done.append(Statement(((0, f"{', '.join(map(variable, keys))} = {text}"),), keys, comment))

    def new_key(self) -> str:
        """Return the key of a new temporary variable."""
        self.temporaries += 1
        return f"~{self.temporaries}"

    def temporary(self, text: str) -> str:
        """Append the assignment of a temporary value, and return its key."""
        key = self.new_key()
        self.done.append(Statement(((0, f"{variable(key)} = {text}"),), (key,)))
        return key

    def line(self, text: str, sets: tuple[str, ...] = ()) -> None:
        """Append a line that changes a value in place."""
        self.done.append(Statement(((0, text),), sets))

    def take(self, start: int, site: str) -> None:
        """Let the last statement from `start` on that reads a source give it up."""
        read, taken = source_value(site), taken_source(site)
        for number in reversed(range(start, len(self.done))):
            statement = self.done[number]
            count = sum(text.count(read) for _, text in statement.lines)
            if not count:
                continue
            before: list[Statement] = []
            if count > 1:
                key = self.new_key()
                before = [Statement(((0, f"{variable(key)} = {taken}"),), (key,))]
                taken = variable(key)
            lines = tuple((indent, text.replace(read, taken)) for indent, text in statement.lines)
            self.done[number : number + 1] = [*before, replace(statement, lines=lines)]
            return

    def guarded(self, start: int, condition: str, otherwise: list[tuple[str, str]], comment: str) -> None:
        """Put all statements from `start` on under a condition; else set the variables to the given texts."""
        inner = self.done[start:]
        del self.done[start:]
        lines = [(0, f"if {condition}:")]
        lines += [(indent + 1, text) for s in inner for indent, text in s.lines]
        made = tuple(key for key, _ in otherwise)
        temporary = dict.fromkeys(key for s in inner for key in s.sets if key not in made)
        if temporary:
            lines.append((1, f"del {', '.join(map(variable, temporary))}"))
        lines.append((0, "else:"))
        lines += [(1, f"{variable(key)} = {text}") for key, text in otherwise]
        self.done.append(Statement(tuple(lines), made, comment, tuple(temporary)))
