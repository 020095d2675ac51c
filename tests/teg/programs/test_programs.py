"""Tests that programs written in Python keep their names, cost nothing extra, carry state, and join related blocks."""

from __future__ import annotations

import numpy as np
import pytest

import tapestry
from tapestry.teg.costs import cost_table
from tapestry.teg.programs import Program, ProgramError

RNG = np.random.default_rng(7)
X = RNG.standard_normal((4, 6, 5)).astype(np.float32)
Y = RNG.standard_normal((5, 3)).astype(np.float32)


def attention() -> Program:
    with tapestry.program("attention") as p:
        q = p.input("q", batch=2, head=3, query=8, width=4)
        k = p.input("k", batch=2, head=3, key=16, width=4)
        v = p.input("v", batch=2, head=3, key=16, width=4)
        scores = (q.contract(k, "width") / 2.0).softmax("key")
        p.output("y", scores.contract(v, "key").merge("head", "width", into="features"))
    return p


def test_names_run_together_wherever_they_stand() -> None:
    with tapestry.program() as p:
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
    with tapestry.program() as p:
        x = p.input("x", token=8, features=12)
        heads = x.split("features", head=3, width=4).transpose("head", "token", "width")
        p.output("y", heads.softmax("width").transpose("token", "head", "width").merge("head", "width"))
    assert [b.operator for b in p.graph.blocks] == ["source", "softmax", "sink"]
    assert p.graph.tensors["x"].shape == (8, 3, 4)


def test_a_composed_cell_is_one_block() -> None:
    with tapestry.program() as p:
        a, b = p.input("a", 4, 6, 5), p.input("b", 5)
        y = p.cell(lambda x, w: (x * w).maximum(0) + x.coordinate(0), a, b)
        p.output("y", y)
    assert [b.operator for b in p.graph.blocks] == ["source", "source", "cell", "sink"]
    expected = np.maximum(X * Y[:, 0], 0) + np.arange(4)[:, None, None]
    np.testing.assert_allclose(p.evaluate({"a": X, "b": Y[:, 0]})["y"], expected, rtol=1e-6)


def test_joining() -> None:
    with tapestry.program() as p:
        x = p.input("x", 4, 6, 5)
        p.output("concat", p.concat([x, x * 2], 1))
        p.output("stack", p.stack([x, x * 2], -1))
        p.output("interleave", p.interleave([x, x * 2], 1))
    found = p.evaluate({"x": X})
    np.testing.assert_array_equal(found["concat"], np.concatenate([X, X * 2], 1))
    np.testing.assert_array_equal(found["stack"], np.stack([X, X * 2], -1))
    np.testing.assert_array_equal(found["interleave"], np.stack([X, X * 2], 2).reshape(4, 12, 5))


@pytest.mark.parametrize(
    ("combine", "meaning"), [("last", None), ("sum", np.add), ("max", np.maximum), ("prod", np.multiply)]
)
def test_scattering(combine: str, meaning: np.ufunc | None) -> None:
    places, updates = np.array([3, 0, 3]), RNG.standard_normal((4, 3, 5)).astype(np.float32)
    with tapestry.program() as p:
        x = p.input("x", batch=4, entry=6, width=5)
        u = p.input("u", batch=4, update=3, width=5)
        p.output("y", x.scatter(p.constant("places", places, "update"), u, "entry", combine))
    wanted = X.copy()
    if meaning is None:
        wanted[:, places] = updates
    else:
        for k, place in enumerate(places):
            wanted[:, place] = meaning(wanted[:, place], updates[:, k])
    np.testing.assert_allclose(p.evaluate({"x": X, "u": updates})["y"], wanted, rtol=1e-5)


def test_positions_of_the_same_name_run_together() -> None:
    places = np.array([[1, 5], [0, 0], [2, 3], [4, 4]])
    with tapestry.program() as p:
        x = p.input("x", batch=4, entry=6, width=5)
        index = p.input("index", batch=4, choice=2, dtype="int64")
        y = x.gather(index, "entry")
        assert y.names == ("batch", "choice", "width")
        p.output("y", y)
    found = p.evaluate({"x": X, "index": places})["y"]
    np.testing.assert_array_equal(found, X[np.arange(4)[:, None], places])


def test_generated_tensors() -> None:
    with tapestry.program() as p:
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
    with tapestry.program() as p:
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
    with tapestry.program() as p:
        x = p.input("x", a=4, b=6, c=5)
        s = p.parameter("s", b=6, value=scale)
        p.output("y", x.layer_norm("b", scale=s))
    away = X - X.mean(1, keepdims=True)
    wanted = away / np.sqrt((away**2).mean(1, keepdims=True) + 1e-5) * scale[:, None]
    np.testing.assert_allclose(p.evaluate({"x": X})["y"], wanted, rtol=1e-4, atol=1e-5)


def test_state_is_carried_in_the_shape_of_its_source() -> None:
    with tapestry.program("step") as p:
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
    with tapestry.program() as p:
        x = p.input("x", 4)
        first = x * 2
        point = p.sequence_point("done", first)
        with p.behind(point):
            p.output("y", x + 1)
    graph = p.graph
    assert graph.by_site["done"].after == ("mul",)
    assert graph.by_site["add"].after == ("done",)


def test_any_operator_of_the_catalog_applies() -> None:
    with tapestry.program() as p:
        x = p.input("x", 4, 6)
        p.output("y", p.apply("softmax", x, axes=(1,)))
    assert p.graph.by_site["softmax"].operator == "softmax"


def test_costs_and_pins_go_with_their_blocks() -> None:
    with tapestry.program() as p:
        x = p.input("x", row=8, column=4)
        y = (x * 2).sum("column")
        p.costs(y, cost_table({"license": 3}, {"row": {"license": 2}}))
        p.pin(y, "[gpu.0]")
        p.output("y", y)
    (table,) = [b.definition.costs for b in p.graph.blocks if b.definition.costs]
    assert table.price({"row": 8, "column": 4}) == {"license": 19}
    assert p.pins == {"sum": "[gpu.0]"}
    p.output("sum", y)
    assert p.pins == {"sum.value": "[gpu.0]"}
    p.pin(x[:2], "[-, -]")
    with pytest.raises(ProgramError, match="has no block of its own"):
        _ = p.pins


def test_an_operator_may_have_several_results() -> None:
    with tapestry.program() as p:
        x = p.input("x", stack=4, row=6, column=5)
        u, s, v = p.apply_all("factorise", x, function="svd")
        p.output("y", (u * s[:, None]) @ v)
    np.testing.assert_allclose(p.evaluate({"x": X})["y"], X, rtol=1e-4, atol=1e-4)


def test_a_reversed_dimension_is_reversed_in_all_its_factors() -> None:
    with tapestry.program() as p:
        x = p.input("x", token=4, features=30)
        p.output("y", x.split("features", head=5, width=6).softmax("width"))
        p.output("turned", x.flip("features"))
    assert "reshape" not in [b.operator for b in p.graph.blocks]
    np.testing.assert_array_equal(p.evaluate({"x": X.reshape(4, 30)})["turned"], X.reshape(4, 30)[:, ::-1])
