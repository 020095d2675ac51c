"""Tests of user shapes outside and factors inside a graph."""

import numpy as np
import pytest

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.evaluate import evaluate
from tapestry.teg.graph import Graph
from tapestry.teg.interface import pack_inputs, unpack_outputs, unread_names


def doubled() -> Graph:
    builder = GraphBuilder("doubled")
    builder.apply(
        "source", (), site="x", shape=(2, 3), dtype="float32", role="activation", logical_shape=(1, 6)
    )
    expr = ("add", ("input", 0), ("input", 0))
    labels, dims = (("a", "b"),), (("a", 2), ("b", 3))
    builder.apply("cell", ("x",), site="twice", expr=expr, labels=labels, dims=dims, dtype="float32")
    builder.apply("sink", ("twice",), site="y", logical_shape=(6,))
    return builder.build()


def test_values_go_in_and_out_at_the_shapes_that_users_know() -> None:
    graph = doubled()
    x = np.arange(6, dtype=np.float32).reshape(1, 6)
    packed = pack_inputs(graph, {"x": x})
    assert packed["x"].shape == (2, 3)
    found = unpack_outputs(graph, evaluate(graph, packed))
    np.testing.assert_array_equal(found["y"], 2 * x.reshape(6))


def test_a_wrong_shape_is_reported_in_user_terms() -> None:
    with pytest.raises(ValueError, match=r"must have shape \(1, 6\) and type float32, not shape \(2, 3\)"):
        pack_inputs(doubled(), {"x": np.zeros((2, 3), np.float32)})


def test_unknown_names_are_reported_where_an_input_is_missing() -> None:
    with pytest.raises(
        ValueError, match=r"^graph 'doubled': input 'x' .* is missing; there is no input 'z'; known"
    ):
        pack_inputs(doubled(), {"z": np.zeros((1, 6), np.float32)})
    x = np.zeros((1, 6), np.float32)
    assert pack_inputs(doubled(), {"x": x, "dropped": x}).keys() == {"x"}


def test_sources_without_a_logical_shape_take_their_own() -> None:
    builder = GraphBuilder("plain")
    builder.source("x", (2, 3), "float32")
    builder.sink("x", site="y")
    graph = builder.build()
    assert pack_inputs(graph, {"x": np.zeros((2, 3), np.float32)})["x"].shape == (2, 3)


def test_plain_bytes_of_a_file_are_taken_as_the_type_of_the_source() -> None:
    x = np.arange(6, dtype=np.float32).reshape(1, 6)
    np.testing.assert_array_equal(pack_inputs(doubled(), {"x": x.view("V4")})["x"], x.reshape(2, 3))


def test_names_that_are_not_read_are_described_with_near_ones() -> None:
    assert unread_names(doubled(), ["x", "X2"]) == {"X2": "there is no input 'X2'; known are x"}
