"""The task of the pool that stores a program in another precision. Plain values in and out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tapestry.rewrites.storage_precision import StoragePrecisionError, stored_in
from tapestry.service.api.tasks import store_at
from tapestry.service.graphs import summarize
from tapestry.service.storage import storage_document
from tapestry.service.store import StoreAddress
from tapestry.teg.faults import Fault


@dataclass(frozen=True)
class PrecisionResult:
    """The id of a program in another precision, with its error; or the reasons why there is none."""

    id: str = ""
    is_new: bool = False
    stored: Mapping[str, Any] | None = None
    faults: tuple[Fault, ...] = ()
    is_too_large: bool = False


def store_in_precision(
    graph_id: str, dtype: str, address: StoreAddress, most_blocks: int, compares: bool = True
) -> PrecisionResult:
    """Store a program in another precision, and compare the two."""
    store = store_at(address)
    given = store.graphs.load(graph_id)
    try:
        graph = stored_in(given, dtype)
    except StoragePrecisionError as error:
        return PrecisionResult(faults=(Fault("", str(error)),))
    if len(graph.blocks) > most_blocks:
        message = (
            f"with casts the program has {len(graph.blocks):,} blocks; at most {most_blocks:,} are kept here"
        )
        return PrecisionResult(faults=(Fault("", message),), is_too_large=True)
    saved = store.graphs.save(graph, datetime.now(UTC), summarize(graph).to_json())
    stored = storage_document(given, graph, dtype) if compares else None
    return PrecisionResult(saved.id, saved.is_new, stored)
