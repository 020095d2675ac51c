"""Tests that plans know where they come from: seeds, the exact solver, earlier runs, or the search."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tapestry.costmodel.view import default_view
from tapestry.optimizer import Result
from tapestry.optimizer.archive.origin import EARLIER_RUN, EXACT, ORIGINS, SEARCH, SEED, PlanOrigin
from tapestry.optimizer.archive.report import plan_of
from tapestry.optimizer.placement.parallelism import parallelism
from tapestry.optimizer.run.checkpoint import MAGIC, Checkpoint
from tapestry.optimizer.run.first_plans import insert_abstract, insert_exact, insert_plans, insert_seeds
from tapestry.optimizer.run.parts import ALL_PARTS
from tapestry.optimizer.run.serialization import deserialize, serialize
from tapestry.optimizer.run.variants import SubMesh, Variant, empty_archive
from tapestry.optimizer.run.workers import InlineExecutor
from tapestry.teg.sharding.mesh_shape import MeshShape
from tests.optimizer.run.test_checkpoint import Watcher
from tests.optimizer.run.test_variants import submesh, variant_of
from tests.optimizer.searches import EIGHT, search


def kinds(result: Result) -> Counter[str]:
    return Counter(plan.origin.kind for plan in result.frontier if plan.origin is not None)


def on_one_device() -> SubMesh:
    shape = MeshShape(EIGHT.axis_sizes).part("gpu:1")
    return replace(submesh(), devices="gpu:1", mesh=EIGHT.part(shape.axes), view=default_view(shape))


def seeded() -> Variant:
    variant = variant_of("attention", submesh())
    list(insert_seeds(variant, None))
    return variant


@pytest.fixture(scope="module")
def first_plans() -> Result:
    """Return the frontier of the first plans."""
    return search(search=False)


@pytest.fixture(scope="module")
def found() -> Result:
    """Return the result of a short search."""
    return search(evaluations=6000)


def test_first_plans_without_a_search_are_seeds_and_exact_plans(first_plans: Result) -> None:
    assert {SEED, EXACT} <= kinds(first_plans).keys()
    assert EXACT not in kinds(search(search=False, parts=replace(ALL_PARTS, exact=False)))
    by_presearch = [plan for plan in first_plans.frontier if plan.origin == PlanOrigin(SEARCH)]
    assert {plan.placements.devices for plan in by_presearch} == {"gpu:1"}
    seeds = [plan for plan in first_plans.frontier if plan.origin is not None and plan.origin.kind == SEED]
    whole = MeshShape(EIGHT.axis_sizes)
    for plan in seeds:
        assert plan.origin is not None
        name = parallelism(plan.graph, plan.placements, whole.part(plan.placements.devices))
        assert plan.origin.name == name


def test_what_the_search_finds_is_its_own(first_plans: Result, found: Result) -> None:
    assert kinds(found)[SEARCH] > 0
    known = {plan.id: plan.origin for plan in first_plans.frontier}
    same = [(plan.origin, known[plan.id]) for plan in found.frontier if plan.id in known]
    assert same
    assert all(one == other for one, other in same), "a seed that stays on the frontier is still one"


def test_a_seed_that_was_lost_and_is_found_again_is_still_a_seed() -> None:
    variant = seeded()
    before = plan_of(variant, 0)
    genes = variant.archive.genes[:1].astype(np.int64)
    variant.archive = empty_archive(variant.submesh.goal, variant.space)
    assert insert_plans(variant, genes) == 1
    again = plan_of(variant, 0)
    assert (again.id, again.origin) == (before.id, before.origin)
    assert again.origin is not None
    assert again.origin.kind == SEED


def test_a_plan_that_is_a_seed_and_exact_is_a_seed() -> None:
    variant = seeded()
    before = dict(variant.origins)
    list(insert_exact(variant, None))
    assert {variant.origins[digest] for digest in before} == {SEED}
    assert set(variant.origins.values()) == {SEED, EXACT}


def test_only_plans_that_entered_are_noted() -> None:
    variant = seeded()
    archive = variant.archive
    assert len(variant.origins) < 512, "few of the seeds were ever in the archive"
    assert set(archive.digest[: int(archive.size[0])].tolist()) <= variant.origins.keys()


def test_on_one_device_the_plan_of_a_rewritten_program_is_no_seed() -> None:
    alone, given = (variant_of("attention", on_one_device()) for _ in range(2))
    list(insert_abstract(alone))
    assert plan_of(alone, 0).origin == PlanOrigin(SEARCH)
    list(insert_abstract(given, is_given=True))
    assert plan_of(given, 0).origin == PlanOrigin(SEED, "replicated")


def test_plans_of_an_earlier_run_are_known(found: Result) -> None:
    later = search(evaluations=3000, seed=1, start_from=found.frontier)
    assert kinds(later)[EARLIER_RUN] > 0
    ids = {plan.id for plan in found.frontier}
    planted = [plan for plan in later.frontier if plan.origin == PlanOrigin(EARLIER_RUN)]
    assert all(plan.id in ids for plan in planted)


@pytest.fixture(scope="module")
def saved() -> tuple[Result, bytes]:
    watcher = Watcher()
    options = {"seed": 2, "islands": 2, "evaluations": 20_000, "executor": InlineExecutor()}
    result = search(on_checkpoint=watcher, checkpoint_s=0, **options)
    assert len(watcher.snapshots) > 3
    return result, watcher.snapshots[2].checkpoint().to_bytes()


def test_a_resumed_search_knows_the_same(saved: tuple[Result, bytes]) -> None:
    result, content = saved
    watcher = Watcher()
    options = {"seed": 2, "islands": 2, "evaluations": 20_000, "executor": InlineExecutor()}
    resumed = search(resume=Checkpoint.from_bytes(content), on_checkpoint=watcher, **options)
    assert [(plan.id, plan.origin) for plan in resumed.frontier] == [
        (plan.id, plan.origin) for plan in result.frontier
    ]
    assert kinds(resumed)[SEARCH] and kinds(resumed)[SEED] + kinds(resumed)[EXACT]


def test_a_checkpoint_of_before_origins_were_kept_is_read(saved: tuple[Result, bytes]) -> None:
    header, arrays = deserialize(MAGIC, saved[1])
    for variant in header["variants"]:
        del variant["origins"]
    read = Checkpoint.from_bytes(serialize(MAGIC, header, arrays))
    assert all(variant.origins == {} for variant in read.variants)
    assert any(variant.origins for variant in Checkpoint.from_bytes(saved[1]).variants)


@pytest.mark.parametrize("kind", ORIGINS)
def test_an_origin_is_read_back(kind: str) -> None:
    origin = PlanOrigin(kind, "data parallel 8" if kind == SEED else "")
    assert PlanOrigin.from_json(origin.to_json()) == origin
    assert str(origin) == ("seed: data parallel 8" if kind == SEED else kind.replace("_", " "))
