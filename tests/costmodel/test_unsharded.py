"""Tests of costs on one device without compiling: all are those of the reference model for every available graph."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tapestry.costmodel.kernel_arrays import COLUMNS
from tapestry.costmodel.reference import reference_cost
from tapestry.costmodel.resources import resources_of
from tapestry.costmodel.unsharded import CONSTANT_COLUMNS, UnshardedCosts
from tapestry.hardware import load_mesh
from tapestry.rewrites import RULES, apply_all, find, saturate
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_onnx
from tapestry.teg.sharding.placement import SCHEDULE_ORDERS, Placements
from tests.cases import first
from tests.costmodel.programs import GRAPHS as GRAPHS_BY_NAME
from tests.costmodel.test_resources import mixed

MESH = load_mesh("dgx-h100").part((("gpu", 1),))
GRAPHS = Path(__file__).parent.parent / "data" / "graphs"
MODELS = sorted(p for p in GRAPHS.glob("*.onnx") if p.stat().st_size < 120_000 and "light" not in p.name)


@pytest.mark.parametrize(
    "path", first(6, sorted(MODELS, key=lambda p: p.stat().st_size)), ids=lambda p: p.stem
)
def test_the_cost_is_that_of_the_plain_model(path: Path) -> None:
    graph = from_onnx(path)
    simple = saturate(graph, [r for r in RULES if r.saturating]).graph
    costs = UnshardedCosts(MESH.device)
    for program in (graph, simple):
        assert costs.cost(program) == reference_cost(program, Placements(), MESH)


@pytest.mark.parametrize("make", [mixed, GRAPHS_BY_NAME["priced"]])
@pytest.mark.parametrize("compute_dtype", [None, "bfloat16"])
def test_the_program_s_own_resources_are_counted(
    make: Callable[[], Graph], compute_dtype: str | None
) -> None:
    graph = make()
    costs = UnshardedCosts(MESH.device, compute_dtype, resources_of(graph))
    expected = reference_cost(graph, Placements(), MESH, compute_dtype)
    assert expected.resources["sum of gpu"] > 0
    assert costs.cost(graph) == expected
    assert costs.cost(graph).vector().tolist() == expected.vector().tolist()


@pytest.mark.parametrize("order", SCHEDULE_ORDERS)
def test_the_costs_are_those_in_the_same_schedule_order(order: str) -> None:
    graph = from_onnx(GRAPHS / "tiny_train_mlp_784_4x4096_b1024_sgd.onnx")
    expected = reference_cost(graph, Placements(schedule_order=order), MESH)
    assert UnshardedCosts(MESH.device).cost(graph, order) == expected


def test_constant_columns_are_constant() -> None:
    graph = from_onnx(GRAPHS / "tiny_gpt2_small_b1_s1024.onnx")
    expected = reference_cost(graph, Placements(), MESH)
    assert {name for name in COLUMNS if getattr(expected, name) == 0} == CONSTANT_COLUMNS


def test_a_rewritten_graph_is_evaluated_alike() -> None:
    graph = from_onnx(GRAPHS / "taso_bert_8layer_s64.onnx")
    rules = [r for r in RULES if r.name == "merge_contracts"]
    costs = UnshardedCosts(MESH.device)
    for _ in range(3):
        graph = apply_all(graph, find(graph, rules)[:1]).graph
        assert costs.cost(graph) == reference_cost(graph, Placements(), MESH)
