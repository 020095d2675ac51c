"""Rows of archives: those in use, and what an epoch has changed of them, so that no more than that travels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tapestry.optimizer.archive.archive import Archive

FRONT_FIELDS = ("value", "box", "raw", "genes", "prefetch", "regather", "digest", "weight", "trail")
POOL_FIELDS = tuple(name for name in Archive._fields if name.startswith("pool_"))
# A pool is measured anew whenever a relative bound tightens: its violations travel in any case.
POOL_PLANS = tuple(name for name in POOL_FIELDS if name != "pool_violation")


def used_rows(archive: Archive, *, copied: bool = True) -> Archive:
    """Return an archive without its unused rows: as a copy, or as views of its arrays."""
    front, pool = (int(n) for n in archive.size)
    rows = {name: getattr(archive, name)[:front] for name in FRONT_FIELDS}
    rows |= {name: getattr(archive, name)[:pool] for name in POOL_FIELDS}
    kept = Archive(size=archive.size, **rows)
    return Archive(*(array.copy() for array in kept)) if copied else kept


def with_capacity(rows: Archive, front: int, pool: int) -> Archive:
    """Return a copy of an archive that has room for so many plans in its front and its pool."""
    arrays = {"size": rows.size.copy()}
    for names, capacity in ((FRONT_FIELDS, front), (POOL_FIELDS, pool)):
        for name in names:
            used = getattr(rows, name)
            arrays[name] = np.zeros((capacity, *used.shape[1:]), used.dtype)
            arrays[name][: len(used)] = used
    return Archive(**arrays)


@dataclass(frozen=True)
class ArchiveChange:
    """The difference of two archives: the new plans, and where all plans of the later one come from.

    `front_from` `(n,)` and `pool_from` `(p,)` number, in the order of the later archive, the rows of the earlier
    one, -1 for a new plan. Plans that it does not number have left. `rows` are the fields of the new plans;
    `violation` `(p,)` is that of the whole pool.
    """

    front_from: np.ndarray
    pool_from: np.ndarray
    violation: np.ndarray
    rows: Mapping[str, np.ndarray]

    @property
    def entered(self) -> int:
        """The number of new plans, in the front and the pool together."""
        return int((self.front_from < 0).sum() + (self.pool_from < 0).sum())

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return sum(a.nbytes for a in (self.front_from, self.pool_from, self.violation, *self.rows.values()))


def change_of(before: Archive, after: Archive) -> ArchiveChange:
    """Return what must be known beside `before` to rebuild the used rows of `after`, bit for bit."""
    front = _origins(before, after, FRONT_FIELDS, "digest", 0)
    pool = _origins(before, after, POOL_PLANS, "pool_digest", 1)
    rows = {name: getattr(after, name)[: len(front)][front < 0] for name in FRONT_FIELDS}
    rows |= {name: getattr(after, name)[: len(pool)][pool < 0] for name in POOL_PLANS}
    return ArchiveChange(front, pool, after.pool_violation[: len(pool)].copy(), rows)


def _origins(before: Archive, after: Archive, names: Sequence[str], digest: str, which: int) -> np.ndarray:
    """Find for each plan of `after` the equal row of `before`, -1 where there is none; `(n,)`."""
    known, count = int(before.size[which]), int(after.size[which])
    row_of = {int(value): row for row, value in enumerate(getattr(before, digest)[:known])}
    found = [row_of.get(int(value), -1) for value in getattr(after, digest)[:count]]
    origins = np.array(found, dtype=np.int32)
    candidates = np.flatnonzero(origins >= 0)
    equal = np.ones(len(candidates), dtype=np.bool_)
    for name in names:
        old, new = getattr(before, name)[origins[candidates]], getattr(after, name)[candidates]
        equal &= (old == new).all(axis=tuple(range(1, old.ndim)))
    origins[candidates[~equal]] = -1
    return origins


def changed(before: Archive, change: ArchiveChange) -> Archive:
    """Rebuild the archive, without unused rows, that `change_of` compared with `before`.

    Raises:
        ValueError: the change is none of this archive: it numbers rows that `before` does not have.
    """
    arrays = {
        "size": np.array([len(change.front_from), len(change.pool_from)], dtype=np.int64),
        "pool_violation": change.violation.copy(),
    }
    origins = ((FRONT_FIELDS, change.front_from, 0), (POOL_PLANS, change.pool_from, 1))
    for names, origin, which in origins:
        if len(origin) and int(origin.max()) >= int(before.size[which]):
            raise ValueError(f"the change is of an archive with more than {int(before.size[which])} rows")
        for name in names:
            old = getattr(before, name)
            arrays[name] = np.zeros((len(origin), *old.shape[1:]), old.dtype)
            arrays[name][origin >= 0] = old[origin[origin >= 0]]
            arrays[name][origin < 0] = change.rows[name]
    return Archive(**arrays)
