"""Tests of the comparison of outputs with a reference."""

from __future__ import annotations

import numpy as np
import pytest

from tapestry.optimizer.analysis.verification import relative_errors


def error(found: object, wanted: object) -> float:
    return relative_errors({"y": np.asarray(found)}, {"y": np.asarray(wanted)})["y"]


def test_an_error_is_relative_to_the_largest_finite_value() -> None:
    assert error([1.0, 7.0], [1.0, 8.0]) == 1 / 8
    assert error([1.0, np.inf], [2.0, np.inf]) == 1 / 2
    assert error([np.nan], [np.nan]) == 0


def test_imaginary_parts_count() -> None:
    assert error([3 + 4j], [3 + 4j]) == 0
    assert error([5j], [-5j]) == 2
    assert error([1.0], [1 + 1j]) == pytest.approx(1 / np.sqrt(2))


@pytest.mark.parametrize("found", [[np.nan], [np.inf], [[1.0]]])
def test_what_cannot_be_compared_is_infinitely_far(found: object) -> None:
    assert error(found, [1.0]) == float("inf")
