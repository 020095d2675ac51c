"""`/v1/graphs`: programs come in, are checked at the desk, and are kept by their content."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Query, Request, Response, UploadFile
from starlette.concurrency import run_in_threadpool

from service.api import tasks
from service.api.context import Context, Parts, json_file, problems
from service.api.models import GraphAnswer, GraphsAnswer
from service.api.pages import cursor_of, read_cursor
from service.api.problems import Problem
from service.requests import Fault
from service.store import GraphSummary

router = APIRouter(prefix="/v1/graphs", tags=["graphs"])

PORTION = 2**20
EXAMPLE = json.loads((files("service.api") / "example.teg.json").read_text())
KNOWN: dict[int | str, dict[str, Any]] = {200: {"model": GraphAnswer, "description": "It was known already"}}


@router.post(
    "",
    status_code=201,
    response_model=GraphAnswer,
    responses=KNOWN | problems(400, 413, 415, 422),
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "a TEG document",
            "content": {"application/json": {"schema": {"type": "object"}, "example": EXAMPLE}},
        }
    },
)
async def post_graph(request: Request, response: Response, parts: Parts) -> dict[str, Any]:
    """Hand in a program as a TEG document; the same content is the same graph."""
    _need_json(request)
    with _private_file() as path:
        with path.open("wb") as file:
            async for portion in request.stream():
                await run_in_threadpool(file.write, portion)
        limits = parts.settings.limits
        url, blocks, size = parts.settings.database_url, limits.graph_blocks, limits.document_bytes
        saved = await run_in_threadpool(parts.desk.do, tasks.save_document, str(path), url, blocks, size)
    return await run_in_threadpool(_answer, parts, saved, response)


@router.post(
    "/import",
    status_code=201,
    response_model=GraphAnswer,
    responses=KNOWN | problems(400, 413, 415, 422),
)
def import_graph(
    response: Response,
    parts: Parts,
    file: Annotated[UploadFile, File(description="an ONNX model with its weights inside, or none")],
    dims: Annotated[
        list[str] | None, Form(description="sizes of dynamic dimensions, such as batch=8")
    ] = None,
) -> dict[str, Any]:
    """Hand in a program as an ONNX file. No other file is read: external data is refused."""
    sizes = _dims(dims or [])
    name = Path((file.filename or "model").replace("\\", "/")).stem[:200] or "model"
    with _private_file() as path:
        with path.open("wb") as target:
            while portion := file.file.read(PORTION):
                target.write(portion)
        url, blocks = parts.settings.database_url, parts.settings.limits.graph_blocks
        saved = parts.desk.do(tasks.save_onnx, str(path), url, blocks, sizes, name)
    return _answer(parts, saved, response)


@router.get("", response_model=GraphsAnswer, responses=problems(422))
def list_graphs(
    parts: Parts,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Annotated[str | None, Query(max_length=200, description="next of the page before")] = None,
) -> dict[str, Any]:
    """Programs that were handed in, newest first."""
    found = parts.store.graphs.page(limit + 1, read_cursor(cursor))
    page = found[:limit]
    following = cursor_of(page[-1].created_at, page[-1].id) if len(found) > limit else None
    return {"items": [graph_document(graph) for graph in page], "next": following}


@router.get("/{graph_id}", response_model=GraphAnswer, responses=problems(404))
def get_graph(graph_id: str, parts: Parts) -> dict[str, Any]:
    """What is known of a program."""
    return graph_document(parts.store.graphs.get(graph_id))


@router.get(
    "/{graph_id}/document",
    responses=json_file("The TEG document") | problems(404),
    response_class=Response,
)
def get_document(graph_id: str, request: Request, parts: Parts) -> Response:
    """The program as a TEG document."""
    return gzipped(parts.store.graphs.document(graph_id), request, f"{graph_id}.teg.json")


def graph_document(graph: GraphSummary) -> dict[str, Any]:
    """A stored program as JSON."""
    return {
        "id": graph.id,
        "name": graph.name,
        "blocks": graph.blocks,
        "lacks_values": graph.lacks_values,
        "created_at": graph.created_at.astimezone(UTC).isoformat(),
        "summary": graph.summary,
        "links": {
            "self": f"/v1/graphs/{graph.id}",
            "document": f"/v1/graphs/{graph.id}/document",
            "runs": f"/v1/runs?graph_id={graph.id}",
            "page": f"/graphs/{graph.id}",
        },
    }


def gzipped(content: bytes, request: Request, name: str) -> Response:
    """Stored JSON text as a response: packed as it is, for those who can unpack it."""
    headers = {"Content-Disposition": f'inline; filename="{name}"', "Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
    else:
        content = gzip.decompress(content)
    return Response(content, headers=headers, media_type="application/json")


def _answer(parts: Context, saved: tasks.Saved, response: Response) -> dict[str, Any]:
    if saved.faults:
        raise Problem(422, "invalid_graph", f"this is no program: {saved.faults[0].detail}", saved.faults)
    document = graph_document(parts.store.graphs.get(saved.id))
    response.status_code = 201 if saved.is_new else 200
    response.headers["Location"] = document["links"]["self"]
    return document


def _need_json(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise Problem(
            415, "unsupported_media_type", f"expected Content-Type: application/json, not {kind or 'none'}"
        )


def _dims(texts: list[str]) -> dict[str, int]:
    sizes, faults = {}, []
    for text in (part for given in texts for part in given.split(",") if part):
        name, _, size = text.partition("=")
        if name and size.isascii() and size.isdigit() and 0 < int(size) < 2**31:
            sizes[name] = int(size)
        else:
            faults.append(Fault("/dims", f"expected NAME=SIZE such as batch=8, not {text[:80]!r}"))
    if faults:
        raise Problem(422, "invalid", faults[0].detail, tuple(faults))
    return sizes


@contextmanager
def _private_file() -> Iterator[Path]:
    """A file that nobody else can read, gone afterwards."""
    handle, name = tempfile.mkstemp(prefix="tapestry-upload-")
    os.close(handle)
    try:
        yield Path(name)
    finally:
        os.unlink(name)
