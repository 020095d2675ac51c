"""Tests that Fourier transforms of ONNX become those of our operator, of any length and direction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tapestry.teg.importers import from_onnx
from tapestry.teg.validate import validate
from tests.teg.importers.models import model_of, run

RNG = np.random.default_rng(9)


def complex_of(array: np.ndarray) -> np.ndarray:
    return array[..., 0] + (1j * array[..., 1] if array.shape[-1] == 2 else 0)


def transform(x: np.ndarray, length: int | None, axis: int, **attributes: Any) -> np.ndarray:
    constants = {"axis": np.array(axis)} | ({} if length is None else {"n": np.array(length)})
    node = helper.make_node("DFT", ["x", "" if length is None else "n", "axis"], ["y"], **attributes)
    graph = from_onnx(model_of([node], {"x": x}, ["y"], constants))
    assert validate(graph) == []
    assert "onnx" not in {b.operator for b in graph.blocks}
    return run(graph, {"x": x})["y"]


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("length", [None, 5, 8])
@pytest.mark.parametrize("inverse", [0, 1])
def test_lines_are_cut_or_filled_up(parts: int, length: int | None, inverse: int) -> None:
    x = RNG.normal(size=(2, 6, 3, parts)).astype(np.float32)
    found = transform(x, length, -3, inverse=inverse)
    wanted = (np.fft.ifft if inverse else np.fft.fft)(complex_of(x), n=length, axis=1)
    np.testing.assert_allclose(complex_of(found), wanted, atol=1e-5)


@pytest.mark.parametrize("length", [None, 7])
def test_half_of_the_frequencies_of_a_real_line_say_everything(length: int | None) -> None:
    x = RNG.normal(size=(2, 6, 1))
    half = transform(x, length, 1, onesided=1)
    np.testing.assert_allclose(complex_of(half), np.fft.rfft(x[..., 0], n=length), atol=1e-12)
    back = transform(half, length, 1, onesided=1, inverse=1)
    assert back.shape == (2, length or 6, 1)
    np.testing.assert_allclose(back[:, :6], x, atol=1e-12)


def test_frames_of_a_signal_are_weighted_and_transformed() -> None:
    x, window = RNG.normal(size=(2, 20, 1)).astype(np.float32), np.hanning(6).astype(np.float32)
    node = helper.make_node("STFT", ["x", "step", "w"], ["y"], onesided=0)
    model = model_of([node], {"x": x, "w": window}, ["y"], {"step": np.array(4)})
    found = run(from_onnx(model), {"x": x, "w": window})["y"]
    frames = np.stack([x[:, k : k + 6, 0] * window for k in (0, 4, 8, 12)], axis=1)
    np.testing.assert_allclose(complex_of(found), np.fft.fft(frames), atol=1e-5)
