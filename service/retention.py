"""Retention: what has ended long ago, and what exceeds a size, is deleted; the oldest first."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tapestry.service.store import Deletions, InUse, Store, TenantStore, UnknownId


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
    ended; the size is that of runs, and where it is exceeded, the tenant that has most goes first. Uploads that were
    abandoned go in any case.
    """
    found, views = Collected(), store.of_all()
    until = None if kept.seconds is None else now - timedelta(seconds=kept.seconds)
    tenants = [_TenantRuns(view.deletions) for view in views]
    for tenant in tenants:
        while until is not None and tenant.ended and tenant.ended[0][1].since < until:
            tenant.delete_oldest(found, dry=dry)
    while kept.size_bytes is not None and sum(tenant.size_bytes for tenant in tenants) > kept.size_bytes:
        rich = max(
            (tenant for tenant in tenants if tenant.ended), key=lambda one: one.size_bytes, default=None
        )
        if rich is None:
            break
        rich.delete_oldest(found, dry=dry)
    if until is not None:
        for view in views:
            _collect_graphs(view, until, found, dry=dry)
            _collect_imports(view, until, found, dry=dry)
    for view in views:
        _collect_abandoned(view, now, found, dry=dry)
    found.left_bytes = sum(tenant.size_bytes for tenant in tenants)
    return found


class _TenantRuns:
    """The ended batches, and runs of no batch, of a tenant, the oldest first, and the bytes of all its runs."""

    def __init__(self, deletions: Deletions) -> None:
        self._deletions = deletions
        sizes = deletions.run_sizes()
        self.size_bytes = sum(sizes.values())
        ended = [("batch", each) for each in deletions.ended_batches(sizes)]
        ended += [("run", each) for each in deletions.ended_runs(sizes)]
        self.ended = deque(sorted(ended, key=lambda one: (one[1].since, one[1].id)))

    def delete_oldest(self, found: Collected, *, dry: bool) -> None:
        """Delete the oldest one, unless it is in use by now, and note it."""
        kind, each = self.ended.popleft()
        try:
            if not dry and kind == "batch":
                self._deletions.batch(each.id, with_runs=True)
            elif not dry:
                self._deletions.run(each.id)
        except (InUse, UnknownId):
            return
        (found.batches if kind == "batch" else found.runs).append(each.id)
        found.size_bytes += each.size_bytes
        self.size_bytes -= each.size_bytes


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
