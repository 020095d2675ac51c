"""ScopeNames of variables: the user's tensor names as identifiers, each once in its scope."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

LONGEST = 28
_NUMBER = re.compile(r"\d+")

# How the name of a tensor's copy ends, by the last word of the function that makes it.
ENDINGS = {
    "start": "coming",
    "wait": "fetched",
    "all_gather": "gathered",
    "all_to_all": "exchanged",
    "reduce_scatter": "scattered",
    "reduce_scatter_parts": "scattered",
    "all_reduce": "reduced",
    "exchange": "fetched",
}


@dataclass
class ScopeNames:
    """The names that one scope has given out; `taken` are those it must not use."""

    taken: set[str] = field(default_factory=set)

    def fresh(self, wanted: str) -> str:
        """Return a name that is still free: the wanted one, or that with a number."""
        name, number = wanted, 2
        while name in self.taken or keyword.iskeyword(name) or hasattr(builtins, name):
            name, number = f"{wanted}_{number}", number + 1
        self.taken.add(name)
        return name


def identifier(site: str, like: Sequence[str] = ()) -> str:
    """Return a site as an identifier; numbers in which it differs from the sites `like` are left out."""
    words = _words(site)
    others = [w for w in map(_words, like) if len(w) == len(words)]
    kept = [w for k, w in enumerate(words) if all(o[k] == w for o in others)] or words
    while len(kept) > 1 and len("_".join(kept)) > LONGEST:
        kept = kept[1:]
    name = "_".join(kept)
    return name if name[:1].isalpha() else f"v_{name}".rstrip("_")


def _words(site: str) -> list[str]:
    return [w for w in re.split(r"[^0-9A-Za-z]+", site) if w]


def pattern(names: Sequence[str], progress: str = "i") -> str | None:
    """Return an f-string's text for names that differ in one number that grows by one with `i`; None for others."""
    parts = [_NUMBER.split(name) for name in names]
    numbers = [_NUMBER.findall(name) for name in names]
    if any(p != parts[0] for p in parts):
        return None
    text = parts[0][0]
    for k, rest in enumerate(parts[0][1:]):
        column = [n[k] for n in numbers]
        if len(set(column)) == 1:
            text += column[0]
        else:
            values = list(map(int, column))
            first, step = values[0], values[1] - values[0]
            if abs(step) != 1 or values != [first + step * j for j in range(len(values))]:
                return None
            if any(str(int(c)) != c for c in column):
                return None
            offset = progress if first == 0 else f"{progress} + {first}"
            text += f"{{{offset}}}" if step == 1 else f"{{{first} - {progress}}}"
        text += rest
    return text


Family = tuple[str | None, tuple[int, ...], tuple[str, ...]]


def families(names: Sequence[str]) -> list[Family]:
    """Group names that count up in one number: `(form with {}, numbers, names)`; others alone, with None for a form.

    Of the numbers in a name, the one that makes fewest groups counts.
    """
    if any("{" in name or "}" in name for name in names):
        return [(None, (), (name,)) for name in names]
    most = max(len(_NUMBER.findall(name)) for name in names)
    found = [_families(names, k) for k in range(most)]
    return min(found, key=len) if found else [(None, (), (name,)) for name in names]


def _families(names: Sequence[str], position: int) -> list[Family]:
    groups: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        numbers = list(_NUMBER.finditer(name))
        if position < len(numbers) and str(int(numbers[position].group())) == numbers[position].group():
            at = numbers[position]
            form = f"{name[: at.start()]}{{}}{name[at.end() :]}"
            groups.setdefault(form, []).append((int(at.group()), name))
        else:
            groups.setdefault(name, []).append((-1, name))
    result: list[Family] = []
    for form, members in groups.items():
        counted = tuple(n for n, _ in members)
        sites = tuple(name for _, name in members)
        if len(members) > 1 and counted == tuple(range(counted[0], counted[0] + len(counted))):
            result.append((form, counted, sites))
        else:
            result += [(None, (), (name,)) for name in sites]
    return result
