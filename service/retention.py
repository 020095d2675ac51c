"""Retention: what has ended long ago, and what exceeds a size, is deleted; the oldest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tapestry.service.store import Deletions, InUse, Store, StoredSize, TenantStore, UnknownId


@dataclass(frozen=True)
class Retention:
    """The limits of what is kept: for so many seconds, and so many bytes of it at most; None: without end."""

    seconds: float | None = None
    size_bytes: int | None = None


@dataclass
class Collected:
    """The ids of batches, runs, graphs and imports that were deleted, or would be, and bytes: of these, and left."""

    batches: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    graphs: list[str] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)
    size_bytes: int = 0
    left_bytes: int = 0

    def to_json(self) -> dict[str, Any]:
        """Convert to a JSON document."""
        return {
            "batches": self.batches,
            "runs": self.runs,
            "graphs": self.graphs,
            "imports": self.imports,
            "size_bytes": self.size_bytes,
            "left_bytes": self.left_bytes,
        }


def collect(store: Store, kept: Retention, now: datetime, *, dry: bool = False) -> Collected:
    """Delete what is not to be kept of any tenant, or if `dry` only find it; what is in use in the meantime stays.

    A batch goes as a whole, with its runs. Graphs go by age only, once nothing needs them, and so do imports that have
    ended; the size is that of runs. Uploads that were abandoned go in any case.
    """
    found, views = Collected(), store.of_all()
    sizes = {run: size for view in views for run, size in view.deletions.run_sizes().items()}
    left = sum(sizes.values())
    until = None if kept.seconds is None else now - timedelta(seconds=kept.seconds)
    for deletions, kind, each in _by_age(views, sizes):
        is_old = until is not None and each.since < until
        if not is_old and (kept.size_bytes is None or left <= kept.size_bytes):
            continue
        try:
            if not dry and kind == "batch":
                deletions.batch(each.id, with_runs=True)
            elif not dry:
                deletions.run(each.id)
        except (InUse, UnknownId):
            continue
        (found.batches if kind == "batch" else found.runs).append(each.id)
        found.size_bytes += each.size_bytes
        left -= each.size_bytes
    if until is not None:
        for view in views:
            _collect_graphs(view, until, found, dry=dry)
            _collect_imports(view, until, found, dry=dry)
    for view in views:
        _collect_abandoned(view, now, found, dry=dry)
    found.left_bytes = left
    return found


def _by_age(
    views: Sequence[TenantStore], sizes: Mapping[str, int]
) -> Iterator[tuple[Deletions, str, StoredSize]]:
    """Yield ended batches and runs of no batch, the oldest first, with what deletes them."""
    found: list[tuple[Deletions, str, StoredSize]] = []
    for deletions in (view.deletions for view in views):
        found += [(deletions, "batch", each) for each in deletions.ended_batches(sizes)]
        found += [(deletions, "run", each) for each in deletions.ended_runs(sizes)]
    yield from sorted(found, key=lambda one: (one[2].since, one[2].id))


def _collect_graphs(store: TenantStore, until: datetime, found: Collected, *, dry: bool) -> None:
    """Delete old graphs that nothing needs, until none is left: one that was made from another goes before it."""
    while True:
        unused = [each for each in store.deletions.unused_graphs() if each.since < until]
        unused = [each for each in unused if each.id not in found.graphs]
        for each in unused:
            if not dry:
                try:
                    store.deletions.graph(each.id)
                except (InUse, UnknownId):
                    continue
            found.graphs.append(each.id)
            found.size_bytes += each.size_bytes
        if dry or not unused:
            return


def _collect_imports(store: TenantStore, until: datetime, found: Collected, *, dry: bool) -> None:
    """Delete imports that ended long ago; their content went when they ended."""
    for import_id in store.imports.ended_before(until):
        if not dry:
            try:
                store.imports.delete(import_id)
            except UnknownId:
                continue
        found.imports.append(import_id)


def _collect_abandoned(store: TenantStore, now: datetime, found: Collected, *, dry: bool) -> None:
    """Delete the content of uploads that were cut off as their process was killed."""
    for each in store.imports.abandoned(now):
        if not dry:
            store.imports.abandon(each.id)
        found.imports.append(each.id)
        found.size_bytes += each.size_bytes
