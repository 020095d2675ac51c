"""Tests of turns: tenants that wait get what is free one after another, and none has more than half of the places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import pytest

from tapestry.service.api.turns import NoPlace, Turns
from tests.service.processes import eventually

PATIENCE_S = 60.0  # of tests on a loaded machine; usually a moment


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as threads:
        yield threads


def line(threads: ThreadPoolExecutor, turns: Turns[str], tenants: Sequence[str]) -> list[Future[str]]:
    """Let tenants wait, one after another; return what they will get."""
    waiting = list[Future[str]]()
    for tenant in tenants:
        before = turns.waiting
        waiting.append(threads.submit(turns.take, tenant, PATIENCE_S))
        eventually(lambda before=before: turns.waiting > before, PATIENCE_S, "it waits")
    return waiting


def test_tenants_have_turns_and_each_serves_who_came_first(threads: ThreadPoolExecutor) -> None:
    turns = Turns(["the only one"], 16)
    holder = "a"
    assert turns.take(holder, 0.0) == "the only one"
    tenants = ("a", "a", "a", "b", "b", "c")
    waiting = dict(enumerate(line(threads, turns, tenants)))
    order = list[int]()
    while waiting:
        turns.give_back(holder, "the only one")
        done, _ = wait(waiting.values(), PATIENCE_S, FIRST_COMPLETED)
        (served,) = (k for k, future in waiting.items() if future in done)
        assert waiting.pop(served).result() == "the only one"
        order.append(served)
        holder = tenants[served]
    assert [tenants[k] for k in order] == ["b", "c", "a", "b", "a", "a"]
    assert [k for k in order if tenants[k] == "a"] == [0, 1, 2]
    turns.give_back(holder, "the only one")
    assert turns.take("d", 0.0) == "the only one"


def test_a_tenant_has_half_of_the_places_and_all_that_is_free(threads: ThreadPoolExecutor) -> None:
    turns = Turns(["x", "y", "z"], 16)
    assert {turns.take("a", 0.0) for _ in range(3)} == {"x", "y", "z"}
    waiting = line(threads, turns, "a" * 5)
    with pytest.raises(NoPlace, match="your share"):
        turns.take("a", PATIENCE_S)
    others = line(threads, turns, "b" * 8)
    with pytest.raises(NoPlace, match="many programs"):
        turns.take("c", PATIENCE_S)
    for holder in "aaa" + "ba" * 5 + "bbb":
        turns.give_back(holder, "x")
    assert {future.result(PATIENCE_S) for future in (*waiting, *others)} == {"x"}
    assert turns.waiting == 0


def test_who_has_waited_too_long_leaves_the_place_to_others() -> None:
    turns = Turns(["x"], 4)
    assert turns.take("a", 0.0) == "x"
    for _ in range(5):
        with pytest.raises(NoPlace, match="many programs"):
            turns.take("a", 0.0)
    assert turns.waiting == 0
    turns.give_back("a", "x")
    assert turns.take("b", 0.0) == "x"
