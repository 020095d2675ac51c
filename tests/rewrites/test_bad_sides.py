"""Tests that rules whose sides fail, or produce what no program may hold, are stopped by name."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tapestry.rewrites import Move, Rule, RuleError, Worklist, apply_move, find, saturate
from tapestry.rewrites.cell_form import INPUT
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.regions import Fuse, all_above
from tapestry.rewrites.rule import Op, computed, op, pick, rest, tensor
from tapestry.rewrites.testing import contract_violations
from tapestry.teg.graph import Graph

X = tensor("x")


def program(size: object = None) -> Graph:
    b = ExampleBuilder("bad")
    y = b.cell(("exp", INPUT), {b.tensor("x", 3): "r"}, site="y")
    return b.result(b.cell(("neg", INPUT), {y: "r"}, site="z"))


def like(value: str) -> Op:
    attributes = {"expr": ("tanh", INPUT), "labels": (("r",),), "dims": (("r", 3),), "dtype": "float32"}
    return op("cell", pick(lambda m: [value]), **attributes)


def rule(left: Any, right: Any, **changes: Any) -> Rule:
    return Rule("bad", left, right, "Bad.", "a test", program, **changes)


def fails(*_: Any) -> Any:
    raise ZeroDivisionError("by zero")


class Pattern:
    ways = staticmethod(fails)


EXP = op("cell", X, expr=("exp", INPUT))
FUSED = op("cell", all_above("cell", ends=("cell",), most=1))


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        (EXP, computed(lambda m: []), "makes 0 results instead of 1"),
        (EXP, like("z"), "reads 'z', which is made below it"),
        (EXP, op("source", shape=(3,), dtype="float32", role="activation"), "makes a source"),
        (FUSED, Fuse(finished=fails), "the blocks cannot be one: by zero"),
    ],
)
def test_a_right_side_that_cannot_be_made_is_refused_when_it_is_applied(
    left: Any, right: Any, message: str
) -> None:
    bad = rule(left, right)
    (move,) = find(program(), [bad])
    with pytest.raises(RuleError, match=f"rule 'bad': .*{message}"):
        apply_move(program(), move, {"bad": bad})


@pytest.mark.parametrize(
    "left",
    [
        op("cell", X, inside=Pattern()),
        op("cell", all_above("cell", ends=("cell",), most=1, takes=fails)),
        fails,
    ],
)
def test_a_left_side_that_fails_is_refused_by_all_who_ask(left: Any) -> None:
    bad = rule(left, computed(fails), saturating=True)
    good = Rule("good", EXP, X, "Good.", "a test", program)
    ask: tuple[Callable[[], Any], ...] = (
        lambda: find(program(), [bad]),
        lambda: saturate(program(), [bad]),
    )
    for requested in ask:
        with pytest.raises(RuleError, match=r"rule 'bad': its left side fails.*by zero"):
            requested()
    candidates = Worklist.of(program(), [bad, good])
    assert [f.rule for f in candidates.failures] == ["bad"]
    assert candidates.moves() == [Move("good", "y")], "the others are not lost"


@pytest.mark.parametrize("choices", [{"a"}, "ab", iter(["a"]), (c for c in "ab")])
def test_choices_are_texts_in_an_order(choices: Any) -> None:
    with pytest.raises(RuleError, match="choices are a list or tuple of texts"):
        find(program(), [rule(EXP, X, choices=lambda m: choices)])


def test_rules_that_change_nothing_and_strange_names_break_their_promises() -> None:
    same = op("cell", rest("xs"), expr=("exp", INPUT))
    copy = op("cell", rest("xs"), given=lambda m: dict(m.roots[0].definition.attributes))
    doc = "Nothing changes.\n\nf(x) -> f(x)\nAlways."
    found = contract_violations(Rule("a&b", same, copy, doc, "a test", program), np.random.default_rng(0))
    assert any("changes nothing" in f for f in found)
    assert any("its name should be" in f for f in found)
