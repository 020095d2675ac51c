"""Tests of programs stored in another precision: what changes its type, what stays, and how far values go off."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapestry
from tapestry.hardware import load_mesh
from tapestry.optimizer import verify_plan
from tapestry.optimizer.analysis.verification import reference_outputs
from tapestry.optimizer.run.options import OPTIONS, OptionError
from tapestry.rewrites.storage_precision import PRECISIONS, StoragePrecisionError, storage_error, stored_in
from tapestry.service.checking import abstract_plan
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.external_data import ExternalData
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_onnx
from tapestry.teg.validate import check
from tapestry.teg.zspace import ZRange

GRAPHS = Path(__file__).resolve().parents[1] / "data" / "graphs"
MESH = load_mesh("dgx-h100")
MASKED = -3.4e38


def element(expr: Any, size: int = 4, inputs: int = 1, dtype: str = "float32") -> dict[str, Any]:
    """Return the attributes of an expression over vectors of one size."""
    return {"expr": expr, "labels": (("i",),) * inputs, "dims": (("i", size),), "dtype": dtype}


def masked_product() -> Graph:
    """Build `y = x @ w + mask + scale`; the mask comes of integers, the scale is a constant."""
    b = GraphBuilder("masked")
    x, w = b.source("x", (8, 4), "float32"), b.source("w", (8,), "float32", "parameter")
    ids = b.source("ids", (4,), "int32")
    scale = b.source("scale", (4,), "float32", "constant", np.full(4, 0.1, np.float32))
    (product,) = b.apply("contract", (w, x), site="product", labels=(("k",), ("k", "i")), output=("i",))
    hidden = ("where", ("lt", ("input", 0), ("const", 0)), ("const", MASKED), ("const", 0.0))
    (mask,) = b.apply("cell", (ids,), site="mask", **element(hidden))
    total = ("add", ("add", ("input", 0), ("input", 1)), ("input", 2))
    (y,) = b.apply("cell", (product, mask, scale), site="y", **element(total, inputs=3))
    b.sink(y, site="out")
    return b.build()


def test_what_depends_on_activations_and_parameters_is_narrow_and_the_rest_stays() -> None:
    stored = stored_in(masked_product(), "bf16")
    check(stored)
    assert {t: tensor.dtype for t, tensor in stored.tensors.items()} == {
        "x": "bfloat16",
        "w": "bfloat16",
        "ids": "int32",
        "scale": "float32",
        "product": "bfloat16",
        "mask": "float32",
        "y": "bfloat16",
    }
    assert stored.name == "masked-bf16"
    assert stored.data["scale"].dtype == np.float32


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_mask_stays_within_the_range_of_the_type(precision: str) -> None:
    graph = masked_product()
    inputs = random_inputs(graph, np.random.default_rng(0)) | {"ids": np.array([1, -1, 2, -3], np.int32)}
    found = evaluate(
        stored_in(graph, precision),
        {site: inputs[site].astype(stored_in(graph, precision).tensors[site].dtype) for site in inputs},
    )["out"]
    assert not np.isnan(found.astype(np.float64)).any()
    assert (found[[1, 3]].astype(np.float64) <= -448).all()


@pytest.mark.parametrize(
    ("precision", "least", "most"), [("bf16", 1e-3, 3e-2), ("fp16", 1e-4, 4e-3), ("fp8", 2e-2, 0.5)]
)
@pytest.mark.parametrize("name", ["gpt2_small_b1_s1024", "llama2_7b_1layer_b1_s2048", "resnet50_b16_224"])
def test_published_models_are_as_far_off_as_the_type_rounds(
    name: str, precision: str, least: float, most: float
) -> None:
    graph = from_onnx(GRAPHS / f"tiny_{name}.winputs.onnx")
    stored = stored_in(graph, precision)
    check(stored)
    errors = storage_error(graph, stored, random_inputs(graph, np.random.default_rng(0)))
    assert least / 4 < max(errors.values()) < most
    size = {"bf16": 2, "fp16": 2, "fp8": 1}[precision]
    for source in stored.sources:
        tensor, before = stored.tensors[source.outputs[0]], graph.tensors[source.outputs[0]]
        if before.dtype == "float32" and source.definition["role"] in ("parameter", "activation"):
            assert 4 * tensor.type.size_bytes == size * before.type.size_bytes
        else:
            assert tensor.dtype == before.dtype


def test_a_block_that_does_not_take_the_type_computes_between_casts() -> None:
    b = GraphBuilder("factored")
    x = b.source("x", (4, 4), "float32")
    factors = b.apply("factorise", (x,), site="qr", function="qr")
    b.sink(factors[-1], site="r")
    graph = b.build()

    stored = stored_in(graph, "bf16")

    check(stored)
    assert [block.operator for block in stored.blocks] == [
        "source",
        "cell",
        "factorise",
        "cell",
        "cell",
        "sink",
    ]
    assert stored.by_site["qr"].definition == graph.by_site["qr"].definition
    assert storage_error(graph, stored, random_inputs(graph, np.random.default_rng(0)))["r"] < 0.05


def test_narrow_programs_are_compared_finer_than_they_round() -> None:
    graph = stored_in(masked_product(), "bf16")
    inputs = random_inputs(graph, np.random.default_rng(0))
    plan, reference = abstract_plan(graph, MESH), reference_outputs(graph, inputs)

    assert verify_plan(plan, MESH, inputs=inputs, execute=True, reference=reference).ok
    wrong = {site: value * 1.001 for site, value in reference.items()}
    refuted = verify_plan(plan, MESH, inputs=inputs, execute=True, reference=wrong)

    assert not refuted.ok and "1e-03" in f"{max(refuted.max_error.values()):.0e}"


def test_programs_that_are_not_converted_are_refused_with_the_remedy() -> None:
    with pytest.raises(
        StoragePrecisionError, match=r"step of training.*(parameter).*give the program of inference"
    ):
        stored_in(from_onnx(GRAPHS / "tiny_train_gpt2_small_b8_s1024_adam.onnx"), "bf16")
    with pytest.raises(StoragePrecisionError, match="did you mean bf16"):
        stored_in(masked_product(), "bf61")
    with pytest.raises(StoragePrecisionError, match="no parameter or activation that is wider than float16"):
        stored_in(stored_in(masked_product(), "bf16"), "fp16")
    outside = ExternalData("w", "float32", (8,), "0" * 64, ZRange.build((0,), shape=(8,)))
    with pytest.raises(StoragePrecisionError, match=r"values of 'w' lie outside.*values inside"):
        stored_in(replace(masked_product(), external={"w": outside}), "bf16")


@pytest.mark.slow
def test_a_search_in_half_precision_moves_and_holds_half_the_bytes() -> None:
    with tapestry.program("layers") as p:
        x = p.input("x", batch=4096, width=4096)
        w, v = p.parameter("w", width=4096, inner=4096), p.parameter("v", inner=4096, out=4096)
        p.output("y", x.contract(w, "width").relu().contract(v, "inner"))
    whole, half = (
        tapestry.optimize(
            p, "dgx-h100", ("time_s", "peak_memory_bytes"), dtype=dtype, evaluations=2000, islands=1
        )
        for dtype in (None, "bf16")
    )
    assert half.graph.tensors["w"].dtype == "bfloat16"
    memory = [min(plan.cost["peak_memory_bytes"] for plan in r.frontier) for r in (whole, half)]
    assert memory[0] == 2 * memory[1]
    assert min(p.cost["time_s"] for p in half.frontier) < min(p.cost["time_s"] for p in whole.frontier)
    with pytest.raises(OptionError, match="expected one of bf16, fp16, fp8"):
        tapestry.optimize(p, "dgx-h100", dtype="half", evaluations=1)


def decoder() -> Graph:
    """Build a decoder's step with a cache of keys, which it appends to and reads, and a position that counts."""
    b = GraphBuilder("decoder")
    x, w = b.source("x", (4,), "float32"), b.source("w", (4, 4), "float32", "parameter")
    cache = b.source("cache", (8, 4), "float32", "buffer", np.zeros((8, 4), np.float32))
    position = b.source("position", (), "float32", "buffer", np.zeros((), np.float32))
    (key,) = b.apply("contract", (x, w), site="key", labels=(("k",), ("k", "n")), output=("n",))
    here = ("eq", ("cast", "float32", ("index", "t")), ("input", 2))
    (kept,) = b.apply(
        "cell",
        (cache, key, position),
        site="kept",
        expr=("where", here, ("input", 1), ("input", 0)),
        labels=(("t", "n"), ("n",), ()),
        dims=(("t", 8), ("n", 4)),
        dtype="float32",
    )
    (scores,) = b.apply("contract", (key, kept), site="scores", labels=(("n",), ("t", "n")), output=("t",))
    counted = {"expr": ("add", ("input", 0), ("const", 1.0)), "labels": ((),), "dims": (), "dtype": "float32"}
    (following,) = b.apply("cell", (position,), site="following", **counted)
    b.sink(scores, site="out")
    b.sink(kept, site="cache.next", carries="cache")
    b.sink(following, site="position.next", carries="position")
    return b.build()


