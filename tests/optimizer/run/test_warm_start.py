"""Tests of searches that start from plans of an earlier one: no plan is lost, and other meshes take what fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tapestry.costmodel.reference import reference_cost
from tapestry.hardware import load_mesh
from tapestry.optimizer import Checkpoint, Result, Snapshot
from tapestry.optimizer.archive.report import costs_of
from tapestry.optimizer.archive.representatives import values_of
from tapestry.optimizer.run.options import RunOptions
from tapestry.optimizer.run.planting import PLACED, fit
from tapestry.optimizer.run.variants import new_variant
from tapestry.optimizer.run.workers import InlineExecutor
from tapestry.rewrites import Move
from tapestry.teg.sharding.check import check_placements
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.sharding.text import parse_strategy
from tests.costmodel.programs import GRAPHS, product_of
from tests.optimizer.run.test_search import spec_at
from tests.optimizer.run.test_variants import submesh
from tests.optimizer.searches import frontier, search

pytestmark = pytest.mark.slow

EPSILON = 0.005


def values(result: Result) -> np.ndarray:
    return values_of([plan.cost for plan in result.frontier], result.objectives)


def worst_factor(front: np.ndarray, given: np.ndarray) -> float:
    """Return the largest, over the given points, of the least factor by which one of the front is worse."""
    factor = (front[None] + 1e-300) / (given[:, None] + 1e-300)
    return float(factor.max(axis=2).min(axis=1).max())


@pytest.fixture(scope="module")
def earlier() -> Result:
    """Run a search that keeps rewritten programs."""
    graph = GRAPHS["observed"]()
    return search(graph, seed=3, islands=2, evaluations=300_000, executor=InlineExecutor())


def warm(plans: Any, **options: Any) -> Result:
    graph = options.pop("graph", None) or GRAPHS["observed"]()
    return search(graph, seed=7, evaluations=options.pop("evaluations", 20), start_from=plans, **options)


@pytest.mark.parametrize("evaluations", [1, 10_000])
def test_nothing_of_the_given_frontier_is_lost(earlier: Result, evaluations: int) -> None:
    result = warm(earlier.frontier, evaluations=evaluations)
    assert result.started_from == len(earlier.frontier) > 10
    assert worst_factor(values(result), values(earlier)) <= 1 + EPSILON
    rules = {m.rule for plan in earlier.frontier for m in plan.moves}
    assert "expand_contract" in rules, "rewritten programs are among them"
    cold = search(GRAPHS["observed"](), seed=7, evaluations=evaluations)
    assert worst_factor(values(cold), values(earlier)) > 1.05, "it would not have found that by itself"
    assert cold.started_from == 0


def test_a_thinned_frontier_keeps_what_was_given() -> None:
    earlier = search(seed=5, evaluations=150_000)
    result = warm(earlier.frontier, graph=GRAPHS["attention"](), evaluations=150_000)
    assert len(earlier.frontier) == 64
    assert worst_factor(values(result), values(earlier)) <= 1 + 3 * EPSILON


def test_plans_cost_what_they_cost(earlier: Result) -> None:
    result = warm(earlier.frontier, mesh=load_mesh("2x-dgx-h100"))
    assert result.started_from == len(earlier.frontier)
    for plan in result.frontier:
        used = result.mesh.part(MeshShape(result.mesh.axis_sizes).part(plan.placements.devices).axes)
        assert plan.cost == costs_of(reference_cost(plan.graph, plan.placements, used).vector(), used)


@pytest.mark.parametrize("mesh", ["tpu-v5e-4x4", "2x-dgx-h100", "cpu-node"])
def test_another_mesh_and_other_objectives_take_what_fits(earlier: Result, mesh: str) -> None:
    result = warm(earlier.frontier, mesh=load_mesh(mesh), objectives=("time_s", "compute_flops"))
    assert result.started_from == len(earlier.frontier)
    mesh_shape = MeshShape(result.mesh.axis_sizes)
    for plan in result.frontier:
        assert check_placements(plan.graph, plan.placements, mesh_shape) == []


def placed(**strategies: str) -> Placements:
    graph = product_of(64, 64, 64)
    found = search(graph, evaluations=1, seeds=False, search=False).frontier[0].placements
    blocks = {
        site: replace(found.blocks[site], strategy=parse_strategy(text)) for site, text in strategies.items()
    }
    return replace(found, blocks={**found.blocks, **blocks})


@pytest.mark.parametrize(
    ("mesh", "given", "nearest"),
    [
        ("dgx-h100", "(gpu.0*gpu.1, gpu.2, -)", "(gpu.0*gpu.1, gpu.2, -)"),
        ("2x-dgx-h100", "(gpu.0, gpu.1*gpu.2, -)", "(gpu.0, gpu.1*gpu.2, -)"),
        ("dgx-h100", "(node.0*gpu.0, gpu.2, -)", "(gpu.0*gpu.1, gpu.2, -)"),
        ("tpu-v5e-4x4", "(gpu.0, gpu.1*gpu.2, -)", "(x.0, x.1*y.0*y.1, -)"),
        ("dgx-h100", "(rack.0*rack.1*rack.2*rack.3, -, -)", "(gpu.0*gpu.1*gpu.2, -, -)"),
    ],
)
def test_the_nearest_strategy_lays_the_same_dimensions_along_what_there_is(
    mesh: str, given: str, nearest: str
) -> None:
    graph = product_of(64, 64, 64)
    variant = new_variant(0, submesh(mesh), graph, (), RunOptions())
    block = next(b for b in graph.blocks if b.operator == "contract")
    genes = fit(variant, placed(**{block.site: given}))
    gene = variant.space.gene_of[block.site]
    strategy, orders = variant.space.families[gene].at(int(genes.strategies[gene]))
    assert str(strategy) == nearest
    assert not any((*orders.reads, *orders.makes)), "stored as the program says"


def test_plans_of_another_program_are_left_out(earlier: Result) -> None:
    other = search(GRAPHS["attention"](), evaluations=500).frontier
    with pytest.raises(ValueError, match=f"none of the {len(other)} plans is of the program 'observed'"):
        warm(other)
    result = warm([*other, *earlier.frontier[:3]])
    assert result.started_from == 3


def test_what_was_requested_is_kept(earlier: Result) -> None:
    graph = GRAPHS["observed"]()
    site = next(b.site for b in graph.sources)
    rank = len(graph.tensors[graph.by_site[site].outputs[0]].shape)
    spec = "[" + ", ".join(["gpu.0*gpu.1*gpu.2", *["-"] * (rank - 1)]) + "]"
    pinned = warm(earlier.frontier, pins={site: spec})
    assert pinned.started_from == len(earlier.frontier)
    assert {spec_at(plan, site) for plan in pinned.frontier} == {spec}

    plain = warm(earlier.frontier, rules=())
    assert plain.started_from == len(earlier.frontier)
    moves = {m.rule for plan in plain.frontier for m in plan.moves}
    assert moves <= {"reshard", "prefetch", "regather", "set_option"}


def variants_of(result_of: Callable[[Callable[[Snapshot], None]], Result]) -> list[tuple[Move, ...]]:
    """Return the histories of a search's first variants."""
    snapshots: list[Snapshot] = []
    result_of(snapshots.append)
    return [variant.moves for variant in snapshots[0].checkpoint().variants]


