"""Tests that ONNX files that nobody exports by accident are refused in bounded time and memory, in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tapestry.teg.importers import ImportFailure, from_onnx
from tests.teg.importers.models import GRAPHS, model_of, run
from tests.teg.importers.test_bad_input import failure

WEIGHT = np.arange(6, dtype=np.float32).reshape(2, 3)


def relu() -> onnx.ModelProto:
    return model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": [2, 3]}, ["y"])


def adding(tensor: TensorProto) -> onnx.ModelProto:
    """Build a model that adds an initializer `w` to its input."""
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], {"x": [2, 3]}, ["y"])
    model.graph.initializer.append(tensor)
    return model


def elsewhere(location: str, **more: int) -> onnx.ModelProto:
    """Build a model whose initializer is stored in another file."""
    tensor = TensorProto(
        name="w", dims=[2, 3], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL
    )
    for key, value in {"location": location, **more}.items():
        tensor.external_data.add(key=key, value=str(value))
    return adding(tensor)


def test_data_in_other_files_needs_a_folder(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(b"\0" * 8 + WEIGHT.tobytes())
    model = elsewhere("weights.bin", offset=8, length=24)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())

    assert "the data of initializer 'w' lies in another file" in failure(path)
    assert f"it lies beside the model: give its folder, external_data={str(tmp_path)!r}" in failure(path)
    assert "--external-data FOLDER" in failure(model)
    graph = from_onnx(path, external_data=tmp_path)
    np.testing.assert_array_equal(run(graph, {"x": WEIGHT})["y"], 2 * WEIGHT)


def test_missing_data_names_the_files_that_could_be_meant(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(elsewhere("weights.bin", length=24).SerializeToString())
    (tmp_path / "weight.bin").write_bytes(WEIGHT.tobytes())
    (tmp_path / "readme.txt").touch()

    assert "it does not lie beside the model, where there is 'weight.bin'" in failure(path)
    reported = failure(path, external_data=tmp_path)
    assert "which is no file inside" in reported and reported.endswith("where there is 'weight.bin'")


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/hostname", "a\0b"])
def test_a_hint_says_nothing_of_files_elsewhere(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(WEIGHT.tobytes())
    (folder / "model.onnx").write_bytes(elsewhere(location).SerializeToString())
    assert "it lies beside" not in failure(folder / "model.onnx")


def test_a_folder_of_data_must_exist(tmp_path: Path) -> None:
    assert "there is no folder" in failure(relu(), external_data=tmp_path / "absent")


@pytest.mark.parametrize(
    "location", ["../secret.bin", "/etc/hostname", "link.bin", "", ".", "a\0b", "absent"]
)
def test_data_outside_the_folder_is_not_read(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(WEIGHT.tobytes())
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    assert "is no file inside" in failure(elsewhere(location), external_data=folder)


@pytest.mark.parametrize("more", [{"offset": 1}, {"offset": -1}, {"length": 23}, {"length": 10**12}])
def test_data_that_is_not_all_there(tmp_path: Path, more: dict[str, int]) -> None:
    (tmp_path / "weights.bin").write_bytes(WEIGHT.tobytes())
    text = failure(elsewhere("weights.bin", **more), external_data=tmp_path)
    assert "takes 24 bytes" in text


def test_data_that_its_shape_denies() -> None:
    tensor = numpy_helper.from_array(WEIGHT, "w")
    tensor.dims[0] = 2**40
    assert "initializer 'w' has 24 bytes of data" in failure(adding(tensor))


@pytest.mark.parametrize("dims", [[2**32, 2**32], [2**61], [-1, 3]])
def test_shapes_that_no_tensor_has(dims: list[int]) -> None:
    model = relu()
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, dims))
    text = failure(model)
    assert "more than 2^63 bytes" in text or "dimensions without a size" in text


def test_a_shape_that_overflows_on_the_way() -> None:
    nodes = [helper.make_node("Tile", ["x", "times"], ["y"], name="blow up")]
    model = model_of(nodes, {"x": [2**20] * 3}, ["y"], {"times": np.full(3, 2**20)})
    assert "more than 2^63 bytes" in failure(model)


def test_constants_are_not_unfolded_without_need() -> None:
    nodes = [
        helper.make_node("Range", ["zero", "many", "one"], ["steps"]),
        helper.make_node("Gather", ["steps", "x"], ["y"]),
    ]
    given = {"zero": np.array(0), "many": np.array(10**13), "one": np.array(1)}
    try:
        from_onnx(model_of(nodes, {"x": np.zeros(2, np.int64)}, ["y"], given))
    except ImportFailure as refusal:
        assert "\n" not in str(refusal)


def test_a_cycle() -> None:
    nodes = [helper.make_node("Relu", ["b"], ["a"], name="first"), helper.make_node("Relu", ["a"], ["b"])]
    text = failure(model_of(nodes, {}, ["b"]))
    assert "node 'first' reads 'b', which is made only later" in text
    assert "there may be a cycle" in text


def test_values_with_two_makers() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["y"], name="again")]
    assert "node 'again' makes 'y', which is there already" in failure(model_of(nodes, {"x": [2]}, ["y"]))
    nodes = [helper.make_node("Relu", ["x"], ["x"], name="in place")]
    assert "node 'in place' makes 'x', which is there already" in failure(model_of(nodes, {"x": [2]}, ["x"]))


def test_doubled_inputs_initializers_and_outputs() -> None:
    model = relu()
    model.graph.input.append(model.graph.input[0])
    assert "there are two inputs 'x'" in failure(model)
    model = adding(numpy_helper.from_array(WEIGHT, "w"))
    model.graph.initializer.append(model.graph.initializer[0])
    assert "there are two initializers 'w'" in failure(model)
    model = relu()
    model.graph.output.append(model.graph.output[0])
    assert "output 'y' stands there twice" in failure(model)


def test_names_that_are_no_text() -> None:
    content = relu().SerializeToString()
    assert "is no name: names are printable text" in failure(content.replace(b"Relu", b"Re\nu"))
    assert "is no name: names are printable text" in failure(content.replace(b"Relu", b"Re\xffu"))


@pytest.mark.parametrize("seed", range(3))
def test_damaged_files_are_imported_or_refused_in_one_line(seed: int) -> None:
    content = (GRAPHS / "tiny_train_heat_inverse_20steps_grads.onnx").read_bytes()
    rng = np.random.default_rng(seed)
    for _ in range(30):
        damaged = np.frombuffer(content, np.uint8).copy()
        places = rng.integers(0, len(content), rng.integers(1, 6))
        damaged[places] = rng.integers(0, 256, len(places))
        try:
            from_onnx(damaged.tobytes())
        except ImportFailure as refusal:
            assert "\n" not in str(refusal)


def test_names_that_meet_those_made_here() -> None:
    """Check a weight called `y.each`, which is also the name of the steps that a mean of squares is made of."""
    nodes = [
        helper.make_node("ReduceSumSquare", ["x"], ["y"], keepdims=0),
        helper.make_node("Mul", ["y", "y.each"], ["z"]),
    ]
    model = model_of(nodes, {"x": [2, 3], "y.each": [2]}, ["y", "z"])
    found = run(from_onnx(model), {"x": WEIGHT, "y.each": np.array([2, 3], np.float32)})
    np.testing.assert_array_equal(found["y"], np.float32(55))
    np.testing.assert_array_equal(found["z"], np.array([110, 165], np.float32))


def with_functions(count: int, calls: int) -> onnx.ModelProto:
    """Build functions `f0`, `f1`, ... each of which calls the one before it so many times."""
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    functions = [
        helper.make_function("own", "f0", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], opsets)
    ]
    for k in range(1, count):
        names = ["a", *(f"v{i}" for i in range(calls - 1)), "b"]
        body = [helper.make_node(f"f{k - 1}", [names[i]], [names[i + 1]], domain="own") for i in range(calls)]
        functions.append(helper.make_function("own", f"f{k}", ["a"], ["b"], body, opsets))
    node = helper.make_node(f"f{count - 1}", ["x"], ["y"], domain="own")
    model = model_of([node], {"x": [2, 3]}, ["y"])
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.functions.extend(functions)
    return model


def test_functions_are_unfolded_as_deep_as_they_go() -> None:
    graph = from_onnx(with_functions(40, 1))
    np.testing.assert_array_equal(run(graph, {"x": WEIGHT})["y"], WEIGHT)


def test_functions_that_double_at_every_level() -> None:
    text = failure(with_functions(60, 2))
    assert "has 576,460,752,303,423,488 nodes, functions unfolded; at most 250,000" in text


def test_functions_that_call_each_other() -> None:
    model = with_functions(3, 1)
    model.functions[0].node[0].CopyFrom(helper.make_node("f2", ["a"], ["b"], domain="own"))
    assert "calls itself, directly or through others" in failure(model)


def test_graphs_inside_graphs_inside_graphs() -> None:
    then = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["z"])], "g", [], [helper.make_empty_tensor_value_info("z")]
    )
    for _ in range(30):
        inner = helper.make_node("If", ["c"], ["z"], then_branch=then, else_branch=then.__class__())
        then = helper.make_graph([inner], "g", [], [helper.make_empty_tensor_value_info("z")])
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=then)]
    text = failure(model_of(nodes, {"c": np.array(True), "x": [2]}, ["y"]))
    assert "If" in text


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_attributes_that_are_no_numbers_keep_their_meaning(value: float) -> None:
    nodes = [helper.make_node("LeakyRelu", ["x"], ["y"], alpha=value)]
    found = run(from_onnx(model_of(nodes, {"x": [3]}, ["y"])), {"x": np.array([1, -1, 2], np.float32)})
    np.testing.assert_array_equal(found["y"], np.array([1, -value, 2], np.float32))


def test_attributes_of_the_wrong_kind_are_reported() -> None:
    nodes = [helper.make_node("Softmax", ["x"], ["y"], axis=float("nan"), name="soft")]
    assert "node 'soft' (Softmax)" in failure(model_of(nodes, {"x": [2, 3]}, ["y"]))


def test_operands_that_are_missing_are_reported() -> None:
    nodes = [helper.make_node("Where", ["c", "x"], ["y"], name="choose")]
    text = failure(model_of(nodes, {"c": np.array(True), "x": [2]}, ["y"]))
    assert "node 'choose' (Where) has 2 inputs; the operator takes 3" in text


def test_a_file_of_two_gibibytes_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "large.onnx"
    with path.open("wb") as file:
        file.truncate(2**31)
    assert "has 2,147,483,648 bytes; ONNX files have at most" in failure(path)


@pytest.mark.slow
def test_a_million_nodes_are_refused() -> None:
    nodes = [helper.make_node("Add", [f"v{k}", "x"], [f"v{k + 1}"]) for k in range(1_000_000)]
    content = model_of(nodes, {"v0": [2], "x": [2]}, ["v1000000"]).SerializeToString()
    del nodes
    assert "has 1,000,000 nodes" in failure(content)
