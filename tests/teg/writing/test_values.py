"""Programs written in Python mean what numpy means, keep their names, and shard."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import teg
from teg.programs import Handle, Program
from teg.validate import validate

RNG = np.random.default_rng(7)
X = RNG.standard_normal((4, 6, 5)).astype(np.float32)
Y = RNG.standard_normal((5, 3)).astype(np.float32)
N = RNG.integers(-9, 9, (4, 6, 5))
GELU = np.vectorize(lambda v: 0.5 * v * (1 + math.erf(v / math.sqrt(2))))


def run(write: Callable[..., Handle], *arrays: np.ndarray, **named: str) -> np.ndarray:
    """The value of a program with one output over plain inputs."""
    with teg.program("case") as p:
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
    "repeat": (lambda x: x.repeat(1, 3), lambda x: np.repeat(x, 3, 1), (X,)),
    "tile": (lambda x: x.tile(2, 3), lambda x: np.tile(x, (1, 1, 3)), (X,)),
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
    "vector times matrix": (lambda x, y: x[0, 0] @ y, lambda x, y: x[0, 0] @ y, (X, Y)),
    "batched matmul": (
        lambda x: x @ x[0:1].transpose(0, 2, 1),
        lambda x: x @ x[0:1].transpose(0, 2, 1),
        (X,),
    ),
    "gather": (lambda x, n: x[:, n], lambda x, n: x[:, n], (X, np.array([[0, 5], [-1, 2]]))),
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


def attention() -> Program:
    with teg.program("attention") as p:
        q = p.input("q", batch=2, head=3, query=8, width=4)
        k = p.input("k", batch=2, head=3, key=16, width=4)
        v = p.input("v", batch=2, head=3, key=16, width=4)
        scores = (q.contract(k, "width") / 2.0).softmax("key")
        p.output("y", scores.contract(v, "key").merge("head", "width", into="features"))
    return p


def test_names_run_together_wherever_they_stand() -> None:
    with teg.program() as p:
        x = p.input("x", batch=4, features=6)
        y = p.input("y", features=6, batch=4)
        z = p.input("z", time=3)
        assert (x + y).names == ("batch", "features")
        assert (z * x).names == ("batch", "features", "time")
        p.output("sum", x + y)
    a, b = X[:, :, 0], X[:, :, 1].T
    np.testing.assert_array_equal(p.evaluate({"x": a, "y": b})["sum"], a + b.T)


def test_names_reach_the_graph() -> None:
    graph = attention().graph
    scores = graph.tensors[graph.by_site["matmul"].outputs[0]]
    assert scores.names == ("batch", "head", "query", "key")
    assert [d.name for d in graph.by_site["matmul"].definition.signature.dims] == [  # type: ignore[union-attr]
        *("batch", "head", "query", "key", "width")
    ]


def test_splitting_and_merging_cost_nothing() -> None:
    with teg.program() as p:
        x = p.input("x", token=8, features=12)
        heads = x.split("features", head=3, width=4).transpose("head", "token", "width")
        p.output("y", heads.softmax("width").transpose("token", "head", "width").merge("head", "width"))
    assert [b.operator for b in p.graph.blocks] == ["source", "softmax", "sink"]
    assert p.graph.tensors["x"].shape == (8, 3, 4)


def test_a_composed_cell_is_one_block() -> None:
    with teg.program() as p:
        a, b = p.input("a", 4, 6, 5), p.input("b", 5)
        y = p.cell(lambda x, w: (x * w).maximum(0) + x.coordinate(0), a, b)
        p.output("y", y)
    assert [b.operator for b in p.graph.blocks] == ["source", "source", "cell", "sink"]
    expected = np.maximum(X * Y[:, 0], 0) + np.arange(4)[:, None, None]
    np.testing.assert_allclose(p.evaluate({"a": X, "b": Y[:, 0]})["y"], expected, rtol=1e-6)


def test_joining() -> None:
    with teg.program() as p:
        x = p.input("x", 4, 6, 5)
        p.output("concat", p.concat([x, x * 2], 1))
        p.output("stack", p.stack([x, x * 2], -1))
        p.output("interleave", p.interleave([x, x * 2], 1))
    found = p.evaluate({"x": X})
    np.testing.assert_array_equal(found["concat"], np.concatenate([X, X * 2], 1))
    np.testing.assert_array_equal(found["stack"], np.stack([X, X * 2], -1))
    np.testing.assert_array_equal(found["interleave"], np.stack([X, X * 2], 2).reshape(4, 12, 5))


def test_generated_tensors() -> None:
    with teg.program() as p:
        p.output("grid", p.generate(lambda i, j: i * 10 + j, row=2, column=3))
        p.output("iota", p.iota("column", row=2, column=3))
        p.output("full", p.full(2.5, 2, dtype="bfloat16").cast("float32"))
        p.output("places", p.coordinates(row=2, column=3)[1:, ::2])
    found = p.evaluate()
    assert found["grid"].tolist() == [[0, 1, 2], [10, 11, 12]]
    assert found["iota"].tolist() == [[0, 1, 2], [0, 1, 2]]
    assert found["full"].tolist() == [2.5, 2.5]
    assert found["places"].tolist() == [[[1, 0], [1, 2]]]


def test_a_convolution_crops_what_no_window_reads() -> None:
    image, weight = RNG.standard_normal((2, 2, 3, 8, 6)), RNG.standard_normal((4, 3, 3, 3))
    with teg.program() as p:
        x = p.input("x", n=2, channel=3, y=8, x=6, dtype="float64")
        w = p.parameter("w", 4, 3, 3, 3, dtype="float64", value=weight)
        p.output("y", x.conv(w, strides=2, pads="same"))
        p.output("pool", x.max_pool(2))
    found = p.evaluate({"x": image[0]})
    padded = np.pad(image[0], ((0, 0), (0, 0), (0, 1), (0, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
    np.testing.assert_allclose(found["y"], np.einsum("ncyxij,ocij->noyx", windows, weight), rtol=1e-9)
    np.testing.assert_array_equal(found["pool"], image[0].reshape(2, 3, 4, 2, 3, 2).max((3, 5)))


def test_layer_norm_goes_along_any_dimension() -> None:
    scale = RNG.standard_normal(6).astype(np.float32)
    with teg.program() as p:
        x = p.input("x", a=4, b=6, c=5)
        s = p.parameter("s", b=6, value=scale)
        p.output("y", x.layer_norm("b", scale=s))
    away = X - X.mean(1, keepdims=True)
    wanted = away / np.sqrt((away**2).mean(1, keepdims=True) + 1e-5) * scale[:, None]
    np.testing.assert_allclose(p.evaluate({"x": X})["y"], wanted, rtol=1e-4, atol=1e-5)


def test_state_is_carried_in_the_shape_of_its_source() -> None:
    with teg.program("step") as p:
        x = p.input("x", token=4, features=6)
        w = p.parameter("w", features=6, head=2, width=3)
        m = p.parameter("m", features=6, head=2, width=3, role="optimizer_state")
        grad = x.sum("token").contract((x @ w).sum("token"))
        p.update(m, m * 0.9 + grad)
        p.update(w, w - (m * 0.9 + grad) * 0.1)
    graph = p.graph
    carried = {s.definition.get("carries"): graph.tensors[s.inputs[0]].shape for s in graph.sinks}
    assert carried == {"w": (6, 2, 3), "m": (6, 2, 3)}


def test_sequence_points_order_blocks() -> None:
    with teg.program() as p:
        x = p.input("x", 4)
        first = x * 2
        point = p.sequence_point("done", first)
        with p.behind(point):
            p.output("y", x + 1)
    graph = p.graph
    assert graph.by_site["done"].after == ("mul",)
    assert graph.by_site["add"].after == ("done",)


def test_any_operator_of_the_catalogue_applies() -> None:
    with teg.program() as p:
        x = p.input("x", 4, 6)
        p.output("y", p.apply("softmax", x, axes=(1,)))
    assert p.graph.by_site["softmax"].operator == "softmax"
