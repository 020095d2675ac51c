"""Summary of the checks of a frontier: the number of plans that hold, those that do not, the suspected rules.

A plan that was executed and computes other values than its program is refuted; every rule in its history that
is in no plan that was executed with equal values is a suspect, and a plan with a suspect in its history is not
trusted although its own sharding is proven and its bytes are counted. Suspects are part of the check results of
a plan (`verified["suspects"]`), so that every report of the checks includes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tapestry.optimizer.run.options import RunOptions
from tapestry.optimizer.run.plan import WORKERS_LOST
from tapestry.rewrites import Move, is_structural
from tapestry.rewrites.rules import OTHERS, family_of
from tapestry.service.problems import problem

Verified = Mapping[str, Any]

VERIFIED, FAILED, UNTRUSTED, UNCHECKED = "verified", "failed", "untrusted", "unchecked"
VERDICTS = (VERIFIED, FAILED, UNTRUSTED, UNCHECKED)
WORDS = {
    VERIFIED: "verified",
    FAILED: "FAILED",
    UNTRUSTED: "not trusted (they share suspected rules with a failed one)",
    UNCHECKED: "not checked",
}


def verdict_of(verified: Verified | None) -> str:
    """Return one of `VERDICTS` for a plan, from the results of its checks (None: not checked).

    Counts that differ from the prediction of another version of the cost model refute nothing, and verify nothing.
    """
    if verified is None:
        return UNCHECKED
    counted = all(verified[what]["predicted"] == verified[what]["counted"] for what in ("memory", "traffic"))
    is_other_model = "cost_model" in verified
    if not (verified["sharding"]["ok"] and (counted or is_other_model)) or is_refuted(verified):
        return FAILED
    if verified.get("suspects"):
        return UNTRUSTED
    return VERIFIED if counted else UNCHECKED


def is_refuted(verified: Verified) -> bool:
    """Return whether the plan was executed and computed other values than its program."""
    return bool(verified["values"]["executed"]) and not verified["values"]["ok"]


def count_verdicts(checked: Iterable[Verified | None]) -> dict[str, int]:
    """Count the plans by verdict."""
    verdicts = [verdict_of(verified) for verified in checked]
    return {verdict: verdicts.count(verdict) for verdict in VERDICTS}


def unchecked_reason(options: RunOptions, stopped: str, counts: Mapping[str, int]) -> str | None:
    """Return why plans of a run that has ended, for the reason `stopped`, are not checked; None where all are."""
    if not counts[UNCHECKED] or not stopped:
        return None
    if options.verify == "none":
        return "no checks were requested"
    if stopped in ("cancelled", "interrupted"):
        return "the run was interrupted"
    return "the deadline" if options.deadline_seconds is not None else None


def verdict_counts_text(counts: Mapping[str, int], reason: str | None = None) -> str:
    """Format `plans: 17 verified, 1 FAILED, ...`; verdicts that do not occur are left out.

    With the reason why some are not checked it is `verified dry: 40 of 64 plans; 24 not verified: the deadline`.
    """
    if reason is not None and counts[UNCHECKED]:
        doubtful = "".join(f"; {counts[v]} {WORDS[v]}" for v in (FAILED, UNTRUSTED) if counts[v])
        verified = f"verified dry: {counts[VERIFIED]} of {sum(counts.values())} plans{doubtful}"
        return f"{verified}; {counts[UNCHECKED]} not verified: {reason}"
    reported = [f"{counts[v]} {WORDS[v]}" for v in VERDICTS if counts[v]]
    return f"plans: {', '.join(reported) or 'none'}"


def suspects(
    histories: Mapping[str, Sequence[Move]], verified: Mapping[str, Verified]
) -> dict[str, tuple[str, ...]]:
    """Find the suspected rules, by the plans that are refuted or not trusted because of them.

    Where every rule of a refuted plan is in a plan with equal values too, those are suspected whose moves - rule,
    place and choice - are not.
    """
    rewriting = {plan: [m for m in moves if is_structural(m)] for plan, moves in histories.items()}
    equal = [
        p for p, verdict in verified.items() if verdict["values"]["executed"] and verdict["values"]["ok"]
    ]
    right = {move for plan in equal for move in rewriting[plan]}
    right_rules = {move.rule for move in right}
    found: dict[str, tuple[str, ...]] = {}
    for plan in (p for p, verdict in verified.items() if is_refuted(verdict)):
        doubtful = [m for m in rewriting[plan] if m.rule not in right_rules]
        doubtful = doubtful or [m for m in rewriting[plan] if m not in right] or rewriting[plan]
        found[plan] = _ordered(doubtful)
    suspected = {rule for rules in found.values() for rule in rules}
    for plan in (p for p in verified if p not in found and p not in equal):
        shared = _ordered([m for m in rewriting[plan] if m.rule in suspected])
        if shared:
            found[plan] = shared
    return found


def _ordered(moves: Sequence[Move]) -> tuple[str, ...]:
    """Return the rules of the moves, those of plug-ins first, else in the order of the history."""
    return tuple(sorted(dict.fromkeys(m.rule for m in moves), key=lambda rule: family_of(rule) != OTHERS))


def with_suspects(
    histories: Mapping[str, Sequence[Move]], verified: Mapping[str, Verified]
) -> dict[str, dict[str, Any]]:
    """Add the suspects to the check results of plans; return only those results that changed."""
    found = suspects(histories, verified)
    reported = {plan: {**verified[plan], "suspects": list(rules)} for plan, rules in found.items()}
    return {plan: verdict for plan, verdict in reported.items() if verdict != verified[plan]}


WORKERS_MISSING = (
    "the cluster lost all its workers; what was found until then is kept; search again for the rest"
)


def problem_of(checked: Mapping[str, Verified | None], stopped: str = "") -> dict[str, Any] | None:
    """Build the problem document of a run, by its plans' ids, where a plan of it was refuted; else return None.

    A run that `stopped` because its workers were lost has a problem, too: it is no answer to its request.
    """
    refuted = {
        plan: verdict for plan, verdict in checked.items() if verdict is not None and is_refuted(verdict)
    }
    if not refuted:
        return problem("workers_lost", "Workers lost", WORKERS_MISSING) if stopped == WORKERS_LOST else None
    rules = dict.fromkeys(rule for verdict in refuted.values() for rule in verdict.get("suspects", ()))
    suspicion = f"suspected of it: {', '.join(rules)}" if rules else "no rule is suspected of it"
    hint = "do not use those plans, nor those that are not trusted; search again with other rules in `rules`"
    message = (
        f"executed with numbers, {', '.join(refuted)} computed other values than the program; {suspicion}"
    )
    return problem("plans_refuted", "Plans compute other values", f"{message}; {hint}")
