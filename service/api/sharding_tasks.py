"""Tasks of the pool that count what plans move, and convert their shardings to columns. Results are gzipped JSON."""

from __future__ import annotations

import gzip
import json

from tapestry.optimizer.analysis.plan_traffic import plan_traffic
from tapestry.service.api.tasks import GZIP_LEVEL, store_at
from tapestry.service.plan_shardings import sharding_document
from tapestry.service.sharding_words import words_of
from tapestry.service.store import StoreAddress, mesh_of


def describe_sharding(plan_id: str, address: StoreAddress) -> tuple[bytes, str]:
    """Convert the sharding of a plan to columns, and describe it in words; or return why it does not fit its mesh.

    Its costs are compared with those of the fastest feasible plan of its run's frontier.
    """
    store = store_at(address)
    plan = store.plans.get(plan_id)
    request = store.runs.request(plan.run_id)
    found, mesh = store.plans.load(plan.key), mesh_of(request.mesh)
    try:
        traffic = plan_traffic(found.graph, found.placements, mesh, request.options.compute_dtype)
    except ValueError as error:
        return b"", " ".join(str(error).split())
    feasible = [each for each in store.runs.frontier(plan.run_id) if each.feasible]
    fastest = min(feasible, key=lambda each: (each.cost["time_s"], each.id), default=None)
    compared = None if fastest is None or fastest.key == plan.key else fastest.cost
    document = {
        "plan": plan.public_id,
        "words": words_of(found.placements, mesh.axis_sizes, traffic, plan.cost, compared),
        **sharding_document(found.placements, mesh, traffic),
    }
    content = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return gzip.compress(content.encode(), GZIP_LEVEL, mtime=0), ""
