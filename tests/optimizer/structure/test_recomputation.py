"""Tests of what a search computes again: cuts against all choices and another engine, estimates against programs."""

from __future__ import annotations

from itertools import chain, combinations
from math import inf

import networkx as nx
import numpy as np
import pytest

import tapestry
from tapestry.costmodel.unsharded import UnshardedCosts, live_bytes
from tapestry.hardware.catalog import load_device
from tapestry.optimizer.structure.division import divided
from tapestry.optimizer.structure.recomputation import IN_STAGES, StorageProblem, recomputations
from tapestry.rewrites import apply_all, catalog
from tapestry.teg.graph import Graph
from tests.cases import rotating
from tests.teg.exporters.spmd.models import MODELS
from tests.teg.sharding.looped import training

COSTS = UnshardedCosts(load_device("a100-sxm4-80gb"))
TRAINED = [name for name in MODELS if "train" in name]
WAYS = ("flax_gpt", "flax_cnn", "gpt2", "llama2")


def recomputed(graph: Graph, moves: tuple) -> Graph:
    return apply_all(graph, moves, catalog()).graph


def cost_of(problem: StorageProblem, sites: frozenset[str], price: float) -> float:
    """Return the cost of computing these blocks again and storing what they and late readers need; inf where wrong."""
    needed = {s for s in problem.nodes if any(r not in problem.readers for r in problem.readers[s])}
    needed |= {
        problem.graph.producers[t].site for s in sites for t in problem.nodes[s].block.inputs
    } & problem.nodes.keys()
    if any(s not in needed for s in sites) or any(problem.nodes[s].block.is_view for s in needed - sites):
        return inf
    return sum(problem.nodes[s].ticks for s in sites) + sum(
        price * problem.nodes[s].size_bytes for s in needed - sites
    )


def test_cuts_are_the_best_of_all_choices() -> None:
    problem = StorageProblem(training(4096, "float32"), COSTS)
    sites = list(problem.nodes)
    assert 3 <= len(sites) <= 12
    subsets = [
        frozenset(c) for c in chain.from_iterable(combinations(sites, k) for k in range(len(sites) + 1))
    ]
    chosen = set()
    for price in (0.0, *problem.prices(), 1e9):
        found = problem.cheapest(price, stride=1000)
        best = min(cost_of(problem, each, price) for each in subsets)
        assert cost_of(problem, found, price) == pytest.approx(best, rel=1e-6)
        chosen.add(found)
    assert frozenset() in chosen and len(chosen) > 1


@pytest.mark.parametrize("name", rotating(2, TRAINED))
def test_cuts_are_those_of_another_engine(name: str) -> None:
    problem = StorageProblem(MODELS[name]().graph, COSTS)
    for price in problem.prices()[::4]:
        flow = nx.DiGraph()
        for tail, head, capacity in problem.edges(price, frozenset()):
            before = flow.get_edge_data(tail, head, {}).get("capacity", 0.0)
            flow.add_edge(tail, head, **({} if capacity == inf else {"capacity": before + capacity}))
        least = nx.minimum_cut_value(flow, 0, 1) if flow.has_node(0) and flow.has_node(1) else 0
        assert cost_of(problem, problem.cheapest(price, 1000), price) == pytest.approx(least, rel=1e-4)


@pytest.mark.parametrize("name", rotating(4, TRAINED))
def test_estimates_are_what_the_programs_take(name: str) -> None:
    graph = MODELS[name]().graph
    stored = COSTS.time_ticks(graph)
    for way in recomputations(graph, COSTS):
        made = recomputed(graph, way.moves)
        assert max(live_bytes(made)) == way.peak_bytes
        assert COSTS.time_ticks(made) == pytest.approx(stored + way.ticks, rel=0.03)
        assert sum(b.repetition for b in made.blocks) + len(graph.blocks) == len(made.blocks)


def test_each_way_takes_less_memory_and_more_time_than_the_one_before() -> None:
    graph = MODELS["tiny_train_gpt2_small_b8_s1024_adam"]().graph
    ways = recomputations(graph, COSTS)
    assert len(ways) > 2
    peaks = [max(live_bytes(graph)), *(way.peak_bytes for way in ways)]
    assert peaks == sorted(set(peaks), reverse=True)
    assert np.all(np.diff([way.ticks for way in ways]) >= 0)


def test_programs_that_store_nothing_long_have_none() -> None:
    assert recomputations(MODELS["tiny/bert_large_b8_s512.winputs"]().graph, COSTS) == []


def deep(layers: int) -> Graph:
    """Build a training step of many layers that store much and send little."""
    with tapestry.program("deep") as p:
        x = p.input("x", sample=4096, feature=256)
        for k in range(layers):
            wide = (x @ p.parameter(f"up{k}", feature=256, wide=512)).tanh().exp()
            x = wide @ p.parameter(f"down{k}", wide=512, feature=256)
        p.output("y", x)
    return tapestry.training_step(p, loss="sum", optimizer="sgd").graph


def test_segments_for_pipelines_are_cut_anywhere() -> None:
    """Divide programs that compute values again into stages: long segments, which are not cut, leave unequal ones."""
    graph = deep(40)
    long, short = (recomputations(graph, COSTS, strides)[-1] for strides in ((4,), IN_STAGES))
    assert _longest(recomputed(graph, long.moves)) > 1.3
    assert _longest(recomputed(graph, short.moves)) < 1.1
    assert short.peak_bytes < 0.6 * max(live_bytes(graph))


def _longest(graph: Graph) -> float:
    """Return the time of the longest of eight stages over their mean."""
    parts, work = divided(graph, (load_device("a100-sxm4-80gb"),) * 8, 3e11), np.zeros(8)
    for site, sums in COSTS.by_site(graph).items():
        work[parts[site]] += sums.time_ticks
    return float(work.max() / work.mean())
