"""Tests of expressions: values, notation and postfix programs of one term agree; sums of weights are recognized."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapestry.costmodel.expression_parser import parse
from tapestry.costmodel.expressions import (
    LARGEST_COST,
    NamedTerm,
    NumberTerm,
    OperationTerm,
    Term,
    affine_weights,
    evaluate,
    names_in,
    postfix,
    stack_depth,
    substitute,
)
from tapestry.optimizer.archive.goal import new_goal, objective_values

COLUMNS = ("a", "b", "gpu hours", 'say "x"')


def terms() -> st.SearchStrategy[Term]:
    """Draw terms over `COLUMNS`."""
    leaves = st.one_of(
        st.integers(0, 9).map(NumberTerm),
        st.floats(0.001, 1e3, allow_nan=False).map(NumberTerm),
        st.sampled_from(COLUMNS).map(NamedTerm),
    )

    def grown(inner: st.SearchStrategy[Term]) -> st.SearchStrategy[Term]:
        pairs = st.tuples(inner, inner)
        return st.one_of(
            *(pairs.map(lambda p, o=o: OperationTerm(o, p)) for o in ("+", "-", "*", "/", "^", "min", "max")),
            inner.map(lambda t: OperationTerm("negative", (t,))),
            st.tuples(inner, inner, inner).map(lambda p: OperationTerm("max", p)),
        )

    return st.recursive(leaves, grown, max_leaves=12)


def in_the_loop(term: Term, costs: list[int], columns: tuple[str, ...] = COLUMNS) -> float:
    """Compute a term as the search does, in compiled code."""
    goal = new_goal([term], [], [], columns, 0.005)
    value = np.zeros(1)
    assert objective_values(goal, np.array(costs, np.int64), value) == 0.0
    return float(value[0])


@given(terms())
def test_the_notation_of_a_term_means_the_term(term: Term) -> None:
    assert parse(str(term)) == term


@given(terms(), st.lists(st.integers(0, 10**6), min_size=4, max_size=4))
def test_the_compiled_loop_computes_what_the_term_says(term: Term, costs: list[int]) -> None:
    plain = evaluate(term, dict(zip(COLUMNS, costs, strict=True)))
    assert 0 <= plain <= LARGEST_COST
    # Differences cancel: an error of one part in 10**12 of the parts may be all that is left of them.
    scale = max(1.0, *(c**3 for c in costs)) if "-" in str(term) else 0.0
    assert math.isclose(in_the_loop(term, costs), plain, rel_tol=1e-9, abs_tol=1e-9 * scale) or "^" in str(
        term
    )


@given(terms(), st.permutations(range(4)), st.lists(st.integers(0, 10**6), min_size=4, max_size=4))
def test_the_order_of_columns_means_nothing(term: Term, order: list[int], costs: list[int]) -> None:
    swapped = tuple(COLUMNS[k] for k in order)
    assert in_the_loop(term, [costs[k] for k in order], swapped) == pytest.approx(in_the_loop(term, costs))


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("a", (0, {"a": 1.0})),
        ("0.7*a + 0.3*b", (0, {"a": 0.7, "b": 0.3})),
        ("a/4 - b", (0, {"a": 0.25, "b": -1.0})),
        ("(a + 3*b) * 2 / (1 + 3)", (0, {"a": 0.5, "b": 1.5})),
        ("-(a - b)", (0, {"a": -1.0, "b": 1.0})),
        ("max(2, 3) * a", (0, {"a": 3.0})),
        ("2 * (a + 1) - 5", (-3, {"a": 2.0})),
        ("a*b", None),
        ("2 / a", None),
        ("a / 0", None),
        ("a^2", None),
        ("max(a, b)", None),
    ],
)
def test_a_constant_and_a_weighted_sum_are_recognized(
    text: str, split: tuple[float, dict[str, float]] | None
) -> None:
    assert affine_weights(parse(text)) == split


def test_a_constant_needs_no_program() -> None:
    goal = new_goal([parse("2*a + 7"), parse("2*a - 7")], [(parse("a + 1"), 4.0)], [], COLUMNS, 0.01)
    assert np.diff(goal.program_start).tolist() == [0, 5, 0]
    assert goal.constants.tolist() == [7.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a", 6),
        ("a*b", 24),
        ("sqrt(b)", 2.0),
        ("max(a, b, 5)", 6),
        ("min(a, b) / 8", 0.5),
        ("a - b - 1", 1),
        ("b - a", 0),
        ("1/(a - 6)", LARGEST_COST),
        ("(b - a)^0.5", LARGEST_COST),
        ("min(1/(a - 6), 5)", 5),
        ("10^400", LARGEST_COST),
        ("2^3^2", 512),
    ],
)
def test_values_are_finite_and_never_negative(text: str, value: float) -> None:
    term = parse(text)
    assert evaluate(term, {"a": 6, "b": 4}) == value
    assert in_the_loop(term, [6, 4], ("a", "b")) == pytest.approx(value)


def test_a_single_whole_cost_stays_whole() -> None:
    assert isinstance(evaluate(parse("a"), {"a": 2**62}), int)


def test_names_are_found_and_replaced() -> None:
    term = parse('max(a, "gpu hours") * a')
    assert names_in(term) == ("a", "gpu hours")
    assert str(substitute(term, lambda name: NamedTerm(name.upper()))) == 'max(A, "GPU HOURS")*A'


def test_a_program_knows_the_depth_of_its_stack() -> None:
    assert stack_depth(postfix(parse("a + b*(a - b)"), COLUMNS)) == 4
