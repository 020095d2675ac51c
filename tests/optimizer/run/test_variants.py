"""Tests of variants: best responses, children that inherit by site, archives that share a grid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tapestry.costmodel.kernel_arrays import COSTS, PEAK
from tapestry.costmodel.known_objectives import KnownObjectives
from tapestry.costmodel.plan_space import Genes
from tapestry.costmodel.view import default_view
from tapestry.hardware import load_mesh
from tapestry.optimizer.archive.archive import cell
from tapestry.optimizer.archive.constraints import Constraint, all_constraints
from tapestry.optimizer.archive.goal import objective_values
from tapestry.optimizer.archive.report import goal_of
from tapestry.optimizer.placement.seeds import genes_rows
from tapestry.optimizer.run.first_plans import insert_plans, insert_seeds
from tapestry.optimizer.run.options import RunOptions
from tapestry.optimizer.run.variants import (
    FRONT_CAPACITY,
    SubMesh,
    Variant,
    best_response,
    coarsen_grids,
    genes_at,
    inherit,
    new_variant,
)
from tapestry.optimizer.structure.rules import choose_rules
from tapestry.optimizer.structure.search import StructuralSearch
from tapestry.teg.sharding.mesh_shape import MeshShape
from tests.costmodel.programs import GRAPHS, random_genes

OBJECTIVES = ("time_s", "peak_memory_bytes", "traffic_bytes")


def submesh(name: str = "dgx-h100", bounds: Sequence[Constraint] = ()) -> SubMesh:
    mesh = load_mesh(name)
    known = KnownObjectives().require(OBJECTIVES, mesh.device)
    goal = goal_of(known, all_constraints(bounds, mesh), mesh, 0.005)
    return SubMesh("", mesh, default_view(MeshShape(mesh.axis_sizes)), goal)


def variant_of(name: str, on: SubMesh, number: int = 0) -> Variant:
    return new_variant(number, on, GRAPHS[name](), (), RunOptions())


def test_every_member_of_a_front_costs_what_the_archive_says() -> None:
    variant = variant_of("attention", submesh())
    count = sum(insert_seeds(variant, None))
    assert count > 10
    assert 1 < variant.archive.size[0] <= count
    for i in range(int(variant.archive.size[0])):
        raw = variant.space.evaluate(genes_at(variant.archive, i))
        assert raw.tolist() == variant.archive.raw[i].tolist()
        value = np.zeros(3)
        assert objective_values(variant.submesh.goal, raw, value) == 0.0
        assert value.tolist() == variant.archive.value[i].tolist()


def test_a_limit_on_seeds_is_kept() -> None:
    assert list(insert_seeds(variant_of("attention", submesh()), 7)) == [7]


@pytest.mark.parametrize("site", ["scores", "out", "wq"])
def test_best_response_is_the_best_of_all_strategies(site: str, rng: np.random.Generator) -> None:
    variant = variant_of("attention", submesh())
    space, goal = variant.space, variant.submesh.goal
    start = random_genes(rng, space)
    gene = space.gene_of[site]

    def score(s: int) -> float:
        genes = start.strategies.copy()
        genes[gene] = s
        value = np.zeros(3)
        objective_values(goal, space.evaluate(Genes(genes, start.prefetch, start.regather)), value)
        time, peak, traffic = value
        return float(np.log(time + 1e-12) + np.log(peak + 1) + np.log(traffic + 1))

    genes = start.strategies.astype(np.int16)
    spent = best_response(
        space.space, space.state, goal, genes, start.prefetch, start.regather, np.array([gene])
    )

    scores = [score(s) for s in range(int(space.space.strategy_count[gene]))]
    assert spent == len(scores)
    assert score(int(genes[gene])) == pytest.approx(min(scores), abs=1e-12)
    others = np.arange(space.gene_count) != gene
    assert (genes == start.strategies)[others].all()


@pytest.mark.parametrize("rule", ["expand_layer_norm", "merge_contracts", "flatten_contract"])
def test_a_child_inherits_by_site_and_answers_for_its_new_blocks(rule: str) -> None:
    on = submesh()
    parent = variant_of("attention", on)
    list(insert_seeds(parent, None))
    proposal = StructuralSearch(choose_rules((rule,))).propose(parent, 1, np.random.default_rng(1))
    assert proposal is not None
    graph, moves, _ = proposal
    child = new_variant(1, on, graph, moves, RunOptions())

    spent = inherit(child, parent)

    assert set(parent.graph.by_site) & set(child.graph.by_site), "survivors keep their sites"
    assert spent > int(child.archive.size[0]) > 0
    for i in range(int(child.archive.size[0])):
        genes = genes_at(child.archive, i)
        assert child.space.evaluate(genes).tolist() == child.archive.raw[i].tolist()
        assert any(same_survivors(parent, j, child, genes) for j in range(int(parent.archive.size[0])))


def same_survivors(parent: Variant, j: int, child: Variant, genes: Genes) -> bool:
    """Return whether all blocks of the child that the parent has too compute as in the parent's plan `j`."""
    before, after = (
        parent.space.placements(genes_at(parent.archive, j)).blocks,
        child.space.placements(genes).blocks,
    )
    kept = [s for s in after if s in before and parent.graph.by_site[s] == child.graph.by_site[s]]
    return all(before[s].strategy == after[s].strategy for s in kept)


