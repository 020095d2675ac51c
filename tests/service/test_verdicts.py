"""Tests of the checks of a frontier as a whole: counts, suspects, and the plans not trusted because of them."""

from __future__ import annotations

from typing import Any

from tapestry.optimizer import RunOptions
from tapestry.rewrites import Move
from tapestry.service.verdicts import (
    count_verdicts,
    problem_of,
    suspects,
    unchecked_reason,
    verdict_counts_text,
    verdict_of,
    with_suspects,
)

RIGHT, WRONG = Move("fuse_cells", "a"), Move("acme_wrong", "b")
SPLIT = Move("reshard", "a", "(gpu.0)")


def verdict(executed: bool = False, ok: bool = False, counted: int = 5) -> dict[str, Any]:
    return {
        "sharding": {"ok": True, "issues": []},
        "memory": {"predicted": 5, "counted": counted, "method": "dry"},
        "traffic": {"predicted": 0, "counted": 0, "method": "dry"},
        "values": {"executed": executed, "ok": ok, "max_error": {"y": 1.0} if executed else {}},
    }


HISTORIES = {
    "fastest": (RIGHT, WRONG, SPLIT),
    "knee": (RIGHT, SPLIT),
    "other": (WRONG,),
    "plain": (SPLIT,),
    "late": (WRONG,),
}
CHECKED = {
    "fastest": verdict(True, False),
    "knee": verdict(True, True),
    "other": verdict(),
    "plain": verdict(),
}


def test_a_rule_of_a_refuted_plan_that_no_right_plan_has_is_suspected_wherever_it_is() -> None:
    assert suspects(HISTORIES, CHECKED) == {"fastest": ("acme_wrong",), "other": ("acme_wrong",)}


def test_where_every_rule_is_in_a_right_plan_too_the_moves_decide() -> None:
    elsewhere = Move("acme_wrong", "c")
    histories = {"refuted": (RIGHT, elsewhere), "right": (RIGHT, WRONG), "third": (elsewhere,)}
    checked = {"refuted": verdict(True, False), "right": verdict(True, True), "third": verdict()}
    assert suspects(histories, checked) == {"refuted": ("acme_wrong",), "third": ("acme_wrong",)}


def test_counts_that_another_cost_model_did_not_predict_prove_nothing() -> None:
    by_older = {"cost_model": {"predicted": 1, "counted": 2}}
    assert verdict_of(verdict(counted=6)) == "failed"
    assert verdict_of(verdict(counted=6) | by_older) == "unchecked"
    assert verdict_of(verdict(counted=5) | by_older) == "verified"
    assert verdict_of(verdict(True, False, counted=6) | by_older) == "failed"


def test_plans_are_counted_as_what_they_are() -> None:
    checked = CHECKED | with_suspects(HISTORIES, CHECKED)
    assert {plan: verdict_of(checked.get(plan)) for plan in HISTORIES} == {
        "fastest": "failed",
        "knee": "verified",
        "other": "untrusted",
        "plain": "verified",
        "late": "unchecked",
    }
    counts = count_verdicts(checked.get(plan) for plan in HISTORIES)
    assert counts == {"verified": 2, "failed": 1, "untrusted": 1, "unchecked": 1}
    assert verdict_counts_text(counts).startswith("plans: 2 verified, 1 FAILED, 1 not trusted")
    assert with_suspects(HISTORIES, checked) == {}


def test_other_bytes_than_predicted_are_a_failure_that_blames_no_rule() -> None:
    wrong = {"one": verdict(counted=6)}
    assert verdict_of(wrong["one"]) == "failed"
    assert (suspects({"one": (WRONG,)}, wrong), problem_of(wrong)) == ({}, None)


def test_a_run_with_a_refuted_plan_has_a_problem_that_names_plan_and_suspects() -> None:
    problem = problem_of(CHECKED | with_suspects(HISTORIES, CHECKED))
    assert problem is not None and problem["code"] == "plans_refuted"
    assert "fastest computed other values than the program; suspected of it: acme_wrong" in problem["detail"]
    assert problem_of({"knee": CHECKED["knee"], "late": None}) is None


def test_the_reason_why_plans_are_not_verified_is_reported() -> None:
    counts = {"verified": 40, "failed": 0, "untrusted": 0, "unchecked": 24}
    due = RunOptions(deadline_seconds=20)
    assert unchecked_reason(due, "", counts) is None, "the run has not ended"
    assert unchecked_reason(due, "deadline", counts) == "the deadline"
    assert unchecked_reason(due, "cancelled", counts) == "the run was interrupted"
    assert unchecked_reason(RunOptions(verify="none"), "budget", counts) == "no checks were requested"
    assert unchecked_reason(due, "deadline", {**counts, "unchecked": 0}) is None
    expected = "verified dry: 40 of 64 plans; 24 not verified: the deadline"
    assert verdict_counts_text(counts, "the deadline") == expected
    doubtful = {**counts, "verified": 39, "failed": 1}
    assert "39 of 64 plans; 1 FAILED; 24 not" in verdict_counts_text(doubtful, "the deadline")
