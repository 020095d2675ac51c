"""Tests of real models at small sizes: any plan gives the model's values, and costs what was predicted."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tapestry.costmodel.kernel_arrays import PEAK, TIME, TOTAL, TRAFFIC
from tapestry.costmodel.plan_space import Genes
from tapestry.hardware.simulator import simulate, simulate_steps
from tapestry.teg.evaluate import evaluate
from tapestry.teg.interface import unpack_outputs
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.verify import verify
from tests.cases import first, rotating
from tests.end_to_end.twins import FORMS, MESHES, MODELS, TRAINING, load_twin, mesh_of, random_plans, space_of

TOLERANCE = 1e-4
STEP_MESHES = ("3", "8", "2x4")


def close(found: np.ndarray, wanted: np.ndarray) -> bool:
    return found.shape == wanted.shape and bool(
        np.abs(found - wanted).max() <= TOLERANCE * np.abs(wanted).max()
    )


def check_plan(model: str, form: str, mesh: str, genes: Genes) -> None:
    """Check that the plan is a correct sharding; run with numbers it gives the values and the predicted counts."""
    twin, space = load_twin(model, form), space_of(model, form, mesh)
    predicted = space.evaluate(genes)
    program = expand(twin.graph, space.placements(genes), space.mesh_shape)
    assert verify(twin.graph, program) == []

    run = simulate(program, mesh_of(mesh), twin.inputs)

    assert run.outputs.keys() == twin.reference.keys()
    assert all(close(run.outputs[site], value) for site, value in twin.reference.items())
    outputs = unpack_outputs(twin.graph, run.outputs)
    assert all(close(outputs[name], value) for name, value in twin.recorded.items())
    assert run.peak_memory_bytes.max() == predicted[PEAK]
    assert run.peak_memory_bytes.sum() == predicted[TOTAL]
    assert run.traffic_bytes == predicted[TRAFFIC]
    assert run.makespan_ticks == pytest.approx(predicted[TIME], rel=0.01)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("model", MODELS)
def test_a_twin_evaluates_to_its_recorded_outputs(model: str, form: str) -> None:
    twin = load_twin(model, form)
    outputs = unpack_outputs(twin.graph, twin.reference)
    assert outputs.keys() == twin.recorded.keys()
    assert all(close(outputs[name], value) for name, value in twin.recorded.items())


@pytest.mark.parametrize("mesh", first(1, ["2x4", "2", "6", "tpu-v6e-2x4", "n300"]))
@pytest.mark.parametrize("model", first(1, MODELS))
def test_a_few_random_plans(model: str, mesh: str) -> None:
    space = space_of(model, ".winputs", mesh)
    for genes in random_plans(space, 2, seed=3):
        check_plan(model, ".winputs", mesh, genes)


@pytest.mark.parametrize(
    ("model", "mesh"),
    [
        *first(1, [(TRAINING[0], mesh) for mesh in STEP_MESHES]),
        *rotating(3, [("train_gpt2_small_b8_s1024_adam", mesh) for mesh in STEP_MESHES]),
    ],
)
def test_two_training_steps_move_twice_the_bytes_of_one(model: str, mesh: str) -> None:
    """Check two steps, the second from what the devices hold after the first, against the program run twice."""
    twin, space = load_twin(model, ""), space_of(model, "", mesh)
    later = {source.site: twin.reference[sink] for sink, source in twin.graph.carriers.items()}
    expected = evaluate(twin.graph, twin.inputs | later)
    assert later
    for genes in random_plans(space, 3, seed=11):
        program = expand(twin.graph, space.placements(genes), space.mesh_shape)
        runs = list(simulate_steps(program, mesh_of(mesh), twin.inputs, steps=2))
        assert sum(run.traffic_bytes for run in runs) == 2 * space.evaluate(genes)[TRAFFIC]
        assert all(close(runs[1].outputs[site], value) for site, value in expected.items())


@pytest.mark.parametrize("mesh", first(1, ["3", "2x4"]))
@pytest.mark.parametrize("model", TRAINING)
def test_training_steps_under_random_plans(model: str, mesh: str) -> None:
    space = space_of(model, "", mesh)
    for genes in random_plans(space, 3, seed=5):
        check_plan(model, "", mesh, genes)


@pytest.mark.parametrize(("model", "form", "mesh"), rotating(4, product(MODELS, FORMS, MESHES)))
def test_a_dozen_random_plans(model: str, form: str, mesh: str) -> None:
    """Check a dozen plans for each model and mesh, half in each form; another test shows that the forms are alike."""
    space, half = space_of(model, form, mesh), FORMS.index(form)
    costs = set()
    for genes in list(random_plans(space, 12, seed=17))[6 * half : 6 * (half + 1)]:
        check_plan(model, form, mesh, genes)
        costs.add(tuple(space.evaluate(genes)))
    assert len(costs) > 4, "the plans differ"


@pytest.mark.parametrize("mesh", first(1, ["8", "2x4"]))
def test_both_forms_of_a_twin_give_the_same_values_under_the_same_plan(mesh: str) -> None:
    """Check that nothing differs but the weights, inside the program or as inputs."""
    model = MODELS[0]
    inside, outside = (load_twin(model, form) for form in FORMS)
    for site, value in inside.reference.items():
        assert close(outside.reference[site], value)
    space = space_of(model, "", mesh)
    cost = space.evaluate(space.abstract_genes())
    assert cost[TRAFFIC] == 0
    assert cost[TOTAL] == cost[PEAK] * space.mesh_shape.device_count
