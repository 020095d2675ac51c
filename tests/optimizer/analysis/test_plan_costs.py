"""Tests of the costs of given plans: what is compiled for one plan alone costs it as the reference model does."""

from __future__ import annotations

import numpy as np
import pytest

from tapestry.costmodel.kernel_arrays import TIME
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.costmodel.schedule import schedule
from tapestry.hardware import load_mesh
from tapestry.optimizer.analysis.plan_costs import PlanCosts
from tests.costmodel.programs import GRAPHS, random_genes


@pytest.mark.parametrize("mesh", ["tpu-v5e-4x4", "n300", "dgx-h100"])
@pytest.mark.parametrize("name", ["convolutions", "attention", "fusions"])
def test_a_plan_compiled_alone_costs_what_the_reference_model_says(name: str, mesh: str) -> None:
    space, rng = PlanSpace(GRAPHS[name](), load_mesh(mesh)), np.random.default_rng(7)
    orders = set[str]()
    for _ in range(4):
        plan = (space.graph, space.placements(random_genes(rng, space)))
        orders |= {text for placement in plan[1].blocks.values() for text in placement.layouts}
        alone, plain = (PlanCosts(space.mesh, compiled=compiled) for compiled in (True, False))
        assert alone.costs([plan]) == plain.costs([plan])
        own = alone.space(space.graph, [plan[1]])
        genes = own.genes_of(plan[1])
        assert schedule(own, genes, 10**6).makespan_ticks == own.evaluate(genes)[TIME]
    assert (len(orders) > 1) == (space.mesh.device.layouts[0] != "row_major"), (
        "other orders are chosen where tiles are"
    )
