"""`/v1/imports`: uploaded programs that workers read, since they are large."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request, Response

from tapestry.service.api.answers import answer, revalidated
from tapestry.service.api.context import Context, Parts
from tapestry.service.api.models import ImportAnswer, ImportsAnswer
from tapestry.service.api.openapi_parts import KEPT, ImportId, PageCursor, PageLimit, problems
from tapestry.service.api.pages import cursor_of, read_cursor
from tapestry.service.api.preferences import Preferences
from tapestry.service.presentation import moment
from tapestry.service.store import StoredImport

router = APIRouter(prefix="/v1/imports", tags=["graphs"])

RETRY_AFTER_S = 1


def accepted(parts: Context, import_id: str, preferences: Preferences) -> Response:
    """Build the response for an upload that waits for a worker."""
    document = import_document(parts, parts.store.imports.get(import_id))
    headers = {"Location": document["links"]["self"], "Retry-After": str(RETRY_AFTER_S)}
    return answer(document, 202, headers | preferences.applied(parts.settings.limits.import_seconds))


@router.get("", response_model=ImportsAnswer, responses=KEPT | problems(422))
def list_imports(
    request: Request, parts: Parts, limit: PageLimit = 50, cursor: PageCursor = None
) -> Response:
    """List imports, newest first."""
    found = parts.store.imports.page(limit + 1, read_cursor(cursor))
    page = found[:limit]
    following = cursor_of(page[-1].created_at, page[-1].id) if len(found) > limit else None
    items = [import_document(parts, each) for each in page]
    return revalidated(request, {"items": items, "next": following})


@router.get("/{import_id}", response_model=ImportAnswer, responses=KEPT | problems(404))
def get_import(import_id: ImportId, request: Request, parts: Parts) -> Response:
    """Show the status of an import; once it has ended, its program, or what is wrong with what was uploaded."""
    return revalidated(request, import_document(parts, parts.store.imports.get(import_id)))


@router.post(
    "/{import_id}/cancel", status_code=202, response_model=ImportAnswer, responses=problems(404, 409)
)
def cancel_import(import_id: ImportId, parts: Parts) -> Response:
    """Request the end of an import: what was uploaded is deleted, and not read any further."""
    return answer(
        import_document(parts, parts.store.imports.request_cancel(import_id, datetime.now(UTC))), 202
    )


@router.delete("/{import_id}", status_code=204, responses=problems(404, 409), response_class=Response)
def delete_import(import_id: ImportId, parts: Parts) -> Response:
    """Delete an import that has ended; its program stays."""
    parts.store.imports.delete(import_id)
    return Response(status_code=204)


def import_document(parts: Context, found: StoredImport) -> dict[str, Any]:
    """Convert an import to JSON; one that waits has its place in the queue."""
    path = f"/v1/imports/{found.id}"
    graph = {} if found.graph_id is None else {"graph": f"/v1/graphs/{found.graph_id}"}
    waits = found.status == "queued"
    return {
        "id": found.id,
        "status": found.status,
        "name": found.name,
        "size_bytes": found.size_bytes,
        "attempt": found.attempt,
        "position": parts.all_tenants.waiting.position(found.id, "import") if waits else None,
        "graph_id": found.graph_id,
        "problem": None if found.problem is None else dict(found.problem),
        "cancel_requested": found.cancel_requested,
        "created_at": moment(found.created_at),
        "started_at": moment(found.started_at),
        "ended_at": moment(found.ended_at),
        "links": {"self": path, "cancel": f"{path}/cancel", **graph},
    }
