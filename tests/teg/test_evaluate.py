import weakref

import numpy as np
import pytest

from tapestry.teg.arrays import NUMPY, arrays_named
from tapestry.teg.builder import GraphBuilder, define
from tapestry.teg.evaluate import evaluate, output_boxes, random_inputs, run_operator
from tapestry.teg.graph import Graph, TensorType, attributes
from tapestry.teg.operators.operator import Operand
from tapestry.teg.operators.selectors import permuted, view_attributes
from tapestry.teg.zspace import ZRange


def perceptron() -> Graph:
    """Build x[4, 6] w[6, 5] + b[5], with the weights stored transposed and seen through a view."""
    g = GraphBuilder("perceptron")
    x = g.source("x", (4, 6), "float32")
    stored = g.source("w", (5, 6), "float32", "parameter")
    bias = g.source("b", (5,), "float32", "parameter", value=np.arange(5, dtype=np.float32))
    (w,) = g.apply("view", (stored,), site="w.T", **dict(view_attributes(permuted((5, 6), (1, 0)))))
    (product,) = g.apply(
        "contract", (x, w), site="product", labels=(("m", "k"), ("k", "n")), output=("m", "n")
    )
    (y,) = g.apply(
        "cell",
        (product, bias),
        site="y",
        expr=("relu", ("add", ("input", 0), ("input", 1))),
        labels=(("m", "n"), ("n",)),
        dims=(("m", 4), ("n", 5)),
        dtype="float32",
    )
    g.sink(y)
    return g.build()


def test_a_program_is_evaluated_in_order_with_inputs_and_data(rng):
    graph = perceptron()
    inputs = random_inputs(graph, rng)

    got = evaluate(graph, inputs)

    wanted = np.maximum(inputs["x"] @ inputs["w"].T + np.arange(5, dtype=np.float32), 0)
    assert list(got) == ["y.out"]
    np.testing.assert_allclose(got["y.out"], wanted, rtol=1e-6)


def test_an_input_comes_before_the_data_of_the_graph(rng):
    graph = perceptron()
    inputs = {**random_inputs(graph, rng), "b": np.full(5, -1e9, np.float32)}

    assert not evaluate(graph, inputs)["y.out"].any()


def test_kept_tensors_are_returned_and_views_copy_nothing(rng):
    graph = perceptron()
    inputs = random_inputs(graph, rng)

    got = evaluate(graph, inputs, keep={"product", "w.T"})

    assert sorted(got) == ["product", "w.T", "y.out"]
    assert np.shares_memory(got["w.T"], inputs["w"])


def test_all_wrong_inputs_are_named_at_once():
    inputs = {"x": np.zeros((4, 5), np.float32), "w": np.zeros((5, 6)), "z": np.zeros(1)}

    with pytest.raises(ValueError) as caught:
        evaluate(perceptron(), inputs)

    assert str(caught.value) == (
        "graph 'perceptron' cannot be evaluated: "
        "source 'x' needs shape (4, 6) and type float32, not shape (4, 5) and type float32; "
        "source 'w' needs shape (5, 6) and type float32, not shape (5, 6) and type float64; "
        "there is no source 'z'"
    )
    with pytest.raises(ValueError, match="source 'w' needs a value of shape \\(5, 6\\) and type float32"):
        evaluate(perceptron(), {"x": np.zeros((4, 6), np.float32)})


def test_a_failing_block_is_named():
    g = GraphBuilder("lookup")
    table, indices = g.source("table", (4, 2), "float32"), g.source("indices", (1,), "int64")
    g.sink(g.apply("gather", (table, indices), site="row", axis=0)[0])

    with pytest.raises(ValueError, match="block 'row' \\(gather\\): indices must lie in"):
        evaluate(g.build(), {"table": np.zeros((4, 2), np.float32), "indices": np.array([7])})


def test_values_are_freed_after_their_last_reader(monkeypatch):
    """Check that a chain of 50 blocks never holds more than its running value and the next."""
    g = GraphBuilder("chain")
    value = g.source("x", (8,), "float32")
    for k in range(50):
        (value,) = g.apply(
            "cell",
            (value,),
            site=f"y{k}",
            expr=("add", ("input", 0), ("const", 1.0)),
            labels=(("d",),),
            dims=(("d", 8),),
            dtype="float32",
        )
    g.sink(value)
    alive: list[weakref.ref[np.ndarray]] = []
    counts = []

    def watched(*arguments):
        counts.append(sum(r() is not None for r in alive))
        made = run_operator(*arguments)
        alive.extend(weakref.ref(a) for a in made)
        return made

    monkeypatch.setattr("tapestry.teg.evaluate.run_operator", watched)
    got = evaluate(g.build(), {"x": np.zeros(8, np.float32)})

    np.testing.assert_array_equal(got["y49.out"], np.full(8, 50, np.float32))
    assert max(counts) == 1


def test_a_block_with_an_index_range_reads_exactly_its_boxes(rng):
    """Check a convolution's second half as its own block, its input the clipped rows 3 to 8."""
    attrs = attributes(strides=(1,), pads=(1, 1), dilations=(1,), groups=1)
    types = (TensorType((1, 2, 8), "float32"), TensorType((3, 2, 3), "float32"))
    definition, outputs = define("conv", attrs, types)
    x, w = rng.standard_normal((1, 2, 8), np.float32), rng.standard_normal((3, 2, 3), np.float32)
    whole = run_operator(
        NUMPY,
        definition,
        definition.signature.index_range,
        [Operand(x, (0,) * 3), Operand(w, (0,) * 3)],
        outputs,
    )
    g = GraphBuilder("half")
    part, kernel = g.source("part", (1, 2, 5), "float32"), g.source("kernel", w.shape, "float32")
    g.sink(g.apply("conv", (part, kernel), site="y", **{**dict(attrs), "pads": (0, 1)})[0])
    built = g.build()
    pinned = [
        b
        if b.site != "y"
        else type(b)(b.site, definition, b.inputs, b.outputs, ZRange((0, 0, 4, 0), (1, 3, 8, 2)), 1)
        for b in built.blocks
    ]

    got = evaluate(built.replace(pinned), {"part": x[:, :, 3:], "kernel": w})

    np.testing.assert_allclose(got["y.out"], whole[0][:, :, 4:], rtol=1e-5, atol=1e-6)


