"""Names of variables: the user's tensor names as identifiers, each once in its scope."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tapestry.teg.python_text import has_braces

LONGEST = 20
_NUMBER = re.compile(r"\d+")
# Letters that look like numbers, which linters refuse.
_AMBIGUOUS = ("I", "O", "l")
_HASH = re.compile(r"(?=.*\d)[0-9a-f]{8}")

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
    "shared_exchange": "fetched",
    "send": "sent",
    "receive": "received",
    "hand_over": "received",
}


@dataclass
class ScopeNames:
    """The names that one scope has given out; `taken` are those it must not use."""

    taken: set[str] = field(default_factory=set)

    def fresh(self, wanted: str) -> str:
        """Return a name that is still free: the wanted one, or that with a number."""
        name, number = wanted, 2
        taken = {*self.taken, *keyword.kwlist, *dir(builtins), *_AMBIGUOUS}
        while name in taken:
            name, number = f"{wanted}_{number}", number + 1
        self.taken.add(name)
        return name


def identifier(site: str, like: Sequence[str] = ()) -> str:
    """Return the last words of a site as an identifier: those after the numbers in which it differs from others."""
    words = _words(site)
    others = [w for w in map(_words, like) if len(w) == len(words)]
    varying = [k for k in range(len(words)) if any(o[k] != words[k] for o in others)]
    kept = [w for k, w in enumerate(words) if k not in varying and (not varying or k > varying[-1])]
    kept = kept or [w for k, w in enumerate(words) if k not in varying] or words
    while len(kept) > 1 and len("_".join(kept)) > LONGEST:
        kept = kept[1:]
    name = "_".join(kept)
    return name if name[:1].isalpha() else f"v_{name}".rstrip("_")


def _words(site: str) -> list[str]:
    """Return the words of a site; those that only tell derived tensors apart are left out."""
    words = [w for w in re.split(r"[^0-9A-Za-z]+", site) if w]
    return [w for w in words if not _HASH.fullmatch(w)] or words


def pattern(names: Sequence[str], numbers: Sequence[int] | None = None) -> str | None:
    """Return the template of names that differ in numbers that follow from `i`; None for others, or with braces.

    `numbers` are the values of `i`: 0, 1, ... where they are left out.
    """
    progress = range(len(names)) if numbers is None else numbers
    parts = [_NUMBER.split(name) for name in names]
    columns = list(zip(*(_NUMBER.findall(name) for name in names), strict=False))
    if any(p != parts[0] for p in parts) or has_braces(names[0]):
        return None
    text = parts[0][0]
    for column, rest in zip(columns, parts[0][1:], strict=True):
        if len(set(column)) == 1:
            text += column[0]
        else:
            formula = number_text(list(map(int, column)), progress)
            if formula is None or any(str(int(c)) != c for c in column):
                return None
            text += f"{{{formula}}}"
        text += rest
    return text


def number_text(values: Sequence[int], numbers: Sequence[int]) -> str | None:
    """Return the text of numbers that are all equal, or grow evenly with `i`; None for others."""
    if len(set(values)) == 1:
        return str(values[0])
    pairs = list(zip(values, numbers, strict=True))
    (v, n), (w, m) = pairs[0], next(((v, n) for v, n in pairs if n != numbers[0]), pairs[0])
    if n == m or (w - v) % (m - n):
        return None
    step = (w - v) // (m - n)
    offset = v - step * n
    if any(v != step * n + offset for v, n in pairs):
        return None
    if step < 0:
        return f"{offset} - i" if step == -1 else f"{offset} - {-step} * i"
    scaled = "i" if step == 1 else f"{step} * i"
    return f"{scaled} {'-' if offset < 0 else '+'} {abs(offset)}" if offset else scaled


def layer_numbers(names: Sequence[str]) -> list[int] | None:
    """Return the numbers in which names differ, if they differ in one."""
    parts = [_NUMBER.split(name) for name in names]
    columns = list(zip(*(_NUMBER.findall(name) for name in names), strict=False))
    varying = [column for column in columns if len(set(column)) > 1]
    if any(p != parts[0] for p in parts) or len(varying) != 1:
        return None
    return list(map(int, varying[0]))


Family = tuple[str | None, tuple[int, ...], tuple[str, ...]]


def families(names: Sequence[str]) -> list[Family]:
    """Group names that differ in one number: `(form with {}, numbers, names)`; others alone, with None for a form.

    Of the numbers in a name, the one that makes fewest groups counts.
    """
    if any(map(has_braces, names)):
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
        if len(members) > 1 and counted == tuple(sorted(set(counted))):
            result.append((form, counted, sites))
        else:
            result += [(None, (), (name,)) for name in sites]
    return result
