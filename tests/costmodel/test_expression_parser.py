"""Tests of the notation of expressions: what it means, and where a fault is reported."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapestry.costmodel.expression_parser import ExpressionError, parse, split_at_commas


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("0.7*time_s+0.3*energy_j", "0.7*time_s + 0.3*energy_j"),
        (" max( time_s ,1e-3 ) ", "max(time_s, 0.001)"),
        ("sqrt(a)**-b", "(a^0.5)^(-b)"),
        ("a-(b-c)-d", "a - (b - c) - d"),
        ("-a^2*-b", "-a^2*-b"),
        ('"gpu hours"/2', '"gpu hours"/2'),
        ("((a))", "a"),
        (".5*a", "0.5*a"),
    ],
)
def test_an_expression_is_printed_in_its_usual_notation(text: str, printed: str) -> None:
    assert str(parse(text)) == printed


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("", 0, r"expected a number, a name or '\(', not the end"),
        ("time_s +", 8, r"expected a number, a name or '\(', not the end"),
        ("0.7 * + a", 6, r"expected a number, a name or '\(', not '\+'"),
        ("(a", 2, r"expected an operator or '\)', not the end"),
        ("a b", 2, "expected an operator or the end, not 'b'"),
        ("max(a)", 0, "max is of two or more, not of 1"),
        ("sqrt(a, b)", 0, "sqrt is of one, not of 2"),
        ("max a", 4, r"expected '\(' after max, not 'a'"),
        ("a; b", 1, "';' has no meaning"),
        ('a * "b', 4, "a quoted name does not end"),
        ("1e999 * a", 0, "the number is too large"),
        ("__import__('os')", 11, '"\'" has no meaning'),
        ("(" * 50 + "a", 40, "nested deeper than 40 levels"),
        ("-" * 60 + "a", 40, "nested deeper than 40 levels"),
        ("a+" * 150 + "a", 201, "more than 200 parts"),
        ("a+" * 600 + "a", 1000, "longer than 1000 characters"),
    ],
)
def test_a_fault_is_reported_with_its_place(text: str, at: int, message: str) -> None:
    with pytest.raises(ExpressionError, match=message) as caught:
        parse(text)
    assert caught.value.at == at
    assert f"at character {at + 1} " in str(caught.value)


@given(st.text(max_size=60))
def test_any_other_text_is_refused_in_our_words(text: str) -> None:
    try:
        parse(text)
    except ExpressionError as error:
        assert 0 <= error.at <= len(text)


def test_lists_are_split_outside_of_parentheses_and_quotes() -> None:
    assert split_at_commas('time_s, max(a, b) , "x, y"*2') == ("time_s", "max(a, b)", '"x, y"*2')
    assert split_at_commas("") == ("",)
