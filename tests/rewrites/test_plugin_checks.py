"""Tests of the checks that a plug-in's rule must pass to be loaded."""

from dataclasses import replace

import pytest

from tapestry.rewrites import RULES, ExampleSizes, Rule, rule_named
from tapestry.rewrites.equations import equation
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.plugin_checks import checked_rule
from tapestry.rewrites.rule import Match, Op, TensorPattern, attr, op, tensor
from tapestry.rewrites.testing import with_right
from tapestry.teg.graph import Graph
from tapestry.teg.plugins import PlugInError

FUSE = rule_named("fuse_cells")
UNTRACED = equation(
    "untraced",
    lambda x: x.sum("j"),
    lambda x: x,
    {"x": "m k"},
    doc="Sums over what is not there.\n\nbefore  ->  after\nNever.",
    source="a test",
)


def raising(*_: object) -> bool:
    raise RuntimeError("no idea")


def without_cells(_: ExampleSizes) -> Graph:
    s = ExampleBuilder("without_cells")
    return s.result(s.tensor("x", 3))


@pytest.mark.slow
def test_every_rule_of_the_catalog_would_be_let_in() -> None:
    assert all(checked_rule(rule) is rule for rule in RULES)


@pytest.mark.parametrize(
    ("offered", "message"),
    [
        ("fuse_cells", "expected Rule, not 'fuse_cells'"),
        (replace(FUSE, name="a\nb"), r"its name is 'a\\nb'"),
        (
            with_right(FUSE, op("acme_gone", tensor("y"))),
            "it speaks of operator 'acme_gone', which is not there",
        ),
        (UNTRACED, "its sides fail: RuleError: rule 'untraced': a side cannot be traced: .*'j'"),
        (replace(FUSE, left=raising), "its sides fail: RuntimeError: no idea"),
        (replace(FUSE, example=raising), "its example fails: RuntimeError: no idea"),
        (replace(FUSE, example=lambda size: None), "its example fails: AttributeError"),
        (replace(FUSE, example=without_cells), "it does not fire on its example"),
        (replace(FUSE, when=raising), "its example fails: RuleError: rule 'fuse_cells': .*no idea"),
    ],
)
def test_what_is_no_rule_that_works_is_refused(offered: Rule, message: str) -> None:
    with pytest.raises(PlugInError, match=message) as caught:
        checked_rule(offered)
    assert caught.value.hint


def tanh_cell(size: ExampleSizes) -> Graph:
    s = ExampleBuilder("tanh_cell")
    return s.result(s.cell(("tanh", ("input", 0)), {s.tensor("x", size(3), size(4)): "mn"}))


def cell_of(m: Match, **changes: object) -> dict[str, object]:
    kept = {k: m[k] for k in ("labels", "dims", "dtype")}
    return {"expr": ("tanh", ("input", 0)), **kept, **changes}


def tanh_rule(right: Op, saturating: bool = False) -> Rule:
    same = {k: attr(k) for k in ("labels", "dims", "dtype")}
    left = op("cell", tensor("x"), expr=("tanh", ("input", 0)), **same)
    return Rule("acme_tanh", left, right, "Doc.", "a test", tanh_cell, saturating=saturating)


def cell(*operands: TensorPattern | Op, **changes: object) -> Op:
    return op("cell", *operands, given=lambda m: cell_of(m, **changes))


IDENTITY = {"expr": ("input", 0)}


@pytest.mark.parametrize(
    ("rule", "message", "hint"),
    [
        (tanh_rule(cell(tensor("x"), dtype="float16")), "RuleError: .*float16", "repair the right side"),
        (tanh_rule(op("cell", tensor("x"), given=raising)), "no idea", "repair the right side"),
        (tanh_rule(cell(tensor("x"), **IDENTITY)), "Arrays are not equal, rule .*, output", "guard"),
        (tanh_rule(cell(cell(tensor("x"), **IDENTITY)), saturating=True), "does not lower", "saturating"),
    ],
)
def test_a_rule_whose_move_on_its_example_is_wrong_is_refused(rule: Rule, message: str, hint: str) -> None:
    with pytest.raises(PlugInError, match=message) as caught:
        checked_rule(rule)
    assert hint in caught.value.hint


def test_a_growing_rule_that_does_not_claim_to_end_is_let_in() -> None:
    growing = tanh_rule(cell(cell(tensor("x"), **IDENTITY)))
    assert checked_rule(growing) is growing
