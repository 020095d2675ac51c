"""Dictionaries at the top of a module; entries of which the names differ in a number only are written as a loop."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set

from tapestry.teg.exporters.spmd.folding import WIDTH, fold
from tapestry.teg.exporters.spmd.naming import ScopeNames, families, identifier
from tapestry.teg.python_text import has_braces, quoted, template

# A prefix that as many entries share gets a name.
SHARED = 3


def dictionary_lines(name: str, entries: Mapping[str, str], reserved: Set[str]) -> list[str]:
    """Return the lines that state a dictionary: texts by name; names of variables differ from the `reserved` ones."""
    return _lines(name, {key: (text, text) for key, text in entries.items()}, reserved)


def dictionary_of_names(name: str, entries: Mapping[str, str], reserved: Set[str]) -> list[str]:
    """Return the lines that state a dictionary of names by name: the first number of both may be the same."""
    return _lines(name, {key: (quoted(own), _numbered(own, key)) for key, own in entries.items()}, reserved)


def _lines(name: str, entries: Mapping[str, tuple[str, str]], reserved: Set[str]) -> list[str]:
    """Return the lines of a dictionary; each entry has its text alone, and that in a loop."""
    singles: list[str] = []
    loops: dict[tuple[str, tuple[int, ...]], list[tuple[str, str]]] = {}
    alike: dict[str, list[str]] = {}
    for key, (_, text) in entries.items():
        alike.setdefault(text, []).append(key)
    for text, keys in alike.items():
        for form, numbers, members in families(keys):
            if form is None:
                singles.append(f"{quoted(members[0])}: {entries[members[0]][0]}")
            else:
                prefix, _, suffix = form.partition("{}")
                loops.setdefault((prefix, numbers), []).append((suffix, text))
    lines = fold(0, f"{name} = {{{', '.join(singles)}}}")
    for (prefix, numbers), members_of in loops.items():
        lines += _loop_lines(name, prefix, numbers, members_of, reserved)
    return lines


def _numbered(name: str, key: str) -> str:
    """Return the literal of a name, as a template where it has the first number of its key."""
    number = re.search(r"\d+", key)
    if number is None or has_braces(name):
        return quoted(name)
    shown = re.sub(rf"(?<!\d){number.group()}(?!\d)", "{i}", name)
    return quoted(name) if shown == name else template(shown)


def _loop_lines(
    name: str, prefix: str, numbers: Sequence[int], entries: Sequence[tuple[str, str]], reserved: Set[str]
) -> list[str]:
    """Return the loop over the numbers of names; each entry has what follows its number, and its text."""
    lines = [f"for i in {range_text(numbers)}:"]
    if len(lines[0]) > WIDTH:
        middle = len(numbers) // 2
        halves = (
            _loop_lines(name, prefix, part, entries, reserved)
            for part in (numbers[:middle], numbers[middle:])
        )
        return [line for half in halves for line in half]
    shown = f"{prefix}{{i}}"
    if len(entries) >= SHARED:
        variable = ScopeNames(set(reserved)).fresh(prefix_name(prefix))
        lines += fold(1, f"{variable} = {template(shown)}")
        shown = f"{{{variable}}}"
    listed = [(template(f"{shown}{suffix}"), text) for suffix, text in entries]
    if len(listed) == 1:
        ((key, text),) = listed
        return [*lines, *fold(1, f"{name}[{key}] = {text}")]
    return [*lines, *fold(1, f"{name} |= {{{', '.join(f'{key}: {text}' for key, text in listed)}}}")]


def prefix_name(prefix: str) -> str:
    """Return the last word of a prefix as the name of a variable."""
    words = [w for w in re.split(r"[^A-Za-z]+", prefix) if w]
    return identifier(words[-1]) if words else "prefix"


def range_text(numbers: Sequence[int]) -> str:
    """Return ascending numbers as a range, or as they are."""
    first, last = numbers[0], numbers[-1]
    if list(numbers) != list(range(first, last + 1)):
        return f"({', '.join(map(str, numbers))})"
    return f"range({last + 1})" if first == 0 else f"range({first}, {last + 1})"
