"""Tests of fused blocks: index space, meaning in small parts, work, refusals."""

import tracemalloc

import numpy as np
import pytest

from tapestry.hardware import load_mesh
from tapestry.hardware.timing import block_ticks
from tapestry.teg.builder import GraphBuilder, define
from tapestry.teg.document import from_document, to_document
from tapestry.teg.evaluate import evaluate, random_inputs, run_block
from tapestry.teg.graph import Definition, Graph, TensorType, attributes
from tapestry.teg.operators import body_of, catalog
from tapestry.teg.operators.fused_examples import EXAMPLES
from tapestry.teg.operators.operator import part_amounts
from tapestry.teg.svg import svg

BIAS, _, SOFTMAX, ATTENTION, UPDATE, NORM, PROLOGUE = EXAMPLES

KIND = TensorType((3, 3), "float32")


def fused(example) -> Definition:
    return define("fused", example.attributes, example.inputs)[0]


def dims(definition: Definition) -> list[tuple[str, int, str]]:
    assert definition.signature is not None
    return [(d.name, d.size, d.kind) for d in definition.signature.dims]


def one_step(*step, outputs=(1,), kind=KIND):
    attrs = attributes(body=(step,), types=(tuple(kind),), results=outputs)
    return define("fused", attrs, (kind,))


def test_index_dimensions_are_those_that_all_products_and_outputs_share() -> None:
    assert dims(fused(BIAS)) == [("m", 4, "parallel"), ("n", 5, "parallel")]
    assert dims(fused(SOFTMAX)) == [("r", 4, "parallel")]
    assert dims(fused(ATTENTION)) == [("b", 2, "parallel"), ("s", 4, "parallel"), ("h", 2, "parallel")]
    assert dims(fused(UPDATE)) == [("r", 4, "parallel"), ("c", 3, "parallel")]
    assert dims(fused(NORM)) == [("c", 6, "parallel"), ("r", 4, "sum")]
    assert dims(fused(PROLOGUE)) == [("m", 4, "parallel"), ("n", 5, "parallel"), ("k", 6, "sum")]


def attention(length: int) -> tuple[Graph, int]:
    """Build fused attention of two heads of 16; return it with the bytes of its inputs and output."""
    b = GraphBuilder("attention")
    shape = (2, length, 16)
    q, k, v = (b.source(name, shape, "float32") for name in "qkv")
    product = attributes(labels=(tuple("hsd"), tuple("htd")), output=tuple("hst"))
    weighted = attributes(labels=(tuple("hst"), tuple("htd")), output=tuple("hsd"))
    body = (
        ("contract", product, (0, 1)),
        ("softmax", attributes(axes=(2,)), (3,)),
        ("contract", weighted, (4, 2)),
    )
    attrs = attributes(body=body, types=((shape, "float32"),) * 3, results=(5,))
    b.sink(*b.add("fused", (q, k, v), attrs, site="attention"))
    return b.build(), 4 * 4 * 2 * length * 16


def peak_bytes(graph: Graph) -> int:
    inputs = random_inputs(graph, np.random.default_rng(0))
    tracemalloc.start()
    evaluate(graph, inputs)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_live_memory_of_attention_grows_with_the_length_and_not_with_its_square() -> None:
    (short, short_bytes), (long, long_bytes) = attention(256), attention(1024)
    square = 2 * 1024 * 1024 * 4
    assert peak_bytes(long) - peak_bytes(short) < 2 * (long_bytes - short_bytes)
    assert peak_bytes(long) < square / 4


def test_parts_of_a_long_attention_are_those_of_its_steps(rng: np.random.Generator) -> None:
    graph, _ = attention(200)
    q, k, v = (x.astype(np.float64) for x in random_inputs(graph, np.random.default_rng(1)).values())
    scores = np.einsum("hsd,htd->hst", q, k)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = np.einsum("hst,htd->hsd", weights / weights.sum(-1, keepdims=True), v)
    got = evaluate(graph, random_inputs(graph, np.random.default_rng(1)))
    np.testing.assert_allclose(next(iter(got.values())), wanted, rtol=1e-3, atol=1e-4)


