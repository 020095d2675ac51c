"""Tests of searches that reduce gradients in every micro-batch."""

from __future__ import annotations

from typing import Any

import pytest

from tapestry.optimizer import Result
from tapestry.optimizer.run.plan import Plan
from tapestry.optimizer.run.workers import InlineExecutor
from tapestry.optimizer.structure.reductions import reductions
from tapestry.rewrites import apply_move, replay
from tapestry.rewrites.sharding.waypoints import WAYPOINT
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.rounds import time_axis
from tests.optimizer.searches import search
from tests.teg.sharding.looped import in_rounds

BATCH, WIDTH, LAYERS = 256, 512, 4


def layers() -> Graph:
    """Build linear layers with large weights, gradients of half their results squared, updates, a small sum."""
    b = GraphBuilder("layers")
    held = [b.source("x", (BATCH, WIDTH), "float32")]
    weights = [b.source(f"w{k}", (WIDTH, WIDTH), "float32", "parameter") for k in range(LAYERS)]
    for k, weight in enumerate(weights):
        labels = (("b", "i"), ("i", "j"))
        held += b.apply("contract", [held[-1], weight], site=f"f{k}", labels=labels, output=("b", "j"))
    back = held[-1]
    after = ("sub", ("input", 0), ("input", 1))
    steps = {}
    for k in reversed(range(LAYERS)):
        labels = (("b", "i"), ("b", "j"))
        (steps[k],) = b.apply("contract", [held[k], back], site=f"d{k}", labels=labels, output=("i", "j"))
        labels = (("b", "j"), ("i", "j"))
        (back,) = b.apply("contract", [back, weights[k]], site=f"b{k}", labels=labels, output=("b", "i"))
    for k, step in steps.items():
        (new,) = b.apply(
            "cell", [weights[k], step], site=f"n{k}", expr=after, labels=(("i", "j"), ("i", "j")),
            dims=(("i", WIDTH), ("j", WIDTH)), dtype="float32",
        )  # fmt: skip
        b.sink(new, site=f"u{k}", carries=f"w{k}")
    labels = (("b", "i"), ("b", "i"))
    (squares,) = b.apply("contract", [held[-1], held[-1]], site="squares", labels=labels, output=("i",))
    b.sink(squares, site="loss")
    return b.build()


def test_sums_that_have_a_waypoint_are_left_alone() -> None:
    """Check a gradient that is observed beside its waypoint, so that it is complete before it gets there."""
    graph = replay(layers(), reductions(layers(), in_rounds(4))[:1])
    b = GraphBuilder("observed")
    x = b.source("x", (8, 4), "float32")
    for name in ("total", "other"):
        b.apply("contract", [x, x], site=name, labels=(("a", "b"), ("a", "b")), output=("b",))
        b.sink(name, site=f"seen.{name}")
    (passed,) = b.apply("waypoint", ["total"], site="passed")
    b.sink(passed, site="out")
    assert [move.place for move in reductions(b.build(), in_rounds(2))] == ["other"]
    assert [move.place for move in reductions(graph, in_rounds(4))] == ["d2", "d1", "d0"]


def searched(**options: Any) -> Result:
    wanted = {"objectives": ("time_s", "peak_memory_bytes"), "micro_batches": 4} | options
    return search(layers(), evaluations=20_000, seed=1, executor=InlineExecutor(), **wanted)


def reduces(plan: Plan) -> bool:
    """Return whether a plan reduces gradients in every micro-batch."""
    return any(move.rule == WAYPOINT for move in plan.moves)


def test_waypoints_stand_behind_large_sums_with_work_between() -> None:
    graph = layers()
    moves = reductions(graph, in_rounds(4))
    assert [move.place for move in moves] == [f"d{k}" for k in reversed(range(LAYERS))]
    for move in moves:
        graph = apply_move(graph, move)
    order = [block.site for block in graph.blocks]
    assert order.index("d3~waypoint") == order.index("d0") - 1
    assert order.index("d1~waypoint") == order.index("d1") + 1  # nothing comes after it that may hide its way
    assert time_axis(graph, in_rounds(4)).terms == {f"d{k}" for k in range(LAYERS)}
    assert reductions(graph, in_rounds(4)) == ()


@pytest.fixture(scope="module")
def by_data() -> Result:
    return searched(data_parallel=8)


def test_data_parallel_plans_of_least_memory_reduce_gradients_in_every_micro_batch(by_data: Result) -> None:
    plans = sorted(by_data.frontier, key=lambda plan: plan.cost["peak_memory_bytes"])
    kept = [plan for plan in plans if not reduces(plan)]
    assert reduces(plans[0]) and kept
    # each of the four gradients of a device is an eighth, but for those on their way
    whole = WIDTH * WIDTH * 4
    assert plans[0].cost["peak_memory_bytes"] < kept[0].cost["peak_memory_bytes"] - whole
    assert plans[0].cost["time_s"] > kept[0].cost["time_s"]


def test_where_memory_does_not_count_they_are_reduced_once() -> None:
    result = searched(data_parallel=8, objectives=("time_s", "energy_j"))
    assert not any(map(reduces, result.frontier))
