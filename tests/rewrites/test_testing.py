"""Tests that `rewrites.testing` says which promise a rule breaks; the contract test shows that it accepts good ones."""

from dataclasses import replace

import numpy as np
import pytest

from tapestry.rewrites import ExampleSizes, Rule, rule_named
from tapestry.rewrites.cell_form import INPUT, dim_labels, pointwise
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.rule import Match, op, tensor
from tapestry.rewrites.testing import contract_violations, with_right
from tapestry.teg.graph import Graph


def example(size: ExampleSizes) -> Graph:
    s = ExampleBuilder("example")
    x = s.tensor("x", size(4), size(3))
    y = s.cell(("neg", INPUT), {x: "mn"})
    return s.result(s.cell(("neg", INPUT), {y: "mn"}))


def same_again(m: Match) -> dict[str, object]:
    return dict(pointwise(("neg", INPUT), (dim_labels(len(m.shape("x"))),), m.shape("x"), m.dtype("x")))


RENEWED = Rule(
    name="renewed",
    left=op("cell", tensor("x"), expr=("neg", INPUT)),
    right=op("cell", tensor("x"), given=same_again),
    doc="A negation is made anew.\n\n-x -> -x\n\nAlways: both sides are the same.",
    source="none needed",
    example=example,
)


def fails(_: Match) -> bool:
    raise RuntimeError("no idea")


def test_a_good_rule_breaks_nothing(rng: np.random.Generator) -> None:
    assert contract_violations(RENEWED, rng) == ()
    assert contract_violations(rule_named("merge_contracts"), rng, trials=2) == ()


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (replace(RENEWED, doc="Nothing"), "explains itself: rule 'renewed': its doc should read: A sentence"),
        (
            replace(RENEWED, source=""),
            "explains itself: rule 'renewed': its source (paper or law) is missing",
        ),
        (replace(RENEWED, when=lambda _: False), "rule 'renewed': it does not fire on its example"),
        (replace(RENEWED, when=fails), "no idea"),
        (replace(RENEWED, saturating=True), "does not lower the measure, so it may never end"),
        (with_right(RENEWED, tensor("x")), "rule 'renewed', output 'cell.1.out'"),
        (with_right(RENEWED, op("cell", tensor("x"))), "the right side's 'cell' cannot be built"),
        (
            with_right(RENEWED, op("reduce", tensor("x"), monoid="sum", labels=("a", "b"), output=("a",))),
            "the right side has type (4,) float32, the left side (4, 3) float32",
        ),
    ],
)
def test_a_broken_promise_is_named(rule: Rule, message: str, rng: np.random.Generator) -> None:
    assert any(message in text for text in contract_violations(rule, rng, trials=1))


def test_an_example_that_cannot_distinguish_right_from_wrong_is_refused(rng: np.random.Generator) -> None:
    def blind(size: ExampleSizes) -> Graph:
        s = ExampleBuilder("blind")
        y = s.cell(("neg", INPUT), {s.tensor("x", size(4), size(3)): "mn"})
        return s.result(s.cell(("mul", INPUT, ("const", 0.0)), {y: "mn"}))

    (broken,) = contract_violations(replace(RENEWED, example=blind, domain="real"), rng)
    assert "its example gives the same values with a wrong copy: renewed at cell" in broken
