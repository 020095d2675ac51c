"""Tests of predicted schedules: they have what the expanded program has, and end when the plan does."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tapestry.costmodel.kernel_arrays import TIME, TRAFFIC
from tapestry.costmodel.plan_space import Genes, PlanSpace
from tapestry.costmodel.schedule import Schedule, TooManySpans, schedule
from tapestry.hardware import load_mesh
from tapestry.optimizer.analysis.plan_costs import PlanCosts
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tests.cases import first
from tests.costmodel.offloaded import offloaded_training
from tests.costmodel.programs import GRAPHS, random_genes
from tests.costmodel.test_offload import with_host
from tests.teg.sharding.looped import in_rounds, training
from tests.teg.sharding.pipelined import drawn

MANY = 10**6


def check(space: PlanSpace, genes: Genes, program: ExplicitGraph) -> Schedule:
    found, cost = schedule(space, genes, MANY), space.evaluate(genes)
    start, end, what = found.start_ticks, found.end_ticks, found.what
    assert found.makespan_ticks == cost[TIME]
    blocks = [(found.blocks[k].site, int(n)) for k, n in zip(what, found.round, strict=True) if k >= 0]
    assert blocks == [(slot.step.site, slot.step.round) for slot in program.slots]
    copies = Counter(found.copies[-1 - k].tensor for k in what if k < 0)
    # A copy of parts that are alike already moves nothing, and is left out.
    assert copies <= Counter(program.buffers[c.source].tensor for slot in program.slots for c in slot.issued)
    assert sum(found.copies[-1 - k].traffic_bytes for k in what if k < 0) == cost[TRAFFIC]
    path = found.critical
    assert (start[path[1:]] == end[path[:-1]]).all()
    assert (end - start)[path].sum() == cost[TIME]
    for wait in found.waits:
        assert min(wait) >= 0
        assert sum(wait) == cost[TIME]
    return found


@pytest.mark.parametrize("name", first(2, list(GRAPHS)))
def test_a_schedule_has_all_blocks_and_copies_and_ends_with_the_plan(name: str) -> None:
    space, rng = PlanSpace(GRAPHS[name](), load_mesh("2x-dgx-h100")), np.random.default_rng(3)
    for genes in (space.abstract_genes(), *(random_genes(rng, space) for _ in range(5))):
        program = expand(space.graph, space.placements(genes), space.mesh_shape)
        found = check(space, genes, program)
        assert all(wait.stages_ticks == 0 for wait in found.waits)


def test_a_schedule_in_rounds_has_every_round() -> None:
    space, rng = PlanSpace(training(24), load_mesh("dgx-h100"), rounds=in_rounds(3)), np.random.default_rng(4)
    for genes in (random_genes(rng, space) for _ in range(5)):
        program = expand(space.graph, space.placements(genes), space.mesh_shape)
        assert set(check(space, genes, program).round) == {0, 1, 2}


@pytest.mark.parametrize("seed", range(6))
def test_a_schedule_in_stages_has_every_turn_and_its_bubbles(seed: int) -> None:
    case = drawn(seed, state=seed % 2 == 1)
    costs = PlanCosts(case.mesh)
    space = costs.space(case.graph, [case.placements])
    program = expand(case.graph, case.placements, MeshShape(case.mesh.axis_sizes))
    found = check(space, space.genes_of(case.placements), program)
    assert len(found.waits) == space.space.stage_count


def test_copies_to_the_host_have_a_queue_of_their_own() -> None:
    mesh = with_host(load_mesh("dgx-h100"))
    space, rng = PlanSpace(offloaded_training(96, state=True), mesh), np.random.default_rng(5)
    named, kinds = set(), set()
    for genes in (random_genes(rng, space) for _ in range(5)):
        program = expand(space.graph, space.placements(genes), space.mesh_shape)
        found = check(space, genes, program)
        named |= {found.queue_names[q] for copy in found.copies for q in copy.queues}
        kinds |= {copy.kind for copy in found.copies}
    assert kinds >= {"to the host", "from the host"}
    assert named == {"communication", "to the host", "from the host"}


def test_a_long_schedule_is_refused_with_its_length() -> None:
    space = PlanSpace(GRAPHS["attention"](), load_mesh("dgx-h100"))
    genes = space.abstract_genes()
    spans = len(schedule(space, genes, MANY).what)
    with pytest.raises(TooManySpans, match=f"up to {spans} blocks and copies; at most {spans - 1} are"):
        schedule(space, genes, spans - 1)
