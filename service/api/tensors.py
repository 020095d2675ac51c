"""`/v1/tensors`: tensors with names, which stay where they lie on the simulated mesh between executions."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import AfterValidator
from starlette.concurrency import run_in_threadpool

from tapestry.service.api.answers import answer, revalidated
from tapestry.service.api.context import Parts
from tapestry.service.api.limits import body_of
from tapestry.service.api.openapi_parts import KEPT, problems
from tapestry.service.api.problems import Problem, invalid
from tapestry.service.api.tensor_answers import MEDIA_TYPE, FileFormat, file_answer, tensor_file
from tapestry.service.api.tensor_models import TensorAnswer, TensorsAnswer
from tapestry.service.api.tensor_tasks import put_tensor
from tapestry.service.api.uploads import private_file, receive_body
from tapestry.service.presentation import tensor_document
from tapestry.service.tensor_names import PATTERN, name_fault
from tapestry.teg.loading import LoadCost

router = APIRouter(prefix="/v1/tensors", tags=["tensors"])


def _stored_name(name: str) -> str:
    if re.fullmatch(PATTERN, name) is None:
        raise Problem(404, "unknown_id", str(name_fault(name)))
    return name


TensorName = Annotated[
    str,
    Path(description="the name of a tensor", examples=["batch_7"]),
    AfterValidator(_stored_name),
]
CopyOf = Annotated[
    str | None, Query(max_length=200, description="copy this tensor, in its place; then there is no body")
]


Seconds = Annotated[float, Query(ge=0, allow_inf_nan=False, description="seconds that loading it takes")]
Rate = Annotated[
    float | None,
    Query(gt=0, allow_inf_nan=False, description="the rate at which it is loaded", examples=[25e9]),
]
Holder = Annotated[
    str,
    Query(
        max_length=200,
        description="the device that holds it when it is loaded; others get their parts from there",
        examples=["gpu:0"],
    ),
]


@router.get("", response_model=TensorsAnswer, responses=KEPT | problems())
def list_tensors(request: Request, parts: Parts) -> Response:
    """List the stored tensors by name, without their values."""
    return revalidated(request, {"items": [tensor_document(found) for found in parts.store.tensors.all()]})


@router.get("/{name}", response_model=TensorAnswer, responses=KEPT | problems(404))
def get_tensor(name: TensorName, request: Request, parts: Parts) -> Response:
    """Show a stored tensor without its value: type, shape, and where it lies."""
    return revalidated(request, tensor_document(parts.store.tensors.get(name)))


@router.get(
    "/{name}/content",
    responses=file_answer("The tensor, under its name") | problems(404, 422),
    response_class=Response,
)
def get_tensor_content(name: TensorName, parts: Parts, format: FileFormat = "npz") -> Response:
    """Fetch the value of a stored tensor."""
    return tensor_file({name: parts.store.tensors.load(name)[1]}, format, name)


@router.put(
    "/{name}",
    response_model=TensorAnswer,
    responses=problems(404, 413, 415, 422),
    dependencies=[body_of(MEDIA_TYPE)],
    openapi_extra={
        "requestBody": {
            "description": "a file .npy, .npz or .safetensors with one tensor",
            "content": {
                MEDIA_TYPE: {
                    "schema": {"type": "string", "format": "binary"},
                    "example": "the content of the file",
                }
            },
        }
    },
)
async def put_named_tensor(
    name: TensorName,
    request: Request,
    parts: Parts,
    copy_of: CopyOf = None,
    load_seconds: Seconds = 0.0,
    load_bytes_per_s: Rate = None,
    load_device: Holder = "",
) -> Response:
    """Store a tensor under a name, in place of one that has it. It lies on no mesh, until an execution saves it; what
    loading it takes is charged to the executions that read it until then.
    """
    load = LoadCost(load_seconds, load_bytes_per_s, load_device)
    if copy_of is not None:
        await run_in_threadpool(parts.store.tensors.copy, copy_of, name, datetime.now(UTC))
    else:
        with private_file() as path:
            await receive_body(request, path)
            address, most = parts.store.address, parts.settings.limits.tensor_bytes
            faults = await run_in_threadpool(parts.pool.do, put_tensor, address, str(path), name, most, load)
        if faults:
            raise invalid(faults)
    return answer(tensor_document(await run_in_threadpool(parts.store.tensors.get, name)))


@router.delete("/{name}", status_code=204, responses=problems(404), response_class=Response)
def drop_tensor(name: TensorName, parts: Parts) -> Response:
    """Delete a stored tensor."""
    parts.store.tensors.drop([name])
    return Response(status_code=204)
