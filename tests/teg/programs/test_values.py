"""Tests that handles compute what numpy computes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapestry
from tapestry.teg.programs import Handle
from tapestry.teg.validate import validate

RNG = np.random.default_rng(7)
X = RNG.standard_normal((4, 6, 5)).astype(np.float32)
Y = RNG.standard_normal((5, 3)).astype(np.float32)
N = RNG.integers(-9, 9, (4, 6, 5))
GELU = np.vectorize(lambda v: 0.5 * v * (1 + math.erf(v / math.sqrt(2))))


def run(write: Callable[..., Handle], *arrays: np.ndarray, **named: str) -> np.ndarray:
    """Compute the value of a program with one output over plain inputs."""
    with tapestry.program("case") as p:
        handles = [p.input(f"x{k}", a.shape, dtype=a.dtype.name) for k, a in enumerate(arrays)]
        p.output("y", write(*handles))
    assert validate(p.graph) == []
    return p.evaluate({f"x{k}": a for k, a in enumerate(arrays)})["y"]


CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "arithmetic": (lambda x: 2 - x * 3 + x / 4 - (-x), lambda x: 2 - x * 3 + x / 4 - (-x), (X,)),
    "powers": (lambda x: x**2 + 2**x, lambda x: x**2 + 2**x, (X,)),
    "whole division": (lambda n: n / 4, lambda n: n / 4, (N,)),
    "floor division": (lambda n: n // 4 + n % 4, lambda n: n // 4 + n % 4, (N,)),
    "floor division of floats": (lambda x: x // 0.3, lambda x: x // np.float32(0.3), (X,)),
    "comparisons": (
        lambda x: (x > 0) & ~(x >= 1) | (x == -1) ^ (x != 2),
        lambda x: (x > 0) & ~(x >= 1) | (x == -1) ^ (x != 2),
        (X,),
    ),
    "bits": (lambda n: (n & 5) | (n ^ 3), lambda n: (n & 5) | (n ^ 3), (N,)),
    "where": (lambda x: (x > 0).where(x, 0.5), lambda x: np.where(x > 0, x, np.float32(0.5)), (X,)),
    "clip": (lambda x: x.clip(-0.5, 0.5), lambda x: np.clip(x, -0.5, 0.5), (X,)),
    "gelu": (lambda x: x.gelu(), GELU, (X,)),
    "softplus": (lambda x: x.softplus(), lambda x: np.log1p(np.exp(x)), (X,)),
    "silu": (lambda x: x.silu(), lambda x: x / (1 + np.exp(-x)), (X,)),
    "cast": (lambda x: x.cast("int32"), lambda x: x.astype(np.int32), (X,)),
    "array operand": (lambda x: np.arange(5.0) - x, lambda x: np.arange(5.0) - x, (X,)),
    "numpy broadcasting": (lambda x: x + x[:, :1, 0:1], lambda x: x + x[:, :1, 0:1], (X,)),
    "slices": (lambda x: x[0:3, 5, 0::2], lambda x: x[0:3, 5, 0::2], (X,)),
    "backwards": (lambda x: x[::-1, ..., -1], lambda x: x[::-1, ..., -1], (X,)),
    "new axes": (lambda x: x[None, :, 2, None], lambda x: x[None, :, 2, None], (X,)),
    "transpose": (lambda x: x.transpose(2, 0, 1), lambda x: x.transpose(2, 0, 1), (X,)),
    "reversed": (lambda x: x.T, lambda x: x.T, (X,)),
    "reshape": (lambda x: x.reshape(2, -1, 5), lambda x: x.reshape(2, -1, 5), (X,)),
    "split": (lambda x: x.split(1, 2, 3), lambda x: x.reshape(4, 2, 3, 5), (X,)),
    "merge": (lambda x: x.merge(2, 0), lambda x: x.transpose(1, 2, 0).reshape(6, 20), (X,)),
    "flatten": (lambda x: x.flatten(), lambda x: x.reshape(-1), (X,)),
    "squeeze": (lambda x: x[:, 1:2].squeeze(), lambda x: x[:, 1], (X,)),
    "unsqueeze": (lambda x: x.unsqueeze(-1), lambda x: x[..., None], (X,)),
    "broadcast": (
        lambda x: x[:, :1].broadcast_to(2, 4, 6, 5),
        lambda x: np.broadcast_to(x[:, :1], (2, 4, 6, 5)),
        (X,),
    ),
    "flip": (lambda x: x.flip(0, 2), lambda x: np.flip(x, (0, 2)), (X,)),
    "repeat each": (lambda x: x.repeat_each(1, 3), lambda x: np.repeat(x, 3, 1), (X,)),
    "repeat": (lambda x: x.repeat(2, 3), lambda x: np.tile(x, (1, 1, 3)), (X,)),
    "sum": (lambda x: x.sum(), lambda x: x.sum(), (X,)),
    "kept sum": (lambda x: x.sum(1, keep=True), lambda x: x.sum(1, keepdims=True), (X,)),
    "sum of truths": (lambda x: (x > 0).sum(0), lambda x: (x > 0).sum(0), (X,)),
    "mean": (lambda x: x.mean(0, -1), lambda x: x.mean((0, 2)), (X,)),
    "mean of whole numbers": (lambda n: n.mean(1), lambda n: n.mean(1), (N,)),
    "prod": (lambda x: x.prod(2), lambda x: x.prod(2), (X,)),
    "max min": (lambda x: x.max(1) - x.min(1), lambda x: x.max(1) - x.min(1), (X,)),
    "any all": (
        lambda x: (x > 1).any(1) & (x < 3).all(1),
        lambda x: (x > 1).any(1) & (x < 3).all(1),
        (X,),
    ),
    "std": (lambda x: x.std(2), lambda x: x.std(2), (X,)),
    "logsumexp": (lambda x: x.logsumexp(0), lambda x: np.log(np.exp(x).sum(0)), (X,)),
    "softmax": (lambda x: x.softmax(1), lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True), (X,)),
    "log softmax": (
        lambda x: x.log_softmax(),
        lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True)),
        (X,),
    ),
    "matmul": (lambda x, y: x @ y, lambda x, y: x @ y, (X, Y)),
    "array times tensor": (lambda x: Y.T @ x.transpose(0, 2, 1), lambda x: Y.T @ x.transpose(0, 2, 1), (X,)),
    "tensor times array": (lambda x: x @ Y, lambda x: x @ Y, (X,)),
    "vector times matrix": (lambda x, y: x[0, 0] @ y, lambda x, y: x[0, 0] @ y, (X, Y)),
    "batched matmul": (
        lambda x: x @ x[0:1].transpose(0, 2, 1),
        lambda x: x @ x[0:1].transpose(0, 2, 1),
        (X,),
    ),
    "gather by an array": (lambda x: x.gather(np.array([[0, 5]]), 1), lambda x: x[:, [[0, 5]]], (X,)),
    "gather by a list": (lambda x: x.gather([2, -1], 0), lambda x: x[[2, -1]], (X,)),
    "gather": (lambda x, n: x[:, n], lambda x, n: x[:, n], (X, np.array([[0, 5], [-1, 2]]))),
    "cumsum": (lambda x: x.cumsum(1), lambda x: x.cumsum(1), (X,)),
    "cumulative count": (lambda x: (x > 0).cumsum(0), lambda x: (x > 0).cumsum(0), (X,)),
    "running maximum": (lambda x: x.cummax(-1), lambda x: np.maximum.accumulate(x, -1), (X,)),
    "from the end": (
        lambda x: x.scan("sum", 1, exclusive=True, reverse=True),
        lambda x: np.flip(np.cumsum(np.flip(x, 1), 1), 1) - x,
        (X,),
    ),
    "argmax": (lambda x: x.argmax(1), lambda x: x.argmax(1), (X,)),
    "argmin": (lambda n: n.argmin(-1), lambda n: n.argmin(-1), (N,)),
    "argsort": (lambda n: n.argsort(1), lambda n: np.argsort(n, 1, kind="stable"), (N,)),
    "sort": (lambda x: x.sort(0, descending=True), lambda x: -np.sort(-x, 0), (X,)),
    "top": (lambda x: x.top(3, 1)[0], lambda x: -np.sort(-x, 1)[:, :3], (X,)),
    "pad": (
        lambda x: x.pad({0: 1, -1: (0, 2)}, value=7),
        lambda x: np.pad(x, ((1, 1), (0, 0), (0, 2)), constant_values=7),
        (X,),
    ),
    "crop": (lambda x: x.pad({1: (-2, 1)}), lambda x: np.pad(x[:, 2:], ((0, 0), (0, 1), (0, 0))), (X,)),
    "edge": (
        lambda x: x.pad({1: (2, 1)}, mode="edge"),
        lambda x: np.pad(x, ((0, 0), (2, 1), (0, 0)), mode="edge"),
        (X,),
    ),
    "reflect": (
        lambda x: x.pad({0: (5, 9), 2: 3}, mode="reflect"),
        lambda x: np.pad(x, ((5, 9), (0, 0), (3, 3)), mode="reflect"),
        (X,),
    ),
    "wrap": (
        lambda x: x.pad({0: (5, 9), 1: 2}, mode="wrap"),
        lambda x: np.pad(x, ((5, 9), (2, 2), (0, 0)), mode="wrap"),
        (X,),
    ),
    "index function that wraps": (
        lambda x: x.pad({0: (5, 9), 1: 2}, mode=lambda position, size: position % size),
        lambda x: np.pad(x, ((5, 9), (2, 2), (0, 0)), mode="wrap"),
        (X,),
    ),
    "index function that takes the far end": (
        lambda x: x.pad({0: 2, 1: (-1, 1)}, mode=lambda position, size: size - 1 if position < 0 else 0),
        lambda x: x[:, 1:][[3, 3, 0, 1, 2, 3, 0, 0]][:, [0, 1, 2, 3, 4, 0]],
        (X,),
    ),
    "roll": (lambda x: x.roll(1, 8), lambda x: np.roll(x, 8, 1), (X,)),
    "take along": (
        lambda x, n: x.take_along(n, 1),
        lambda x, n: np.take_along_axis(x, n, 1),
        (X, RNG.integers(0, 6, (4, 2, 5))),
    ),
    "one hot": (lambda n: n.one_hot(4), lambda n: np.eye(4, dtype=np.float32)[n], (np.array([[3, 0, 1]]),)),
}


@pytest.mark.parametrize("case", CASES)
def test_values_are_numpys(case: str) -> None:
    write, meaning, arrays = CASES[case]
    with np.errstate(all="ignore"):
        wanted = np.asarray(meaning(*arrays))
    found = run(write, *arrays)
    assert found.shape == wanted.shape
    assert found.dtype == wanted.dtype or case in ("gelu", "whole division")
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
