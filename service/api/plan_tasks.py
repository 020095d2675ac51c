"""Tasks of the pool about one plan: its schedule, its memory over time, and the alternatives of a block.

Results are gzipped JSON.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from tapestry.costmodel.schedule import TooManySpans
from tapestry.hardware import Mesh
from tapestry.optimizer import Plan, canonicalize
from tapestry.optimizer.analysis.alternatives import UnknownBlock
from tapestry.service.alternatives import alternatives_document
from tapestry.service.api.tasks import GZIP_LEVEL, store_at
from tapestry.service.plan_memory import MemoryRefusal, memory_document
from tapestry.service.plan_schedules import (
    devices_per_stage,
    plan_schedule,
    schedule_document,
    schedule_trace,
)
from tapestry.service.store import RunRequest, StoreAddress, TenantStore, mesh_of


class Account(NamedTuple):
    """An account of a plan as gzipped JSON, or why there is none."""

    content: bytes = b""
    refusal: str = ""


def render_schedule(key: int, run_id: str, is_trace: bool, address: StoreAddress) -> Account:
    """Predict when each block and copy of a plan runs; as a document, or as a trace for Perfetto."""
    plan, mesh, request = _loaded(key, run_id, store_at(address))
    try:
        found = plan_schedule(plan, mesh, request.options.compute_dtype)
    except TooManySpans as error:
        return Account(refusal=str(error))
    write = schedule_trace if is_trace else schedule_document
    return Account(_packed(write(found, devices_per_stage(plan, mesh))))


def render_memory(key: int, run_id: str, address: StoreAddress) -> Account:
    """Count what lives in the memories of a plan's devices, slot by slot."""
    plan, mesh, request = _loaded(key, run_id, store_at(address))
    try:
        return Account(_packed(memory_document(plan, mesh, request.options.compute_dtype)))
    except MemoryRefusal as error:
        return Account(refusal=str(error))


def render_alternatives(
    key: int,
    run_id: str,
    block: str,
    is_tied: bool,
    follow: str | None,
    best: Mapping[str, float],
    address: StoreAddress,
) -> Account:
    """Cost the other strategies of a block of a plan."""
    store = store_at(address)
    plan, mesh, request = _loaded(key, run_id, store)
    program = canonicalize(store.graphs.load(request.graph_id))
    try:
        document = alternatives_document(plan, program, mesh, request.options, best, block, is_tied, follow)
    except UnknownBlock as error:
        return Account(refusal=str(error))
    return Account(_packed(document))


def _loaded(key: int, run_id: str, store: TenantStore) -> tuple[Plan, Mesh, RunRequest]:
    request = store.runs.request(run_id)
    return store.plans.load(key), mesh_of(request.mesh), request


def _packed(document: Mapping[str, Any]) -> bytes:
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return gzip.compress(text.encode(), GZIP_LEVEL, mtime=0)
