"""Staged pipelines of rules: their order, and how far each goes; rules that misbehave are left out by name.

A stage applies its rules in one of three ways: "once" is a pass over the program per rule, in program order,
and ends because the program does; "fixpoint" goes on until no rule matches, which for saturating rules ends
because the measure falls and for others is stopped at a bound; "search" passes the program to a search that chooses
among moves by cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tapestry.rewrites.fusion.rules import FUSION
from tapestry.rewrites.move import Move
from tapestry.rewrites.rule import Rule, RuleError
from tapestry.rewrites.rules import catalog
from tapestry.rewrites.saturation import Repeated, Saturated, apply_once, repeat, saturate
from tapestry.teg.graph import Graph

HOW = ("once", "fixpoint", "search")

# Operators that are as simple as they get: rules that spell these out are for a search to choose.
SIMPLE = (None, "cell", "contract", "reduce", "conv", "pool", "gather", "view", "concat", "fused", "source")


class Searched(NamedTuple):
    """The result of a search: a program, the moves that lead to it, and the reasons why rules were left out."""

    graph: Graph
    moves: Sequence[Move]
    refused: Mapping[str, str]


# A search chooses among the moves of some rules; the names are those of rules that were left out before.
Search = Callable[[Graph, Sequence[Rule], Sequence[str]], Searched]


@dataclass(frozen=True)
class Stage:
    """Some rules and how they are applied; `most` bounds the moves of a fixpoint of rules that need not end."""

    name: str
    rules: tuple[Rule, ...]
    how: str
    most: int | None = None

    def __post_init__(self) -> None:
        if self.how not in HOW:
            raise ValueError(f"stage {self.name!r}: how is one of {', '.join(HOW)}, not {self.how!r}")


@dataclass(frozen=True)
class StageReport:
    """The report of a stage: its moves, why rules were left out, and rules that still match at its stop."""

    stage: str
    moves: tuple[Move, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    unfinished: tuple[str, ...] = ()


class Rewritten(NamedTuple):
    """A program at the end of a pipeline, and the report of each stage."""

    graph: Graph
    stages: tuple[StageReport, ...]

    @property
    def moves(self) -> tuple[Move, ...]:
        """All moves, in order: they replay from the original program."""
        return tuple(move for stage in self.stages for move in stage.moves)

    @property
    def refused(self) -> dict[str, str]:
        """The reasons why rules were left out, by rule."""
        return {rule: reason for stage in self.stages for rule, reason in stage.refused.items()}


def run_pipeline(graph: Graph, stages: Sequence[Stage], search: Search | None = None) -> Rewritten:
    """Run stage after stage; `search` runs those that search.

    A rule that fails or does not end is left out from then on.

    Raises:
        ValueError: a stage searches, and there is no `search`.
    """
    reports: list[StageReport] = []
    refused: dict[str, str] = {}
    for stage in stages:
        rules = [r for r in stage.rules if r.name not in refused]
        if stage.how == "search":
            if search is None:
                raise ValueError(
                    f"stage {stage.name!r} chooses among moves by cost; run the pipeline with a search"
                )
            graph, moves, left_out = search(graph, rules, tuple(refused))
            refused |= left_out
            reports.append(StageReport(stage.name, tuple(moves), left_out))
            continue
        graph, report = _run(graph, stage, rules)
        refused |= report.refused
        reports.append(report)
    return Rewritten(graph, tuple(reports))


def _run(graph: Graph, stage: Stage, rules: Sequence[Rule]) -> tuple[Graph, StageReport]:
    """Run a stage; restart it without each rule that misbehaves."""
    refused: dict[str, str] = {}
    while True:
        usable = [r for r in rules if r.name not in refused]
        try:
            done = _applied(graph, stage, usable)
        except RuleError as error:
            refused[error.rule] = error.reason
            continue
        unfinished = done.unfinished if isinstance(done, Repeated) else ()
        return done.graph, StageReport(stage.name, tuple(done.moves), refused, unfinished)


def _applied(graph: Graph, stage: Stage, rules: Sequence[Rule]) -> Saturated | Repeated:
    if stage.how == "once":
        return apply_once(graph, rules)
    if all(rule.saturating for rule in rules):
        return saturate(graph, rules)
    return repeat(graph, rules, stage.most)


def standard_pipeline() -> tuple[Stage, ...]:
    """Build the standard stages: expand composite operators, simplify, search, and fuse what is left."""
    rules = tuple(catalog().values())
    fusions = {r.name for r in FUSION if r.kind != "semantic"}
    return (
        Stage("expand", tuple(r for r in rules if _spells_out(r)), "fixpoint"),
        Stage("simplify", tuple(r for r in rules if r.saturating), "fixpoint"),
        Stage("search", tuple(r for r in rules if not r.saturating), "search"),
        Stage("fuse", tuple(r for r in rules if r.saturating or r.name in fusions), "fixpoint"),
    )


def _spells_out(rule: Rule) -> bool:
    """Return whether a rule expands a composite operator, in one way."""
    return rule.kind == "semantic" and rule.choices is None and rule.roots[0].operator not in SIMPLE


PIPELINES: Mapping[str, Callable[[], tuple[Stage, ...]]] = {"standard": standard_pipeline}
