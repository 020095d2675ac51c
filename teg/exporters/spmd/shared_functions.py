"""Stretches of statements that stand in several places: written once, as a function that these places call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from tapestry.teg.exporters.spmd.layers import Item, Loop, variables_set
from tapestry.teg.exporters.spmd.naming import layer_numbers, number_text, pattern
from tapestry.teg.exporters.spmd.repeats import repeats
from tapestry.teg.exporters.spmd.statements import (
    Statement,
    layer_number,
    source_value,
    taken_source,
    variable,
)

T = TypeVar("T")

# A function has to save so many lines; it takes so many itself, and for each value that goes in or out.
LEAST_SAVING, FUNCTION_LINES, VALUE_LINES = 4, 5, 2
# Programs of which no two places are alike would have hundreds, which are no easier to read.
MOST_FUNCTIONS = 24
# Python keeps the arguments of a call with more of them until it returns.
MOST_ARGUMENTS = 30
# So many of the longest stretches are tried, with up to so many statements left out at either end.
MOST_TRIED, MOST_TRIMMED = 24, 5


@dataclass
class FunctionScope:
    """Statements of one function: of the step, of the rounds of a loop, or of the places of a shared function.

    `rounds` do the same with other values; `numbers` are those of their layers, and `leaving` the variables of the
    first round that are read outside.
    """

    rounds: list[list[Item]]
    numbers: list[int]
    leaving: set[str]

    def last_reads(self) -> dict[str, int]:
        """Return where each variable of the first round is read last."""
        found = {key: k for k, item in enumerate(self.rounds[0]) for key in item.reads}
        return found | dict.fromkeys(self.leaving, len(self.rounds[0]))


@dataclass(frozen=True)
class SharedFunction:
    """A function of a stretch of statements; `body` has it as it is in all places, the first one's variables named.

    Its body may have come to call others that were found later.
    """

    name: str
    body: FunctionScope
    parameters: tuple[str, ...]
    returned: tuple[str, ...]
    reads_sources: bool
    is_numbered: bool

    @property
    def source_parameters(self) -> list[int]:
        """The sources that are parameters, by their positions in the body: those whose names do not follow from `i`."""
        columns = _columns([sources_read(_statements(each)) for each in self.body.rounds])
        numbers = self.body.numbers if self.is_numbered else None
        return [k for k, column in enumerate(columns) if not _follows(column, numbers)]


class StretchPlace(NamedTuple):
    """The place of a stretch: a scope, and its first statement there."""

    scope: int
    start: int


class Stretch(NamedTuple):
    """Equal statements in several places, and how many lines a function of them saves."""

    places: tuple[StretchPlace, ...]
    length: int
    saving: int


def with_shared_functions(
    items: Sequence[Item], kept: Sequence[str], called: str = "block"
) -> tuple[list[Item], list[SharedFunction]]:
    """Replace stretches that stand in several places by calls; variables `kept` are read at the end.

    Functions are `called` so, and numbered where there are several.
    """
    scopes = [FunctionScope([list(items)], [0], set(kept))]
    of_loops = {id(item): _loop_scope(item) for item in items if isinstance(item, Loop)}
    scopes += of_loops.values()
    functions = share(scopes, called)
    written = [
        _rebuilt(item, of_loops[id(item)]) if isinstance(item, Loop) else item for item in scopes[0].rounds[0]
    ]
    return written, functions


def share(scopes: list[FunctionScope], called: str) -> list[SharedFunction]:
    """Replace stretches that stand in several places of some scopes by calls, in place; return the functions.

    What one of them calls comes before it.
    """
    functions: list[SharedFunction] = []
    while len(functions) < MOST_FUNCTIONS and (found := _best(scopes)) is not None:
        stretch, function = found
        name = f"{called}_{len(functions) + 1}" if functions else called
        functions.append(replace(function, name=name))
        _call(scopes, stretch, functions[-1])
        scopes.append(functions[-1].body)
    # What is found later stands inside what was found before.
    return functions[::-1]


def _loop_scope(loop: Loop) -> FunctionScope:
    leaving = {loop.sets(0)[q] for q in (*loop.last, *loop.collected, *(q for _, q in loop.carried))}
    return FunctionScope([list(r) for r in loop.rounds], list(range(len(loop.rounds))), leaving)


def _rebuilt(loop: Loop, scope: FunctionScope) -> Loop:
    """Return a loop whose rounds call functions, with the positions of what they set now."""
    rounds = tuple(tuple(_statements(r)) for r in scope.rounds)
    after = {key: q for q, key in enumerate(variables_set(rounds[0]))}
    place = [after.get(key, -1) for key in loop.sets(0)]
    return replace(
        loop,
        rounds=rounds,
        carried=tuple((first, place[q]) for first, q in loop.carried),
        last=tuple(place[q] for q in loop.last),
        collected=tuple(place[q] for q in loop.collected),
    )


def _best(scopes: Sequence[FunctionScope]) -> tuple[Stretch, SharedFunction] | None:
    """Return the stretch that saves most lines, and its function; None where none saves enough."""
    reads = [scope.last_reads() for scope in scopes]
    found: list[tuple[Stretch, SharedFunction]] = []
    for length, places in _candidates(scopes):
        for first in range(min(MOST_TRIMMED, length)):
            for last in range(max(length - MOST_TRIMMED, first + 1), length + 1):
                moved = [StretchPlace(p.scope, p.start + first) for p in places]
                found += _alike(scopes, reads, moved, last - first)
    return max(found, key=lambda each: each[0].saving, default=None)


def _candidates(scopes: Sequence[FunctionScope]) -> list[tuple[int, list[StretchPlace]]]:
    """Return the lengths and places of stretches of equal statements, of those that save most lines."""
    symbols: dict[str, int] = {}
    sequence: list[int] = []
    lines: list[int] = []
    origins: list[StretchPlace] = []
    for number, scope in enumerate(scopes):
        for start, item in enumerate([*scope.rounds[0], None]):
            form = item.pattern if isinstance(item, Statement) else f"boundary {len(sequence)}"
            origins.append(StretchPlace(number, start))
            sequence.append(symbols.setdefault(form, len(symbols)))
            lines.append(_size([item]) if isinstance(item, Statement) else 0)
    found = []
    for length, starts in repeats(sequence):
        apart = _apart(starts, length)
        saving = (len(apart) - 1) * sum(lines[apart[0] : apart[0] + length]) - len(apart)
        if len(apart) > 1 and saving >= LEAST_SAVING:
            found.append((saving, length, [origins[k] for k in apart]))
    best = sorted(found, key=lambda c: (-c[0], c[1]))[:MOST_TRIED]
    return [(length, places) for _, length, places in best]


def _size(statements: Sequence[Statement]) -> int:
    """Return about how many lines statements take; most are followed by a deletion."""
    return sum(len(s.lines) + 1 for s in statements)


def _apart(starts: Sequence[int], length: int) -> list[int]:
    """Return those of ascending starts whose stretches do not overlap."""
    found: list[int] = []
    for start in starts:
        if not found or start >= found[-1] + length:
            found.append(start)
    return found


def _alike(
    scopes: Sequence[FunctionScope],
    reads: Sequence[Mapping[str, int]],
    places: Sequence[StretchPlace],
    length: int,
) -> Iterator[tuple[Stretch, SharedFunction]]:
    """Yield the places at which a stretch is wired in the same way, as a function, if it saves enough."""
    groups: dict[tuple[tuple[int, ...], tuple[int, ...]], list[StretchPlace]] = {}
    for place in places:
        wiring = wiring_of(scopes[place.scope], reads[place.scope], place.start, length)
        groups.setdefault(wiring, []).append(place)
    for (_, returned), alike in groups.items():
        function = function_of(scopes, alike, length, returned) if len(alike) > 1 else None
        if function is None:
            continue
        values = (*function.parameters, *function.source_parameters, *returned)
        size = _size(_stretch(scopes[alike[0].scope], alike[0].start, length))
        saving = (len(alike) - 1) * size - len(alike) - FUNCTION_LINES - VALUE_LINES * len(values)
        if saving >= LEAST_SAVING:
            yield Stretch(tuple(alike), length, saving), function


def _stretch(scope: FunctionScope, start: int, length: int, number: int = 0) -> list[Statement]:
    return _statements(scope.rounds[number][start : start + length])


def wiring_of(
    scope: FunctionScope, reads: Mapping[str, int], start: int, length: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return what a stretch reads, its own by position and others by appearance, and what it returns."""
    statements = _stretch(scope, start, length)
    own = {key: q for q, key in enumerate(variables_set(statements))}
    others: dict[str, int] = {}
    marks = [key for s in statements for key, is_source in s.marks if not is_source]
    wired = tuple(own[key] if key in own else -1 - others.setdefault(key, len(others)) for key in marks)
    return wired, tuple(q for key, q in own.items() if reads.get(key, -1) >= start + length)


