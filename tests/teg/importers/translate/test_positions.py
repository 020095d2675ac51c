"""Tests of ONNX operators that read, write or find positions, against ONNX's own reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tapestry.teg.graph import Graph
from tapestry.teg.importers import ImportFailure, from_onnx
from tapestry.teg.signature import PARALLEL
from tests.teg.importers.models import check_against_reference, model_of, run

X = np.linspace(-2, 3, 3 * 4 * 5, dtype=np.float32).reshape(3, 4, 5)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def one(
    op: str, inputs: dict[str, Any], constants: Any = None, order: Any = (), opset: int = 20, **attrs: Any
) -> Graph:
    """Check a model of one node; `order` gives the order of its inputs."""
    node = helper.make_node(op, order or [*inputs, *(constants or {})], ["y"], name="node", **attrs)
    return check_against_reference(model_of([node], inputs, ["y"], constants, opset), inputs)


def operators(graph: Graph) -> list[str]:
    return [b.operator for b in graph.blocks if b.operator not in ("source", "sink")]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_elements_are_gathered_and_scattered_along_an_axis(axis: int, rng: np.random.Generator) -> None:
    size = X.shape[axis]
    index = rng.integers(-size, size, X.shape)
    part = rng.permuted(np.arange(size) * np.ones(X.shape, np.int64).swapaxes(axis, -1), axis=-1).swapaxes(
        axis, -1
    )
    updates = rng.standard_normal(X.shape).astype(np.float32)

    graph = one("GatherElements", {"x": X, "i": index}, axis=axis)
    assert operators(graph) == ["gather"]
    graph = one("ScatterElements", {"x": X, "i": part.astype(np.int64), "u": updates}, axis=axis)
    assert "scatter" in operators(graph)


def test_indices_may_cover_a_part_of_the_other_dimensions(rng: np.random.Generator) -> None:
    index, updates = np.array([[[3, 1], [0, 2]]]), np.arange(4, dtype=np.float32).reshape(1, 2, 2)

    gather = model_of(
        [helper.make_node("GatherElements", ["x", "i"], ["y"], axis=1)], {"x": X, "i": index}, ["y"]
    )
    found = run(from_onnx(gather), {"x": X, "i": index})["y"]
    np.testing.assert_array_equal(found, [[[X[0, 3, 0], X[0, 1, 1]], [X[0, 0, 0], X[0, 2, 1]]]])
    one("ScatterElements", {"x": X, "i": index, "u": updates}, axis=1)
    one("ScatterElements", {"x": X, "i": index, "u": updates}, axis=1, reduction="add")


@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
def test_what_meets_is_combined_with_what_was_there(reduction: str, rng: np.random.Generator) -> None:
    index, updates = rng.integers(-3, 3, (6, 1)), rng.standard_normal((6, 4, 5)).astype(np.float32)

    graph = one("ScatterND", {"x": X, "i": index, "u": updates}, reduction=reduction)

    scatter = next(b for b in graph.blocks if b.operator == "scatter")
    kinds = [d.kind for d in scatter.signature.dims]
    assert kinds == [PARALLEL] * 3 + [{"add": "sum", "mul": "prod"}.get(reduction, reduction)]


def test_one_element_per_line_is_chosen_by_coordinate(rng: np.random.Generator) -> None:
    """Check the gradient of a cross entropy: no scatter."""
    index, updates = rng.integers(-5, 5, (3, 4, 1)), rng.standard_normal((3, 4, 1)).astype(np.float32)

    assert operators(one("ScatterElements", {"x": X, "i": index, "u": updates}, axis=2)) == ["cell"]
    one("ScatterElements", {"x": X, "i": index, "u": updates}, axis=2, reduction="max")


def test_a_known_region_of_zeros_is_padded() -> None:
    """Check the gradient of a slice: rows 1 to 3 of 6 are the incoming gradient."""
    constants = {"shape": ints(6, 4), "i": ints(1, 2, 3).reshape(3, 1)}
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["x"]),
        helper.make_node("ScatterND", ["x", "i", "u"], ["y"]),
    ]
    inputs = {"u": X[0, :3, :4]}

    graph = check_against_reference(model_of(nodes, inputs, ["y"], constants), inputs)

    assert operators(graph) == ["pad"]


def test_a_known_region_of_a_tensor_lies_between_what_is_around_it(rng: np.random.Generator) -> None:
    rows, columns = np.meshgrid([1, 2], [0, 1, 2], indexing="ij")
    updates = rng.standard_normal((2, 3, 5)).astype(np.float32)

    graph = one(
        "ScatterND", {"x": X, "u": updates}, {"i": np.stack([rows, columns], -1)}, order=["x", "i", "u"]
    )

    assert set(operators(graph)) == {"view", "concat"}


@pytest.mark.parametrize("reduction", ["none", "add", "mul"])
def test_every_other_row_backwards(reduction: str, rng: np.random.Generator) -> None:
    base, updates = (
        rng.standard_normal((7, 2)).astype(np.float32),
        rng.standard_normal((3, 2)).astype(np.float32),
    )
    constants = {"i": ints(5, 3, 1).reshape(3, 1)}

    graph = one("ScatterND", {"x": base, "u": updates}, constants, order=["x", "i", "u"], reduction=reduction)

    assert "scatter" not in operators(graph)


def test_several_coordinates_address_flattened_rows(rng: np.random.Generator) -> None:
    index = np.array([[0, 3], [-1, 2], [1, -4]])

    one("GatherND", {"x": X, "i": index})
    one("ScatterND", {"x": X, "i": index, "u": X[:, 0] * 2})
    one("GatherND", {"x": X, "i": index[:, 1:]}, batch_dims=1)


@pytest.mark.parametrize(("op", "attrs"), [("ArgMax", {"axis": 1}), ("ArgMin", {"axis": -1, "keepdims": 0})])
@pytest.mark.parametrize("last", [0, 1])
def test_of_equal_elements_the_first_or_last_is_found(op: str, attrs: dict[str, Any], last: int) -> None:
    one(op, {"x": np.round(X)}, select_last_index=last, **attrs)


@pytest.mark.parametrize("largest", [0, 1])
def test_the_first_in_order_with_their_positions(largest: int) -> None:
    node = helper.make_node("TopK", ["x", "k"], ["values", "places"], axis=1, largest=largest)
    model = model_of([node], {"x": X}, ["values", "places"], {"k": ints(3)})

    assert operators(check_against_reference(model, {"x": X})) == ["arg_sort", "gather"]


@pytest.mark.parametrize("attrs", [{}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}])
def test_running_sums(attrs: dict[str, int]) -> None:
    assert operators(one("CumSum", {"x": X}, {"axis": np.array(-2)}, **attrs)) == ["scan"]


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot_is_one_cell(axis: int) -> None:
    index = np.array([[0, -1, 3], [7, 2, -5]])
    constants = {"depth": np.array(4), "values": np.array([2, 5], np.float32)}

    assert operators(one("OneHot", {"i": index}, constants, axis=axis)) == ["cell"]


@pytest.mark.parametrize(("opset", "axis"), [(11, 1), (13, 1), (13, -1)])
def test_the_greatest_is_one_and_all_others_zero(opset: int, axis: int) -> None:
    value = X.reshape(3, 20) % 1.7

    found = run(
        from_onnx(
            model_of([helper.make_node("Hardmax", ["x"], ["y"], axis=axis)], {"x": value}, ["y"], opset=opset)
        ),
        {"x": value},
    )["y"]

    np.testing.assert_array_equal(found.argmax(axis=1), value.argmax(axis=1))
    np.testing.assert_array_equal(found.sum(axis=1), 1)


def test_sequences_are_reversed_up_to_their_lengths() -> None:
    lengths = ints(1, 3, 4, 2)

    one("ReverseSequence", {"x": np.moveaxis(X, 2, 0), "n": ints(5, 2, 1)}, time_axis=0, batch_axis=1)
    one("ReverseSequence", {"x": X, "n": lengths}, time_axis=2, batch_axis=1)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("op", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
def test_losses_over_classes(op: str, reduction: str, rng: np.random.Generator) -> None:
    scores, target = rng.standard_normal((3, 4, 5)).astype(np.float32), rng.integers(0, 4, (3, 5))
    weight = np.array([0.5, 2, 1, 3], np.float32)

    one(op, {"x": scores, "t": target}, reduction=reduction)
    one(op, {"x": scores, "t": target}, reduction=reduction, ignore_index=2)
    target[1, 2] = -1
    one(op, {"x": scores, "t": target, "w": weight}, reduction=reduction, ignore_index=-1)


def test_entries_of_a_cache_are_written_from_each_ones_position_on(rng: np.random.Generator) -> None:
    cache, new = (
        rng.standard_normal((2, 3, 6, 4)).astype(np.float32),
        rng.standard_normal((2, 3, 2, 4)).astype(np.float32),
    )

    one("TensorScatter", {"x": cache, "u": new, "i": ints(1, 4)}, opset=24)
    one("TensorScatter", {"x": cache, "u": new, "i": ints(5, 0)}, opset=24, mode="circular")


def test_known_conditions_choose_rows() -> None:
    condition = {"c": np.array([True, False, True])}

    assert "gather" not in operators(one("Compress", {"x": X}, condition, axis=0))
    one("Compress", {"x": X}, {"c": np.arange(60) % 7 == 1})


def test_a_strided_window_is_a_view(rng: np.random.Generator) -> None:
    """Check `as_strided` as exporters write it: a gather from the flattened tensor at sums of progressions."""
    value = rng.standard_normal((3, 4, 10)).astype(np.float32)
    nodes = [
        helper.make_node("Reshape", ["x", "line"], ["flat"]),
        helper.make_node("Range", ["zero", "rows", "one"], ["row"]),
        helper.make_node("Mul", ["row", "stride"], ["far"]),
        helper.make_node("Unsqueeze", ["far", "last"], ["column"]),
        helper.make_node("Add", ["column", "near"], ["places"]),
        helper.make_node("Gather", ["flat", "places"], ["y"]),
    ]
    constants = {
        "line": ints(-1),
        "last": ints(1),
        "zero": np.array(0),
        "one": np.array(1),
        "rows": np.array(12),
        "stride": ints(10),
        "near": np.arange(2, 7),
    }

    graph = check_against_reference(model_of(nodes, {"x": value}, ["y"], constants), {"x": value})

    assert set(operators(graph)) <= {"view", "reshape"}
    np.testing.assert_array_equal(run(graph, {"x": value})["y"], value.reshape(12, 10)[:, 2:7])


def batch_and_dynamic(count: int) -> tuple[list[Any], dict[str, np.ndarray]]:
    """Build index vectors whose first column is the batch entry's number, as `x[arange(b), i]` is exported."""
    constants = {"batch": np.arange(3).reshape(3, 1), "shape": ints(3, count), "last": ints(-1)}
    nodes = [
        helper.make_node("Expand", ["batch", "shape"], ["b"]),
        helper.make_node("Unsqueeze", ["b", "last"], ["first"]),
        helper.make_node("Unsqueeze", ["i", "last"], ["second"]),
        helper.make_node("Concat", ["first", "second"], ["places"], axis=-1),
    ]
    return nodes, constants


