"""Tests that affine maps mean the same before and after they are simplified, printed, composed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapestry.hardware.layouts import LayoutError
from tapestry.hardware.layouts.tt_metal import AffineMap, collapsed_map, parse_affine_map
from tapestry.hardware.layouts.tt_metal.expression import (
    Binary,
    ConstantExpr,
    Dim,
    Expression,
    Symbol,
    evaluate,
)
from tests.cases import examples

DIMS = ("d0", "d1")


@st.composite
def texts(draw: st.DrawFn, depth: int = 3) -> tuple[str, object]:
    """Draw an affine expression's text, and the equivalent Python function of (d0, d1, s0)."""
    leaf = draw(st.sampled_from(["d0", "d1", "s0", "int"]))
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        if leaf == "int":
            n = draw(st.integers(-9, 9))
            return str(n), lambda d, s: n
        return leaf, lambda d, s: s if leaf == "s0" else d[int(leaf[1])]
    left, f = draw(texts(depth - 1))
    operation = draw(st.sampled_from(["+", "-", "*", "floordiv", "ceildiv", "mod"]))
    if operation in "+-":
        right, g = draw(texts(depth - 1))
        sign = 1 if operation == "+" else -1
        return f"({left}) {operation} ({right})", lambda d, s: f(d, s) + sign * g(d, s)
    k = draw(st.integers(1, 6)) if operation != "*" else draw(st.integers(-6, 6))
    meaning = {"*": lambda a: a * k, "floordiv": lambda a: a // k, "ceildiv": lambda a: -(-a // k)}
    return f"({left}) {operation} {k}", lambda d, s: meaning.get(operation, lambda a: a % k)(f(d, s))


@settings(max_examples=examples(200), deadline=None)
@given(texts(), st.integers(-50, 50), st.integers(-50, 50), st.integers(-5, 5))
def test_given_any_expression_then_simplifying_keeps_its_value(pair: tuple, a: int, b: int, c: int) -> None:
    text, meaning = pair
    found = parse_affine_map(f"(d0, d1)[s0] -> ({text})")
    assert found.evaluate([a, b], [c]) == (meaning((a, b), c),)
    assert found.evaluate(np.array([[a], [b]]), [c])[0] == meaning((a, b), c)
    again = parse_affine_map(str(found))
    assert again == found and hash(again) == hash(found) and str(again) == str(found)


@settings(max_examples=examples(60), deadline=None)
@given(texts(), texts(), st.integers(-9, 9), st.integers(-9, 9))
def test_given_two_maps_then_composing_is_applying_one_after_the_other(
    one: tuple, two: tuple, a: int, b: int
) -> None:
    outer = parse_affine_map(f"(d0, d1)[s0] -> ({one[0]}, {two[0]})")
    inner = parse_affine_map(f"(d0, d1)[s0] -> ({two[0]}, {one[0]} + 1)")
    assert outer.compose(inner).evaluate([a, b], [3, 2]) == outer.evaluate(inner.evaluate([a, b], [2]), [3])


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("(d0,d1)->(4 + d0*2 - 3*d1, d1 - d0)", "(d0, d1) -> (d0 * 2 - d1 * 3 + 4, d1 - d0)"),
        ("(d0, d1) -> (d0 - (d1 + d0), -d0, -(d0 + d1))", "(d0, d1) -> (d0 - (d1 + d0), -d0, -(d0 + d1))"),
        ("(x, y)[n] -> (n * x, y mod n)", "(d0, d1)[s0] -> (d0 * s0, d1 mod s0)"),
        ("(d0) -> (d0 * 2 * 3, d0 + d0, d0 - d0, d0 * 0)", "(d0) -> (d0 * 6, d0 * 2, 0, 0)"),
        ("(d0) -> ((d0 * 8 + 3) floordiv 4, d0 * 8 mod 4, d0 floordiv 1)", "(d0) -> (d0 * 2, 0, d0)"),
        ("(d0) -> (d0 - (d0 floordiv 8) * 8, (d0 mod 8) mod 4)", "(d0) -> (d0 mod 8, d0 mod 4)"),
        ("()[s0] -> (s0 - 7)", "()[s0] -> (s0 - 7)"),
    ],
)
def test_maps_are_printed_as_mlir_prints_them(text: str, printed: str) -> None:
    assert str(parse_affine_map(text)) == printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(d0 -> (d0)", "at character 4: expected '\\)', not '-> "),
        ("(d0) -> (d0 + )", "at character 14: expected an affine expression, not '\\)'"),
        ("(d0) -> (d1)", "at character 9: expected one of d0, not 'd1\\)'"),
        ("(d0, d0) -> (d0)", "expected every dimension and symbol named once"),
        ("(d0, d1) -> (d0 floordiv d1)", "at character 24: non-affine expression: right operand of floordiv"),
        ("(d0) -> (d0 mod 0)", "at character 15: expected a positive right operand of mod, not 0"),
        ("(d0) -> (d0) d0", "at character 13: expected the end of the text, not 'd0'"),
        ("(d0) -> (d0 + 9223372036854775808)", "expected an integer of at most 64 bits"),
        ("(d0) -> (" + "(" * 5000, "at most 32 parentheses inside each other"),
        ("(d0) -> (d0" + "".join(f" mod {n}" for n in range(200, 2, -1)) + ")", "more than 64 operations"),
        ("(d0) -> (d0)" + " " * 200_000, "longer than the 100000 read here"),
    ],
)
def test_bad_maps_are_refused_with_the_place(text: str, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        parse_affine_map(text)


def test_calls_with_other_ranks_are_refused() -> None:
    swap = AffineMap(2, 0, (Dim(1), Dim(0)))
    with pytest.raises(LayoutError, match="takes 2 dimensions and 0 symbols, not 1 and 0"):
        swap.evaluate([1])
    with pytest.raises(LayoutError, match="it takes 2 dimensions, not 1 results"):
        swap.compose(collapsed_map((2, 3), 1, ((0, 2),)))
    with pytest.raises(LayoutError, match="positive right operand of mod, not 0"):
        parse_affine_map("(d0)[s0] -> (d0 mod s0)").evaluate([3], [0])


def test_a_node_that_was_not_simplified_still_has_its_value() -> None:
    raw: Expression = Binary("mod", Binary("*", Dim(0), Symbol(0)), ConstantExpr(4))
    assert [evaluate(raw, [n], [3]) for n in range(4)] == [0, 3, 2, 1]
