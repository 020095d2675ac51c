"""The cases of a test that the quick part takes (`make test-fast`), and those that rotate: some of them each day."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from math import ceil
from typing import Any

import pytest
from hypothesis import settings

EXAMPLES = 100  # of a property that does not say how many, in all tests
QUICK_EXAMPLES = 25  # in the quick part


# Variables: the day on which `rotating` cases take their turns, and the part of them that does, such as 3 for a third.
TURN, PART = "TEST_TURN", "TEST_PART"


def turn() -> int:
    """Return the number that says which of the rotating cases `make test` takes: that of the day, or `$TEST_TURN`."""
    return int(os.environ.get(TURN) or datetime.now(UTC).toordinal())


def examples(count: int) -> int:
    """Return how many of `count` examples of a property are tried: all, or in the quick part a quarter."""
    return ceil(count * settings().max_examples / EXAMPLES)


def first(count: int, cases: Iterable[Any]) -> list[Any]:
    """Mark all but the first `count` cases slow; a tuple is the values of one case."""
    return [_param(case, is_slow=k >= count) for k, case in enumerate(cases)]


def one_in(step: int, cases: Iterable[Any], reach: int = 1) -> list[Any]:
    """Mark all but every `step`-th case slow, so that the quick part has some of each kind; a tuple as in `first`.

    All but every `reach`-th case are left to `make test-reach`.
    """
    return [_param(case, k % step > 0, k % reach > 0) for k, case in enumerate(cases)]


def rotating(step: int, cases: Iterable[Any]) -> list[Any]:
    """Mark cases of which `make test` takes every `step`-th, other ones each day, and `make test-reach` all.

    With `TEST_PART=3` it is every third.
    """
    step = int(os.environ.get(PART) or step)
    params = [_param(case, True, is_reach=(k - turn()) % step > 0) for k, case in enumerate(cases)]
    return [pytest.param(*p.values, id=p.id, marks=(*p.marks, pytest.mark.rotating)) for p in params]


def _param(case: Any, is_slow: bool, is_reach: bool = False) -> Any:
    known = case if hasattr(case, "marks") else pytest.param(*(case if isinstance(case, tuple) else (case,)))
    marks = (*((pytest.mark.slow,) if is_slow else ()), *((pytest.mark.reach,) if is_reach else ()))
    return pytest.param(*known.values, id=known.id, marks=(*known.marks, *marks))
