"""The lines of functions: values are passed on to functions that are their last readers, and sources taken."""

from __future__ import annotations

import numpy as np

from tapestry.teg.exporters.spmd.layers import Item
from tapestry.teg.exporters.spmd.scopes import ScopeWriter
from tapestry.teg.exporters.spmd.shared_functions import (
    FunctionScope,
    SharedFunction,
    arguments_text,
    with_shared_functions,
)
from tapestry.teg.exporters.spmd.statements import (
    Statement,
    StatementList,
    source_value,
    temporary_key,
    variable,
)
from tests.teg.exporters.spmd.test_shared_functions import unlike


def written(items: list[Item], result: str, deletes: bool = True) -> list[str]:
    lines, _ = ScopeWriter(set(), deletes).step(items, {"y": [result]})
    return [line.strip() for line in lines]


def test_a_function_is_passed_for_good_what_only_it_reads_from_then_on() -> None:
    items, _ = with_shared_functions(unlike(3), ["y2"])
    lines = written(items, "y2")
    call = lines.index("x1 = block(w, 0, given.pop())")
    assert lines[call - 2 : call] == ["given = [x0]", "del x0"]
    assert not [line for line in written(items, "y2", deletes=False) if "given" in line or "del" in line]


def test_a_function_is_given_what_is_read_later_by_its_name() -> None:
    made = [*unlike(3), Statement(((0, f"{variable('z')} = {variable('x0')}"),), ("z",))]
    items, _ = with_shared_functions(made, ["y2", "z"])
    lines = written(items, "z")
    assert "x1 = block(w, 0, x0)" in lines
    assert "x2 = block(w, 1, given.pop())" in lines


def test_the_last_reader_of_a_source_takes_it() -> None:
    statements = StatementList()
    for key in "ab":
        statements.assign(key, f"f({source_value('s')})")
    statements.take(0, "s")
    assert written(list(statements.done), "b")[-1] == 'b = f(w.pop("s"))'
    assert statements.done[0].given_up == frozenset() and statements.done[1].given_up == {"s"}


def test_a_name_that_values_take_over_from_each_other_is_deleted_after_the_last() -> None:
    statements = StatementList()
    statements.assign(temporary_key("1"), f"f({variable('x')})")
    statements.assign(temporary_key("2"), f"{variable(temporary_key('1'))}.add_({variable('z')})")
    statements.assign("a", f"f({variable('z')})")
    statements.assign("b", f"g({variable(temporary_key('2'))}, {variable('a')})")
    sizes = {
        **dict.fromkeys(("x", "z", temporary_key("1"), temporary_key("2")), np.array([1])),
        "a": np.array([9]),
        "b": np.array([9]),
    }
    scope = FunctionScope([list(statements.done)], [0], {"b"})
    writer = ScopeWriter(set(), sizes=sizes)
    writer.shared(SharedFunction("block", scope, ("x", "z"), ("b",), False, False))
    assert writer.functions[0][2:] == [
        "    t = f(x)",
        "    t = t.add_(z)",
        "    a = f(z)",
        "    del x, z",
        "    return g(t, a)",
    ]


def test_many_values_are_passed_in_a_list() -> None:
    few, many = (arguments_text(["w", "i"], [f"x{k}" for k in range(count)]) for count in (28, 29))
    assert few == "w, i, " + ", ".join(f"x{k}" for k in range(28))
    assert many == "w, i, [" + ", ".join(f"x{k}" for k in range(29)) + "]"
