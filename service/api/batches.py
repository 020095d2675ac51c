"""`/v1/batches`: runs of several programs on several meshes from several seeds, asked for together."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from tapestry.optimizer.run.options import RunOptions
from tapestry.service.api.answers import answer, revalidated
from tapestry.service.api.bodies import MeshDocument, Priority, RunBody
from tapestry.service.api.context import Context, Parts
from tapestry.service.api.idempotency import Key, idempotency, replayed
from tapestry.service.api.limits import body_of
from tapestry.service.api.models import Answer
from tapestry.service.api.openapi_parts import ACCEPTED, KEPT, BatchId, PageCursor, PageLimit, problems
from tapestry.service.api.option_models import LARGEST, RequestBody, Text, Whole, with_request_options
from tapestry.service.api.pages import cursor_of, read_cursor
from tapestry.service.api.priorities import check_priority
from tapestry.service.api.runs import checked_request
from tapestry.service.lifecycle import is_ended
from tapestry.service.presentation import moment
from tapestry.service.problems import problem
from tapestry.service.provenance import versions
from tapestry.service.requests import InvalidRequest, check_request
from tapestry.service.scheduling import USUAL
from tapestry.service.settings import Limits
from tapestry.service.store import AlreadyEnded, BatchStanding, NewBatchEntry, RunRequest, StoredBatch
from tapestry.teg.faults import Fault

router = APIRouter(prefix="/v1/batches", tags=["runs"])

MOST = 1000  # members of each list of a batch
MOST_ENTRIES = 10_000
OWN = ("graphs", "meshes", "seeds", "name", "fresh", "priority")
ONCE: dict[str, Any] = {"uniqueItems": True}
GraphId = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]


@with_request_options
class BatchBody(RequestBody):
    """A request for a run of every program on every mesh from every seed; the options are those of every run."""

    graphs: list[GraphId] = Field(
        description="the programs", min_length=1, max_length=MOST, json_schema_extra=ONCE
    )
    meshes: list[Text | MeshDocument] = Field(
        description="names or documents of meshes, as for a run",
        min_length=1,
        max_length=MOST,
        json_schema_extra=ONCE,
    )
    seeds: list[Annotated[int, Field(ge=0, le=LARGEST), Whole]] = Field(
        [0],
        description="seeds; `seed` itself does not count",
        min_length=1,
        max_length=MOST,
        json_schema_extra=ONCE,
    )
    name: Text = Field("", description="what people call it")
    fresh: bool = Field(False, description="search even where an equal request was answered before")
    priority: Priority = USUAL


class BatchEntryAnswer(Answer):
    """An entry of a batch: its run, or the problem because of which there is none."""

    number: int
    graph_id: str
    mesh: str
    seed: int
    run: str | None
    status: str
    problem: dict[str, Any] | None
    best: dict[str, float] = Field(description="the least value of each objective of the run so far")


class BatchAnswer(Answer):
    """A batch: how many of its entries stand how, and where more is."""

    id: str
    name: str
    count: int = Field(description="entries")
    statuses: dict[str, int] = Field(description="entries by status")
    best: dict[str, float] = Field(description="the least value of each objective over all runs so far")
    created_at: str
    links: dict[str, str]


class BatchDetailAnswer(BatchAnswer):
    """A batch with its entries, in order."""

    entries: list[BatchEntryAnswer]


class BatchesAnswer(Answer):
    """Batches, newest first."""

    items: list[BatchAnswer]
    next: str | None = Field(description="the cursor of the next page")


@router.post(
    "",
    status_code=202,
    response_model=BatchDetailAnswer,
    responses=ACCEPTED | problems(413, 415, 422, 429),
    dependencies=[body_of("application/json")],
)
def post_batch(body: BatchBody, request: Request, parts: Parts, key: Key = None) -> Response:
    """Submit a batch: a run for each program, mesh and seed, in this order; workers carry them out.

    An entry that cannot be carried out has its problem, and the others are queued all the same. Options with which no
    entry can be carried out are refused. Where an equal request was answered before, that run is taken; `fresh` asks
    for another search.
    """
    check_priority(request, body.priority)
    _check_lists(body)
    known = idempotency(key, "POST /v1/batches", body.model_dump(mode="json"))
    entries = _entries(body, parts)
    submitted = parts.store.batches.submit(
        body.name,
        entries,
        datetime.now(UTC),
        priority=body.priority,
        queue_limits=parts.queue_limits,
        idempotency=known,
        reusable=None if body.fresh else versions(),
    )
    document = _detail(parts, submitted.id)
    return answer(document, 202, {"Location": document["links"]["self"]} | replayed(submitted))


@router.get("", response_model=BatchesAnswer, responses=KEPT | problems(422))
def list_batches(
    request: Request, parts: Parts, limit: PageLimit = 50, cursor: PageCursor = None
) -> Response:
    """List batches, newest first, each with the status of its entries and the best values so far."""
    found = parts.store.batches.page(limit + 1, read_cursor(cursor))
    page = found[:limit]
    following = cursor_of(page[-1].created_at, page[-1].id) if len(found) > limit else None
    standings = parts.store.batches.standings([batch.id for batch in page])
    items = [_summary(batch, standings[batch.id]) for batch in page]
    return revalidated(request, {"items": items, "next": following})


@router.get("/{batch_id}", response_model=BatchDetailAnswer, responses=KEPT | problems(404))
def get_batch(batch_id: BatchId, request: Request, parts: Parts) -> Response:
    """Show a batch: its entries, their runs and status, and the best values so far."""
    return revalidated(request, _detail(parts, batch_id))


@router.post("/{batch_id}/cancel", status_code=202, response_model=BatchDetailAnswer, responses=problems(404))
def cancel_batch(batch_id: BatchId, parts: Parts) -> Response:
    """Request the end of all runs of a batch that have not ended; what they have found is kept."""
    parts.store.batches.get(batch_id)
    for entry in parts.store.batches.entries(batch_id):
        if entry.run_id is not None and not is_ended(entry.status):
            with suppress(AlreadyEnded):
                parts.store.runs.request_cancel(entry.run_id, datetime.now(UTC))
    return answer(_detail(parts, batch_id), 202)


@router.delete("/{batch_id}", status_code=204, responses=problems(404, 409, 422), response_class=Response)
def delete_batch(
    batch_id: BatchId,
    parts: Parts,
    runs: Annotated[
        bool, Query(description="delete its runs, too, but those that other batches name")
    ] = False,
) -> Response:
    """Delete a batch; its runs stay unless they are asked for, too."""
    parts.store.deletions.batch(batch_id, with_runs=runs)
    return Response(status_code=204)


def _check_lists(body: BatchBody) -> None:
    """Check that nothing is in a list twice, and that the lists make no more entries than a batch may have.

    Raises:
        InvalidRequest: they do not.
    """
    faults = []
    for name in ("graphs", "meshes", "seeds"):
        values = getattr(body, name)
        faults += [
            Fault(f"/{name}/{k}", "is there twice") for k, value in enumerate(values) if value in values[:k]
        ]
    count = len(body.graphs) * len(body.meshes) * len(body.seeds)
    if count > MOST_ENTRIES:
        faults.append(Fault("", f"these are {count:,} runs; at most {MOST_ENTRIES:,} make a batch"))
    if faults:
        raise InvalidRequest(faults)


def _entries(body: BatchBody, parts: Context) -> list[NewBatchEntry]:
    """Check all entries.

    Raises:
        InvalidRequest: every entry has the same faults in the options, which are those of the batch.
    """
    entries: list[NewBatchEntry] = []
    faults: list[tuple[Fault, ...]] = []
    check = _check_each_mesh_once()
    for graph_id, mesh in product(body.graphs, body.meshes):
        made, found = _entries_of(body, graph_id, mesh, parts, check)
        entries += made
        faults.append(found)
    common = [
        fault
        for fault in faults[0]
        if fault.pointer.split("/")[1] not in ("graph_id", "mesh")
        and all(fault in others for others in faults)
    ]
    if common:
        raise InvalidRequest(common)
    return entries


def _check_each_mesh_once() -> Callable[..., RunRequest]:
    """Build `check_request` for entries of one batch: their options are equal, so a mesh is checked for one of them."""
    found: dict[tuple[str, Sequence[str]], RunRequest | InvalidRequest] = {}

    def check(
        graph_id: str,
        mesh: str | Mapping[str, Any],
        options: RunOptions,
        limits: Limits,
        resources: Sequence[str],
    ) -> RunRequest:
        key = json.dumps(mesh, sort_keys=True), resources
        if key not in found:
            try:
                found[key] = check_request(graph_id, mesh, options, limits, resources)
            except InvalidRequest as error:
                found[key] = error
        known = found[key]
        if isinstance(known, InvalidRequest):
            raise InvalidRequest(known.faults)
        return replace(known, graph_id=graph_id)

    return check


def _entries_of(
    body: BatchBody,
    graph_id: str,
    mesh: str | dict[str, Any],
    parts: Context,
    check: Callable[..., RunRequest],
) -> tuple[list[NewBatchEntry], tuple[Fault, ...]]:
    """Check the entries of a program on a mesh as a request of their own: they differ in their seeds alone.

    Returns: the entries, and the faults because of which they have no runs.
    """
    options = body.model_dump(exclude={*OWN})
    run = RunBody.model_validate({**options, "graph_id": graph_id, "mesh": mesh, "seed": body.seeds[0]})
    name = mesh if isinstance(mesh, str) else str(mesh.get("name", ""))
    try:
        request = checked_request(run, parts, check)
    except InvalidRequest as error:
        reason = problem("invalid", "Invalid entry", str(error))
        return [NewBatchEntry(graph_id, name, seed, None, reason) for seed in body.seeds], error.faults
    made = [
        NewBatchEntry(
            request.graph_id,
            str(request.mesh["name"]),
            seed,
            replace(request, options=request.options.changed(seed=seed)),
        )
        for seed in body.seeds
    ]
    return made, ()


def _summary(batch: StoredBatch, standing: BatchStanding) -> dict[str, Any]:
    path = f"/v1/batches/{batch.id}"
    return {
        "id": batch.id,
        "name": batch.name,
        "count": batch.count,
        "statuses": dict(standing.statuses),
        "best": dict(standing.best),
        "created_at": moment(batch.created_at),
        "links": {"self": path, "cancel": f"{path}/cancel"},
    }


def _detail(parts: Context, batch_id: str) -> dict[str, Any]:
    batch, entries = parts.store.batches.get(batch_id), parts.store.batches.entries(batch_id)
    standing = parts.store.batches.standings([batch_id])[batch_id]
    best = parts.store.batches.best(batch_id)
    documents = [
        {
            "number": entry.number,
            "graph_id": entry.graph_id,
            "mesh": entry.mesh_name,
            "seed": entry.seed,
            "run": entry.run_id,
            "status": entry.status,
            "problem": None if entry.problem is None else dict(entry.problem),
            "best": best.get(entry.run_id or "", {}),
        }
        for entry in entries
    ]
    return {**_summary(batch, standing), "entries": documents}
