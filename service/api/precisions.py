"""`/v1/graphs/{id}/precisions/{dtype}`: a program stored in another precision, in the task pool."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Response
from pydantic import Field

from tapestry.service.api import precision_tasks
from tapestry.service.api.answers import answer
from tapestry.service.api.context import Context, Parts
from tapestry.service.api.graphs import graph_document, upload_key
from tapestry.service.api.models import Answer, GraphAnswer
from tapestry.service.api.openapi_parts import LOCATION, Answers, GraphId, problems
from tapestry.service.api.problems import Problem
from tapestry.service.requests import InvalidRequest
from tapestry.teg.faults import Fault

router = APIRouter(prefix="/v1/graphs", tags=["graphs"])


class StoredAnswer(Answer):
    """The precision of a program, and how far it is from the program that it stems from."""

    dtype: str
    max_error: dict[str, float | None] | None = Field(
        description="by output max |a - b| / max |b| on random values, null where it is infinite; null as a whole "
        "where computing it would take too long"
    )


class PrecisionAnswer(Answer):
    """A program stored in another precision, which is a program of its own."""

    graph: GraphAnswer
    source: str = Field(description="the id of the program that was given")
    stored: StoredAnswer


SAVED: Answers = {
    200: {"model": PrecisionAnswer, "description": "The program was known already", "headers": LOCATION},
    201: {"headers": LOCATION},
}


@router.post(
    "/{graph_id}/precisions/{dtype}",
    status_code=201,
    response_model=PrecisionAnswer,
    responses=SAVED | problems(404, 413, 422),
)
def store_in_precision(
    graph_id: GraphId,
    dtype: Annotated[
        Literal["bf16", "fp16", "fp8"], Path(description="the type of parameters and activations")
    ],
    parts: Parts,
) -> Response:
    """Store the parameters and activations of a program of inference in another precision. The result is a program of
    its own, to be searched like any other; the original program is unchanged.
    """
    parts.store.graphs.get(graph_id)
    address, most = parts.store.address, parts.settings.limits.graph_blocks
    made = parts.pool.do(precision_tasks.store_in_precision, graph_id, dtype, address, most)
    if made.faults:
        status, code = (413, "too_large") if made.is_too_large else (422, "invalid")
        raise Problem(status, code, made.faults[0].detail, made.faults)
    graph = graph_document(parts.store.graphs.get(made.id))
    document = {"graph": graph, "source": graph_id, "stored": made.stored}
    return answer(document, 201 if made.is_new else 200, {"Location": graph["links"]["self"]})


def graph_in_precision(graph_id: str, dtype: str, parts: Context) -> str:
    """Return the id of a stored program in another precision; it is made when it is first asked for.

    Raises:
        InvalidRequest: the program is not stored in it.
    """
    key = upload_key(parts, [], precision_tasks.store_in_precision.__name__, graph_id, dtype)
    if (known := parts.store.graphs.uploaded(key)) is not None:
        return known
    address, most = parts.store.address, parts.settings.limits.graph_blocks
    made = parts.pool.do(precision_tasks.store_in_precision, graph_id, dtype, address, most, False)
    if made.faults:
        raise InvalidRequest([Fault("/dtype", fault.detail) for fault in made.faults])
    parts.store.graphs.save_upload(key, made.id, datetime.now(UTC))
    return made.id
