"""The cases of a test that the quick part takes (`make test-fast`); `make test` takes all of them."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import Any

import pytest
from hypothesis import settings

EXAMPLES = 100  # of a property that does not say how many, in all tests
QUICK_EXAMPLES = 25  # in the quick part


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


def _param(case: Any, is_slow: bool, is_reach: bool = False) -> Any:
    known = case if hasattr(case, "marks") else pytest.param(*(case if isinstance(case, tuple) else (case,)))
    marks = (*((pytest.mark.slow,) if is_slow else ()), *((pytest.mark.reach,) if is_reach else ()))
    return pytest.param(*known.values, id=known.id, marks=(*known.marks, *marks))