def test_the_structures_with_most_plans_join_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = GRAPHS["perceptron"]()
    plans = search(graph, seed=3, islands=2, evaluations=20_000, executor=InlineExecutor()).frontier
    cold = variants_of(lambda note: search(graph, evaluations=20, on_checkpoint=note))
    groups = Counter((tuple(m for m in p.moves if m.rule not in PLACED), p.placements.devices) for p in plans)
    new = [moves for (moves, _), _ in groups.most_common() if moves not in cold]
    assert len(set(new)) > 1

    joined = variants_of(lambda note: warm(plans, graph=graph, on_checkpoint=note))
    assert joined[: len(cold)] == cold
    assert set(joined[len(cold) :]) >= set(new)

    monkeypatch.setattr("tapestry.optimizer.run.warm_start.LARGEST_VARIANTS", 1)
    assert set(variants_of(lambda note: warm(plans, graph=graph, on_checkpoint=note))) == {*cold, new[0]}


def test_a_warm_start_goes_on_from_its_checkpoints(earlier: Result) -> None:
    snapshots: list[Snapshot] = []
    options = {"seed": 7, "evaluations": 60_000}
    whole = search(
        GRAPHS["observed"](),
        start_from=earlier.frontier,
        on_checkpoint=snapshots.append,
        checkpoint_s=0,
        **options,
    )
    saved = Checkpoint.from_bytes(snapshots[1].checkpoint().to_bytes())
    again = search(GRAPHS["observed"](), resume=saved, **options)
    assert frontier(again) == frontier(whole)
    assert again.started_from == whole.started_from == len(earlier.frontier)