def test_a_column_that_numbers_the_batch_runs_together_with_it(rng: np.random.Generator) -> None:
    index, updates = rng.integers(-4, 4, (3, 2)), rng.standard_normal((3, 2, 5)).astype(np.float32)
    nodes, constants = batch_and_dynamic(2)
    reads = [*nodes, helper.make_node("GatherND", ["x", "places"], ["y"])]
    writes = [*nodes, helper.make_node("ScatterND", ["x", "places", "u"], ["y"], reduction="add")]

    read = {"x": X, "i": index}
    graph = check_against_reference(model_of(reads, read, ["y"], constants), read)
    (gather,) = [b for b in graph.blocks if b.operator == "gather"]
    written = {**read, "u": updates}
    graph = check_against_reference(model_of(writes, written, ["y"], constants), written)
    (scatter,) = [b for b in graph.blocks if b.operator == "scatter"]

    assert gather.definition["aligned"] == ((0, 0),)
    assert scatter.definition["aligned"] == ((0, 0),)


def test_known_columns_cut_the_table_before_it_is_read(rng: np.random.Generator) -> None:
    index = np.stack(np.broadcast_arrays(1, np.array([3, 0, 2, 1]), np.arange(4)), -1)
    updates = rng.standard_normal(4).astype(np.float32)

    one("GatherND", {"x": X}, {"i": index})
    one("ScatterND", {"x": X, "u": updates}, {"i": index}, order=["x", "i", "u"])
    one("ScatterND", {"x": X, "u": updates}, {"i": index}, order=["x", "i", "u"], reduction="max")


