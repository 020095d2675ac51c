"""Tests that constants of billions of elements in a file of some hundred bytes cost an import nothing.

What is counted: elements that folding touches, elements that are written out, steps that are emitted.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tapestry.teg.importers import ImportFailure, from_onnx
from tapestry.teg.importers.fold_budget import LARGEST_PROGRAM, LARGEST_STEP, FoldBudget
from tapestry.teg.importers.literals import literal
from tapestry.teg.importers.onnx_reader import read_model
from tapestry.teg.importers.program import LARGEST_WRITTEN, ImportLimitError, Literal
from tapestry.teg.importers.translate import translation_of
from tapestry.teg.importers.translate.translation import Translation
from tests.teg.importers.models import check_against_reference, model_of

HUGE, SIDE = 2**34, 2**17
N = helper.make_node
FLOAT = np.float32


def integers(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


GIVEN: dict[str, np.ndarray] = {
    "one": np.ones(1, FLOAT),
    "truth": np.ones(1, bool),
    "index": integers(1),
    "line": np.arange(4, dtype=FLOAT),
    "square": integers(SIDE, SIDE),
    "long": integers(HUGE),
    "flat": integers(-1),
    "all": integers(0, 1),
    "first": integers(0),
    "pads": integers(0, HUGE),
    "sizes": integers(1, 1, HUGE),
    "image": np.ones((1, 1, 4), FLOAT),
    "pair": np.array([0, 1], FLOAT),
    "zero": np.array(0),
    "unit": np.array(1),
    "many": np.array(HUGE),
    "picture": integers(1, 1, 3000, 3000),
    "column": integers(2**20, 1, 1),
    "weight": np.ones((1, 1, 1), FLOAT),
}

ONES = N("Expand", ["one", "square"], ["a"])
LONG = N("Expand", ["one", "long"], ["a"])
SHAPE = N("Expand", ["index", "long"], ["s"])
COUNT = N("Range", ["zero", "many", "unit"], ["n"])
FOLDED_OR_LEFT: dict[str, list[onnx.NodeProto]] = {
    "reduced and reshaped": [ONES, N("ReduceSum", ["a", "all"], ["b"]), N("Reshape", ["b", "flat"], ["c"])],
    "reshaped and reduced": [ONES, N("Reshape", ["a", "flat"], ["b"]), N("ReduceSum", ["b", "first"], ["c"])],
    "its shape": [ONES, N("Shape", ["a"], ["b"]), N("Cast", ["b"], ["c"], to=TensorProto.FLOAT)],
    "selected": [ONES, N("Greater", ["a", "a"], ["g"]), N("Where", ["g", "a", "a"], ["c"])],
    "one of its elements": [LONG, N("Slice", ["a", "first", "index"], ["c"])],
    "as indices": [N("Expand", ["index", "square"], ["i"]), N("Gather", ["x", "i"], ["c"])],
    "as places of elements": [
        LONG,
        N("Cast", ["a"], ["i"], to=TensorProto.INT64),
        N("GatherElements", ["a", "i"], ["c"]),
    ],
    "a range": [COUNT, N("Cast", ["n"], ["f"], to=TensorProto.FLOAT), N("Reshape", ["f", "square"], ["c"])],
    "tiled": [N("Tile", ["line", "long"], ["b"]), N("ReduceSum", ["b"], ["c"])],
    "padded": [N("Pad", ["line", "pads"], ["c"])],
    "padded with its edge": [N("Pad", ["x", "pads"], ["c"], mode="edge")],
    "padded around": [N("Pad", ["x", "pads"], ["c"], mode="wrap")],
    "padded to and fro": [N("Pad", ["x", "pads"], ["c"], mode="reflect")],
    "resized": [N("Resize", ["image", "", "", "sizes"], ["c"])],
    "one hot": [N("OneHot", ["index", "many", "pair"], ["c"])],
    "an identity": [ONES, N("EyeLike", ["a"], ["c"])],
    "running sums": [ONES, N("CumSum", ["a", "zero"], ["c"])],
    "large windows": [
        N("Expand", ["one", "picture"], ["a"]),
        N("MaxPool", ["a"], ["c"], kernel_shape=[99, 99], pads=[40] * 4),
    ],
    "many steps": [
        N("Expand", ["one", "column"], ["a"]),
        N("RNN", ["a", "weight", "weight"], ["", "c"], hidden_size=1),
    ],
    "doubled": [
        N("Concat", ["line", "line"], ["d0"], axis=0),
        *(N("Concat", [f"d{k}", f"d{k}"], [f"d{k + 1}"], axis=0) for k in range(30)),
        N("ReduceSum", ["d30"], ["c"]),
    ],
}
REFUSED: dict[str, list[onnx.NodeProto]] = {
    "a shape": [SHAPE, N("Reshape", ["x", "s"], ["c"])],
    "a shape to broadcast to": [SHAPE, N("Expand", ["x", "s"], ["c"])],
    "a shape to fill": [SHAPE, N("ConstantOfShape", ["s"], ["c"])],
    "repeats": [SHAPE, N("Tile", ["x", "s"], ["c"])],
    "borders": [SHAPE, N("Slice", ["x", "s", "s"], ["c"])],
    "axes": [SHAPE, N("Unsqueeze", ["x", "s"], ["c"])],
    "a condition": [N("Expand", ["truth", "long"], ["t"]), LONG, N("Compress", ["a", "t"], ["c"])],
}


def reading(nodes: Sequence[onnx.NodeProto]) -> onnx.ModelProto:
    """Build a model that adds the sum of `c` to its input."""
    ends = [N("ReduceSum", ["c"], ["total"], keepdims=0), N("Add", ["x", "total"], ["y"])]
    nodes = [*nodes, *ends]
    used = {name for node in nodes for name in node.input}
    return model_of(nodes, {"x": [4]}, ["y"], {k: v for k, v in GIVEN.items() if k in used})


@pytest.mark.parametrize("name", FOLDED_OR_LEFT)
def test_a_huge_constant_is_folded_by_its_form_or_left_to_the_program(name: str) -> None:
    model = reading(FOLDED_OR_LEFT[name])
    tracemalloc.start()
    try:
        translation = translation_of(read_model(model))
        graph = from_onnx(model)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert translation.budget.spent <= translation.budget.limit
    assert max(known.array.size for known in translation.known.values()) <= LARGEST_WRITTEN
    assert len(translation.program.steps) < 100
    assert peak_bytes < 3 * 8 * LARGEST_STEP
    assert graph.by_site["y"].operator == "sink"


@pytest.mark.parametrize("name", REFUSED)
def test_a_huge_constant_that_must_be_read_is_refused_with_node_and_cap(name: str) -> None:
    with pytest.raises(ImportFailure, match=rf"node '[a-z.A-Z]+' .*17,179,869,184 .*{LARGEST_WRITTEN:,}"):
        from_onnx(reading(REFUSED[name]))


def test_nodes_beyond_the_budget_are_left_to_the_program() -> None:
    wide, count = integers(2**20), 64
    nodes = [N("Expand", ["one", "wide"], ["a"]), *(N("ReduceSum", ["a"], [f"r{k}"]) for k in range(count))]
    nodes.append(N("Sum", ["x", *(f"r{k}" for k in range(count))], ["y"]))
    given = {"wide": wide, "one": GIVEN["one"]}

    translation = translation_of(read_model(model_of(nodes, {"x": [1]}, ["y"], given)))

    assert 0 < translation.budget.spent <= translation.budget.limit < 2 * LARGEST_PROGRAM
    assert translation.budget.is_exceeded
    assert translation.program.steps


def test_equal_elements_and_written_ones_are_reshaped_without_being_counted() -> None:
    nodes = [
        ONES,
        N("Reshape", ["a", "flat"], ["b"]),
        N("ReduceSum", ["b"], ["r"]),
        N("Add", ["x", "r"], ["y"]),
    ]
    given = {k: GIVEN[k] for k in ("one", "square", "flat")}
    translation = translation_of(read_model(model_of(nodes, {"x": [4]}, ["y"], given)))
    reshaped = translation.literal("b")

    assert reshaped is not None
    assert (reshaped.shape, reshaped.array.size) == ((HUGE,), 1)
    assert translation.budget.spent == 0


def test_reshapes_of_constants_are_onnxs() -> None:
    nodes = [
        N("Reshape", ["table", "turned"], ["a"]),
        N("Expand", ["a", "wide"], ["b"]),
        N("Reshape", ["b", "open"], ["c"]),
        N("Mul", ["c", "x"], ["y"]),
    ]
    given = {
        "table": np.arange(12).reshape(3, 4).astype(FLOAT),
        "turned": integers(0, -1, 2),
        "wide": integers(5, 3, 2, 2),
        "open": integers(-1, 2),
    }
    check_against_reference(model_of(nodes, {"x": [1, 2]}, ["y"], given), {"x": np.ones((1, 2), FLOAT)})


def test_a_budget_counts_what_it_grants() -> None:
    budget = FoldBudget()
    assert budget.take(5) and not budget.take(LARGEST_STEP + 1)
    assert budget.spent == 5
    assert f"{LARGEST_STEP:,}" in budget.reason
    assert FoldBudget().reason == ""


def test_a_literal_is_read_up_to_the_cap() -> None:
    array: Any = np.zeros((1, 1), np.int64)
    assert Literal(array, (SIDE, 2)).full.shape == (SIDE, 2)
    with pytest.raises(ImportLimitError, match="17,179,869,184"):
        _ = Literal(array, (SIDE, SIDE)).full


def test_what_numpy_repeats_is_stored_once() -> None:
    repeated = np.broadcast_to(np.arange(3.0), (SIDE, SIDE, 3))
    assert literal(repeated).array.shape == (1, 1, 3)
    assert literal(np.zeros((2, 0))).shape == (2, 0)


def test_what_the_body_of_a_loop_holds_is_read_once() -> None:
    stored, constant = (numpy_helper.from_array(np.arange(4, dtype=FLOAT), name) for name in ("stored", "c"))
    nodes = [
        N("Constant", [], ["constant"], value=constant),
        N("Add", ["state", "stored"], ["sum"]),
        N("Mul", ["sum", "constant"], ["next"]),
        N("Identity", ["on"], ["still"]),
    ]
    inputs = (("k", TensorProto.INT64), ("on", TensorProto.BOOL), ("state", TensorProto.FLOAT))
    outputs = (("still", TensorProto.BOOL), ("next", TensorProto.FLOAT))
    ends = (
        [helper.make_tensor_value_info(name, kind, None) for name, kind in side] for side in (inputs, outputs)
    )
    body = helper.make_graph(nodes, "body", *ends, [stored])
    loop = N("Loop", ["times", "go", "x"], ["y"], body=body, name="loop")
    model = model_of([loop], {"x": [4]}, ["y"], {"times": np.array(5), "go": np.array(True)})

    translation = translation_of(read_model(model))

    held = {name for name, value in translation.known.items() if value.shape == (4,)}
    assert held == {"y/body/stored", "y/body/constant"}
    check_against_reference(model, {"x": np.ones(4, FLOAT)})


LENGTH = 36
PLACES = np.random.default_rng(0).permutation(LENGTH)
TURNED = [
    N("Constant", [], ["a"], value=numpy_helper.from_array(PLACES.reshape(6, 6).astype(FLOAT))),
    N("Transpose", ["a"], ["b"]),
    N("Reshape", ["b", "flat"], ["c"]),
]
READ_IN_A_LOOP: dict[str, tuple[list[onnx.NodeProto], np.ndarray]] = {
    "progressions": ([N("Gather", ["v", "places"], ["c"])], np.arange(LENGTH)[::-1]),
    "rows": ([N("Gather", ["v", "places"], ["c"])], PLACES),
    "elements": ([N("GatherElements", ["v", "places"], ["c"])], PLACES),
    "vectors": ([N("GatherND", ["v", "places"], ["c"])], PLACES[:, None]),
    "a condition": ([N("Compress", ["v", "places"], ["c"])], PLACES % 2 == 0),
    "transposed": (TURNED, PLACES),
}


def looped(nodes: Sequence[onnx.NodeProto], places: np.ndarray, trips: int) -> onnx.ModelProto:
    """Build a model that adds the mean of `c` to its value so many times."""
    types = {"k": (TensorProto.INT64, []), "on": (TensorProto.BOOL, []), "v": (TensorProto.FLOAT, None)}
    ends = [N("ReduceMean", ["c"], ["mean"], keepdims=0), N("Add", ["v", "mean"], ["w"])]
    body = helper.make_graph(
        [N("Identity", ["on"], ["still"]), *nodes, *ends],
        "body",
        [helper.make_tensor_value_info(n, *kind) for n, kind in types.items()],
        [helper.make_tensor_value_info(n, types[like][0], None) for n, like in (("still", "on"), ("w", "v"))],
    )
    given = {"trips": np.array(trips), "go": np.array(True), "places": places, "flat": GIVEN["flat"]}
    loop = N("Loop", ["trips", "go", "x"], ["y"], body=body)
    return model_of([loop], {"x": [LENGTH]}, ["y"], given)


@pytest.mark.parametrize("name", READ_IN_A_LOOP)
def test_what_a_loop_reads_of_a_constant_is_found_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a loop of ten iterations computes no more of a constant than one of two iterations does."""
    computed, once = list[object](), Translation.once

    def noted(
        t: Translation, what: object, arrays: Sequence[np.ndarray], compute: Callable[[], object]
    ) -> object:
        return once(t, what, arrays, lambda: (computed.append(what), compute())[1])

    monkeypatch.setattr(Translation, "once", noted)
    counts = []
    for trips in (2, 10):
        computed.clear()
        model = looped(*READ_IN_A_LOOP[name], trips)
        check_against_reference(model, {"x": np.linspace(0, 1, LENGTH, dtype=FLOAT)})
        counts.append(len(computed))
    assert counts[0] == counts[1] > 0
