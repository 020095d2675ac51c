"""Tests of tables of copies between stages: against the simulator's counts and the plain model's."""

from __future__ import annotations

import numpy as np
import pytest

from tapestry.costmodel.reference_copies import CopyCounter
from tapestry.costmodel.resharding_tables import copy_table
from tapestry.hardware.simulator.counting import count_copy
from tapestry.teg.sharding.copies import plan_copy
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.stages import StageLayout
from tests.hardware.simulator.programs import mesh_of
from tests.teg.sharding.specs import random_mesh, random_needed, random_shape, random_spec

BYTES = 4


@pytest.mark.parametrize("seed", range(40))
def test_random_copies_between_stages_cost_what_the_simulator_and_the_plain_model_count(seed: int) -> None:
    rng = np.random.default_rng(seed)
    stage = random_mesh(rng)
    longer = int(rng.integers(len(stage.axes)))
    whole = MeshShape(tuple((n, s * (3 if k == longer else 1)) for k, (n, s) in enumerate(stage.axes)))
    layout = StageLayout(whole, stage, 3)
    route, mesh = layout.route(0, int(rng.integers(1, 3))), mesh_of(whole).part(stage.axes)
    shape = random_shape(rng)
    made = [random_spec(rng, len(shape), stage, partial=True) for _ in range(4)]
    needed = [random_needed(rng, shape, stage) for _ in range(4)]
    table = copy_table(shape, BYTES, made, needed, mesh, stage, route)
    for m, source in enumerate(made):
        for n, wanted in enumerate(needed):
            plan = plan_copy(source, wanted, shape, stage, route)
            assert plan is not None
            counts = count_copy(plan, shape, stage, BYTES, by_class=False)
            plain = CopyCounter(plan, shape, BYTES, mesh).count()
            here = f"{source} to {wanted} of {shape} on {stage.axes} by {route}"
            staged, landed = np.split(counts.staging_bytes, 2)
            assert table.staging_bytes[table.staging_ids[m, n]].tolist() == staged.tolist(), here
            assert table.staging_bytes[table.landing_ids[m, n]].tolist() == landed.tolist(), here
            assert (plain.staging_bytes, plain.landing_bytes) == (staged.tolist(), landed.tolist()), here
            traffic = int(counts.received_bytes.sum())
            assert table.traffic_bytes[m, n] == traffic == plain.traffic_bytes, here
            assert table.ticks[m, n] == plain.ticks, here
            assert counts.link_bytes is not None and counts.link_bytes.sum() == traffic, here
            by_class = count_copy(plan, shape, stage, BYTES, by_class=True)
            assert by_class.received_bytes.tolist() == counts.received_bytes.tolist(), here
