"""`/v1/layouts`: physical layouts of tensors, described, mapped and drawn; texts are parsed in the task pool."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, Request, Response

from tapestry.service.api import tasks
from tapestry.service.api.answers import answer, packed
from tapestry.service.api.bodies import DrawingBody, LayoutBody
from tapestry.service.api.context import Parts
from tapestry.service.api.limits import body_of
from tapestry.service.api.models import LayoutAnswer
from tapestry.service.api.openapi_parts import json_answer, problems, text_answer
from tapestry.service.api.problems import Problem
from tapestry.teg.faults import Fault

router = APIRouter(prefix="/v1/layouts", tags=["layouts"])

SVG = "image/svg+xml"
MAP_EXAMPLE = {
    "text": "f32[2,1]{1,0:T(2,2)}",
    "notation": "xla",
    "shape": [2, 1],
    "physical_shape": [1, 1, 2, 2],
    "buffer_count": 1,
    "buffer_elements": 4,
    "buffer_names": ["buffer 0"],
    "element_bits": 32,
    "elements": [0, 2],
    "above": [0, 0],
    "left": [0, 0],
    "slots": [0, -1, 1, -1],
}
EXAMPLE = '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"></svg>'


@router.post(
    "/describe",
    response_model=LayoutAnswer,
    responses=problems(413, 415, 422),
    dependencies=[body_of("application/json")],
)
def describe_layout(body: LayoutBody, parts: Parts) -> Response:
    """Describe a layout in any notation: shapes, buffers, bytes, an element's place, an offset's element."""
    document, faults = parts.pool.do(tasks.describe_layout, body.text, body.dtype, body.at, body.offset)
    _refuse(faults)
    return answer(document)


@router.post(
    "/map",
    responses=json_answer("The map", MAP_EXAMPLE) | problems(413, 415, 422),
    response_class=Response,
    dependencies=[body_of("application/json")],
)
def map_layout(body: DrawingBody, request: Request, parts: Parts) -> Response:
    """Map every element of a layout to its offset (`elements`, the last dimension fastest), and every offset to its
    element (`slots`, -1 for padding), with the borders of tiles and buffers. Elements may share a slot.
    """
    content, faults = parts.pool.do(tasks.map_layout, body.text, body.dtype)
    _refuse(faults)
    return packed(request, content, "layout.map.json")


@router.post(
    "/draw",
    responses=text_answer(SVG, "The picture", EXAMPLE) | problems(413, 415, 422),
    response_class=Response,
    dependencies=[body_of("application/json")],
)
def draw_layout(body: DrawingBody, parts: Parts) -> Response:
    """Draw a layout as SVG: the slot of each element, padding, the borders of tiles and buffers."""
    diagram, faults = parts.pool.do(tasks.draw_layout, body.text, body.dtype)
    _refuse(faults)
    return Response(diagram, headers={"Cache-Control": "no-store"}, media_type=SVG)


def _refuse(faults: Sequence[Fault]) -> None:
    if faults:
        detail = "; ".join(f"{fault.pointer}: {fault.detail}" for fault in faults)
        raise Problem(422, "invalid", detail, tuple(faults))
