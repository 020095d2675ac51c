"""Tests that hand-made plans are sharded as stated and compared objective by objective."""

import numpy as np
import pytest

from benchmarks.setting import find_models
from benchmarks.specialist_plans import (
    Recipe,
    data_parallel,
    lay,
    spatial,
    tensor_and_sequence_parallel,
    tensor_parallel,
)
from benchmarks.specialists import SpecialistCase, compare, dominating, hand_made, text_of
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.hardware import load_mesh
from tapestry.optimizer import Budget, verify_plan
from tapestry.optimizer.run.search import search
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.importers import from_onnx
from tapestry.teg.sharding.mesh_shape import MeshShape

LLAMA, GPT2, RESNET = (
    f"tiny_{m}" for m in ("llama2_7b_1layer_b1_s2048", "gpt2_small_b1_s1024", "resnet50_b16_224")
)
SIZES = {"heads": 4, "hidden": 56, "vocabulary": 97}
FOUR = load_mesh("dgx-h100").part((("gpu", 4),))


def plan_of(model: str, recipe: Recipe):
    return hand_made(recipe, from_onnx(find_models([model])[0]), FOUR)


def test_tensor_parallel_splits_heads_hidden_width_and_vocabulary() -> None:
    graph = from_onnx(find_models([LLAMA])[0])
    placements = lay(tensor_parallel(**SIZES), graph, MeshShape.of(gpu=4))
    split = set()
    for block in graph.blocks:
        if block.signature is None or block.operator in ("source", "view"):
            continue
        strategy = placements.of(block).strategy
        split |= {d.size for d, s in zip(block.signature.dims, strategy.splits, strict=True) if s.axes}
    assert split == set(SIZES.values())


@pytest.mark.parametrize(
    ("model", "recipe"),
    [
        (LLAMA, tensor_parallel(**SIZES)),
        (LLAMA, tensor_and_sequence_parallel(**SIZES, sequence=10)),
        (RESNET, spatial()),
        (RESNET, data_parallel(2)),
    ],
)
def test_a_hand_made_plan_verifies_with_numbers(model: str, recipe: Recipe) -> None:
    plan = plan_of(model, recipe)
    inputs = random_inputs(plan.graph, np.random.default_rng(0))
    found = verify_plan(plan, FOUR, inputs=inputs, execute=True, reference=evaluate(plan.graph, inputs))
    assert found.ok
    assert found.executed


def test_data_parallel_moves_nothing_and_sequences_save_memory() -> None:
    assert plan_of(RESNET, data_parallel(2)).cost["traffic_bytes"] == 0
    plain, both = tensor_parallel(**SIZES), tensor_and_sequence_parallel(**SIZES, sequence=10)
    assert plan_of(LLAMA, both).cost["peak_memory_bytes"] < plan_of(LLAMA, plain).cost["peak_memory_bytes"]


def test_a_hand_made_plan_is_one_the_search_can_reach() -> None:
    graph = from_onnx(find_models([LLAMA])[0])
    plan = hand_made(tensor_and_sequence_parallel(**SIZES, sequence=10), graph, FOUR)
    space = PlanSpace(graph, FOUR)
    assert space.evaluate(space.genes_of(plan.placements))[1] == plan.cost["peak_memory_bytes"]


@pytest.mark.slow
def test_a_plan_holds_only_if_it_is_no_worse_anywhere() -> None:
    graph = from_onnx(find_models([LLAMA])[0])
    result = search(graph, FOUR, budget=Budget(evaluations=2000), islands=1)
    plan = result.frontier[0]
    assert dominating(plan, result) is plan
    better = {name: value * 0.999 for name, value in plan.cost.items()}
    unbeaten = type(plan)(plan.graph, plan.placements, (), better | {"time_s": 0.0}, True)
    assert dominating(unbeaten, result) is None


@pytest.mark.slow
def test_a_case_is_described_in_full() -> None:
    case = SpecialistCase(LLAMA, (tensor_parallel(**SIZES),))
    (row,) = compare(case, FOUR, Budget(evaluations=2000), seed=0, values=True, islands=1)
    assert row["ok"]
    text = text_of(row)
    assert "verified, executed with numbers; " in text
    assert all(name in text for name in row["cost"])
