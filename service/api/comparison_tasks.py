"""Tasks of the pool that compare stored runs, or plans. Results are gzipped JSON."""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.service.api.packing import gzipped_json
from tapestry.service.api.tasks import store_at
from tapestry.service.plan_comparison import plan_comparison_document
from tapestry.service.run_comparison import run_comparison_document
from tapestry.service.store import StoreAddress


def compare_runs(run_ids: Sequence[str], address: StoreAddress) -> bytes:
    """Compare stored runs."""
    return gzipped_json(run_comparison_document(store_at(address), run_ids))


def compare_plans(plan_ids: Sequence[str], address: StoreAddress) -> bytes:
    """Compare stored plans."""
    return gzipped_json(plan_comparison_document(store_at(address), plan_ids))
