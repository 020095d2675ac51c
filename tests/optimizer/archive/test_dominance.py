"""Tests of dominance: the front that items enter one by one is that of all of them at once."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tapestry.optimizer.archive.dominance import Front, no_worse, nondominated

POINTS = st.lists(st.tuples(*[st.integers(0, 4)] * 3), max_size=20)


@given(POINTS)
def test_a_front_keeps_what_no_other_item_is_no_worse_than(points: list[tuple[int, ...]]) -> None:
    front: Front[int] = Front()
    entered = [front.add(k, point) for k, point in enumerate(points)]
    values = np.array(points, dtype=float).reshape(-1, 3)
    assert sorted(front) == np.flatnonzero(nondominated(values)).tolist()
    assert all(entered[k] for k in front)


@given(POINTS, POINTS)
def test_no_worse_compares_every_pair(a: list[tuple[int, ...]], b: list[tuple[int, ...]]) -> None:
    found = no_worse(np.array(a).reshape(-1, 3), np.array(b).reshape(-1, 3))
    expected = [[all(x <= y for x, y in zip(one, other, strict=True)) for other in b] for one in a]
    assert found.tolist() == expected


def test_an_equal_item_does_not_enter() -> None:
    front: Front[str] = Front()
    assert front.add("first", (1, 2)) and not front.add("second", (1, 2))
    assert front.add("better", (1, 1)) and list(front) == ["better"] and len(front) == 1
