"""Temporary values move into the one expression that reads them, where that is short and nothing lives longer."""

from tapestry.teg.exporters.spmd.nesting import nested
from tapestry.teg.exporters.spmd.statements import (
    Statement,
    source_value,
    taken_source,
    temporary_key,
    variable,
)


def statement(key: str, text: str, *reads: str) -> Statement:
    """Build `key = text`, with the names of what is read in place of numbers in braces."""
    return Statement(((0, f"{variable(key)} = {text.format(*map(variable, reads))}"),), (key,))


def texts(statements: list[Statement]) -> list[str]:
    names = {key: key.removeprefix(temporary_key("")) for s in statements for key in (*s.sets, *s.reads)}
    return [text for s in statements for _, text in s.rendered(names, ())]


def test_a_value_is_written_where_it_is_read() -> None:
    made = [
        statement(temporary_key("t"), "{} + {}", "x", "y"),
        statement("z", "relu({})", temporary_key("t")),
    ]
    assert texts(nested(made)) == ["z = relu(x + y)"]


def test_brackets_keep_what_binds_loosely_together() -> None:
    made = [statement(temporary_key("t"), "{} + {}", "x", "y"), statement("z", "{} * 2", temporary_key("t"))]
    assert texts(nested(made)) == ["z = (x + y) * 2"]


def test_values_of_nothing_move_over_others_and_values_of_tensors_do_not() -> None:
    count, product = (
        statement(temporary_key("a"), "arange(4)"),
        statement(temporary_key("b"), "{} @ {}", "x", "w"),
    )
    last = statement("z", "stack({}, {})", temporary_key("a"), temporary_key("b"))
    assert texts(nested([count, product, last])) == ["z = stack(arange(4), x @ w)"]
    between = statement("y", "sum({})", "v")
    assert len(nested([product, between, statement("z", "relu({})", temporary_key("b"))])) == 3


def test_values_that_are_read_twice_or_named_by_the_user_keep_their_names() -> None:
    made = [
        statement(temporary_key("t"), "exp({})", "x"),
        statement("z", "{} * {}", temporary_key("t"), temporary_key("t")),
    ]
    assert nested(made) == made
    made = [statement("t", "exp({})", "x"), statement("z", "{} * 2", "t")]
    assert nested(made) == made
    made = [statement(temporary_key("t"), "exp({})", "x"), statement("z", "{} * 2", temporary_key("t"))]
    assert nested(made, kept=[temporary_key("t")]) == made


def test_long_statements_stay_apart() -> None:
    long = "a_function_with_a_long_name({}, one_argument, another_argument)"
    made = [statement(temporary_key("t"), long, "x"), statement("z", long, temporary_key("t"))]
    assert nested(made) == made


def test_values_of_a_source_do_not_move_behind_the_statement_that_gives_it_up() -> None:
    first = Statement(
        ((0, f"{variable(temporary_key('t'))} = exp({source_value('s')})"),), (temporary_key("t"),)
    )
    taking = Statement(
        ((0, f"{variable(temporary_key('u'))} = sin({taken_source('s')})"),), (temporary_key("u"),)
    )
    last = statement("z", "stack({}, {})", temporary_key("u"), temporary_key("t"))
    left, merged = nested([first, taking, last])
    assert left == first and merged.given_up == {"s"}
    assert len(nested([first, last])) == 1