def function_of(
    scopes: Sequence[FunctionScope], places: Sequence[StretchPlace], length: int, returned: Sequence[int]
) -> SharedFunction | None:
    """Return the function of stretches that are wired alike; None where numbers of layers do not fit together."""
    bodies = [
        _stretch(scopes[p.scope], p.start, length, k)
        for p in places
        for k in range(len(scopes[p.scope].rounds))
    ]
    own = variables_set(bodies[0])
    sources = _columns([sources_read(body) for body in bodies])
    inner = _columns([[n for s in body for n in s.numbers] for body in bodies])
    numbers = _numbers(scopes, places, sources, inner)
    counted = [0] * len(bodies) if numbers is None else numbers
    if any(number_text(column, counted) is None for column in inner):
        return None
    leaving = tuple(own[q] for q in returned)
    passes_sources = any(f" = {s.calls}(w" in text for s in bodies[0] if s.calls for _, text in s.lines)
    return SharedFunction(
        "",
        FunctionScope([list(body) for body in bodies], counted, set(leaving)),
        _others(bodies[0]),
        leaving,
        passes_sources or any(_follows(column, numbers) for column in sources),
        numbers is not None,
    )


def _follows(column: Sequence[str], numbers: Sequence[int] | None) -> bool:
    """Return whether a source's names in all rounds are one, or follow from the numbers of their layers."""
    return len(set(column)) == 1 or (numbers is not None and pattern(column, numbers) is not None)


