"""Tests that quantized operators are cells and products in whole numbers and give what ONNX's reference gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tapestry.teg.graph import Graph
from tapestry.teg.validate import validate
from tests.teg.importers.models import check_against_reference, model_of

RNG = np.random.default_rng(11)
Arrays = dict[str, np.ndarray]


def bytes_of(*shape: int, dtype: Any = np.uint8) -> np.ndarray:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, size=shape, dtype=dtype)


def scales(*shape: int) -> np.ndarray:
    return RNG.uniform(0.01, 0.1, size=shape).astype(np.float32)


def imported(operator: str, inputs: Arrays, attributes: dict[str, Any], opset: int = 21) -> Graph:
    node = helper.make_node(operator, list(inputs), ["y"], name="n", **attributes)
    graph = check_against_reference(model_of([node], inputs, ["y"], opset=opset), inputs)
    assert validate(graph) == []
    assert not any(b.operator == "onnx" for b in graph.blocks)
    return graph


def test_quantizing_rounds_to_even_and_stops_at_the_bounds() -> None:
    x = np.array([-1e6, -1.0, 0.25, 0.75, 1.25, 2.0, 1e6], np.float32)
    imported("QuantizeLinear", {"x": x, "s": np.float32([0.5]), "z": np.int8([3])}, {})


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint16])
def test_quantizing_along_an_axis(dtype: Any) -> None:
    x = (RNG.normal(size=(2, 3, 4)) * 50).astype(np.float32)
    imported("QuantizeLinear", {"x": x, "s": scales(3), "z": bytes_of(3, dtype=dtype)}, {"axis": -2})


@pytest.mark.parametrize(("size", "block"), [(8, 4), (8, 2), (8, 8)])
def test_scales_of_blocks(size: int, block: int) -> None:
    x = bytes_of(3, size, 2, dtype=np.int8)
    given = {"x": x, "s": scales(3, size // block, 2), "z": bytes_of(3, size // block, 2, dtype=np.int8)}
    imported("DequantizeLinear", given, {"axis": 1, "block_size": block})


def test_a_bias_in_32_bits_is_dequantized() -> None:
    imported("DequantizeLinear", {"x": bytes_of(4, dtype=np.int32), "s": scales(4)}, {"axis": 0})


def test_products_of_whole_numbers_shard() -> None:
    given = {"a": bytes_of(2, 3, 8), "b": bytes_of(8, 5), "az": bytes_of(1), "bz": bytes_of(5)}
    graph = imported("MatMulInteger", given, {})
    (product,) = [b for b in graph.blocks if b.operator == "contract"]
    assert product.signature is not None
    assert sorted(d.size for d in product.signature.dims) == [2, 3, 5, 8]


@pytest.mark.parametrize("attributes", [{}, {"strides": [2, 1], "pads": [1, 0, 2, 1]}, {"group": 2}])
def test_convolutions_of_whole_numbers(attributes: dict[str, Any]) -> None:
    groups = attributes.get("group", 1)
    x, w = bytes_of(2, 4, 6, 7), bytes_of(6, 4 // groups, 3, 2)
    imported("ConvInteger", {"x": x, "w": w, "xz": bytes_of(1)}, attributes)


def test_a_quantized_convolution_with_scales_per_channel_and_a_bias() -> None:
    given = {"x": bytes_of(1, 3, 5, 5), "xs": scales(1), "xz": bytes_of(1)}
    given |= {"w": bytes_of(4, 3, 3, 3, dtype=np.int8), "ws": scales(4), "wz": np.zeros(4, np.int8)}
    given |= {"ys": np.float32([3.5]), "yz": bytes_of(1), "b": bytes_of(4, dtype=np.int16).astype(np.int32)}
    imported("QLinearConv", given, {"pads": [1, 1, 1, 1]})


def test_a_quantized_product_with_scales_per_row_and_column() -> None:
    given = {"a": bytes_of(4, 8), "as": scales(1), "az": bytes_of(1)}
    given |= {"b": bytes_of(8, 3), "bs": scales(3), "bz": bytes_of(3)}
    imported("QLinearMatMul", given | {"ys": np.float32([2.0]), "yz": bytes_of(1)}, {})


def test_dynamic_quantization_is_made_of_its_parts() -> None:
    x = RNG.normal(size=(3, 4)).astype(np.float32)
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])
    graph = check_against_reference(model_of([node], {"x": x}, ["y", "s", "z"]), {"x": x})
    assert not any(b.operator == "onnx" for b in graph.blocks)
