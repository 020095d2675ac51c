"""The loss of devices in the middle of public models: outputs stay, and little is computed again."""

from statistics import median

import numpy as np
import pytest

from tapestry.costmodel.plan_space import PlanSpace
from tapestry.hardware.simulator.failure import Failure
from tapestry.hardware.simulator.loss import simulate_loss
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.importers import from_onnx
from tapestry.teg.sharding.expand import expand
from tests.end_to_end.twins import mesh_of, random_plans
from tests.teg.importers.models import GRAPHS

PROGRAMS = (
    "gpt2_small_b1_s1024",
    "gpt2_small_b1_s1024.winputs",
    "llama2_7b_1layer_b1_s2048",
    "llama2_7b_1layer_b1_s2048.winputs",
    "resnet50_b16_224",
    "taso_bert_8layer_s64.winputs",
    "taso_nasrnn_h512_t5.winputs",
    "train_gpt2_small_b8_s1024_adam",
    "train_heat_inverse_20steps_grads",
    "train_mlp_784_4x4096_b1024_sgd",
)
LOSSES = 5  # per program
SEED = 11


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_outputs_equal_those_of_the_unsharded_program(name: str) -> None:
    graph, mesh = from_onnx(GRAPHS / f"tiny_{name}.onnx"), mesh_of("8")
    rng = np.random.default_rng(SEED)
    inputs = random_inputs(graph, rng)
    wanted = evaluate(graph, inputs)
    space = PlanSpace(graph, mesh)
    for genes in random_plans(space, LOSSES, SEED):
        program = expand(graph, space.placements(genes), space.mesh_shape)
        got = simulate_loss(program, mesh, random_failure(rng), inputs, capacity_check=False).outputs
        for site, value in wanted.items():
            np.testing.assert_allclose(got[site], value, rtol=0, atol=1e-4 * np.abs(value).max(initial=0))


@pytest.mark.slow
def test_recomputed_work_is_at_most_half_of_a_restart_in_the_median() -> None:
    shares = []
    for name in PROGRAMS:
        graph, mesh = from_onnx(GRAPHS / f"tiny_{name}.onnx"), mesh_of("8")
        rng = np.random.default_rng(SEED)
        space = PlanSpace(graph, mesh)
        for genes in random_plans(space, LOSSES, SEED):
            program = expand(graph, space.placements(genes), space.mesh_shape)
            hit = simulate_loss(program, mesh, random_failure(rng), dry=True, capacity_check=False)
            assert hit.recovery is not None
            shares.append(hit.recovery.rerun_flops / max(hit.recovery.executed_flops, 1))
    assert len(shares) == 50
    assert 0 < median(shares) <= 0.5
    assert max(shares) <= 1


def random_failure(rng: np.random.Generator) -> Failure:
    return Failure((int(rng.integers(8)),), float(rng.random()))
