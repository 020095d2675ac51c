"""`/v1/plans`: the decisions of a plan, its history, and its export formats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, File, Query, Request, Response, UploadFile
from pydantic import Field

from tapestry.costmodel.device_memory import device_memory_terms
from tapestry.service.api import tasks
from tapestry.service.api.answers import packed, revalidated
from tapestry.service.api.context import Context, Parts
from tapestry.service.api.executions import execution_document
from tapestry.service.api.graphs import EXAMPLE
from tapestry.service.api.limits import FORM, body_of
from tapestry.service.api.openapi_parts import (
    KEPT,
    PRINTABLE,
    PlanId,
    Printable,
    json_answer,
    problems,
    text_answer,
)
from tapestry.service.api.plan_exports import (
    EXPORTS,
    INTO_PROGRAMS,
    PlanExport,
    explicit_graph,
    exports_answers,
    into_program,
)
from tapestry.service.api.plan_models import ExplanationAnswer, MovesAnswer, PlanDetailAnswer
from tapestry.service.api.problems import Problem
from tapestry.service.leads import lead_among
from tapestry.service.plan_tables import TableForm
from tapestry.service.presentation import measurement_document, shown_plan_document
from tapestry.service.store import StoredPlan, mesh_of
from tapestry.service.tensor_moves import loading_document
from tapestry.teg.faults import Fault
from tapestry.teg.sharding.explicit_parts import GraphPart

router = APIRouter(prefix="/v1/plans", tags=["plans"])

FORMATS = tuple(export.name for export in EXPORTS)
PROGRAM_FORMATS = tuple(form.name for form in INTO_PROGRAMS)
ANNOTATED = text_answer("text/plain", "The program with the plan's shardings", "module @step {}\n")
EXPLICIT = json_answer("The explicit graph as a TEG document", EXAMPLE)
MOST_NAMES = 10  # of each kind: a request line has at most 64 KiB
Names = Annotated[str, Field(min_length=1, max_length=200, json_schema_extra=dict(PRINTABLE)), Printable]


def graph_part(
    device: Annotated[
        list[Annotated[int, Field(ge=0, lt=1_000_000)]],
        Query(max_length=256, description="blocks on this device; may be repeated"),
    ] = [],  # noqa: B006, FastAPI copies it
    layer: Annotated[
        list[Names],
        Query(
            max_length=MOST_NAMES,
            description="blocks of this layer, such as `3` or `layers.3`, by the names of parameters; may be repeated",
        ),
    ] = [],  # noqa: B006
    block: Annotated[
        list[Names],
        Query(
            max_length=MOST_NAMES,
            description="blocks of the program whose site this is; `*` is any text; may be repeated",
        ),
    ] = [],  # noqa: B006
) -> GraphPart:
    """Read which part of an explicit graph is asked for: blocks that are in one of each kind given."""
    return GraphPart(tuple(device), tuple(layer), tuple(block))


Part = Annotated[GraphPart, Depends(graph_part)]


@router.get("/{plan_id}", response_model=PlanDetailAnswer, responses=KEPT | problems(404))
def get_plan(plan_id: PlanId, request: Request, parts: Parts) -> Response:
    """Show a plan with its costs, decisions, history and executions."""
    plan = parts.store.plans.get(plan_id)
    run = parts.store.runs.get(plan.run_id)
    executions = parts.store.executions.of_plan(plan.key)
    path = f"/v1/plans/{plan.public_id}"
    shown = shown_plan_document(plan)
    frontier = [shown_plan_document(each) for each in parts.store.runs.frontier(plan.run_id)]
    document = shown | {
        "lead": lead_among(shown, frontier),
        "run": plan.run_id,
        "graph_id": run.graph_id,
        "mesh": run.mesh_name,
        "objectives": list(run.options.objectives),
        "on_frontier": plan.on_frontier,
        "moves": [dict(move) for move in plan.moves],
        "placements": dict(plan.placements or {}),
        "loading": loading_document(parts.store, plan),
        "memory": device_memory_terms(plan.cost, mesh_of(parts.store.runs.request(plan.run_id).mesh).device),
        "executions": [execution_document(execution) for execution in executions],
        "measurements": list(map(measurement_document, parts.store.measurements.of_plan(plan.key))),
        "links": {
            "self": path,
            "graph": f"{path}/graph",
            "moves": f"{path}/moves",
            "drawing": f"{path}/drawing",
            "changes": f"{path}/changes",
            "sharding": f"{path}/sharding",
            "explanation": f"{path}/explanation",
            "schedule": f"{path}/schedule",
            "memory": f"{path}/memory",
            "alternatives": f"{path}/alternatives",
            "executions": f"{path}/executions",
            "measurements": f"{path}/measurements",
            "run": f"/v1/runs/{plan.run_id}",
            "page": f"/plans/{plan.public_id}",
        },
    }
    return revalidated(request, document)


@router.get("/{plan_id}/moves", response_model=MovesAnswer, responses=KEPT | problems(404))
def get_moves(plan_id: PlanId, request: Request, parts: Parts) -> Response:
    """Show the moves of a plan: replayed from the run's graph, they lead to it."""
    return revalidated(request, {"moves": [dict(move) for move in parts.store.plans.get(plan_id).moves]})


