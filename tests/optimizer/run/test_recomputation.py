"""Tests of searches that compute values again where memory counts."""

from __future__ import annotations

from typing import Any

import pytest

import tapestry
from tapestry.hardware import load_mesh
from tapestry.optimizer import Checkpoint, Result, Snapshot
from tapestry.optimizer.run.workers import InlineExecutor
from tapestry.rewrites import catalog
from tapestry.rewrites.repetition.recomputation import RECOMPUTE
from tapestry.teg.graph import Graph
from tests.cases import rotating
from tests.optimizer.run.resumed import reported
from tests.optimizer.searches import search

MESH = load_mesh("dgx-a100").part((("gpu", 2),))
OBJECTIVES = ("time_s", "peak_memory_bytes")


def step() -> Graph:
    """Build a training step of a network of six layers, each of a product and two cells, on a large batch."""
    with tapestry.program("deep") as p:
        x = p.input("x", sample=1 << 15, feature=256)
        for k in range(6):
            w = p.parameter(f"w{k}", feature=256, made=256)
            x = (x @ w).tanh().rename(made="feature").exp()
        p.output("y", x)
    return tapestry.training_step(p, loss="sum", optimizer="sgd").graph


def searched(evaluations: int = 12_000, **options: Any) -> tuple[Result, list[Snapshot]]:
    snapshots: list[Snapshot] = []
    result = search(
        step(),
        mesh=MESH,
        seed=1,
        islands=2,
        evaluations=evaluations,
        executor=InlineExecutor(),
        on_checkpoint=snapshots.append,
        checkpoint_s=0,
        **({"objectives": OBJECTIVES} | options),
    )
    return result, snapshots


def recomputing(result: Result) -> list[bool]:
    """Return of each plan of the front whether it computes values again."""
    return [any(block.repetition for block in plan.graph.blocks) for plan in result.frontier]


@pytest.fixture(scope="module")
def free() -> tuple[Result, list[Snapshot]]:
    return searched()


def test_the_front_has_plans_that_compute_again_and_plans_that_do_not(
    free: tuple[Result, list[Snapshot]],
) -> None:
    result, snapshots = free
    kinds = [start.kind for start in snapshots[0].checkpoint().starts]
    assert "recomputation" in kinds
    assert len(set(recomputing(result))) == 2
    assert result.rules[RECOMPUTE][0] > 0


def test_without_the_rule_everything_is_stored() -> None:
    result, _ = searched(4000, rules=[name for name in catalog() if name != RECOMPUTE])
    assert not any(recomputing(result))


@pytest.mark.slow
def test_a_search_without_memory_among_its_objectives_stores_everything() -> None:
    result, _ = searched(4000, objectives=("time_s", "traffic_bytes"))
    assert RECOMPUTE not in {move.rule for plan in result.frontier for move in plan.moves[:1]}


@pytest.mark.parametrize("at", rotating(2, (1, -2)))
def test_resumed_anywhere_it_finds_the_same(free: tuple[Result, list[Snapshot]], at: int) -> None:
    result, snapshots = free
    saved = Checkpoint.from_bytes(snapshots[at].checkpoint().to_bytes())
    again, _ = searched(resume=saved)
    assert reported(again) == reported(result)
