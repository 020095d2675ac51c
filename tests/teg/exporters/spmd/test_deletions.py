"""Variables are deleted where it makes a difference to the most that is held, and together where it can wait."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tapestry.teg.exporters.spmd.deletions import BufferBytes, delayed, may_be_held
from tapestry.teg.exporters.spmd.statements import Statement
from tapestry.teg.exporters.spmd.variable_names import last_reads
from tests.teg.exporters.spmd.test_layers import statement

STEPS = [
    statement("a", "f", "x"),
    statement("b", "f", "a"),
    statement("large", "f", "b"),
    statement("c", "f", "large"),
    statement("y", "f", "c"),
]


def sizes(**others: int) -> BufferBytes:
    every = {**dict.fromkeys("xabcy", 1), "large": 10, **others}
    return {key: np.array([size, 2 * size]) for key, size in every.items()}


def deleted(statements: list[Statement], sizes: BufferBytes) -> list[list[str]]:
    return delayed(statements, last_reads(statements, {"y"}), ("x",), sizes)


def held(statements: list[Statement], sizes: BufferBytes, *undemanding: str) -> bool:
    dying = last_reads(statements, {"y"})
    return may_be_held(statements, dying, ("x",), ("x",), sizes, undemanding)


def test_deletions_wait_for_one_that_matters_or_for_the_end() -> None:
    assert deleted(STEPS, sizes()) == [[], ["x", "a"], ["b"], ["large"], ["c"]]
    longer = [*STEPS[:-1], statement("d", "f", "c"), statement("y", "f", "d")]
    assert deleted(longer, sizes(d=1)) == [[], ["x", "a"], ["b"], ["large"], [], ["c", "d"]]


def test_nothing_waits_where_sizes_are_unknown_or_as_much_is_held_everywhere() -> None:
    dying = last_reads(STEPS, {"y"})
    assert delayed(STEPS, dying, (), {}) == dying
    assert deleted(STEPS, sizes(large=1)) == dying


def test_nothing_waits_while_a_function_runs() -> None:
    calling = [STEPS[0], replace(STEPS[1], calls="block"), *STEPS[2:]]
    assert deleted(calling, sizes())[:2] == [["x"], ["a"]]


def test_deletions_wait_while_a_copy_moves_only_if_there_is_room_for_what_it_packs() -> None:
    moving = [STEPS[0], statement("b", "all_gather", "a"), *STEPS[2:]]
    assert [deleted(each, sizes(b=5))[0] for each in (STEPS, moving)] == [[], []]
    assert [deleted(each, sizes(b=7))[0] for each in (STEPS, moving)] == [[], ["x"]]
    starting = [STEPS[0], statement("b>started", "all_gather.start", "a"), *STEPS[2:]]
    assert deleted(starting, sizes())[0] == ["x"]


def test_sources_that_functions_take_are_given_up_by_their_callers() -> None:
    sized = sizes(large=1, s=9)
    calling = [*STEPS[:2], replace(STEPS[2], calls="block"), *STEPS[3:]]
    taking = [*STEPS[:2], replace(calling[2], taken_inside=frozenset("s")), *STEPS[3:]]
    assert deleted(calling, sized)[2:] == [["b"], ["large"], ["c"]]
    assert deleted(taking, sized)[2:] == [["b"], [], ["large", "c"]]


def test_a_caller_may_hold_what_is_read_where_most_is_held() -> None:
    assert not held(STEPS, sizes())
    later = [*STEPS[:3], statement("c", "f", "large", "x"), STEPS[4]]
    assert held(later, sizes())
    assert not held(later, {key: size for key, size in sizes().items() if key != "x"})
    calling = [*later[:3], replace(later[3], calls="block"), STEPS[4]]
    assert not held(calling, sizes()) and held(calling, sizes(), "block")