@router.get(
    "/{plan_id}/explanation", response_model=ExplanationAnswer, responses=KEPT | problems(404, 422, 503)
)
def get_explanation(plan_id: PlanId, request: Request, parts: Parts) -> Response:
    """Explain a plan: the change of every cost by each of its moves, and the moves that made each of its blocks."""
    plan = parts.store.plans.get(plan_id)
    return packed(request, _explained(plan, parts), f"{plan.public_id}.explanation.json")


@router.get("/{plan_id}/graph", responses=EXPLICIT | problems(404, 422), response_class=Response)
def get_graph(plan_id: PlanId, request: Request, parts: Parts, part: Part) -> Response:
    """Fetch a plan's explicit graph: every block with its index range, pinned to its device; weights are named by
    content."""
    return explicit_graph(request, parts.store.plans.get(plan_id), parts, part)


def _described(formats: Sequence[PlanExport] | Sequence[TableForm]) -> str:
    return "; ".join(f"{form.name}: {form.description}" for form in formats)


@router.get("/{plan_id}/export", responses=exports_answers() | problems(404, 422), response_class=Response)
def export_plan(
    plan_id: PlanId,
    request: Request,
    parts: Parts,
    part: Part,
    to: Annotated[
        str,
        Query(max_length=40, description=_described(EXPORTS), json_schema_extra={"enum": list(FORMATS)}),
    ],
) -> Response:
    """Export a plan in a format for other programs."""
    plan = parts.store.plans.get(plan_id)
    for export in EXPORTS:
        if export.name == to:
            if not (part.is_whole or export.has_parts):
                raise Problem(422, "invalid", f"{to!r} is exported whole; leave device, layer and block out")
            return export.answer(request, plan, parts, part)
    reason = f"plans are not exported to {to!r}"
    if to in PROGRAM_FORMATS:
        reason = f"{to!r} is written into your program: POST its file here, as the part `file` of a form"
    fault = Fault("#query/to", reason, FORMATS)
    raise Problem(422, "invalid", fault.detail, (fault,))


@router.post(
    "/{plan_id}/export",
    responses=ANNOTATED | problems(404, 413, 415, 422),
    response_class=Response,
    dependencies=[body_of(FORM)],
)
def export_into_program(
    plan_id: PlanId,
    parts: Parts,
    file: Annotated[
        UploadFile, File(description="the program that was searched: .mlir, .mlir.gz or .mlirbc")
    ],
    to: Annotated[
        str,
        Query(
            max_length=40,
            description=_described(INTO_PROGRAMS),
            json_schema_extra={"enum": list(PROGRAM_FORMATS)},
        ),
    ] = PROGRAM_FORMATS[0],
) -> Response:
    """Write the shardings of a plan into the program that it was found for, which is sent along."""
    plan = parts.store.plans.get(plan_id)
    for form in INTO_PROGRAMS:
        if form.name == to:
            return into_program(plan, parts, form, file)
    fault = Fault("#query/to", f"{to!r} is not written into programs", PROGRAM_FORMATS)
    raise Problem(422, "invalid", fault.detail, (fault,))


def _explained(plan: StoredPlan, parts: Context) -> bytes:
    """Return the explanation of a plan: computed in the task pool the first time, stored from then on."""
    content = parts.store.plans.artifact(plan.key, tasks.EXPLANATION)
    if content is None:
        refusal = parts.pool.do(tasks.render_explanation, plan.public_id, parts.store.address)
        content = parts.store.plans.artifact(plan.key, tasks.EXPLANATION)
        if content is None:
            raise Problem(422, "stale_history", refusal)
    return content