def test_output_boxes_of_empty_indices():
    attrs = attributes(labels=(("m", "k"), ("k", "n")), output=("m", "n"))
    definition, outputs = define("contract", attrs, (TensorType((4, 6), "int8"), TensorType((6, 5), "int8")))

    assert output_boxes(definition, ZRange((2, 1, 3), (2, 3, 6))) == (ZRange((2, 1), (2, 3)),)
    assert output_boxes(definition, ZRange((2, 1, 3), (4, 3, 3))) == (ZRange((2, 1), (4, 3)),)
    partial = run_operator(NUMPY, definition, ZRange((2, 1, 3), (4, 3, 3)), (), outputs)[0]
    assert (partial.tolist(), partial.dtype) == ([[0, 0], [0, 0]], np.int8)


def test_random_inputs_fit_what_reads_them(rng):
    g = GraphBuilder("embedding")
    tokens = g.source("tokens", (2, 500), "int64")
    table = g.source("table", (3, 64), "float32", "parameter")
    weight = g.source("weight", (64, 400), "bfloat16", "parameter")
    g.source("scale", (64,), "float32", "parameter")
    g.source("variance", (64, 64), "float32", "buffer")
    g.source("step", (), "int32")
    g.source("mask", (100,), "bool")
    (narrow,) = g.apply("view", (tokens,), site="narrow", map=((-1, 0, 0), (0, 1, 0)), shape=(500,))
    (e,) = g.apply("gather", (table, narrow), site="e", axis=0)
    (e,) = g.apply(
        "cell",
        (e,),
        site="cast",
        expr=("input", 0),
        labels=(("s", "k"),),
        dims=(("s", 500), ("k", 64)),
        dtype="bfloat16",
    )
    g.sink(g.apply("contract", (e, weight), site="y", labels=(("s", "k"), ("k", "n")), output=("s", "n"))[0])
    graph = g.build()

    values = random_inputs(graph, rng)

    assert set(values) == {source.site for source in graph.sources}
    assert set(np.unique(values["tokens"])) == {0, 1, 2}
    assert values["mask"].dtype == bool
    assert values["mask"].any() and not values["mask"].all()
    assert 0 <= values["step"] < 10
    assert values["variance"].min() > 0
    assert values["scale"].min() > 0
    assert abs(values["weight"].astype(np.float32).std() - 1 / 8) < 0.01
    assert 0.5 < evaluate(graph, values)["y.out"].astype(np.float32).std() < 2
    again = random_inputs(graph, np.random.default_rng(0))
    assert all(np.array_equal(again[site], value) for site, value in values.items())


def test_random_inputs_fit_what_fused_blocks_do_with_them(rng):
    """Check scores of embeddings: a gather, a product with turned weights, and a softmax in one block."""
    dims = {"s": 64, "k": 256, "n": 128}
    turn = attributes(map=((1, 1, 0), (0, 1, 0)), shape=(dims["k"], dims["n"]))
    product = attributes(labels=(("s", "k"), ("k", "n")), output=("s", "n"))
    body = (
        ("gather", attributes(axis=0), (0, 1)),
        ("view", turn, (2,)),
        ("contract", product, (3, 4)),
        ("softmax", attributes(axes=(1,)), (5,)),
    )
    shapes = {"table": (7, dims["k"]), "tokens": (dims["s"],), "weight": (dims["n"], dims["k"])}
    kinds = {name: "int64" if name == "tokens" else "float32" for name in shapes}
    g = GraphBuilder("scores")
    roles = {"table": "parameter", "tokens": "activation", "weight": "parameter"}
    read = [g.source(name, shapes[name], kinds[name], roles[name]) for name in shapes]
    types = tuple((shapes[name], kinds[name]) for name in shapes)
    (y,) = g.apply("fused", tuple(read), site="y", body=body, types=types, results=(6,))
    g.sink(y, site="result")
    graph = g.build()

    values = random_inputs(graph, rng)

    assert set(np.unique(values["tokens"])) == set(range(7))
    assert abs(values["weight"].std() - 1 / 16) < 0.005
    assert values["table"].std() > 0.9
    assert evaluate(graph, values)["result"].max() < 0.5, "no element takes all of a softmax"


def test_a_program_is_computed_by_another_library(rng):
    """Check a product, its softmax and a sink in torch: numpy arrays come and go."""
    pytest.importorskip("torch")
    g = GraphBuilder("library")
    x = g.source("x", (4, 6), "float32")
    attrs = {"labels": (("m", "k"), ("n", "k")), "output": ("m", "n")}
    (product,) = g.apply("contract", (x, x), site="product", **attrs)
    (rows,) = g.apply("softmax", (product,), site="rows", axes=(1,))
    g.sink(rows)
    graph = g.build()
    inputs = {"x": rng.standard_normal((4, 6), np.float32)}

    found = evaluate(graph, inputs, keep={"product.out"}, xp=arrays_named("torch"))

    wanted = evaluate(graph, inputs, keep={"product.out"})
    assert found.keys() == wanted.keys()
    for site, value in wanted.items():
        np.testing.assert_allclose(found[site], value, rtol=1e-5, atol=1e-6)