def test_a_cache_is_narrow_from_step_to_step_and_a_counter_stays() -> None:
    graph = decoder()
    stored = stored_in(graph, "bf16")
    check(stored)  # it refuses state whose next value has another type
    types = {site: stored.tensors[source.outputs[0]].dtype for site, source in stored.carriers.items()}
    assert types == {"cache.next": "bfloat16", "position.next": "float32"}
    state = {"cache": stored.data["cache"], "position": stored.data["position"]}
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((4, 4)).astype(stored.data["cache"].dtype)
    rows = []
    for step in range(3):
        x = rng.standard_normal(4).astype(weights.dtype)
        found = evaluate(stored, {"x": x, "w": weights, **state})
        state = {"cache": found["cache.next"], "position": found["position.next"]}
        rows.append(found["cache.next"][step])
    assert (state["cache"][:3] == rows).all() and np.any(rows, axis=1).all()
    assert state["position"] == 3 and state["cache"].dtype == weights.dtype
    assert not state["cache"][3:].any()
    assert max(storage_error(graph, stored, random_inputs(graph, rng)).values()) < 0.03


def test_a_program_that_is_stored_so_already_is_the_same_again() -> None:
    for graph in (masked_product(), decoder()):
        stored = stored_in(graph, "fp16")
        assert stored_in(stored, "fp16") is stored


def test_the_options_of_a_run_have_every_precision() -> None:
    (option,) = (option for option in OPTIONS if option.name == "dtype")
    assert option.choices == tuple(PRECISIONS)
