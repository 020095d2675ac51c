"""Dictionaries at the top of a module; entries of which the names differ in a number only are written as a loop."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set

from tapestry.teg.exporters.spmd.folding import WIDTH, fold
from tapestry.teg.exporters.spmd.naming import ScopeNames, families, identifier

# A prefix that as many entries share gets a name.
SHARED = 3


def dictionary_lines(
    name: str, entries: Mapping[str, str], reserved: Set[str], counted: bool = False
) -> list[str]:
    """Return the lines that state a dictionary: texts by name; names of variables differ from the `reserved` ones.

    With `counted`, the first number of a name may stand in its text, too.
    """
    singles: list[str] = []
    loops: dict[tuple[str, tuple[int, ...]], list[tuple[str, str]]] = {}
    alike: dict[str, list[str]] = {}
    for key, text in entries.items():
        alike.setdefault(_numbered(text, key) if counted else text, []).append(key)
    for text, keys in alike.items():
        for form, numbers, members in families(keys):
            if form is None:
                singles.append(f'"{members[0]}": {entries[members[0]]}')
            else:
                prefix, _, suffix = form.partition("{}")
                loops.setdefault((prefix, numbers), []).append((suffix, text))
    lines = fold(0, f"{name} = {{{', '.join(singles)}}}")
    for (prefix, numbers), members_of in loops.items():
        lines += _loop_lines(name, prefix, numbers, members_of, reserved)
    return lines


def _numbered(text: str, key: str) -> str:
    """Return a text with `{i}` in place of the first number of its key."""
    number = re.search(r"\d+", key)
    if number is None or "{" in text or "}" in text:
        return text
    shown = re.sub(rf"(?<!\d){number.group()}(?!\d)", "{i}", text)
    return text if shown == text else f"f{shown}"


def _loop_lines(
    name: str, prefix: str, numbers: Sequence[int], entries: Sequence[tuple[str, str]], reserved: Set[str]
) -> list[str]:
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
        lines += fold(1, f'{variable} = f"{shown}"')
        shown = f"{{{variable}}}"
    listed = [f'f"{shown}{suffix}": {text}' for suffix, text in entries]
    if len(listed) == 1:
        key, _, text = listed[0].partition(": ")
        return [*lines, *fold(1, f"{name}[{key}] = {text}")]
    return [*lines, *fold(1, f"{name} |= {{{', '.join(listed)}}}")]


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
