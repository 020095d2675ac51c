"""Repeated runs of statements: found by their text, checked by their wiring, written once as a function and a loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from tapestry.teg.exporters.spmd.statements import Statement

# A loop has to save this many lines.
LEAST_SAVING = 12


@dataclass(frozen=True)
class Loop:
    """A run of statements that is repeated: `rounds` hold the statements of each round.

    What a round reads from outside is `shared` (the same variable in all of them), `carried` (a pair: the variable
    that the first round reads, and the position of what the others read among those that the round before sets), or
    `varying` (a variable for each round). `last` and `collected` are the positions of what is read later: of the last
    round only, or of every one.
    """

    rounds: tuple[tuple[Statement, ...], ...]
    shared: tuple[str, ...]
    carried: tuple[tuple[str, int], ...]
    varying: tuple[tuple[str, ...], ...]
    last: tuple[int, ...]
    collected: tuple[int, ...]

    def sets(self, number: int) -> tuple[str, ...]:
        """Return the variables that a round sets, in order."""
        return variables_set(self.rounds[number])

    @property
    def reads(self) -> tuple[str, ...]:
        """The variables that are read from outside."""
        first = (key for key, _ in self.carried)
        return tuple(dict.fromkeys((*self.shared, *first, *(k for keys in self.varying for k in keys))))

    @cached_property
    def given_up(self) -> frozenset[str]:
        """The sources that are given up in the rounds."""
        return frozenset(site for r in self.rounds for s in r for site in s.given_up)

    @property
    def width(self) -> int:
        """The number of variables that go in or out of a round."""
        return (
            len(self.shared)
            + 2 * len(self.carried)
            + len(self.varying)
            + len(self.last)
            + len(self.collected)
        )


Item = Statement | Loop


def variables_set(statements: Sequence[Statement]) -> tuple[str, ...]:
    """Return the variables that statements set, in order, each once."""
    return tuple(dict.fromkeys(key for s in statements for key in (*s.sets, *s.inner)))


def with_loops(statements: Sequence[Statement], kept: Sequence[str]) -> list[Item]:
    """Replace repeated runs by loops, the one that saves most lines first; variables `kept` are read at the end."""
    best = _best(statements, kept)
    if best is None:
        return list(statements)
    start, loop = best
    end = start + sum(map(len, loop.rounds))
    before, after = statements[:start], statements[end:]
    later = _read_by(statements[start:])
    return [
        *with_loops(before, [*kept, *later]),
        loop,
        *with_loops(after, kept),
    ]


def constants_first(statements: Sequence[Statement]) -> list[Statement]:
    """Move values that depend on nothing and have several readers, such as masks, before everything else.

    They stand where the first reader is, often a layer, and would make it unlike the others.
    """
    readers = Counter(key for s in statements for key in s.reads)
    makers = {key: k for k, s in enumerate(statements) for key in s.sets}
    pure: set[int] = set()
    for k, s in enumerate(statements):
        if s.receives:
            continue
        if not any(is_source for _, is_source in s.marks) and all(makers[key] in pure for key in s.reads):
            pure.add(k)
    moved: set[int] = set()
    waiting = [k for k in pure if any(readers[key] > 1 for key in statements[k].sets)]
    while waiting:
        k = waiting.pop()
        if k not in moved:
            moved.add(k)
            waiting += [makers[key] for key in statements[k].reads]
    return [statements[k] for k in sorted(moved)] + [s for k, s in enumerate(statements) if k not in moved]


def _read_by(statements: Sequence[Statement]) -> list[str]:
    return list(dict.fromkeys(key for s in statements for key in s.reads))


def _best(statements: Sequence[Statement], kept: Sequence[str]) -> tuple[int, Loop] | None:
    """Return the start of the best run, and its loop."""
    numbers: dict[str, int] = {}
    patterns = [numbers.setdefault(s.pattern, len(numbers)) for s in statements]
    # Most statements are followed by a deletion.
    lines = [len(s.lines) + 1 for s in statements]
    candidates = []
    for start, length, count in _runs(patterns):
        saving = (count - 1) * sum(lines[start : start + length]) - 4
        if saving >= LEAST_SAVING:
            candidates.append((saving, start, length, count))
    for saving, start, length, count in sorted(candidates, key=lambda c: (-c[0], c[2]))[:16]:
        for rounds in range(count, 1, -1):
            if rounds < count and (saving * rounds) // count < LEAST_SAVING:
                break
            found = [
                (first, loop)
                for first in _starts(patterns, start, length, rounds)
                if (loop := _loop(statements, first, length, rounds, kept)) is not None
            ]
            if found:
                return min(found, key=lambda each: (each[1].width, each[0]))
    return None


def _runs(patterns: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield `(start, length, count)` of runs of equal stretches that follow each other."""
    size = len(patterns)
    for length in range(1, size // 2 + 1):
        start = 0
        while start + length < size:
            if patterns[start] != patterns[start + length]:
                start += 1
                continue
            end = start
            while end + length < size and patterns[end] == patterns[end + length]:
                end += 1
            if end - start >= length:
                yield start, length, (end - start) // length + 1
            start = end + 1


def _starts(patterns: Sequence[int], start: int, length: int, count: int) -> range:
    """Return where a run of so many rounds may begin, for the same stretch of equal statements."""
    end = start
    while end + length < len(patterns) and patterns[end] == patterns[end + length]:
        end += 1
    return range(start, end - (count - 1) * length + 1)


def _loop(
    statements: Sequence[Statement], start: int, length: int, count: int, kept: Sequence[str]
) -> Loop | None:
    """Return the loop that a run is, or None where its rounds are wired in different ways."""
    rounds = [tuple(statements[start + k * length : start + (k + 1) * length]) for k in range(count)]
    own = [variables_set(r) for r in rounds]
    if len({len(keys) for keys in own}) > 1:
        return None
    place = [{key: q for q, key in enumerate(keys)} for keys in own]
    everywhere = {key for keys in own for key in keys}
    shared: dict[str, None] = {}
    carried: dict[tuple[str, int], None] = {}
    varying: dict[tuple[str, ...], None] = {}
    for marks in zip(*([m for s in r for m in s.marks] for r in rounds), strict=True):
        keys = tuple(key for key, _ in marks)
        if marks[0][1]:
            continue
        inner = [key in place[k] for k, key in enumerate(keys)]
        if any(inner):
            if not all(inner) or len({place[k][key] for k, key in enumerate(keys)}) > 1:
                return None
        elif len(set(keys)) == 1:
            shared[keys[0]] = None
        elif all(key in place[k] for k, key in enumerate(keys[1:])):
            before = {place[k][key] for k, key in enumerate(keys[1:])}
            if len(before) > 1 or keys[0] in everywhere:
                return None
            carried[keys[0], before.pop()] = None
        elif everywhere & set(keys):
            return None
        else:
            varying[keys] = None
    if len({q for _, q in carried}) < len(carried):
        return None
    later = {*_read_by(statements[start + length * count :]), *kept}
    last, collected = [], []
    for q in range(len(own[0])):
        read = [keys[q] in later for keys in own]
        if any(read[:-1]):
            collected.append(q)
        elif read[-1]:
            last.append(q)
    return Loop(tuple(rounds), tuple(shared), tuple(carried), tuple(varying), tuple(last), tuple(collected))
