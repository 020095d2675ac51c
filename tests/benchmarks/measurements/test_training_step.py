"""Tests of training iterations from hyper-parameters: their work and memory as published, and what has no answer."""

from __future__ import annotations

import re
from typing import Any

import pytest

from benchmarks.measurements import Measurement, Prediction, Question, Systems
from benchmarks.measurements.scores import training_scores
from benchmarks.measurements.training_layer import training_layer
from benchmarks.measurements.training_step import Degrees, Iteration
from benchmarks.measurements.workload import UnpredictedError
from tapestry.costmodel.block_cost import base_flops
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.verify import verify

SAMPLES = 4
LAYER = {"hidden": 512, "heads": 16, "seq_len": 256, "vocab": 1024}


def step_of(layers: int = 2, gpus: int = 8, batch: int = 8, **inputs: Any) -> Iteration:
    given = {**LAYER, "layers": layers, "gpus": gpus, "global_batch": batch, "dtype": "fp16", **inputs}
    return Iteration(
        Question("training_iteration", "a100-sxm4-80gb", given, "iteration_time", "s"), Systems.of_catalog()
    )


def stored_bytes(recompute: str, tensor: int) -> int:
    """Return the bytes that a layer adds to the peak, without its parameters and states of the optimizer."""
    peaks = []
    for layers in (4, 5):
        step = step_of(layers, gpus=tensor, tensor_parallel=tensor, pipeline_parallel=1, recompute=recompute)
        (cost,) = step.costs.costs([step.plan(Degrees(tensor, 1, 1, samples=SAMPLES))])
        peaks.append(int(cost["peak_memory_bytes"]))
    h = LAYER["hidden"]
    parameters = 12 * h * h // tensor + 4 * h
    return peaks[1] - peaks[0] - 16 * parameters


@pytest.mark.parametrize("tensor", [1, 4])
@pytest.mark.parametrize("recompute", ["full", "selective", "sequence_parallel+selective", "none"])
def test_layers_store_the_published_bytes(recompute: str, tensor: int) -> None:
    """Given table 2 of Korthikanti et al., arXiv:2205.05198: bytes of activations per layer."""
    s, b, h, t = LAYER["seq_len"], SAMPLES, LAYER["hidden"], tensor
    expected = {
        "full": 2.0,
        "selective": 10 + 24 / t,
        "sequence_parallel+selective": 34 / t,
        "none": 34 / t,  # with attention as one kernel, no scores are stored
    }
    # Biases of normalizations are not read on the way back: there is no more of them than their next values.
    freed = 0 if recompute == "full" else 2 * 2 * h
    assert stored_bytes(recompute, tensor) == s * b * h * expected[recompute] - freed


# Table 4 of Korthikanti et al., arXiv:2205.05198: milliseconds of a layer of 22 billion parameters, with dropout.
LAYER_MS = {
    "baseline_no_recompute": 19.6,
    "sequence_parallel": 19.0,
    "full_recompute": 27.2,
    "selective_recompute": 20.9,
    "selective+sequence_parallel": 20.3,
}


def test_recomputation_takes_the_published_time() -> None:
    """Compare a layer forward and backward on eight A100, and what recomputation adds to it, with table 4."""
    found = {}
    for recompute in LAYER_MS:
        inputs = {"hidden": 6144, "heads": 64, "seq_len": 2048, "microbatch": 4, "tensor_parallel": 8}
        named = ("layer_time", "a100-sxm4-80gb", inputs | {"recompute": recompute}, "", "")
        found[recompute] = training_layer(Question(*named), Systems.of_catalog()).value("time", "s") * 1e3
    assert found == pytest.approx(LAYER_MS, rel=0.1)
    overheads = {name: value / found["baseline_no_recompute"] for name, value in found.items()}
    published = {name: value / LAYER_MS["baseline_no_recompute"] for name, value in LAYER_MS.items()}
    assert overheads == pytest.approx(published, rel=0.1)
    assert overheads["selective_recompute"] - 1 < (overheads["full_recompute"] - 1) / 4


@pytest.mark.parametrize("stated", ["half", "full_recompute of most", ""])
def test_unknown_recomputation_of_a_layer_is_refused(stated: str) -> None:
    inputs = {
        "hidden": 64,
        "heads": 4,
        "seq_len": 32,
        "microbatch": 4,
        "tensor_parallel": 8,
        "recompute": stated,
    }
    with pytest.raises(UnpredictedError, match="unknown recomputation"):
        training_layer(Question("layer_time", "a100-sxm4-80gb", inputs, "", ""), Systems.of_catalog())


