"""The step of a program with stages that one process drives: turns as functions, and the copies between them.

A turn is what a stage does in one go. Turns that do the same, as those of most rounds do, are one function.

Imported by `module.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tapestry.teg.exporters.spmd.guards import with_joined_guards
from tapestry.teg.exporters.spmd.nesting import nested
from tapestry.teg.exporters.spmd.shared_functions import (
    FunctionScope,
    SharedFunction,
    StretchPlace,
    call_of,
    function_of,
    wiring_of,
)
from tapestry.teg.exporters.spmd.statements import Statement


@dataclass(frozen=True)
class TurnStatements:
    """Statements that a stage runs in one go; the process itself runs those of no stage."""

    stage: int | None
    statements: tuple[Statement, ...]


@dataclass(frozen=True)
class TurnFunction:
    """The function of turns of a stage that do the same."""

    stage: int
    function: SharedFunction


def driven(
    turns: Sequence[TurnStatements], kept: Sequence[str]
) -> tuple[list[Statement], list[TurnFunction]]:
    """Return the statements of the process, which call turns, and the functions; `kept` are read at the end."""
    read_later = [set(kept)]
    for turn in reversed(turns):
        read_later.append(read_later[-1] | {key for s in turn.statements for key in s.reads})
    done = [_simplified(turn, later) for turn, later in zip(turns, read_later[-2::-1], strict=True)]
    scope = FunctionScope([[s for turn in done for s in turn.statements]], [0], set(kept))
    reads, start = scope.last_reads(), 0
    alike: dict[object, list[tuple[int, StretchPlace]]] = {}
    for number, turn in enumerate(done):
        length = len(turn.statements)
        if turn.stage is not None:
            wiring = wiring_of(scope, reads, start, length)
            form = (turn.stage, tuple(s.pattern for s in turn.statements), wiring)
            alike.setdefault(form, []).append((number, StretchPlace(0, start)))
        start += length
    calls: dict[int, Statement] = {}
    functions: list[TurnFunction] = []
    for members in alike.values():
        stage, length = done[members[0][0]].stage, len(done[members[0][0]].statements)
        assert stage is not None
        places = [place for _, place in members]
        _, returned = wiring_of(scope, reads, places[0].start, length)
        found = function_of([scope], places, length, returned)
        assert found is not None  # no numbers of layers are in it yet
        name = f"stage_{stage}_turn_{sum(f.stage == stage for f in functions)}"
        function = replace(found, name=name)
        functions.append(TurnFunction(stage, function))
        for (number, _), body in zip(members, function.body.rounds, strict=True):
            calls[number] = call_of(function, function.source_parameters, body, 0, returned)
    written: list[Statement] = []
    for number, turn in enumerate(done):
        written += [calls[number]] if number in calls else turn.statements
    return written, functions


def _simplified(turn: TurnStatements, later: set[str]) -> TurnStatements:
    """Return a turn with temporary values inside the expressions that read them; others are read `later`."""
    kept = [key for s in turn.statements for key in s.sets if key in later]
    statements = nested(with_joined_guards(turn.statements, kept), kept)
    return replace(turn, statements=tuple(statements))