def test_a_child_equal_to_its_parent_inherits_its_whole_front() -> None:
    on = submesh()
    parent, child = (variant_of("perceptron", on, n) for n in (0, 1))
    list(insert_seeds(parent, None))

    spent = inherit(child, parent)

    assert spent == min(24, int(parent.archive.size[0])), "no new blocks: one evaluation per plan"
    known = {tuple(v) for v in parent.archive.value[: int(parent.archive.size[0])]}
    assert {tuple(v) for v in child.archive.value[: int(child.archive.size[0])]} <= known


def test_a_child_inherits_plans_that_break_a_bound_and_are_better_than_the_front() -> None:
    """Bound memory so that the fastest plans break it: a child, which may need less, begins with the best of them."""
    known = variant_of("attention", submesh())
    list(insert_seeds(known, None))
    peaks = known.archive.raw[: int(known.archive.size[0]), PEAK]
    on = submesh(bounds=[Constraint("peak_memory_bytes", float(np.median(peaks)))])
    parent, child = (variant_of("attention", on, n) for n in (0, 1))
    list(insert_seeds(parent, None))
    feasible, broken = (int(n) for n in parent.archive.size)
    assert feasible and broken

    spent = inherit(child, parent)

    assert int(child.archive.size[0]) > 0 and int(child.archive.size[1]) > 0
    assert 0 < spent - min(24, feasible) <= 8
    best = parent.archive.value[:feasible].min(axis=0)
    for raw in child.archive.pool_raw[: int(child.archive.size[1])]:
        value = np.zeros(3)
        assert objective_values(on.goal, raw, value) > 0.0
        assert (value < best).any()


def test_variants_of_a_mesh_change_to_a_coarser_grid_together() -> None:
    """Check that variants share a grid: cells of two differ; a newcomer drives out everything, or never enters."""
    on, other = submesh(), submesh("2x-dgx-h100")
    full, small = (variant_of("perceptron", on, n) for n in (0, 1))
    foreign = variant_of("perceptron", other, 2)
    list(insert_seeds(small, None))
    list(insert_seeds(foreign, None))
    untouched = foreign.archive
    fill_archive(full, FRONT_CAPACITY)
    before = on.goal.epsilon.copy()

    coarsen_grids([full, small, foreign])

    assert full.archive.size[0] <= 0.75 * FRONT_CAPACITY
    assert (on.goal.epsilon > before).all()
    assert foreign.archive is untouched
    assert other.goal.epsilon.tolist() == [0.005] * 3
    for variant in (full, small):
        for i in range(int(variant.archive.size[0])):
            wanted = [cell(v, e) for v, e in zip(variant.archive.value[i], on.goal.epsilon, strict=True)]
            assert variant.archive.box[i].tolist() == wanted


def fill_archive(variant: Variant, count: int) -> None:
    """Fill an archive with plans of a made-up front, one per cell."""
    archive = variant.archive
    steps = np.exp(np.arange(count) * 0.006)
    archive.value[:count] = np.column_stack([steps, 1e6 / steps, np.ones(count)])
    archive.box[:count] = [
        [cell(v, e) for v, e in zip(row, variant.submesh.goal.epsilon, strict=True)]
        for row in archive.value[:count]
    ]
    archive.size[0] = count


def test_seeding_inserts_rows_of_strategies() -> None:
    variant = variant_of("joints", submesh())
    rows, _, _ = genes_rows(np.zeros((3, variant.space.gene_count), np.int64), variant.space.space)
    insert_plans(variant, rows)
    assert variant.archive.size[0] == 1, "three times the same plan"
    assert variant.archive.raw[0].tolist() == variant.space.evaluate(variant.space.abstract_genes()).tolist()
    assert variant.archive.raw.shape == (FRONT_CAPACITY, COSTS)
