"""Tasks of the pool that rewrite stored programs. Plain values in and out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from tapestry.rewrites.preparation import prepared
from tapestry.service.api.tasks import store_at
from tapestry.service.graphs import summarize
from tapestry.service.requests import InvalidRequest
from tapestry.service.rewriting import RewriteRequest, listing, rewritten, stage_documents
from tapestry.service.store import Rewriting, StoreAddress
from tapestry.teg.faults import Fault
from tapestry.teg.flops import graph_flops
from tapestry.teg.graph import Graph


@dataclass(frozen=True)
class RewriteResult:
    """The result of a rewrite: ids of the programs, with a report; or the reasons why nothing was done."""

    id: str = ""
    before: str | None = None
    is_new: bool = False
    report: Mapping[str, Any] | None = None
    faults: tuple[Fault, ...] = ()
    is_too_large: bool = False


def list_moves(
    graph_id: str, request: RewriteRequest, first: int, limit: int, address: StoreAddress
) -> tuple[dict[str, Any], tuple[Fault, ...]]:
    """Return a page of the candidate moves of a program, or the reasons why there is none."""
    try:
        return listing(store_at(address).graphs.load(graph_id), request, first, limit), ()
    except InvalidRequest as error:
        return {}, error.faults


def rewrite(
    graph_id: str, request: RewriteRequest, name: str | None, address: StoreAddress, most_blocks: int
) -> RewriteResult:
    """Rewrite a program and store the result with its derivation."""
    store = store_at(address)
    given = store.graphs.load(graph_id)
    try:
        done = rewritten(given, request)
    except InvalidRequest as error:
        return RewriteResult(faults=error.faults)
    if len(done.graph.blocks) > most_blocks:
        message = f"the rewritten program has {len(done.graph.blocks):,} blocks; at most {most_blocks:,} are kept here"
        return RewriteResult(faults=(Fault("", message),), is_too_large=True)
    graph = done.graph if name is None else replace(done.graph, name=name)
    moves = [move.to_json() for move in done.moves]
    now = datetime.now(UTC)

    def keep(part: Graph, called: str) -> tuple[str, bool]:
        made = Rewriting(graph_id, called, moves, now)
        saved = store.graphs.save_rewritten(part, made, summarize(part).to_json())
        return saved.id, saved.is_new

    parts = prepared(graph) if request.prepare else None
    before = None if parts is None else keep(parts.before, "before")[0]
    kept, is_new = keep(graph, "") if parts is None else keep(parts.program, "program")
    after = graph if parts is None else parts.program
    report = {
        "blocks": {"before": len(given.blocks), "after": len(after.blocks)},
        "flops": {"before": graph_flops(given), "after": graph_flops(after)},
        "stages": stage_documents(done),
    }
    return RewriteResult(kept, before, is_new, report)
