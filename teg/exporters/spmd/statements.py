"""Statements of a program that all devices run: lines of text in which variables are marked, not yet named.

A variable is the key of a buffer of the plan, or a temporary value inside a block. Names are given when the text is
put together, so that the statements of equal layers can be recognized and written once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from urllib.parse import quote, unquote

import numpy as np

from tapestry.teg.python_text import quoted

_OPEN, _CLOSE, _WEIGHT, _TAKEN, _NUMBER = "\x01", "\x02", "\x03", "\x04", "\x05"
_SOURCES = (_WEIGHT, _TAKEN)
_MARK = re.compile(f"[{_OPEN}{_WEIGHT}{_TAKEN}{_NUMBER}]([^{_CLOSE}]*){_CLOSE}")

_STARTED = ">started"
# What keys of temporary values begin with, and names of users do not, which are printable.
_TEMPORARY = "\x06"
# Other characters of keys are escaped in marks, as none of them may be taken for code.
_PLAIN = "/>:@"


def variable(key: str) -> str:
    """Return the text that stands for the variable `key`."""
    return f"{_OPEN}{_encoded(key)}{_CLOSE}"


def started(key: str) -> str:
    """Return the key of the copy under way that will be the buffer `key`."""
    return f"{key}{_STARTED}"


def is_started(key: str) -> bool:
    """Return whether a variable is a copy under way: it holds nothing any more when it was waited for."""
    return key.endswith(_STARTED)


def source_value(site: str) -> str:
    """Return the text that stands for the value of the source `site`."""
    return f"{_WEIGHT}{_encoded(site)}{_CLOSE}"


def taken_source(site: str) -> str:
    """Return the text that stands for the value of the source `site`, which is given up with it."""
    return f"{_TAKEN}{_encoded(site)}{_CLOSE}"


def layer_number(number: int) -> str:
    """Return the text that stands for the number of a layer."""
    return f"{_NUMBER}{number}{_CLOSE}"


def _encoded(key: str) -> str:
    return quote(key, safe=_PLAIN, errors="surrogatepass")


def _key(mark: re.Match[str]) -> str:
    """Return the key, or the site, that a mark stands for."""
    return unquote(mark.group(1), errors="surrogatepass")


def temporary_key(name: object) -> str:
    """Return the key of a temporary value."""
    return f"{_TEMPORARY}{name}"


def is_temporary_key(key: str) -> bool:
    """Return whether a variable is a temporary value, not a buffer of the plan."""
    return key.startswith(_TEMPORARY)


def apparent_length(text: str) -> int:
    """Return about how long the text will be with names in place of its marks."""

    def stand_in(match: re.Match[str]) -> str:
        key = _key(match)
        # Numbers of layers and hashes may be longer or shorter, and equal layers are to look equal.
        length = len(re.sub(r"_?[0-9a-f]*\d[0-9a-f]*", "", key))
        return "x" * (length + 5 if match.group(0)[0] in _SOURCES else min(length, 32))

    return len(_MARK.sub(stand_in, text))


@dataclass(frozen=True)
class Statement:
    """Lines that belong together: `(indentation level, text)`, with the variables that they set.

    `comment` is about the last one, `notes` about others, by position. The variables `inner` live inside the lines
    only. `calls` names the function of the program that a statement calls, and does nothing else; that gives up the
    sources `taken_inside`. One that `receives` what another stage sends stays where it is.
    """

    lines: tuple[tuple[int, str], ...]
    sets: tuple[str, ...]
    comment: str = ""
    inner: tuple[str, ...] = ()
    notes: tuple[tuple[int, str], ...] = ()
    guard: Guard | None = None
    calls: str = ""
    taken_inside: frozenset[str] = frozenset()
    receives: bool = False

    @cached_property
    def marks(self) -> tuple[tuple[str, bool], ...]:
        """All marks of values in order of appearance: the key, and whether it is a source."""
        found = (m for _, text in self.lines for m in _MARK.finditer(text))
        return tuple((_key(m), m.group(0)[0] in _SOURCES) for m in found if m.group(0)[0] != _NUMBER)

    @cached_property
    def taken(self) -> tuple[bool, ...]:
        """The flags of the sources in order of appearance: true where one is given up with the statement."""
        found = (m.group(0)[0] for _, text in self.lines for m in _MARK.finditer(text))
        return tuple(kind == _TAKEN for kind in found if kind in _SOURCES)

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of layers in order of appearance."""
        found = (m for _, text in self.lines for m in _MARK.finditer(text))
        return tuple(int(m.group(1)) for m in found if m.group(0)[0] == _NUMBER)

    @cached_property
    def given_up(self) -> frozenset[str]:
        """The sources that are given up with the statement."""
        sources = (key for key, is_source in self.marks if is_source)
        taken = {key for key, is_taken in zip(sources, self.taken, strict=True) if is_taken}
        return self.taken_inside | taken

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """The variables that the lines mention without setting them, each once."""
        found = dict.fromkeys(key for key, is_source in self.marks if not is_source)
        return tuple(key for key in found if key not in (*self.sets, *self.inner))

    @cached_property
    def pattern(self) -> str:
        """The text with empty marks, and the comment: equal for statements that do the same."""
        blank = [f"{indent} {_MARK.sub(_blank, text)}" for indent, text in self.lines]
        return "\n".join([*blank, self.comment, str(self.notes)])

    def replaced(self, old: str, new: str) -> Statement:
        """Return the statement with another text in place of one."""
        guard = self.guard
        if guard:
            body = tuple(s.replaced(old, new) for s in guard.body)
            otherwise = tuple((key, text.replace(old, new)) for key, text in guard.otherwise)
            return replace(guard, body=body, otherwise=otherwise).statement()
        lines = tuple((indent, text.replace(old, new)) for indent, text in self.lines)
        return replace(self, lines=lines)

    def rendered(
        self, names: Mapping[str, str], sources: Sequence[str], numbers: Sequence[str] = ()
    ) -> list[tuple[int, str]]:
        """Return the lines with names in place of marks; `sources` and `numbers` in their order of appearance."""
        values, counts = iter(sources), iter(numbers or map(str, self.numbers))

        def name(match: re.Match[str]) -> str:
            kind = match.group(0)[0]
            if kind == _OPEN:
                return names[_key(match)]
            if kind == _NUMBER:
                return next(counts)
            source = next(values)
            is_taken = kind == _TAKEN and source.startswith("w[")
            return f"w.pop({source[2:-1]})" if is_taken else source

        return [(indent, _MARK.sub(name, text)) for indent, text in self.lines]

    def commented(
        self, names: Mapping[str, str], sources: Sequence[str], numbers: Sequence[str] = ()
    ) -> list[tuple[int, str, str]]:
        """Return the lines with names in place of marks, each with its comment."""
        comments = {len(self.lines) - 1: self.comment, **dict(self.notes)}
        rendered = self.rendered(names, sources, numbers)
        return [(indent, text, comments.get(k, "")) for k, (indent, text) in enumerate(rendered)]


