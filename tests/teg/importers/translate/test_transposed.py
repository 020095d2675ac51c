"""Tests of transposed convolution against its definition: every element adds the kernel, scaled, at its position."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tapestry.teg.importers import from_onnx
from tapestry.teg.validate import validate
from tests.teg.importers.models import model_of, run

RNG = np.random.default_rng(5)


def laid_down(x: np.ndarray, w: np.ndarray, groups: int, stride: int, dilation: int) -> np.ndarray:
    """Compute the whole result, nothing cut off, of `x` `(n, c, h, w)` and `w` `(c, o / groups, kh, kw)`."""
    n, channels, *sizes = x.shape
    columns, *taps = w.shape[1:]
    full = [stride * (s - 1) + dilation * (k - 1) + 1 for s, k in zip(sizes, taps, strict=True)]
    y = np.zeros((n, groups * columns, *full))
    for c, o, i, j, a, b in product(*map(range, (channels, columns, *sizes, *taps))):
        to = c // (channels // groups) * columns + o
        y[:, to, i * stride + a * dilation, j * stride + b * dilation] += x[:, c, i, j] * w[c, o, a, b]
    return y


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    ("stride", "dilation", "kernel"), [(1, 1, 3), (2, 1, 2), (3, 1, 2), (2, 2, 3), (1, 3, 2)]
)
@pytest.mark.parametrize("cut", [0, 1, 2])
def test_transposed_convolution(groups: int, stride: int, dilation: int, kernel: int, cut: int) -> None:
    x = RNG.normal(size=(2, 4, 3, 4)).astype(np.float32)
    w = RNG.normal(size=(4, 3, kernel, kernel)).astype(np.float32)
    attributes: dict[str, Any] = {"strides": [stride] * 2, "dilations": [dilation] * 2, "pads": [cut] * 4}
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], group=groups, **attributes)
    graph = from_onnx(model_of([node], {"x": x, "w": w}, ["y"]))

    full = laid_down(x, w, groups, stride, dilation)
    wanted = full[:, :, cut : full.shape[2] - cut, cut : full.shape[3] - cut]

    assert validate(graph) == []
    assert not any(b.operator == "onnx" for b in graph.blocks)
    np.testing.assert_allclose(run(graph, {"x": x, "w": w})["y"], wanted, rtol=1e-4, atol=1e-4)


def test_a_stated_shape_says_what_is_cut_off_and_a_bias_is_added() -> None:
    x, w = RNG.normal(size=(1, 2, 3, 3)).astype(np.float32), np.ones((2, 1, 3, 3), np.float32)
    bias = np.float32([10.0])
    node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], strides=[2, 2], output_shape=[6, 6])
    graph = from_onnx(model_of([node], {"x": x, "w": w, "b": bias}, ["y"]))
    full = laid_down(x, w, 1, 2, 1)
    assert full.shape == (1, 1, 7, 7)
    np.testing.assert_allclose(
        run(graph, {"x": x, "w": w, "b": bias})["y"], full[:, :, 1:, 1:] + 10, rtol=1e-5, atol=1e-5
    )