def test_updates_that_meet_along_an_unused_dimension_are_combined(rng: np.random.Generator) -> None:
    index = np.broadcast_to(np.arange(3).reshape(1, 3, 1), (2, 3, 1))
    updates = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)

    one("ScatterND", {"x": X, "u": updates}, {"i": index}, order=["x", "i", "u"], reduction="add")


@pytest.mark.parametrize("attrs", [{}, {"k": -1}, {"k": 2, "dtype": 7}])
def test_ones_on_a_diagonal_are_generated(attrs: dict[str, int]) -> None:
    assert operators(one("EyeLike", {"x": X[0]}, **attrs)) == ["cell"]


def test_a_long_progression_is_generated() -> None:
    """Check a progression too long to be a known constant, read by a sum with an input."""
    nodes = [
        helper.make_node("Range", ["start", "limit", "step"], ["line"]),
        helper.make_node("Add", ["x", "line"], ["y"]),
    ]
    constants = {"start": np.array(3), "limit": np.array(40_003), "step": np.array(2)}
    inputs = {"x": ints(5)}

    graph = check_against_reference(model_of(nodes, inputs, ["y"], constants), inputs)

    assert set(operators(graph)) <= {"cell", "view"}
    assert graph.data == {}


def test_maxima_go_back_to_where_they_were() -> None:
    values = np.array([1, 2, 3, 4], np.float32).reshape(1, 1, 2, 2)
    places = ints(5, 7, 13, 15).reshape(1, 1, 2, 2)
    shape = {"shape": ints(1, 1, 5, 5)}

    one("MaxUnpool", {"x": values, "i": places}, kernel_shape=[2, 2], strides=[2, 2])
    one("MaxUnpool", {"x": values, "i": places}, shape, kernel_shape=[2, 2], strides=[2, 2])