@dataclass(frozen=True)
class Guard:
    """Statements that some devices skip: these set the variables to other texts."""

    condition: str
    body: tuple[Statement, ...]
    otherwise: tuple[tuple[str, str], ...]

    def statement(self, dying: Sequence[Sequence[str]] | None = None, gone: Sequence[str] = ()) -> Statement:
        """Return the condition as a statement; sources that are given up inside are given up elsewhere, too.

        Values are deleted after their last reader, or where they are `dying` after each statement. Variables `gone` are
        set outside, and of no use later.
        """
        made = tuple(key for key, _ in self.otherwise)
        inner = dict.fromkeys(key for s in self.body for key in s.sets if key not in made)
        last = {key: k for k, s in enumerate(self.body) for key in (*s.sets, *s.reads)}
        lines = [(0, f"if {self.condition}:")]
        notes = []
        for k, s in enumerate(self.body):
            lines += [(indent + 1, text) for indent, text in s.lines]
            notes += [(len(lines) - 1, s.comment)] if s.comment else []
            ended = [key for key in inner if last[key] == k] if dying is None else dying[k]
            lines += _deleted([key for key in ended if key in inner or key in gone])
        otherwise = [
            *_deleted(gone),
            *((1, taken_source(site)) for s in self.body for site in sorted(s.given_up)),
        ]
        otherwise += [(1, f"{variable(key)} = {text}") for key, text in self.otherwise]
        lines += [(0, "else:"), *otherwise] if otherwise else []
        return Statement(tuple(lines), made, "", tuple(inner), tuple(notes), self)


def _deleted(keys: Sequence[str]) -> list[tuple[int, str]]:
    return [(1, f"del {', '.join(map(variable, keys))}")] if keys else []


def is_temporary(statement: Statement) -> bool:
    """Return whether a statement is one line that sets a temporary value."""
    return len(statement.lines) == 1 and len(statement.sets) == 1 and is_temporary_key(statement.sets[0])


def named(text: str, names: Mapping[str, str]) -> str:
    """Return a text outside all statements, with names in place of marks."""
    return Statement(((0, text),), ()).rendered(names, [f"w[{quoted(key)}]" for key in sources_in(text)])[0][
        1
    ]


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
    """Statements under construction; `sizes` are the bytes `(devices,)` of temporary values, where they are known."""

    done: list[Statement] = field(default_factory=list)
    sizes: dict[str, np.ndarray] = field(default_factory=dict)
    temporaries: int = 0

    def assign(self, key: str, text: str, comment: str = "") -> None:
        """Append `key = text`."""
        self.done.append(Statement(((0, f"{variable(key)} = {text}"),), (key,), comment))

    def assign_all(self, keys: tuple[str, ...], text: str, comment: str = "") -> None:
        """Append the assignment of several results at once."""
        self.done.append(Statement(((0, f"{', '.join(map(variable, keys))} = {text}"),), keys, comment))

    def receive(self, key: str, text: str, comment: str = "") -> None:
        """Append `key = text`, in which another stage takes part."""
        self.assign(key, text, comment)
        self.done[-1] = replace(self.done[-1], receives=True)

    def do(self, text: str) -> None:
        """Append a statement that sets nothing."""
        self.done.append(Statement(((0, text),), ()))

    def new_key(self) -> str:
        """Return the key of a new temporary variable."""
        self.temporaries += 1
        return temporary_key(self.temporaries)

    def temporary(self, text: str) -> str:
        """Append the assignment of a temporary value, and return its key."""
        key = self.new_key()
        self.done.append(Statement(((0, f"{variable(key)} = {text}"),), (key,)))
        return key

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
            self.done[number : number + 1] = [*before, statement.replaced(read, taken)]
            return

    def guarded(self, start: int, condition: str, otherwise: list[tuple[str, str]]) -> None:
        """Put all statements from `start` on under a condition; else set the variables to the given texts."""
        guard = Guard(condition, tuple(self.done[start:]), tuple(otherwise))
        del self.done[start:]
        self.done.append(guard.statement())