def test_a_loop_that_one_output_keeps_and_another_sums_is_run_in_small_parts(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    cell = attributes(
        expr=("tanh", ("input", 0)), labels=(("r", "c"),), dims=(("r", 40), ("c", 30)), dtype="float64"
    )
    total = attributes(monoid="sum", labels=("r", "c"), output=("c",))
    twice = attributes(
        expr=("add", ("input", 0), ("input", 0)),
        labels=(("r", "c"),),
        dims=(("r", 40), ("c", 30)),
        dtype="float64",
    )
    body = (("cell", cell, (0,)), ("cell", twice, (1,)), ("reduce", total, (1,)))
    kind = TensorType((40, 30), "float64")
    definition, outputs = define(
        "fused", attributes(body=body, types=(tuple(kind),), results=(2, 3)), (kind,)
    )
    x = rng.standard_normal((40, 30))
    monkeypatch.setattr("tapestry.teg.arrays.NUMPY.chunk_bytes", 100)
    kept, summed = run_block(definition, None, [x], outputs)
    assert dims(definition) == [("c", 30, "parallel")]
    np.testing.assert_array_equal(kept, 2 * np.tanh(x))
    np.testing.assert_allclose(summed, np.tanh(x).sum(0), rtol=1e-12)


def test_time_is_the_sum_of_the_steps_beside_one_stream_of_bytes() -> None:
    device = load_mesh("dgx-h100").device
    big = TensorType((4096, 4096), "bfloat16")
    shape = attributes(labels=(("m", "k"), ("k", "n")), output=("m", "n"))
    relu = attributes(
        expr=("relu", ("input", 0)), labels=(("m", "n"),), dims=(("m", 4096), ("n", 4096)), dtype="bfloat16"
    )
    body = (("contract", shape, (0, 1)), ("cell", relu, (2,)))
    attrs = attributes(body=body, types=(tuple(big),) * 2, results=(3,))
    definition, outputs = define("fused", attrs, (big, big))
    work = catalog()["fused"].work(definition, (big, big), outputs)
    parts = part_amounts(work, ["m", "n"], np.array([4096, 4096]))
    tiles = {"m": 4096, "n": 4096, "k": 4096}
    alone = block_ticks(device, "contraction", 2 * 4096**3, 0, "bfloat16", **tiles)
    cell = block_ticks(device, "vector", 4096**2, 0, "bfloat16")
    together = block_ticks(device, "fused", sum(p.flops for p in parts), 0, "bfloat16", parts=parts)
    launch = block_ticks(device, "move", 0, 1, "bfloat16")
    assert [(p.kind, int(p.flops)) for p in parts] == [("contraction", 2 * 4096**3), ("vector", 4096**2)]
    assert abs(int(together) - int(alone + cell - launch)) <= 1000
    bound = block_ticks(device, "fused", 0, 10**12, "bfloat16", parts=parts)
    product = block_ticks(device, "contraction", 0, 10**12, "bfloat16", **tiles)
    assert int(bound) == pytest.approx(int(product), rel=1e-6)


def test_a_document_a_picture_and_the_body_need_nothing_special() -> None:
    graph, _ = attention(4)
    again = from_document(to_document(graph))
    assert again == graph
    assert again.blocks[3].definition is graph.blocks[3].definition
    assert "fused" in svg(graph.name, graph.blocks, graph.tensors)
    assert [s.operator.name for s in body_of(graph.blocks[3].definition).steps] == [
        "contract",
        "softmax",
        "contract",
    ]


@pytest.mark.parametrize(
    ("step", "outputs", "specified"),
    [
        (("nonesuch", (), (0,)), (1,), "step 0 applies 'nonesuch', which is no known operator"),
        (("fused", BIAS.attributes, (0,)), (1,), "step 0 is a fused block itself"),
        (("source", attributes(role="activation"), ()), (1,), "step 0"),
        (("softmax", attributes(axes=(2,)), (0,)), (1,), r"step 0 \(softmax\)"),
        (("softmax", attributes(axes=(1,)), (1,)), (1,), "step 0 may read values 0 to 0, made before it"),
        (
            ("softmax", attributes(axes=(1,)), (0,)),
            (0,),
            "attribute 'results' must list results of steps, 1 to 1",
        ),
    ],
)
def test_what_cannot_be_a_body_is_refused_with_its_place(step, outputs, specified) -> None:
    with pytest.raises(ValueError, match=specified):
        one_step(*step, outputs=outputs)


def test_steps_that_nobody_needs_are_refused() -> None:
    softmax = ("softmax", attributes(axes=(1,)), (0,))
    for results, specified in (((1,), "nobody uses what step 1"), ((2,), "nobody uses what step 0")):
        attrs = attributes(body=(softmax, softmax), types=(tuple(KIND),), results=results)
        with pytest.raises(ValueError, match=specified):
            define("fused", attrs, (KIND,))
