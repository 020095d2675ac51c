"""Conditions that follow each other, joined: what only their own statements read is not set elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from tapestry.teg.exporters.spmd.nesting import nested
from tapestry.teg.exporters.spmd.statements import Guard, Statement


def with_joined_guards(statements: Sequence[Statement], kept: Sequence[str]) -> list[Statement]:
    """Join equal conditions that follow each other; variables `kept` are read at the end."""
    readers = Counter([*(key for s in statements for key in s.reads), *kept])
    return [s for _, run in groupby(statements, _condition) for s in _joined(list(run), readers)]


def _condition(statement: Statement) -> str:
    return statement.guard.condition if statement.guard else ""


def _joined(run: Sequence[Statement], readers: Counter[str]) -> Iterator[Statement]:
    guards = [s.guard for s in run if s.guard]
    if not guards:
        yield from run
        return
    here = Counter(key for s in run for key in s.reads)
    otherwise = [each for guard in guards for each in guard.otherwise if readers[each[0]] > here[each[0]]]
    body = nested([s for guard in guards for s in guard.body])
    yield Guard(guards[0].condition, tuple(body), tuple(otherwise)).statement()