@pytest.mark.parametrize("op", ["NonZero", "Unique"])
def test_what_depends_on_known_values_only_is_known(op: str) -> None:
    nodes = [helper.make_node(op, ["c"], ["k"]), helper.make_node("Add", ["k", "x"], ["y"])]
    inputs = {"x": ints(1)}

    graph = check_against_reference(model_of(nodes, inputs, ["y"], {"c": ints(0, 3, 3, 0, 7)}), inputs)

    assert operators(graph) == ["cell"] or set(operators(graph)) == {"cell", "view"}


def test_positions_on_both_sides_of_zero_address_by_position() -> None:
    """Check the positions -1, 0, 1: the last row and the first two."""
    index = ints(-1, 0, 1).reshape(3, 1)

    assert operators(one("GatherND", {"x": X}, {"i": index})) == ["gather"]
    one("ScatterND", {"x": X, "u": X * 2}, {"i": index}, order=["x", "i", "u"])


def test_known_positions_outside_are_refused() -> None:
    model = model_of(
        [helper.make_node("GatherND", ["x", "i"], ["y"])], {"x": X}, ["y"], {"i": ints(3).reshape(1, 1)}
    )

    with pytest.raises(ImportFailure, match="indices 3 to 3 lie outside axis 0 of size 3"):
        from_onnx(model)
