"""Tests of ONNX's own cases: the criteria of a match, and that no case crashes."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from benchmarks.onnx_suite import CRASHED, MATCHED, REFUSED, WRONG, NodeCase, run_suite, try_case
from tests.teg.importers.models import model_of

X = np.array([[1.0, -2.0, 3.0]], np.float32)


def case(op: str, expected: np.ndarray, *more: np.ndarray, **attributes: object) -> NodeCase:
    inputs = {"x": X, **{f"operand{k}": a for k, a in enumerate(more)}}
    model = model_of([helper.make_node(op, list(inputs), ["y"], **attributes)], inputs, ["y"])
    return NodeCase("test_made_here", model, inputs, {"y": expected}, (), 1e-3, 1e-7)


def test_values_match_or_are_reported_wrong() -> None:
    assert try_case(case("Relu", np.maximum(X, 0))).state == MATCHED
    assert try_case(case("Relu", np.maximum(X, 0))).native
    wrong = try_case(case("Relu", X))
    assert (wrong.state, wrong.reason) == (WRONG, "output 'y' differs by up to 2")


def test_a_type_that_differs_is_wrong() -> None:
    wrong = try_case(case("Relu", np.maximum(X, 0).astype(np.float64)))
    assert wrong.reason == "output 'y' is float32[1, 3], expected float64[1, 3]"


def test_shapes_of_the_data_are_bound_where_that_makes_a_graph_native() -> None:
    found = try_case(case("Reshape", X.reshape(3, 1), np.array([3, 1])))
    assert (found.state, found.native, found.bound) == (MATCHED, True, ("operand0",))


def test_what_no_static_program_says_is_refused() -> None:
    found = try_case(case("NonZero", np.zeros((2, 3), np.int64)))
    assert found.state == REFUSED
    assert "is not static" in found.reason


@pytest.mark.slow
def test_all_cases_match_or_are_refused_with_a_reason() -> None:
    reported = []
    result = run_suite("", reported.append)
    assert result.failures == ()
    assert result.matched + result.refused == result.total
    assert all(o.reason for o in reported if o.state == REFUSED)
    assert not [o for o in reported if o.state == CRASHED]
    assert result.matched >= 1790
    assert result.native >= 1740
