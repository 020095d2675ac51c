"""`/v1/executions`: plans that have run, run or will run on the device simulator."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Request, Response, UploadFile
from pydantic import ValidationError

from tapestry.service.api.answers import answer, packed, revalidated
from tapestry.service.api.bodies import ExecutionBody
from tapestry.service.api.context import Context, Parts
from tapestry.service.api.idempotency import Key, idempotency, replayed
from tapestry.service.api.limits import FORM, FormRoute, body_of
from tapestry.service.api.openapi_parts import ACCEPTED, KEPT, ExecutionId, PlanId, json_answer, problems
from tapestry.service.api.plan_models import ExecutionAcceptedAnswer, ExecutionAnswer
from tapestry.service.api.problems import Problem, invalid
from tapestry.service.api.shape_faults import shape_faults
from tapestry.service.api.tensor_answers import FileFormat, file_answer, tensor_file
from tapestry.service.api.tensor_tasks import CheckedValues, check_values
from tapestry.service.api.uploads import private_file, receive
from tapestry.service.presentation import moment
from tapestry.service.store import StoredExecution, TensorRequest
from tapestry.teg.faults import Fault

router = APIRouter(prefix="/v1", tags=["executions"])
# Before `router`, as its route has the same path.
forms = APIRouter(prefix="/v1", tags=["executions"], route_class=FormRoute)

TRACE = {"traceEvents": [{"name": "y", "ph": "X", "ts": 0.0, "dur": 1.5, "pid": 0, "tid": 0}]}


FIELDS = ("inputs", "weights")
FORM_BODY = {
    "requestBody": {
        "content": {
            FORM: {
                "schema": {
                    "type": "object",
                    "properties": {
                        "request": {
                            "$ref": "#/components/schemas/ExecutionBody",
                            "description": "the JSON object that is sent without files",
                        },
                        **{
                            name: {"type": "string", "format": "binary", "description": f"{what} by name"}
                            for name, what in zip(FIELDS, ("inputs", "weights, or more inputs,"), strict=True)
                        },
                    },
                    "additionalProperties": False,
                }
            }
        }
    }
}


@router.post(
    "/plans/{plan_id}/executions",
    status_code=202,
    response_model=ExecutionAcceptedAnswer,
    responses=ACCEPTED | problems(404, 413, 415, 422, 429),
    dependencies=[body_of("application/json", FORM)],
    openapi_extra=FORM_BODY,
)
def post_execution(plan_id: PlanId, body: ExecutionBody, parts: Parts, key: Key = None) -> Response:
    """Request a run of a plan on the device simulator; a worker does it. A form may bring the values of inputs and
    weights along, as files `.npz`, `.npy` or `.safetensors`.
    """
    return _submit(parts, plan_id, body, key, {})


@forms.post("/plans/{plan_id}/executions", status_code=202, include_in_schema=False)
def post_execution_with_values(
    plan_id: PlanId,
    parts: Parts,
    request: Annotated[str, Form()] = "{}",
    inputs: Annotated[UploadFile | None, File()] = None,
    weights: Annotated[UploadFile | None, File()] = None,
    key: Key = None,
) -> Response:
    """Request a run of a plan with the values in files."""
    try:
        body = ExecutionBody.model_validate_json(request)
    except ValidationError as error:
        faults = shape_faults([{**e, "loc": ("body", *e["loc"])} for e in error.errors()], {}, ExecutionBody)
        found = tuple(replace(fault, pointer=f"/request{fault.pointer}") for fault in faults)
        raise Problem(422, "invalid", f"{found[0].pointer}: {found[0].detail}", found) from None
    uploads = {name: file for name, file in zip(FIELDS, (inputs, weights), strict=True) if file is not None}
    with ExitStack() as files:
        paths = {}
        for name, upload in uploads.items():
            path = files.enter_context(private_file())
            receive(upload, path)
            paths[name] = str(path)
        return _submit(parts, plan_id, body, key, paths)


def _submit(
    parts: Context, plan_id: str, body: ExecutionBody, key: str | None, uploads: Mapping[str, str]
) -> Response:
    """Check the values that a request gives or names, all of them, and queue the execution."""
    plan = parts.store.plans.get(plan_id)
    request, checked = body.request, CheckedValues()
    if uploads or request != TensorRequest():
        if not body.values:
            fault = Fault("/values", "nothing is computed, so no value is read or kept; leave values out")
            raise Problem(422, "invalid", fault.detail, (fault,))
        graph_id = parts.store.runs.request(plan.run_id).graph_id
        settings = parts.settings
        arguments = (parts.store.address, graph_id, uploads, request, settings.limits.tensor_bytes)
        checked = parts.pool.do(check_values, *arguments)
    if checked.faults:
        raise invalid(checked.faults)
    request = replace(request, given=tuple(checked.given))
    digests = {name: value.digest for name, value in checked.given.items()}
    submitted = parts.store.executions.submit(
        plan.key,
        backend=body.backend,
        values=body.values,
        seed=body.seed if request.is_seeded else None,
        created_at=datetime.now(UTC),
        request=request,
        given=checked.given,
        queue_limits=parts.queue_limits,
        idempotency=idempotency(
            key, "POST executions", [plan.public_id, body.model_dump(mode="json"), digests]
        ),
    )
    execution = parts.store.executions.get(submitted.id)
    links = _links(execution)
    headers = {"Location": links["self"]} | replayed(submitted)
    document = {"id": execution.id, "status": execution.status, "links": links}
    return answer({**document, "unread": list(checked.unread)}, 202, headers)


@router.get("/executions/{execution_id}", response_model=ExecutionAnswer, responses=KEPT | problems(404))
def get_execution(execution_id: ExecutionId, request: Request, parts: Parts) -> Response:
    """Show the status of an execution; once it has ended, also the counted values beside the predicted ones."""
    return revalidated(request, execution_document(parts.store.executions.get(execution_id)))


@router.delete(
    "/executions/{execution_id}", status_code=204, responses=problems(404, 409), response_class=Response
)
def delete_execution(execution_id: ExecutionId, parts: Parts) -> Response:
    """Delete an execution that has ended, with its values and its timeline; the verdict on its plan stays."""
    parts.store.deletions.execution(execution_id)
    return Response(status_code=204)


@router.get(
    "/executions/{execution_id}/trace",
    responses=json_answer("A trace for Perfetto", TRACE) | problems(404, 409),
    response_class=Response,
)
def get_trace(execution_id: ExecutionId, request: Request, parts: Parts) -> Response:
    """Fetch the timeline of events on each device, for Perfetto or Chrome's tracing; gzipped where accepted."""
    trace = parts.store.executions.packed_trace(execution_id)
    if trace is None:
        status = parts.store.executions.get(execution_id).status
        raise Problem(409, "no_trace", f"execution {execution_id} is {status} and has no trace")
    return packed(request, trace, f"{execution_id}.trace.json")


