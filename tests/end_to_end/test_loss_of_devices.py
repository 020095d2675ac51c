"""The loss of devices in the middle of public models: outputs stay, and little is computed again.

The same losses are simulated, and happen to real processes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from statistics import median

import numpy as np
import pytest

from tapestry.costmodel.plan_space import PlanSpace
from tapestry.hardware.processes import DeviceProcesses, run_on_processes
from tapestry.hardware.simulator.execution import Recovery
from tapestry.hardware.simulator.failure import Failure
from tapestry.hardware.simulator.loss import simulate_loss
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_onnx
from tapestry.teg.interface import pack_inputs, unpack_outputs
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tests.cases import rotating
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
MESH = mesh_of("8")
SEED = 11


@dataclass(frozen=True)
class Model:
    """A program with values of its inputs, and its outputs by the program's names.

    They were recorded from ONNX Runtime or torch; where there is no record, the unsharded program computes them.
    """

    graph: Graph
    inputs: dict[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]

    def check(self, found: Mapping[str, np.ndarray]) -> None:
        outputs = unpack_outputs(self.graph, found)
        assert outputs.keys() == self.outputs.keys()
        for name, value in self.outputs.items():
            np.testing.assert_allclose(
                outputs[name], value, rtol=0, atol=1e-4 * np.abs(value).max(initial=0), err_msg=name
            )


@cache
def model_of(name: str) -> Model:
    path = GRAPHS / f"tiny_{name}.onnx"
    graph, record = from_onnx(path), path.with_suffix(".npz")
    if record.exists():
        arrays = dict(np.load(record))
        inputs = pack_inputs(graph, {k[3:]: v for k, v in arrays.items() if k.startswith("in:")})
        return Model(graph, inputs, {k[4:]: v for k, v in arrays.items() if k.startswith("out:")})
    inputs = random_inputs(graph, np.random.default_rng(SEED))
    return Model(graph, inputs, unpack_outputs(graph, evaluate(graph, inputs)))


def losses_of(name: str, count: int = LOSSES) -> Iterator[tuple[ExplicitGraph, Failure]]:
    """Yield plans of a program, and for each of them a device and a moment."""
    graph, rng = model_of(name).graph, np.random.default_rng(SEED)
    space = PlanSpace(graph, MESH)
    for genes in random_plans(space, count, SEED):
        failure = Failure((int(rng.integers(8)),), float(rng.random()))
        yield expand(graph, space.placements(genes), space.mesh_shape), failure


@pytest.mark.parametrize("name", rotating(5, PROGRAMS))
def test_outputs_equal_the_recorded_ones(name: str) -> None:
    model = model_of(name)
    for program, failure in losses_of(name):
        found = simulate_loss(program, MESH, failure, model.inputs, capacity_check=False)
        model.check(found.outputs)


@pytest.mark.slow
def test_recomputed_work_is_at_most_half_of_a_restart_in_the_median() -> None:
    shares = []
    for name in PROGRAMS:
        for program, failure in losses_of(name):
            hit = simulate_loss(program, MESH, failure, dry=True, capacity_check=False)
            assert hit.recovery is not None
            shares.append(hit.recovery.rerun_flops / max(hit.recovery.executed_flops, 1))
    assert len(shares) == 50
    assert 0 < median(shares) <= 0.5
    assert max(shares) <= 1


@pytest.mark.slow
def test_a_training_step_goes_on_after_the_end_of_a_process(device_processes: DeviceProcesses) -> None:
    check_processes(device_processes, "train_mlp_784_4x4096_b1024_sgd", 2)


@pytest.mark.slow
@pytest.mark.reach
@pytest.mark.parametrize("name", PROGRAMS)
def test_models_go_on_after_the_end_of_a_process(device_processes: DeviceProcesses, name: str) -> None:
    check_processes(device_processes, name, LOSSES)


def check_processes(processes: DeviceProcesses, name: str, count: int) -> None:
    """Check that real losses cost what simulated ones do: so the median above is also that of processes."""
    model = model_of(name)
    for program, failure in losses_of(name, count):
        found = run_on_processes(processes, program, MESH, model.inputs, failure=failure)
        model.check(found.outputs)
        counted = simulate_loss(program, MESH, failure, dry=True, capacity_check=False)
        assert untimed(found.recovery) == untimed(counted.recovery)


def untimed(recovery: Recovery | None) -> Recovery:
    """Return the counts of a recovery; measured times differ from simulated ones."""
    assert recovery is not None
    return replace(recovery, at_ticks=0, recovery_ticks=0)
