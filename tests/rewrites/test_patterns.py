"""Tests of patterns of expressions: chains match in any order and brackets, and report the terms in between."""

from tapestry.rewrites.patterns import A, Chain, chained, fits, instance, terms_of

X, Y, Z = (("input", k) for k in range(3))
SILU = Chain("mul", (("sigmoid", A), A))


def test_a_chain_fits_in_any_order_and_brackets() -> None:
    assert list(fits(SILU, ("mul", X, ("sigmoid", X)), {})) == [{"a": X}]
    nested = ("mul", ("sigmoid", ("mul", X, Y)), ("mul", Y, X))
    assert list(fits(SILU, nested, {})) == [{"a": ("mul", X, Y)}]
    assert list(fits(SILU, ("mul", ("sigmoid", X), Y), {})) == []


def test_a_whole_left_side_leaves_the_other_terms() -> None:
    gated = ("mul", ("mul", ("sigmoid", Y), X), Y)
    assert list(SILU.ways(gated, {})) == [({"a": Y}, (X,))]
    assert list(fits(SILU, gated, {})) == []


def test_a_free_variable_is_one_term_and_repeated_terms_count() -> None:
    twice = Chain("add", (A, A))
    assert [b["a"] for b, _ in twice.ways(("add", ("add", X, Y), X), {})] == [X, X]
    assert list(twice.ways(("add", X, Y), {})) == []


def test_chains_are_written_from_the_left() -> None:
    assert instance(Chain("mul", (A, ("const", 2.0), A)), {"a": X}) == ("mul", ("mul", X, ("const", 2.0)), X)
    assert chained("add", [X, Y, Z]) == ("add", ("add", X, Y), Z)
    assert terms_of("add", ("add", X, ("add", Y, Z))) == [X, Y, Z]
