"""Stretches that stand in several places become functions: wired alike, numbered by layers, given what differs."""

from tapestry.teg.exporters.spmd.layers import Loop, with_loops
from tapestry.teg.exporters.spmd.shared_functions import sources_read, with_shared_functions
from tapestry.teg.exporters.spmd.statements import Statement
from tests.teg.exporters.spmd.test_layers import chain, statement


def unlike(rounds: int, steps: int = 6) -> list[Statement]:
    """Build rounds of some steps and a sum, after each of which something else follows."""
    made, x = [statement("x0", "load", "w")], "x0"
    for k in range(rounds):
        last = x
        for step in range(steps):
            made.append(statement(f"a{step}.{k}", f"f{step}", last, f"w.{k}.{step}"))
            last = f"a{step}.{k}"
        made.append(statement(f"x{k + 1}", "sum", last, x))
        made.append(statement(f"y{k}", f"other_{k}", f"x{k + 1}"))
        x = f"y{k}"
    return made


def calls(statements: list[Statement]) -> list[str]:
    names = {key: key for s in statements for key in (*s.sets, *s.reads)}
    return [s.rendered(names, [k for k, source in s.marks if source])[0][1] for s in statements if s.calls]


def test_equal_stretches_between_others_are_one_function_of_the_layers_number() -> None:
    items, (function,) = with_shared_functions(unlike(3), ["y2"])
    written = [item for item in items if isinstance(item, Statement)]
    assert calls(written) == [
        "x1 = block(w, 0, x0)",
        "x2 = block(w, 1, y0)",
        "x3 = block(w, 2, y1)",
    ]
    assert [s.sets for s in written] == [("x0",), ("x1",), ("y0",), ("x2",), ("y1",), ("x3",), ("y2",)]
    assert (function.parameters, function.returned, function.body.numbers) == (("x0",), ("x1",), [0, 1, 2])


def test_a_source_that_does_not_follow_from_the_number_is_a_parameter() -> None:
    made = unlike(3)
    made[1 + 8 + 2] = statement("a2.1", "f2", "a1.1", "w.special")
    items, (function,) = with_shared_functions(made, ["y2"])
    assert function.source_parameters == [2]
    written = [item for item in items if isinstance(item, Statement)]
    assert calls(written)[:2] == ["x1 = block(w, 0, x0, w.0.2)", "x2 = block(w, 1, y0, w.special)"]


def test_a_source_stays_a_parameter_where_another_function_reads_those_before_it() -> None:
    made = unlike(3, steps=12)
    for k, name in enumerate("abc"):
        made[14 * k + 12] = statement(f"a11.{k}", "f11", f"a10.{k}", f"w.{name}")
    # What comes first in these places stands in two others, too.
    for k in (3, 4):
        last = f"y{k - 1}"
        for step in range(4):
            made.append(statement(f"a{step}.{k}", f"f{step}", last, f"w.{k}.{step}"))
            last = f"a{step}.{k}"
        made.append(statement(f"y{k}", f"other_{k}", last))
    _, (inner, outer) = with_shared_functions(made, ["y4"])
    assert (sorted(inner.body.numbers), inner.source_parameters) == ([0, 1, 2, 3, 4], [])
    (parameter,) = outer.source_parameters
    columns = [sources_read(body)[parameter] for body in outer.body.rounds]
    assert columns == ["w.a", "w.b", "w.c"]


def test_functions_are_given_sources_only_where_they_or_those_that_they_call_read_them() -> None:
    def chain(name: str, last: str, *steps: str) -> list[Statement]:
        keys = [f"{name}.{k}" for k in range(len(steps))]
        return [statement(*each) for each in zip(keys, steps, [last, *keys[:-1]], strict=True)]

    # One function is found inside another, and then what is around it is found in a third place.
    inner = [f"f{k}" for k in range(8)]
    outer = ["first", *inner, "last"]
    made = [statement("x", "load", "w")]
    for name, steps in (
        ("a", [*outer, *outer[::-1]]),
        ("b", [*outer, *outer[::-1]]),
        ("c", inner),
        ("d", inner),
    ):
        made += [*chain(name, made[-1].sets[0], *steps), statement(f"end {name}", f"end_{name}", f"{name}.0")]
    made += [*chain("e", made[-1].sets[0], *outer), statement("end", "end", "e.0")]
    items, functions = with_shared_functions(made, ["end"])
    assert len(functions) > 1 and not any(function.reads_sources for function in functions)
    assert not any("(w" in call for call in calls([item for item in items if isinstance(item, Statement)]))


def test_stretches_that_are_wired_in_another_way_stay_as_they_are() -> None:
    made = unlike(4)
    made[12] = statement("a3.1", "f3", "a1.1", "w.1.3")
    items, (function,) = with_shared_functions(made, ["y3"])
    written = [item for item in items if isinstance(item, Statement)]
    assert [call.split(", ")[1] for call in calls(written)] == ["0", "2", "3"]
    assert function.body.numbers == [0, 2, 3] and set(made[9:16]) <= set(written)


def test_what_a_round_and_the_rest_have_in_common_is_called_from_both() -> None:
    looped = with_loops([*unlike(1), *chain(3)[1:]], ["x3"])
    assert any(isinstance(item, Loop) for item in looped)
    items, functions = with_shared_functions(looped, ["x3"])
    assert items == looped and not functions
