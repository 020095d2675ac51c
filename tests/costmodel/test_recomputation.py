"""Tests of costs of programs that compute values again: what is saved and added, alike for all three accounts."""

from __future__ import annotations

import numpy as np
import pytest

from tapestry.costmodel.kernel_arrays import FLOPS, PEAK, TIME, TOTAL, TRAFFIC
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.costmodel.reference import reference_cost
from tapestry.hardware import load_mesh
from tapestry.hardware.simulator import simulate
from tapestry.rewrites import Move, apply_all
from tapestry.rewrites.repeating import after_readers
from tapestry.rewrites.rules import catalog
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import expand
from tests.costmodel.programs import random_genes
from tests.teg.sharding.looped import in_rounds, training


def recomputed() -> Graph:
    """Compute again what the hidden layer and its activation are, for the gradients."""
    moves = [Move("recompute", "active", after_readers(1)), Move("recompute", "hidden", after_readers(1))]
    return apply_all(training(96, "float32"), moves, catalog()).graph


@pytest.mark.parametrize(
    ("mesh", "rounds"), (("dgx-h100", 1), ("2x-dgx-h100", 1), ("dgx-h100", 4), ("t3000", 2))
)
def test_compiled_costs_are_those_of_the_reference_and_the_simulator(mesh: str, rounds: int) -> None:
    graph, several, rng = recomputed(), load_mesh(mesh), np.random.default_rng(rounds)
    space = PlanSpace(graph, several, rounds=in_rounds(rounds) if rounds > 1 else None)
    for genes in (space.abstract_genes(), *(random_genes(rng, space) for _ in range(12))):
        placements, fast = space.placements(genes), space.evaluate(genes)
        assert fast.tolist() == reference_cost(graph, placements, several).vector().tolist(), placements
        run = simulate(expand(graph, placements, space.mesh_shape), several, dry=True, capacity_check=False)
        counted = [
            run.traffic_bytes,
            run.peak_memory_bytes.max(),
            run.peak_memory_bytes.sum(),
            run.flops.sum(),
        ]
        assert [fast[k] for k in (TRAFFIC, PEAK, TOTAL, FLOPS)] == counted


def test_what_is_computed_again_costs_time_and_flops_and_is_not_stored() -> None:
    mesh = load_mesh("dgx-h100").part((("gpu", 1),))
    before, after = (
        PlanSpace(training(1 << 14, "float32"), mesh),
        PlanSpace(
            apply_all(
                training(1 << 14, "float32"), [Move("recompute", "active", after_readers(1))], catalog()
            ).graph,
            mesh,
        ),
    )
    stored, again = before.evaluate(before.abstract_genes()), after.evaluate(after.abstract_genes())
    assert again[FLOPS] - stored[FLOPS] == (1 << 14) * 4
    assert again[TIME] > stored[TIME]
