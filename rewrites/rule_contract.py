"""Checks of the promises of rules on one move: equal values, and termination of saturating rules."""

from __future__ import annotations

import numpy as np

from tapestry.rewrites.measure import measure
from tapestry.rewrites.move import Move
from tapestry.rewrites.rule import Rule
from tapestry.teg.dtypes import HALF, is_float
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph

HALF_TOLERANCE = 0.06
# A variance as a difference of moments cancels: on some random rows two of the seven digits of a float are lost.
TOLERANCE = 1e-4


class RuleContractError(AssertionError):
    """Error raised when a rule does not keep a promise; the message names the rule."""

    def __init__(self, rule: Rule, message: str) -> None:
        super().__init__(f"rule {rule.name!r}: {message}")


def expect(rule: Rule, holds: bool, message: str) -> None:
    """Raise a RuleContractError of the rule if something does not hold."""
    if not holds:
        raise RuleContractError(rule, message)


def falls(before: Graph, after: Graph, rule: Rule, move: Move) -> None:
    """Check that a move of a saturating rule lowers the measure.

    Raises:
        RuleContractError: it does not.
    """
    expect(rule, measure(after) < measure(before), f"{move} does not lower the measure, so it may never end")


def same_values(before: Graph, after: Graph, rule: Rule, rng: np.random.Generator) -> None:
    """Check that outputs are equal: every bit if the rule's domain is exact, up to rounding if it is real.

    Raises:
        RuleContractError, AssertionError: they differ.
        ValueError: one of the programs cannot be evaluated.
    """
    inputs = random_inputs(before, rng)
    wanted, got = evaluate(before, inputs), evaluate(after, inputs)
    expect(rule, wanted.keys() == got.keys(), f"outputs {sorted(wanted)} become {sorted(got)}")
    for site, value in wanted.items():
        kinds = (got[site].shape, got[site].dtype), (value.shape, value.dtype)
        expect(rule, kinds[0] == kinds[1], f"output {site!r} is {kinds[0]} instead of {kinds[1]}")
        if rule.domain == "exact" or not is_float(value.dtype.name):
            np.testing.assert_array_equal(got[site], value, f"rule {rule.name!r}, output {site!r}")
        else:
            tolerance = HALF_TOLERANCE if value.dtype.name in HALF else TOLERANCE
            finite = np.nan_to_num(value.astype(np.float64), posinf=0, neginf=0)
            np.testing.assert_allclose(
                got[site].astype(np.float64),
                value.astype(np.float64),
                rtol=tolerance,
                atol=tolerance * max(1.0, float(np.max(np.abs(finite), initial=0.0))),
                err_msg=f"rule {rule.name!r}, output {site!r}",
            )