@pytest.mark.parametrize(("recompute", "times"), [("none", 72), ("full", 96)])
def test_a_step_does_the_published_work(recompute: str, times: int) -> None:
    """Given equation 3 of Narayanan et al., arXiv:2104.04473, and that without recomputation, arXiv:2205.05198."""
    step = step_of(3, hidden=1024, batch=4, recompute=recompute)
    graph, _ = step.plan(Degrees(1, 1, 1, samples=4))
    s, h, words, tokens = LAYER["seq_len"], 1024, LAYER["vocab"], 4 * LAYER["seq_len"]
    expected = times * tokens * 3 * h * h * (1 + s / (6 * h)) + 6 * tokens * h * words
    assert step.model.step_flops == pytest.approx(expected)
    # Flops of other blocks than products are not in the equation; fused attention multiplies once more on the way back.
    assert expected < base_flops(graph) < 1.1 * expected


@pytest.mark.parametrize(
    ("degrees", "inputs"),
    [
        (Degrees(2, 1, 4, 2), {}),
        (Degrees(2, 2, 2, 1), {"recompute": "full"}),
        (Degrees(4, 2, 1, 2, 2), {"recompute": "sequence_parallel+selective"}),
        (Degrees(1, 1, 8, 1), {"scheme": "ZeRO-3", "activation_recompute": "full"}),
    ],
)
def test_plans_of_steps_are_proven(degrees: Degrees, inputs: dict[str, Any]) -> None:
    step = step_of(4, batch=16, hidden=128, **inputs)
    graph, placements = step.plan(degrees)
    assert verify(graph, expand(graph, placements, step.mesh_shape)) == []
    stages = 0 if placements.stages is None else placements.stages.count
    assert stages == (degrees.pipeline if degrees.pipeline > 1 else 0)
    assert placements.rounds is None or placements.rounds.count == 16 // degrees.data // degrees.samples


def test_degrees_that_are_stated_are_kept_and_others_tried() -> None:
    stated = step_of(4, gpus=4, tensor_parallel=2, pipeline_parallel=2, microbatch=2)
    assert stated.best[0] == Degrees(2, 2, 1, 2)
    free = step_of(4, gpus=4)
    assert {(d.tensor, d.pipeline, d.data) for d in free.ways()} == {
        (t, p, 4 // t // p) for t in (1, 2, 4) for p in (1, 2, 4) if t * p <= 4
    }
    assert free.best[1] <= stated.best[1]
    assert {d.pipeline for d in step_of(8, method="inter_only").ways()} == {8}
    assert {d.pipeline for d in step_of(8, method="intra_only").ways()} == {1}


def test_quantities_follow_from_the_time() -> None:
    step = step_of(microbatch=1, tensor_parallel=8, pipeline_parallel=1)
    time_s = step.value("iteration_time", "s")
    flops = step.value("achieved_flops_per_gpu", "FLOP/s")
    assert flops == step.model.step_flops / time_s / 8
    assert step.value("mfu", "fraction") == pytest.approx(flops / 312e12)
    assert step.value("tokens_per_s_per_gpu", "token/s") == 8 * LAYER["seq_len"] / time_s / 8
    assert 0 < step.error() < 0.3


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ({"recompute": "some"}, "unknown recomputation 'some'; known are none, full"),
        ({"gpus": 12}, "12 devices are no whole nodes of 8"),
        ({"tensor_parallel": 3}, "8 devices divide the step in no way that the inputs allow"),
        ({"tensor_parallel": 0}, "tensor_parallel: expected a whole number above zero, not 0"),
        ({"microbatch": 1.5}, "microbatch: expected a whole number above zero, not 1.5"),
        ({"batch": 12, "microbatch": 5}, "divide the step in no way that the inputs allow"),
        (
            {"hidden": 65536, "layers": 8, "tensor_parallel": 8, "pipeline_parallel": 1},
            "no way to divide the step fits in 8e+10 B of memory",
        ),
        ({"hidden": None}, "inputs state no hidden"),
    ],
)
def test_a_step_without_an_answer_says_why(inputs: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnpredictedError, match=re.escape(reason)):
        step_of(**inputs).value("iteration_time", "s")


def test_a_quantity_without_an_answer_is_refused_before_any_work() -> None:
    with pytest.raises(UnpredictedError, match="unknown quantity 'patience' in h"):
        step_of(hidden=1 << 20).value("patience", "h")
    with pytest.raises(UnpredictedError, match="has no peak for float8_e4m3fn"):
        step_of(dtype="fp8").value("mfu", "fraction")


def test_alternatives_are_ranked_as_they_were_measured_or_not() -> None:
    def row(value: float, predicted: float | None, **inputs: Any) -> Prediction:
        posed = Question("training_iteration", None, {**LAYER, "gpus": 8, **inputs}, "iteration_time", "s")
        return Prediction(Measurement("r", "g", posed, value, True, "ok"), predicted)

    rows = [row(1.0, 1.1), row(2.0, 1.5), row(3.0, 1.4), row(9.0, 1.0, gpus=16), row(8.0, None)]
    found = training_scores(rows)
    assert (found["ranked_pairs"], found["ranking_tau"]) == (3, round(1 / 3, 4))
    (table,) = found["training_tables"]
    assert table["constant_error"] == round((1 + 0 + 1 / 3 + 7 / 9 + 3 / 4) / 5, 4)
