"""`/v1/runs`: lists of runs, and by what they can be filtered."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from tapestry.service.api.answers import revalidated
from tapestry.service.api.context import Parts
from tapestry.service.api.openapi_parts import KEPT, PRINTABLE, PageLimit, Printable, SortedCursor, problems
from tapestry.service.api.pages import read_sorted_cursor, sorted_cursor_of
from tapestry.service.api.run_models import RunLabelsAnswer, RunsAnswer
from tapestry.service.api.runs import run_document
from tapestry.service.lifecycle import Status
from tapestry.service.run_orders import Sort
from tapestry.service.store import RunOrder

router = APIRouter(prefix="/v1/runs", tags=["runs"])


@router.get("", response_model=RunsAnswer, responses=KEPT | problems(422))
def list_runs(
    request: Request,
    parts: Parts,
    limit: PageLimit = 50,
    cursor: SortedCursor = None,
    sort: Annotated[
        Sort,
        Query(
            description="what the runs are sorted by, ascending, or descending with `-`; `time` and `memory` are the "
            "least of their plans, and runs without a plan come last"
        ),
    ] = "-created",
    q: Annotated[
        str | None,
        Query(
            max_length=200,
            description="only runs with each of these words in the name of program or mesh, the id, a tag or the notes",
            json_schema_extra=dict(PRINTABLE),
        ),
        Printable,
    ] = None,
    status: Annotated[Status | None, Query(description="only runs that stand so")] = None,
    graph_id: Annotated[
        str | None,
        Query(max_length=64, description="only runs of this graph", json_schema_extra=dict(PRINTABLE)),
        Printable,
    ] = None,
    mesh: Annotated[
        str | None,
        Query(max_length=200, description="only runs on a mesh called so", json_schema_extra=dict(PRINTABLE)),
        Printable,
    ] = None,
    tag: Annotated[
        str | None,
        Query(max_length=200, description="only runs with this tag", json_schema_extra=dict(PRINTABLE)),
        Printable,
    ] = None,
    batch: Annotated[
        str | None,
        Query(max_length=64, description="only runs of this batch", json_schema_extra=dict(PRINTABLE)),
        Printable,
    ] = None,
) -> Response:
    """List runs, newest first unless `sort` says otherwise: with their best values and how their hypervolume grew."""
    order = RunOrder.of(sort)
    found = parts.store.runs.page(
        limit + 1,
        read_sorted_cursor(cursor, order),
        order=order,
        search=q,
        status=status,
        graph_id=graph_id,
        mesh=mesh,
        tag=tag,
        batch=batch,
    )
    page = found[:limit]
    following = sorted_cursor_of(order, page[-1]) if len(found) > limit else None
    return revalidated(request, {"items": [run_document(run) for run in page], "next": following})


@router.get("/labels", response_model=RunLabelsAnswer, responses=KEPT | problems())
def get_run_labels(request: Request, parts: Parts) -> Response:
    """Show by which tags and meshes the list of runs can be filtered, each with the number of its runs."""
    found = {"tags": parts.store.runs.tags(), "meshes": parts.store.runs.meshes()}
    return revalidated(request, found)
