"""Rewriting of a program on request, by rules to a chosen extent or by moves; for command line and API alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tapestry.hardware import load_device
from tapestry.optimizer.structure.parameter_folding import fold_parameters, folding_rules
from tapestry.optimizer.structure.rules import choose_rules
from tapestry.optimizer.structure.search_stage import search_on
from tapestry.rewrites import Move, Rule, RuleError, StaleMove, Worklist, apply_all, catalog
from tapestry.rewrites.pipelines import PIPELINES, Rewritten, Stage, StageReport, run_pipeline
from tapestry.rewrites.rules import FAMILY_NAMES, family_of
from tapestry.service.refusals import one_line, refusal_documents
from tapestry.service.requests import InvalidRequest
from tapestry.teg.faults import Fault, near_names, no_such
from tapestry.teg.graph import Graph

HOW = ("once", "fixpoint")

# The device on which a pipeline's search compares programs: a rewrite names no mesh.
SEARCHED_DEVICE = "h100-sxm5-80gb"
KINDS = ("semantic", "optimization")
LONGEST_MESSAGE = 2000


@dataclass(frozen=True)
class RewriteRequest:
    """A rewrite as requested: names and documents of moves, nothing checked.

    `rules`, `families` and `kind` restrict the rules that are applied or listed; without any of them the rules that end
    by themselves are applied, and all are listed. `prepare` folds into parameters what it can after that, unless
    `moves` specify all that is done; dividing the program is left to `rewrites.preparation`.
    """

    rules: Sequence[str] | None = None
    families: Sequence[str] | None = None
    kind: str | None = None
    mode: str | None = None
    pipeline: str | None = None
    moves: Sequence[Any] | None = None
    prepare: bool = False


def chosen_rules(request: RewriteRequest) -> tuple[Rule, ...]:
    """Return the requested rules, in the order in which they are named; all where none are specified.

    Raises:
        InvalidRequest: a name of a rule, family or kind is not known, or families and kind exclude all rules that
            are named.
    """
    faults = [*_unknown_rules(request.rules or ())]
    for k, name in enumerate(request.families or ()):
        faults += _unknown(f"/families/{k}", name, FAMILY_NAMES, "family of rules")
    if request.kind is not None:
        faults += _unknown("/kind", request.kind, KINDS, "kind of rules")
    if faults:
        raise InvalidRequest(faults)
    named = choose_rules(request.rules)
    left = tuple(rule for rule in named if not _is_excluded(rule, request))
    if request.rules and not left:
        raise InvalidRequest([Fault("/rules", f"nothing is left to do: {excluded(request)}")])
    return left


def excluded(request: RewriteRequest) -> str:
    """Describe the named rules (all known) that the families and kind exclude, and the remedy; empty where none."""
    reported = [
        f"{rule.name!r} ({rule.kind}, of {family_of(rule.name)})"
        for rule in (choose_rules(request.rules) if request.rules else ())
        if _is_excluded(rule, request)
    ]
    by = " and ".join(name for name in ("families", "kind") if getattr(request, name) is not None)
    verb = "excludes" if by == "kind" else "exclude"
    return (
        _line(f"{by} {verb} {', '.join(reported)}; leave {by} out to use all that are named")
        if reported
        else ""
    )


def _is_excluded(rule: Rule, request: RewriteRequest) -> bool:
    of_another_family = request.families is not None and family_of(rule.name) not in request.families
    return of_another_family or request.kind not in (None, rule.kind)


def rewritten(graph: Graph, request: RewriteRequest) -> Rewritten:
    """Rewrite a program as requested; return the program and the report of each stage.

    Raises:
        InvalidRequest: the request contradicts itself, names something unknown, or does not fit the program.
    """
    if request.moves is not None:
        _alone("/moves", request, "moves say what is done", ("rules", "families", "kind", "mode", "pipeline"))
        return made(graph, request.moves)
    done = run_pipeline(graph, _stages(request), search_on(load_device(SEARCHED_DEVICE)))
    return _with_folding(done) if request.prepare else done


def _stages(request: RewriteRequest) -> tuple[Stage, ...]:
    if request.pipeline is not None:
        message = "a pipeline brings its own rules and modes along"
        _alone("/pipeline", request, message, ("rules", "families", "kind", "mode"))
        if faults := _unknown("/pipeline", request.pipeline, tuple(PIPELINES), "pipeline"):
            raise InvalidRequest(faults)
        return PIPELINES[request.pipeline]()
    mode = request.mode or "fixpoint"
    if faults := _unknown("/mode", mode, HOW, "mode"):
        raise InvalidRequest(faults)
    rules = chosen_rules(request)
    if (request.rules, request.families, request.kind) == (None, None, None):
        # Rules that need not end are chosen by name, or by a search.
        rules = tuple(rule for rule in rules if rule.saturating)
    return (Stage(mode, rules, mode),)


def _with_folding(done: Rewritten) -> Rewritten:
    """Add a folding stage; restarted without each simplification that misbehaves."""
    refused: dict[str, str] = {}
    while True:
        left_out = {*done.refused, *refused}
        simplifying = [r for r in catalog().values() if r.saturating and r.name not in left_out]
        try:
            after = fold_parameters(done.graph, folding_rules(), simplifying)
        except RuleError as error:
            refused[error.rule] = error.reason
            continue
        stage = StageReport("fold", tuple(after.moves), refused, ())
        return Rewritten(after.graph, (*done.stages, stage))


def made(graph: Graph, documents: Sequence[Any]) -> Rewritten:
    """Apply these moves to a program, one after the other.

    Raises:
        InvalidRequest: one is no move, or does not fit when its turn comes; the fault states which.
    """
    moves = []
    for k, document in enumerate(documents):
        try:
            moves.append(Move.from_json(document))
            graph = apply_all(graph, moves[-1:]).graph
        except (StaleMove, RuleError, ValueError) as error:
            near = _near_rules(moves[-1].rule) if len(moves) > k and moves[-1].rule not in catalog() else ()
            raise InvalidRequest([Fault(f"/moves/{k}", _line(str(error)), near)]) from error
    return Rewritten(graph, (StageReport("moves", tuple(moves), {}, ()),))


def listing(
    graph: Graph, request: RewriteRequest, first: int = 0, limit: int | None = None
) -> dict[str, Any]:
    """List the candidate moves of a program from the `first` on, those of equal layers as one, with their rules.

    `total` counts all of them and `places` all their places. The order is that of the program; it and the moves
    are the same every time.

    Raises:
        InvalidRequest: as for `chosen_rules`.
    """
    candidates = Worklist.of(graph, chosen_rules(request))
    moves = candidates.tied()
    shown = moves[first : None if limit is None else first + limit]
    known = {rule.name: rule for rule in candidates.rules}
    return {
        "total": len(moves),
        "places": sum(len(move.places) for move in moves),
        "moves": [move.to_json() for move in shown],
        "rules": {name: rule_document(known[name]) for name in dict.fromkeys(m.rule for m in shown)},
        "refused": refusal_documents({failure.rule: failure.message for failure in candidates.failures}),
    }


def stage_documents(done: Rewritten) -> list[dict[str, Any]]:
    """Convert each stage's report to JSON; the moves of all, in sequence, replay from the original program."""
    return [
        {
            "stage": stage.stage,
            "moves": [move.to_json() for move in stage.moves],
            "refused": refusal_documents(stage.refused),
            "unfinished": list(stage.unfinished),
        }
        for stage in done.stages
    ]


def rule_document(rule: Rule) -> dict[str, str]:
    """Describe a rule in JSON, with a one-line summary."""
    return {
        "kind": rule.kind,
        "family": family_of(rule.name),
        "domain": rule.domain,
        "summary": rule.doc.strip().partition("\n")[0],
    }


def _alone(pointer: str, request: RewriteRequest, message: str, others: Sequence[str]) -> None:
    given = [name for name in others if getattr(request, name) is not None]
    if given:
        raise InvalidRequest([Fault(pointer, f"{message}; leave {' and '.join(given)} out")])


def _unknown_rules(names: Sequence[str]) -> list[Fault]:
    faults = []
    for k, name in enumerate(names):
        try:
            choose_rules([name])
        except ValueError as error:
            faults.append(Fault(f"/rules/{k}", _line(str(error)), _near_rules(name)))
    return faults


def _near_rules(name: str) -> tuple[str, ...]:
    return near_names(name, catalog())


def _unknown(pointer: str, name: str, known: Sequence[str], what: str) -> list[Fault]:
    if name in known:
        return []
    return [Fault(pointer, no_such(what, name, known), tuple(known))]


def _line(text: str) -> str:
    return one_line(text, LONGEST_MESSAGE)
