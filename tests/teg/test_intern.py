"""Tests that equal nodes are one object, and only equal nodes are."""

import copy
import gc
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapestry.teg import intern
from tapestry.teg.graph import Block, Definition, Tensor, attributes
from tapestry.teg.signature import IndexDim

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)


@given(values)
def test_given_equal_fields_then_the_same_object(value: Any) -> None:
    first = Definition("cell", (("x", value),), None)
    assert Definition("cell", (("x", copy.deepcopy(value)),), None) is first
    assert pickle.loads(pickle.dumps(first)) is first
    assert copy.deepcopy(first) is first


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 1.0), (1, True), (0, False), (0.0, -0.0), (0, 0.0), ((1,), (1.0,)), (("a", (1,)), ("a", (True,)))],
)
def test_given_values_that_only_compare_equal_then_different_objects(one: Any, other: Any) -> None:
    nodes = Definition("cell", attributes(x=one), None), Definition("cell", attributes(x=other), None)
    assert nodes[0] is not nodes[1]
    assert [repr(n["x"]) for n in nodes] == [repr(one), repr(other)]


def test_given_nan_then_it_equals_itself() -> None:
    one, other = float("nan"), float("inf") - float("inf")
    assert Definition("cell", attributes(x=one), None) is Definition("cell", attributes(x=other), None)


def test_classes_with_equal_fields_stay_apart() -> None:
    assert IndexDim("x", 1, "sum") is not Tensor("x", 1, "sum")  # type: ignore[arg-type]


def test_pickling_keeps_identity_inside_a_larger_value() -> None:
    dim = IndexDim("x", 4)
    definition = Definition("cell", attributes(x=1), None)
    block = Block("b", definition, ("a",), ("b",))
    found = pickle.loads(pickle.dumps({"dims": [dim, dim], "block": block}))
    assert found["dims"][0] is dim
    assert found["block"] is block
    assert found["block"].definition is definition


def test_nodes_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        IndexDim("x", 4).size = 5  # type: ignore[misc]


def test_nodes_nobody_holds_are_forgotten() -> None:
    gc.disable()  # it would forget others between the counts
    try:
        before = len(intern._table)
        held = [IndexDim(f"only here {k}", k) for k in range(50)]
        assert len(intern._table) == before + 50
        del held
        assert len(intern._table) == before
    finally:
        gc.enable()
