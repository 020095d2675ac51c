"""Tests of the benchmark of calibration: what it runs, and what it says of measured times."""

import numpy as np
import pytest

from benchmarks.calibration import SLOWEST, assessed, variants
from benchmarks.setting import ROOT
from tapestry.hardware import load_mesh
from tapestry.hardware.calibration.runs import Timing
from tapestry.hardware.calibration.validation import Validation, on_one_device, predicted_s
from tapestry.hardware.timing import ClassTime, TimeEstimate
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.importers import from_onnx


@pytest.mark.slow
def test_variants_differ_and_compute_the_same_in_a_similar_time() -> None:
    model = from_onnx(ROOT / "tests" / "data" / "graphs" / "tiny_train_mlp_784_4x4096_b1024_sgd.onnx")
    mesh = load_mesh("dgx-h100")
    found = variants(model, mesh, 5, np.random.default_rng(0))
    assert len({graph.structural_hash for graph in found.values()}) == len(found) == 5
    inputs = random_inputs(model, np.random.default_rng(1))
    wanted = evaluate(model, inputs)
    for graph in found.values():
        values = evaluate(graph, inputs)
        assert all(np.allclose(values[site], value, atol=1e-4) for site, value in wanted.items())
    first, *others = (predicted_s(on_one_device(graph), mesh) for graph in found.values())
    assert all(seconds <= SLOWEST * first for seconds in others)


def estimate(seconds: float) -> TimeEstimate:
    return TimeEstimate({"softmax.fp32": ClassTime(seconds, 0.1)})


def test_short_programs_are_not_assessed() -> None:
    times = ((1.1e-3, 1e-3), (2e-3, 1e-3), (0.7e-3, 1e-3), (9.0, 1e-6))
    found = assessed([Validation("program", estimate(p), Timing(m, 0.02)) for p, m in times])
    assert (found["assessed"], len(found["programs"])) == (3, 4)
    assert found["median_error"] == pytest.approx(0.3)
    assert found["median_repeat_error"] == pytest.approx(0.02)
