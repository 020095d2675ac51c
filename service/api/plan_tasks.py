"""Tasks of the pool about one stored plan: schedule, memory over time, alternatives of a block, sharding."""

from __future__ import annotations

from tapestry.costmodel.schedule import TooManySpans
from tapestry.hardware import Mesh
from tapestry.optimizer import Plan, canonicalize
from tapestry.optimizer.analysis.alternatives import UnknownBlock
from tapestry.optimizer.analysis.plan_traffic import plan_traffic
from tapestry.service.alternatives import alternatives_document
from tapestry.service.api.packing import GzippedDocument, gzipped_json
from tapestry.service.api.tasks import store_at
from tapestry.service.plan_memory import MemoryRefusal, memory_document
from tapestry.service.plan_schedules import (
    plan_schedule,
    schedule_document,
    schedule_trace,
)
from tapestry.service.plan_shardings import sharding_document
from tapestry.service.sharding_words import words_of
from tapestry.service.store import RunRequest, StoreAddress, TenantStore, mesh_of


def render_schedule(key: int, run_id: str, is_trace: bool, address: StoreAddress) -> GzippedDocument:
    """Predict when each block and copy of a plan runs; as a document, or as a trace for Perfetto."""
    plan, mesh, request = _loaded(key, run_id, store_at(address))
    try:
        found = plan_schedule(plan, mesh, request.options.compute_dtype)
    except TooManySpans as error:
        return GzippedDocument(refusal=str(error))
    write = schedule_trace if is_trace else schedule_document
    return GzippedDocument(gzipped_json(write(found)))


def render_memory(key: int, run_id: str, address: StoreAddress) -> GzippedDocument:
    """Count what lives in the memories of a plan's devices, slot by slot."""
    plan, mesh, request = _loaded(key, run_id, store_at(address))
    try:
        return GzippedDocument(gzipped_json(memory_document(plan, mesh, request.options.compute_dtype)))
    except MemoryRefusal as error:
        return GzippedDocument(refusal=str(error))


def render_alternatives(
    key: int, run_id: str, block: str, is_tied: bool, follow: str | None, address: StoreAddress
) -> GzippedDocument:
    """Cost the other strategies of a block of a plan; relative bounds are shares of the least values of its run."""
    store = store_at(address)
    plan, mesh, request = _loaded(key, run_id, store)
    program = canonicalize(store.graphs.load(request.graph_id))
    best: dict[str, float] = {}
    for other in store.runs.frontier(run_id):
        best |= {name: min(value, best.get(name, value)) for name, value in other.cost.items()}
    try:
        document = alternatives_document(plan, program, mesh, request.options, best, block, is_tied, follow)
    except UnknownBlock as error:
        return GzippedDocument(refusal=str(error))
    return GzippedDocument(gzipped_json(document))


def render_sharding(plan_id: str, address: StoreAddress) -> GzippedDocument:
    """Convert the sharding of a plan to columns and to words; refused is one that does not fit its mesh.

    Its costs are compared with those of the fastest feasible plan of its run's frontier.
    """
    store = store_at(address)
    stored = store.plans.get(plan_id)
    plan, mesh, request = _loaded(stored.key, stored.run_id, store)
    try:
        traffic = plan_traffic(plan.graph, plan.placements, mesh, request.options.compute_dtype)
    except ValueError as error:
        return GzippedDocument(refusal=" ".join(str(error).split()))
    feasible = [each for each in store.runs.frontier(stored.run_id) if each.feasible]
    fastest = min(feasible, key=lambda each: (each.cost["time_s"], each.id), default=None)
    compared = None if fastest is None or fastest.key == stored.key else fastest.cost
    document = {
        "plan": stored.public_id,
        "words": words_of(plan.placements, mesh.axis_sizes, traffic, stored.cost, compared),
        **sharding_document(plan.placements, mesh, traffic),
    }
    return GzippedDocument(gzipped_json(document))


def _loaded(key: int, run_id: str, store: TenantStore) -> tuple[Plan, Mesh, RunRequest]:
    request = store.runs.request(run_id)
    return store.plans.load(key), mesh_of(request.mesh), request