def _statements(items: Sequence[Item]) -> list[Statement]:
    return [item for item in items if isinstance(item, Statement)]


def arguments_text(leading: Sequence[str], values: Sequence[str]) -> str:
    """Return the arguments of a call; many values are one list, which the function takes apart."""
    is_listed = len(leading) + len(values) > MOST_ARGUMENTS
    return ", ".join([*leading, f"[{', '.join(values)}]"] if is_listed else [*leading, *values])


def _others(body: Sequence[Statement]) -> tuple[str, ...]:
    """Return the variables that a stretch reads of those set elsewhere, by appearance."""
    own = variables_set(body)
    return tuple(dict.fromkeys(key for s in body for key in s.reads if key not in own))


def sources_read(body: Sequence[Statement]) -> list[str]:
    """Return the sources that statements mention, in order of appearance."""
    return [key for s in body for key, is_source in s.marks if is_source]


def _columns(rows: Sequence[Sequence[T]]) -> list[tuple[T, ...]]:
    return list(zip(*rows, strict=True))


def _numbers(
    scopes: Sequence[FunctionScope],
    places: Sequence[StretchPlace],
    sources: Sequence[tuple[str, ...]],
    inner: Sequence[tuple[int, ...]],
) -> list[int] | None:
    """Return the numbers of the layers of all places: those by which names of sources, or inner calls, differ."""
    named = [layer_numbers(column) for column in sources if len(set(column)) > 1]
    for guess in (*named, *map(list, inner)):
        if guess is not None and len(set(guess)) > 1 and _fit(scopes, places, guess):
            return guess
    return None


def _fit(scopes: Sequence[FunctionScope], places: Sequence[StretchPlace], numbers: Sequence[int]) -> bool:
    """Return whether, in each scope, the numbers of a function's layers follow from those of the scope's."""
    start = 0
    for place in places:
        own = scopes[place.scope].numbers
        if number_text(numbers[start : start + len(own)], own) is None:
            return False
        start += len(own)
    return True


def _call(scopes: Sequence[FunctionScope], stretch: Stretch, function: SharedFunction) -> None:
    """Put calls of a function in place of its stretches."""
    first = _statements(function.body.rounds[0])
    returned = [variables_set(first).index(key) for key in function.returned]
    given = function.source_parameters
    calls = iter(
        call_of(function, given, body, number, returned)
        for body, number in zip(function.body.rounds, function.body.numbers, strict=True)
    )
    written = {place: [next(calls) for _ in scopes[place.scope].rounds] for place in stretch.places}
    for place in sorted(stretch.places, key=lambda p: -p.start):
        for statements, call in zip(scopes[place.scope].rounds, written[place], strict=True):
            statements[place.start : place.start + stretch.length] = [call]


def call_of(
    function: SharedFunction,
    given: Sequence[int],
    body: Sequence[Item],
    number: int,
    returned: Sequence[int],
) -> Statement:
    """Return the statement that calls a function in the place of one of its bodies."""
    statements = _statements(body)
    own, sources = variables_set(statements), sources_read(statements)
    leading = ["w"] if function.reads_sources else []
    leading += [layer_number(number)] if function.is_numbered else []
    values = list(map(variable, _others(statements)))
    taken = [is_taken for s in statements for is_taken in s.taken]
    values += [taken_source(sources[k]) if taken[k] else source_value(sources[k]) for k in given]
    made = tuple(own[q] for q in returned)
    results = ", ".join(map(variable, made))
    call = f"{function.name}({arguments_text(leading, values)})"
    text = f"{results} = {call}" if made else call
    inside = frozenset(site for s in statements for site in s.given_up)
    return Statement(((0, text),), made, calls=function.name, taken_inside=inside)
