"""Tests of costs on one device without compiling: equal to the reference cost model for every available graph."""

from pathlib import Path

import pytest

from tapestry.costmodel.reference import reference_cost
from tapestry.costmodel.unsharded import UnshardedCosts
from tapestry.hardware import load_mesh
from tapestry.rewrites import RULES, apply_all, find, saturate
from tapestry.teg.importers import from_onnx
from tapestry.teg.sharding.placement import Placements

MESH = load_mesh("dgx-h100").part((("gpu", 1),))
GRAPHS = Path(__file__).parent.parent / "data" / "graphs"
MODELS = sorted(p for p in GRAPHS.glob("*.onnx") if p.stat().st_size < 120_000 and "light" not in p.name)


@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_the_cost_is_that_of_the_plain_model(path: Path) -> None:
    graph = from_onnx(path)
    simple = saturate(graph, [r for r in RULES if r.saturating]).graph
    costs = UnshardedCosts(MESH.device)
    for program in (graph, simple):
        tally = reference_cost(program, Placements(), MESH)
        assert tuple(costs.cost(program)) == (tally.time_ticks, tally.peak_memory_bytes)


def test_a_rewritten_graph_is_judged_alike() -> None:
    graph = from_onnx(GRAPHS / "taso_bert_8layer_s64.onnx")
    rules = [r for r in RULES if r.name == "merge_contracts"]
    costs = UnshardedCosts(MESH.device)
    for _ in range(3):
        graph = apply_all(graph, find(graph, rules)[:1]).graph
        tally = reference_cost(graph, Placements(), MESH)
        assert tuple(costs.cost(graph)) == (tally.time_ticks, tally.peak_memory_bytes)
