"""Tests of the division of programs into the parts of a pipeline."""

from __future__ import annotations

from collections import Counter

import pytest

import tapestry
from tapestry.costmodel.kernel_arrays import PEAK
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.costmodel.unsharded import UnshardedCosts
from tapestry.hardware import load_mesh
from tapestry.optimizer.structure.division import anchors_of, divided, has_way_back
from tapestry.optimizer.structure.offloading import offloads, peak_of
from tapestry.rewrites import apply_all
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.host import is_on_host
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import scheduled_blocks
from tapestry.teg.sharding.possible_rounds import rounds_of
from tapestry.teg.sharding.stages import Pipeline, StageLayout, Stages
from tapestry.teg.sharding.turns import turn_table
from tests.end_to_end.twins import load_twin

DEVICE = load_mesh("dgx-a100").device


def parts_of(graph: Graph, count: int) -> dict[str, int]:
    return dict(divided(graph, (DEVICE,) * count, 1e12))


@pytest.mark.parametrize("count", (2, 4))
def test_a_training_step_of_a_transformer_goes_forth_and_back_once(count: int) -> None:
    graph = load_twin("train_gpt2_small_b8_s1024_adam", "").graph
    parts = parts_of(graph, count)
    assert set(parts.values()) == set(range(count))
    pieces = turn_table(graph, scheduled_blocks(graph, "program"), None, Stages(count), parts).pieces
    work = UnshardedCosts(DEVICE).by_site(graph)
    large = [p.part for p in pieces if sum(work[b.site].time_ticks for b in p.blocks if b.site in work) > 4e7]
    assert large == [*range(count), *reversed(range(count - 1))]
    times = Counter[int]()
    for site, sums in work.items():
        times[parts[site]] += sums.time_ticks
    assert max(times.values()) < 1.6 * sum(times.values()) / count


def test_with_slack_the_fullest_stage_stores_less_and_the_longest_takes_little_longer() -> None:
    with tapestry.program("layers") as p:
        x = p.input("x", batch=4096, feature=256)
        for k in range(24):
            x = (x @ p.parameter(f"w{k}", feature=256, out=256)).relu().rename(out="feature")
        p.output("y", x)
    mesh, graph = load_mesh("hgx-a100-4"), tapestry.training_step(p, loss="sum", optimizer="sgd").graph
    shape, (rounds, *_) = MeshShape(mesh.axis_sizes), rounds_of(graph, 8)
    layout, costs = StageLayout(shape, shape.part("gpu:1"), 4), UnshardedCosts(DEVICE).by_site(graph)
    longest, fullest = [], []
    for slack in (0.0, 0.25):
        parts = divided(graph, (mesh.device,) * 4, 1e12, slack, rounds.count)
        space = PlanSpace(graph, mesh, rounds=rounds, pipeline=Pipeline(Stages(4), layout, parts))
        fullest.append(space.evaluate(space.abstract_genes())[PEAK])
        times = Counter[int]()
        for site, sums in costs.items():
            times[parts[site]] += sums.time_ticks
        longest.append(max(times.values()))
    assert longest[1] <= 1.25 * longest[0] * 1.01  # what is sent counts, too
    assert fullest[1] < 0.85 * fullest[0]


def test_states_and_updates_are_where_their_parameters_are() -> None:
    graph = load_twin("train_gpt2_small_b8_s1024_adam", "").graph
    parts = parts_of(graph, 4)
    for sink, source in graph.carriers.items():
        assert parts[sink] == parts[source.site]


@pytest.mark.parametrize("count", (2, 4))
def test_what_waits_on_the_host_is_where_it_is_made(count: int) -> None:
    step, costs = load_twin("train_gpt2_small_b8_s1024_adam", "").graph, UnshardedCosts(DEVICE)
    peak = peak_of(step, costs)
    assert peak is not None
    moved = apply_all(step, peak.moves).graph
    graph = apply_all(moved, offloads(moved, costs, DEVICE, 1e9, peak.site)).graph
    parts = parts_of(graph, count)
    waiting = {b.site: graph.producers[b.inputs[0]].site for b in graph.blocks if is_on_host(b)}
    assert len({parts[site] for site in waiting}) >= count - 1
    assert all(parts[site] == parts[made] for site, made in waiting.items())


def test_a_program_without_a_way_back_is_cut_in_its_order() -> None:
    graph = load_twin("gpt2_small_b1_s1024", "").graph
    parts, anchors = parts_of(graph, 4), anchors_of(graph)
    order = [parts[b.site] for b in scheduled_blocks(graph, "program") if b.operator != "sink"]
    assert order == sorted(order) and set(order) == {0, 1, 2, 3}
    assert max(anchors.values()) < len(graph.blocks)


def test_a_weight_that_is_used_at_both_ends_pulls_nothing_with_it() -> None:
    b = GraphBuilder("tied")
    x, w = b.source("x", (64, 32), "float32"), b.source("w", (32, 32), "float32", "parameter")
    h = x
    names = []
    for k in range(6):
        v = w if k in (0, 5) else b.source(f"v{k}", (32, 32), "float32", "parameter")
        (h,) = b.apply("contract", [h, v], site=f"y{k}", labels=(("b", "i"), ("i", "j")), output=("b", "j"))
        names.append(f"y{k}")
    b.sink(h, site="out")
    parts = parts_of(b.build(), 3)
    assert [parts[name] for name in names] == [0, 0, 1, 1, 2, 2]
    assert parts["w"] == 0 and parts["out"] == 2


def test_there_are_no_more_parts_than_places_to_cut() -> None:
    b = GraphBuilder("short")
    x, w = b.source("x", (8, 4), "float32"), b.source("w", (4, 4), "float32", "parameter")
    (y,) = b.apply("contract", [x, w], site="y", labels=(("b", "i"), ("i", "j")), output=("b", "j"))
    b.sink(y, site="out")
    assert set(parts_of(b.build(), 4).values()) <= {0, 1}


def test_training_steps_go_back_and_programs_that_answer_do_not() -> None:
    assert has_way_back(load_twin("train_gpt2_small_b8_s1024_adam", "").graph)
    assert not has_way_back(load_twin("gpt2_small_b1_s1024", "").graph)
