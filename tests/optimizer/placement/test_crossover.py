"""Tests of crossover: every decision of a child is that of one of its parents, by whole regions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tapestry.optimizer.archive.archive import Archive
from tapestry.optimizer.placement.crossover import cross
from tapestry.optimizer.placement.rng import new_rng
from tapestry.optimizer.placement.variation import hash_plan
from tapestry.optimizer.run.first_plans import insert_seeds
from tapestry.optimizer.run.variants import (
    Variant,
)
from tests.optimizer.run.test_variants import submesh, variant_of

CHILDREN = 200


@pytest.fixture(scope="module")
def variant() -> Variant:
    variant = variant_of("attention", submesh())
    list(insert_seeds(variant, None))
    return variant


def parts(archive: Archive, i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return archive.genes[i].copy(), archive.prefetch[i].copy(), archive.regather[i].copy()


def crossed(variant: Variant, parent: int, random_state: np.ndarray) -> tuple[tuple[np.ndarray, ...], int]:
    plan = parts(variant.archive, parent)
    digest = np.array([variant.archive.digest[parent]])
    cross(random_state, variant.space.space, variant.search, variant.archive, *plan, digest)
    return plan, int(digest[0])


def alone(archive: Archive, others: list[int]) -> Archive:
    """Return an archive with these members of a front."""
    fields = ("genes", "prefetch", "regather", "digest")
    kept = {name: getattr(archive, name)[others] for name in fields}
    return archive._replace(size=np.array([len(others), 0]), **kept)


def test_every_decision_is_that_of_a_parent(variant: Variant) -> None:
    random_state = new_rng(np.random.default_rng(0))
    archive, mixed = variant.archive, 0
    assert archive.size[0] > 2
    for k in range(CHILDREN):
        parent, other = k % int(archive.size[0]), (k + 1) % int(archive.size[0])
        pair = replace(variant, archive=alone(archive, [parent, other]))
        plan, digest = crossed(pair, 0, random_state)
        assert digest == int(hash_plan(*plan))
        for part, one, two in zip(plan, parts(archive, parent), parts(archive, other), strict=True):
            assert ((part == one) | (part == two)).all()
        own = [np.array_equal(plan[0], parts(archive, each)[0]) for each in (parent, other)]
        mixed += not any(own)
    assert mixed > CHILDREN // 5, "children differ from both parents"


def test_nothing_is_taken_where_there_is_no_front(variant: Variant) -> None:
    random_state = new_rng(np.random.default_rng(2))
    empty = replace(variant, archive=variant.archive._replace(size=np.array([0, 1])))
    plan, digest = crossed(empty, 0, random_state)
    assert digest == int(variant.archive.digest[0])
    assert np.array_equal(plan[0], variant.archive.genes[0])