@router.get(
    "/executions/{execution_id}/outputs",
    responses=file_answer("The outputs by name") | problems(404, 409, 422),
    response_class=Response,
)
def get_outputs(execution_id: ExecutionId, parts: Parts, format: FileFormat = "npz") -> Response:
    """Fetch the outputs that an execution was asked to keep, by their names in the program."""
    execution = parts.store.executions.get(execution_id)
    if not execution.has_outputs:
        detail = f"execution {execution_id} is {execution.status} and has no outputs" + (
            "" if execution.request.outputs else '; ask for them by "outputs": true'
        )
        raise Problem(409, "no_outputs", detail)
    return tensor_file(parts.store.executions.tensors(execution_id, "output"), format, execution_id)


def execution_document(execution: StoredExecution) -> dict[str, Any]:
    """Convert an execution to JSON."""
    ended = execution.ended_at
    return {
        "id": execution.id,
        "status": execution.status,
        "plan": execution.public_plan_id,
        "run": execution.run_id,
        "backend": execution.backend,
        "values": execution.values,
        "seed": execution.seed,
        "request": execution.request.to_json(),
        "counts": None if execution.counts is None else dict(execution.counts),
        "verified": None if execution.verified is None else dict(execution.verified),
        "problem": None if execution.problem is None else dict(execution.problem),
        "created_at": moment(execution.created_at),
        "ended_at": moment(ended),
        "links": _links(execution),
    }


def _links(execution: StoredExecution) -> dict[str, str]:
    path = f"/v1/executions/{execution.id}"
    links = {"self": path, "plan": f"/v1/plans/{execution.public_plan_id}"}
    links |= {"trace": f"{path}/trace"} if execution.has_trace else {}
    return links | ({"outputs": f"{path}/outputs"} if execution.has_outputs else {})
