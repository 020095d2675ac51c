"""`/v1/runs`: searches are submitted, listed, inspected and cancelled. Workers do them."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request, Response

from tapestry.costmodel.known_objectives import objective_called
from tapestry.optimizer.run.options import AUTO, names_snapshot
from tapestry.service.api import tasks
from tapestry.service.api.answers import answer, revalidated, tagged
from tapestry.service.api.bodies import RunBody, RunChangeBody, stored_resources
from tapestry.service.api.context import Context, Parts
from tapestry.service.api.idempotency import Key, idempotency, replayed
from tapestry.service.api.kept_answers import FRONTIER, RUN
from tapestry.service.api.limits import body_of
from tapestry.service.api.openapi_parts import (
    ACCEPTED,
    KEPT,
    LOCATION,
    REPLAYED,
    Answers,
    RunId,
    json_answer,
    problems,
)
from tapestry.service.api.plan_models import FrontierAnswer
from tapestry.service.api.precisions import graph_in_precision
from tapestry.service.api.priorities import check_priority
from tapestry.service.api.run_models import (
    RunAnswer,
    RunDetailAnswer,
    SubmittedRunAnswer,
)
from tapestry.service.api.task_pool import TooSlow
from tapestry.service.leads import with_leads
from tapestry.service.lifecycle import is_ended
from tapestry.service.presentation import (
    moment,
    objective_document,
    options_document,
    queue_document,
    shown_plan_document,
)
from tapestry.service.provenance import versions
from tapestry.service.related import named_runs
from tapestry.service.requests import InvalidRequest, check_request, is_named
from tapestry.service.store import ALIVE_S, RunRequest, RunSummary, StoreError, UnknownId
from tapestry.service.verdicts import count_verdicts, unchecked_reason
from tapestry.teg.faults import Fault

router = APIRouter(prefix="/v1/runs", tags=["runs"])

CHECK_S = 5.0  # for what a run asks of its program
MESH = {
    "name": "pair",
    "device": {"name": "h100-sxm"},
    "axes": [{"name": "gpu", "size": 2}],
}
REUSED: Answers = {
    200: {
        "model": SubmittedRunAnswer,
        "description": "A run that has answered an equal request",
        "headers": LOCATION | REPLAYED,
    }
}


@router.post(
    "",
    status_code=202,
    response_model=SubmittedRunAnswer,
    responses=ACCEPTED | REUSED | problems(413, 415, 422, 429),
    dependencies=[body_of("application/json")],
)
def post_run(body: RunBody, request: Request, parts: Parts, key: Key = None) -> Response:
    """Submit a search; a worker carries it out. The Location header is the address of the run.

    Where an equal request was answered before, that run is returned; `fresh` asks for another search.
    """
    check_priority(request, body.priority)
    known = idempotency(key, "POST /v1/runs", body.model_dump(mode="json"))
    submitted = parts.store.runs.submit(
        checked_request(body, parts),
        datetime.now(UTC),
        priority=body.priority,
        queue_limits=parts.queue_limits,
        idempotency=known,
        reusable=None if body.fresh else versions(),
    )
    run = parts.store.runs.get(submitted.id)
    links = _links(run.id)
    headers = {"Location": links["self"]} | replayed(submitted)
    is_reused = run.created_at < submitted.requested_at
    document = {"id": run.id, "status": run.status, "reused": is_reused, "links": links}
    return answer(document, 200 if is_reused else 202, headers)


@router.get("/{run_id}", response_model=RunDetailAnswer, responses=KEPT | problems(404))
async def get_run(run_id: RunId, request: Request, parts: Parts) -> Response:
    """Show a run: its status, place in the queue, history, rule statistics, proven bounds and environment."""
    found = await parts.answers.get(RUN, (parts.store.tenant, run_id), lambda run_id: _detail(parts, run_id))
    return tagged(request, found.content, found.tag, gzipped=found.gzipped)


@router.get(
    "/{run_id}/mesh",
    response_class=Response,
    responses=json_answer("The mesh as the run has it, its device written out", MESH) | problems(404),
)
def get_run_mesh(run_id: RunId, request: Request, parts: Parts) -> Response:
    """Show the mesh of a run with all its figures, as it was when the run was submitted; it never changes."""
    return revalidated(request, parts.store.runs.mesh(run_id))


@router.get("/{run_id}/frontier", response_model=FrontierAnswer, responses=KEPT | problems(404))
async def get_frontier(run_id: RunId, request: Request, parts: Parts) -> Response:
    """Show the plans that a run has found, at any time; a plan is replaced only by one no worse in anything."""
    found = await parts.answers.get(
        FRONTIER, (parts.store.tenant, run_id), lambda run_id: _frontier(parts, run_id)
    )
    return tagged(request, found.content, found.tag, gzipped=found.gzipped)


def _detail(parts: Context, run_id: str) -> dict[str, Any]:
    found = parts.store.runs.details(run_id)
    return run_document(found.summary) | {
        "queue": _queue_document(parts, found.summary),
        "mesh_hash": _hash_of(found.mesh),
        "mesh_is_named": is_named(found.summary.mesh_name, found.summary.options, found.mesh),
        "options": options_document(found.summary.options),
        "request": found.summary.options.to_request(),
        "history": [dict(point) for point in found.history],
        "rule_statistics": {r: {"applied": a, "improved": i} for r, (a, i) in found.rules.items()},
        "refused_rules": [dict(refusal) for refusal in found.refused],
        "bounds": {name: dict(bound) for name, bound in found.bounds.items()},
        "expected": dict(found.expected),
        "versions": dict(found.versions),
        "host": dict(found.host),
        "timings": dict(found.timings),
    }


def _queue_document(parts: Context, run: RunSummary) -> dict[str, Any] | None:
    """Convert the place of a run that waits to JSON; None for one that does not."""
    if run.status != "queued":
        return None
    store = parts.all_tenants
    workers = len(store.workers.alive(ALIVE_S))
    return queue_document(store.waiting.place(run.id, parts.store.tenant, datetime.now(UTC), workers))


def _hash_of(mesh: Mapping[str, Any]) -> str:
    """Return a hash of all figures of a mesh."""
    return hashlib.sha256(json.dumps(mesh, sort_keys=True).encode()).hexdigest()[:32]


def _frontier(parts: Context, run_id: str) -> dict[str, Any]:
    run, plans = parts.store.runs.get(run_id), parts.store.runs.frontier(run_id)
    checks = count_verdicts(plan.verified for plan in plans)
    return {
        "run": run.id,
        "status": run.status,
        "checks": checks,
        "unchecked_because": unchecked_reason(
            run.options, run.stopped if is_ended(run.status) else "", checks
        ),
        "objectives": [objective_document(objective_called(name)) for name in run.options.objectives],
        "plans": with_leads([shown_plan_document(plan) for plan in plans]),
    }


@router.post("/{run_id}/cancel", status_code=202, response_model=RunAnswer, responses=problems(404, 409))
def cancel_run(run_id: RunId, parts: Parts) -> Response:
    """Request the end of a run; the plans found so far are kept."""
    return answer(run_document(parts.store.runs.request_cancel(run_id, datetime.now(UTC))), 202)


@router.patch(
    "/{run_id}",
    response_model=RunAnswer,
    responses=problems(404, 409, 413, 415, 422),
    dependencies=[body_of("application/json")],
)
def change_run(run_id: RunId, body: RunChangeBody, request: Request, parts: Parts) -> Response:
    """Change a run: its tags and notes, which replace those before, and while it waits its priority.

    All of it is changed, or nothing. A run that goes on is not stopped for another one.
    """
    changes = body.model_dump(exclude_unset=True)
    if "priority" in changes:
        check_priority(request, body.priority)
    return answer(run_document(parts.store.runs.change(run_id, **changes)))


@router.delete("/{run_id}", status_code=204, responses=problems(404, 409), response_class=Response)
def delete_run(run_id: RunId, parts: Parts) -> Response:
    """Delete a run that has ended, with its plans and executions. One of a batch is deleted with that."""
    parts.store.deletions.run(run_id)
    return Response(status_code=204)


def run_document(run: RunSummary) -> dict[str, Any]:
    """Convert the status of a run to JSON."""
    return {
        "id": run.id,
        "status": run.status,
        "phase": run.phase,
        "graph_id": run.graph_id,
        "graph": run.graph_name,
        "mesh": run.mesh_name,
        **run.options.to_json(),
        "evaluations": run.evaluations,
        "seconds": run.seconds,
        "front": run.front,
        "hypervolume": run.hypervolume,
        "best": dict(run.best),
        "trend": [list(point) for point in run.trend],
        "tags": list(run.tags),
        "notes": run.notes,
        "attempt": run.attempt,
        "stopped": run.stopped,
        "problem": run.problem,
        "priority": run.priority,
        "cancel_requested": run.cancel_requested and not is_ended(run.status),
        "created_at": moment(run.created_at),
        "started_at": moment(run.started_at),
        "ended_at": moment(run.ended_at),
        "links": _links(run.id),
    }


def _links(run_id: str) -> dict[str, str]:
    path = f"/v1/runs/{run_id}"
    return {
        "self": path,
        "mesh": f"{path}/mesh",
        "frontier": f"{path}/frontier",
        "events": f"{path}/events",
        "cancel": f"{path}/cancel",
        "page": f"/runs/{run_id}",
    }


def checked_request(
    body: RunBody, parts: Context, check: Callable[..., RunRequest] = check_request
) -> RunRequest:
    """Check that a request can be carried out (names, bounds, references) and return it; `check` as `check_request`.

    The program of a run with the option `dtype` is the one in that precision.
    """
    options = body.options
    faults = _unknown_graph(body.graph_id, parts)
    faults += _prior_faults(body, parts)
    if not faults and options.dtype is None:
        faults += _source_faults(body.graph_id, options.start_from, parts)
    try:
        resources = stored_resources(body.graph_id, parts.store)
        request = check(body.graph_id, body.mesh, options, parts.settings.limits, resources)
    except InvalidRequest as error:
        raise InvalidRequest([*error.faults, *faults]) from error
    if not faults and options.dtype is not None:
        request = replace(request, graph_id=graph_in_precision(body.graph_id, options.dtype, parts))
        faults += _source_faults(request.graph_id, options.start_from, parts)
    is_particular = bool(options.pins) or any(
        (count or 1) > 1 for count in (options.micro_batches, options.stages, options.data_parallel)
    )
    if not faults and is_particular and parts.store.runs.equal_run(request, versions()) is None:
        faults += _program_faults(request, parts)
    if faults:
        raise InvalidRequest(faults)
    return request


def _program_faults(request: RunRequest, parts: Context) -> tuple[Fault, ...]:
    """Find what a run asks of a program that it cannot do; none where that takes long: the run fails for them then."""
    options = request.options
    with contextlib.suppress(TooSlow):
        return parts.pool.do_within(
            CHECK_S,
            tasks.faults_of_program,
            request.graph_id,
            dict(options.pins),
            options.micro_batches,
            options.stages,
            options.data_parallel,
            dict(request.mesh),
            parts.store.address,
        )
    return ()


def _unknown_graph(graph_id: str, parts: Context) -> list[Fault]:
    """Find that a request's graph does not exist."""
    try:
        parts.store.graphs.get(graph_id)
    except UnknownId as error:
        return [Fault("/graph_id", f"{error}; submit it first (POST /v1/graphs)")]
    return []


def _prior_faults(body: RunBody, parts: Context) -> list[Fault]:
    """Find that the prior which a run asks for does not exist, or is of another release."""
    if body.options.prior is None or not names_snapshot(body.options.prior):
        return []
    try:
        parts.store.learning.require(int(body.options.prior))
    except UnknownId as error:
        return [Fault("/prior", str(error))]
    return []


def _source_faults(graph_id: str, start_from: str | None, parts: Context) -> list[Fault]:
    """Find that a run to start from does not exist or does not fit."""
    if start_from is None or start_from == AUTO:
        return []
    try:
        named_runs(parts.store, start_from, parts.store.graphs.kin(graph_id))
    except StoreError as error:
        return [Fault("/start_from", str(error))]
    return []
