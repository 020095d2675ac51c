"""Tests that every user error at import gets one clear line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tapestry.teg.faults import ArgumentError
from tapestry.teg.importers import ImportFailure, from_onnx
from tests.teg.importers.models import GPT2, model_of, run


def failure(source: object, **options: object) -> str:
    with pytest.raises(ImportFailure) as caught:
        from_onnx(source, **options)  # type: ignore[arg-type]
    text = str(caught.value)
    assert "\n" not in text
    return text


def relu_of(shape: list[int | str]) -> object:
    return model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": shape}, ["y"])


def test_a_missing_file(tmp_path: Path) -> None:
    assert failure(tmp_path / "absent.onnx") == f"there is no file '{tmp_path / 'absent.onnx'}'"


def test_a_folder(tmp_path: Path) -> None:
    assert "cannot read" in failure(tmp_path)


@pytest.mark.parametrize("content", [b"", b"hello, world\n" * 20, b"PK\x03\x04 rest of an archive", b"{}"])
def test_a_foreign_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    assert "not an ONNX model" in failure(path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file(tmp_path: Path, share: float) -> None:
    content = GPT2.read_bytes()
    path = tmp_path / "model.onnx"
    path.write_bytes(content[: int(len(content) * share)])
    assert "truncated" in failure(path)


def test_all_refused_operators_are_reported_at_once() -> None:
    nodes = [
        helper.make_node("NonMaxSuppression", ["x", "x"], ["boxes"], name="suppress"),
        helper.make_node("NonMaxSuppression", ["x", "x"], ["others"], name="suppress too"),
        helper.make_node("NonZero", ["x"], ["places"], name="find"),
    ]
    text = failure(model_of(nodes, {"x": [1, 2, 2]}, ["boxes", "others", "places"]))
    assert "node 'suppress' (NonMaxSuppression) has no translation here, and the shape of its output" in text
    assert "(and 1 more of its kind); node 'find' (NonZero)" in text


def test_operators_of_another_domain() -> None:
    nodes = [helper.make_node("FusedThing", ["x"], ["y"], domain="com.example")]
    assert "com.example.FusedThing" in failure(model_of(nodes, {"x": [2]}, ["y"]))


def test_a_dynamic_dimension_says_how_to_give_its_size() -> None:
    text = failure(relu_of(["batch", 3, "height"]))
    assert "'batch' of input 'x'" in text
    assert "--dim batch=8 --dim height=8" in text


def test_a_nameless_dynamic_dimension_is_called_by_its_place() -> None:
    model = relu_of([2, 3])
    model.graph.input[0].type.tensor_type.shape.dim[1].Clear()  # type: ignore[attr-defined]
    assert "--dim x.1=8" in failure(model)
    graph = from_onnx(model, dims={"x.1": 5})
    assert graph.sinks[0].definition["logical_shape"] == (2, 5)


def test_sizes_of_dimensions_that_a_model_does_not_have_are_refused() -> None:
    with pytest.raises(ImportFailure, match="no dimension 'bacth' without a size; did you mean batch"):
        from_onnx(relu_of(["batch", 3]), dims={"batch": 4, "bacth": 8})
    with pytest.raises(ImportFailure, match="no dimension 'batch' without a size; all its dimensions have"):
        from_onnx(relu_of([4, 3]), dims={"batch": 4})


def test_a_dynamic_dimension_with_a_size() -> None:
    graph = from_onnx(relu_of(["batch", 3]), dims={"batch": 4})
    x = np.arange(-6, 6, dtype=np.float32).reshape(4, 3)
    np.testing.assert_array_equal(run(graph, {"x": x})["y"], np.maximum(x, 0))


def test_a_size_must_be_positive() -> None:
    with pytest.raises(ArgumentError, match=r"^dims: expected whole numbers above 0 .*, not \{'batch': 0\}$"):
        from_onnx(relu_of(["batch", 3]), dims={"batch": 0})  # type: ignore[arg-type]


def test_a_shape_that_depends_on_the_input() -> None:
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"], name="flatten")]
    text = failure(model_of(nodes, {"x": [2, 3], "shape": np.array([6])}, ["y"]))
    assert (
        text
        == "small: node 'flatten' (Reshape) is supported only where its shape is constant; 'shape' is not"
    )


def test_an_old_opset() -> None:
    assert "opset 5; supported are 7 to" in failure(
        model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": [2]}, ["y"], opset=5)
    )


def test_missing_and_misshapen_inputs_are_all_reported() -> None:
    model = model_of([helper.make_node("Add", ["a", "b"], ["y"])], {"a": [2, 3], "b": [2, 3]}, ["y"])
    with pytest.raises(ValueError, match="input 'a' must have shape") as caught:
        run(from_onnx(model), {"a": np.zeros((3, 2), np.float32)})
    assert "input 'b' of shape (2, 3) and type float32 is missing" in str(caught.value)
