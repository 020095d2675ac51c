"""Tests that an archive is rebuilt, bit for bit, from an earlier one and what has changed."""

from __future__ import annotations

import numpy as np
import pytest

from tapestry.optimizer.archive.archive import Archive
from tapestry.optimizer.archive.rows import ArchiveChange, change_of, changed, used_rows, with_capacity
from tests.cases import examples
from tests.optimizer.archive.archives import empty, insert_points, insert_violating, random_points

CAPACITY, POOL = 64, 8


def copied(archive: Archive) -> Archive:
    return Archive(*(array.copy() for array in archive))


def equal(one: Archive, other: Archive) -> bool:
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def filled(rng: np.random.Generator, count: int, objectives: int = 3) -> Archive:
    archive = empty(objectives, CAPACITY, POOL)
    insert_points(archive, random_points(rng, count, objectives))
    for violation in rng.random(int(rng.integers(1, 2 * POOL))):
        insert_violating(archive, float(violation), int(rng.integers(100, 30_000)))
    return archive


def grown(archive: Archive, rng: np.random.Generator) -> Archive:
    """Return an archive after an epoch: better plans entered, others left, the pool was measured anew."""
    later = copied(archive)
    later.weight[: int(rng.integers(1, 4))] = 0.5
    points = random_points(rng, 40, archive.value.shape[1]) * rng.uniform(0.7, 1.0)
    insert_points(later, points)
    later.pool_violation[:] *= 0.9
    insert_violating(later, 0.01, 31_000)
    return later


@pytest.mark.parametrize("seed", range(examples(20)))
def test_a_change_rebuilds_the_later_archive(seed: int) -> None:
    rng = np.random.default_rng(seed)
    before = filled(rng, int(rng.integers(2, 200)))
    after = grown(before, rng)
    sent = used_rows(before, copied=False)
    change = change_of(sent, after)
    assert equal(changed(sent, change), used_rows(after))


def test_only_what_is_new_is_in_a_change() -> None:
    before = filled(np.random.default_rng(1), 300)
    same = change_of(used_rows(before), before)
    assert same.entered == 0
    assert same.front_from.tolist() == list(range(int(before.size[0])))
    assert all(len(rows) == 0 for rows in same.rows.values())

    after = copied(before)
    assert insert_points(after, np.full((1, 3), 1e-3)) == [True]
    change = change_of(used_rows(before), after)
    assert change.entered == 1
    assert len(change.rows["genes"]) == 1
    assert change.nbytes < sum(a.nbytes for a in used_rows(before)) / 4


def test_plans_with_one_digest_and_other_values_are_new() -> None:
    before = filled(np.random.default_rng(2), 50)
    after = copied(before)
    after.value[0] *= 0.5
    change = change_of(used_rows(before), after)
    assert change.front_from[0] == -1
    assert equal(changed(used_rows(before), change), used_rows(after))


def test_an_empty_archive_has_changes_too() -> None:
    nothing, after = empty(3, CAPACITY, POOL), filled(np.random.default_rng(3), 20)
    assert equal(changed(used_rows(nothing), change_of(used_rows(nothing), after)), used_rows(after))
    assert equal(changed(used_rows(after), change_of(used_rows(after), nothing)), used_rows(nothing))


def test_rows_that_are_used_fit_into_any_room() -> None:
    archive = filled(np.random.default_rng(4), 60)
    roomy = with_capacity(used_rows(archive, copied=False), 100, 30)
    assert (len(roomy.value), len(roomy.pool_genes)) == (100, 30)
    assert equal(used_rows(roomy), used_rows(archive))
    roomy.value[:] = 0.0
    assert archive.value[: int(archive.size[0])].any(), "a copy was changed, not the archive"


def test_a_change_of_another_archive_is_refused() -> None:
    small, large = (filled(np.random.default_rng(5), count) for count in (2, 300))
    change = change_of(used_rows(large), large)
    with pytest.raises(ValueError, match="more than"):
        changed(used_rows(small), ArchiveChange(change.front_from, *_pool(change)))


def _pool(change: ArchiveChange) -> tuple:
    return change.pool_from, change.violation, change.rows
