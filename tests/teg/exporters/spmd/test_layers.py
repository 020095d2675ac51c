"""Repeated runs of statements become loops if their rounds are wired alike, and stay as they are if not."""

from tapestry.teg.exporters.spmd.layers import Loop, constants_first, with_loops
from tapestry.teg.exporters.spmd.naming import number_text
from tapestry.teg.exporters.spmd.statements import Statement, source_value, variable


def statement(key: str, function: str, *reads: str) -> Statement:
    """Build `key = function(reads)`; a read that begins with w is a source."""
    listed = ", ".join(source_value(r) if r.startswith("w") else variable(r) for r in reads)
    return Statement(((0, f"{variable(key)} = {function}({listed})"),), (key,))


def chain(rounds: int) -> list[Statement]:
    """Build rounds of four statements, each of which reads what the one before makes."""
    made, x = [statement("mask", "full"), statement("x0", "load", "w")], "x0"
    for k in range(rounds):
        made.append(statement(f"a{k}", "product", x, f"w.{k}"))
        made.append(statement(f"b{k}", "add", f"a{k}", "mask"))
        made.append(statement(f"c{k}", "softmax", f"b{k}"))
        made.append(statement(f"x{k + 1}", "sum", f"c{k}", x))
        x = f"x{k + 1}"
    return made


def test_equal_rounds_become_one_loop() -> None:
    *before, loop, after = with_loops([*chain(3), statement("y", "norm", "x3")], ["y"])
    assert isinstance(loop, Loop) and len(loop.rounds) == 3
    assert [s.sets for s in before if isinstance(s, Statement)] == [("mask",), ("x0",)]
    assert loop.shared == ("mask",) and loop.carried == (("x0", 3),) and loop.last == (3,)
    assert isinstance(after, Statement)


def test_results_of_every_round_that_are_read_later_are_collected() -> None:
    last = statement("y", "stack", "c0", "c1", "c2")
    loop = next(item for item in with_loops([*chain(3), last], ["y"]) if isinstance(item, Loop))
    assert loop.collected == (2,)


def test_rounds_that_are_wired_differently_stay_apart() -> None:
    made = chain(2)
    made[-1] = statement("x2", "sum", "c1", "a1")
    assert with_loops(made, ["x2"]) == made


def test_constants_with_several_readers_come_first() -> None:
    made = chain(2)
    late = [made[1], made[2], made[0], *made[3:]]
    assert constants_first(late) == [made[0], made[1], *made[2:]]


def test_numbers_that_grow_evenly_are_formulas_of_the_round() -> None:
    every = ([0, 1, 2], [5, 4, 3], [1, 3, 5], [8, 6, 4], [7, 7, 7], [0, 1, 3])
    found = [number_text(numbers, range(3)) for numbers in every]
    assert found == ["i", "5 - i", "2 * i + 1", "8 - 2 * i", "7", None]


def test_numbers_follow_those_of_other_layers() -> None:
    assert number_text([3, 5, 8], [2, 4, 7]) == "i + 1"
    assert number_text([3, 5, 9], [2, 4, 7]) is None
    assert number_text([3, 4], [2, 2]) is None
