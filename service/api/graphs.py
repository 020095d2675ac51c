"""`/v1/graphs`: programs are uploaded, checked in the task pool, and stored by their content."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Query, Request, Response, UploadFile
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from tapestry.costmodel.known_objectives import resource_objectives
from tapestry.costmodel.resources import Resource
from tapestry.service.api.answers import answer, packed, revalidated
from tapestry.service.api.context import Context, Parts
from tapestry.service.api.import_jobs import ProgramUpload, read_upload
from tapestry.service.api.imports import accepted
from tapestry.service.api.limits import FORM, body_of
from tapestry.service.api.models import GraphAnswer, GraphsAnswer, ImportAnswer
from tapestry.service.api.openapi_parts import (
    DOCUMENT_SCHEMA,
    FOLLOWED,
    KEPT,
    LOCATION,
    PRINTABLE,
    Answers,
    GraphId,
    PageCursor,
    PageLimit,
    Sha256,
    decimal_up_to,
    json_answer,
    problems,
)
from tapestry.service.api.pages import cursor_of, read_cursor
from tapestry.service.api.preferences import Prefer, Preferences, preferences_of
from tapestry.service.api.problems import Problem, invalid
from tapestry.service.api.uploads import private_file, private_folder, receive, receive_body
from tapestry.service.archives import ZIP, place_in
from tapestry.service.graphs import priced_resources
from tapestry.service.importing import LONGEST_NAME, SaveResult
from tapestry.service.presentation import moment, objective_document
from tapestry.service.provenance import versions
from tapestry.service.store import ImportRequest, StoredGraph, UnknownId
from tapestry.teg.content_hash import content_hash
from tapestry.teg.faults import Fault
from tapestry.teg.importers import ImportFailure
from tapestry.teg.importers.files import PYTORCH, STABLEHLO
from tapestry.teg.printable import HIDDEN, is_printable

router = APIRouter(prefix="/v1/graphs", tags=["graphs"])

# A dimension and its size, as `batch=8`; spaces around both do not count.
SIZE = f" *[^ =,{HIDDEN}](?:[^=,{HIDDEN}]*[^ =,{HIDDEN}])? *= *{decimal_up_to(2**31 - 1, has_zero=False)} *"
Sizes = Annotated[str, Field(json_schema_extra={"pattern": f"^(?:{SIZE})?(?:,(?:{SIZE})?)*$"})]
NAMED: dict[str, Any] = {**PRINTABLE, "minLength": 1, "maxLength": LONGEST_NAME}
DOCUMENT, FILE = "save_document", "save_file"  # in the hashes of uploads
EXAMPLE = json.loads((files("tapestry.service.api") / "example.teg.json").read_text())
SAVED: Answers = {
    200: {"model": GraphAnswer, "description": "It was known already", "headers": LOCATION},
    201: {"headers": LOCATION},
    202: {"model": ImportAnswer, "description": "A worker reads it: it is large", "headers": FOLLOWED},
}


@router.post(
    "",
    status_code=201,
    response_model=GraphAnswer,
    responses=SAVED | problems(413, 415, 422),
    dependencies=[body_of("application/json")],
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "a TEG document",
            "content": {
                "application/json": {
                    "schema": {"$ref": DOCUMENT_SCHEMA},
                    "example": EXAMPLE,
                }
            },
        }
    },
)
async def post_graph(request: Request, parts: Parts, prefer: Prefer = None) -> Response:
    """Upload a program as a TEG document. The same content is the same graph, so it may be sent again freely.

    A large one is read by a worker (202): its import is at `Location`.
    """
    with private_file() as path, private_folder() as folder:
        await receive_body(request, path)
        return await run_in_threadpool(_read_document, parts, path, folder, preferences_of(prefer))


@router.post(
    "/import",
    status_code=201,
    response_model=GraphAnswer,
    responses=SAVED | problems(413, 415, 422),
    dependencies=[body_of(FORM)],
)
def import_graph(
    parts: Parts,
    file: Annotated[
        UploadFile, File(description="a program, or a .zip of an ONNX file and its external data")
    ],
    dims: Annotated[
        list[Sizes] | None,
        Form(description="sizes of dynamic dimensions, such as batch=8; the field may be repeated"),
    ] = None,
    name: Annotated[
        str | None, Form(description="the program's name; default: the file's", json_schema_extra=dict(NAMED))
    ] = None,
    data: Annotated[
        list[UploadFile] | None,
        File(description="external data of an ONNX file, under the names by which it refers to them"),
    ] = None,
    prefer: Prefer = None,
) -> Response:
    """Upload a program as a file: ONNX, or by its suffix StableHLO (.mlir, .mlir.gz, .mlirbc) or PyTorch (.pt2).

    External data of an ONNX file is sent along, in parts or in one archive; nothing else is read. A large program is
    read by a worker (202): its import is at `Location`.
    """
    ending, sizes, called = how = _how(file.filename, name, dims, data)
    names = [part.filename or "" for part in data or ()]
    hashes = [content_hash(file.file, ending), *(content_hash(part.file) for part in data or ())]
    key = upload_key(parts, hashes, FILE, *how, names)
    if (known := parts.store.graphs.uploaded(key)) is not None:
        return _answer(parts, SaveResult(known))
    limits = parts.settings.limits
    wanted = ImportRequest(
        False, called, ending, sizes, tuple(names), limits.upload_bytes, limits.graph_blocks, versions()
    )
    with private_file(ending) as path, private_folder() as folder:
        receive(file, path)
        places = {name: _receive_data(part, folder) for name, part in zip(names, data or (), strict=True)}
        return _read(parts, ProgramUpload(key, wanted, path, folder, places), preferences_of(prefer))


@router.get("/import", response_model=GraphAnswer, responses=KEPT | problems(404, 422))
def find_import(
    request: Request,
    parts: Parts,
    sha256: Annotated[
        list[Sha256],
        Query(
            description="the SHA-256 of the file in hexadecimal digits, of a .pt2 file that of the members that are "
            "read (`tapestry.teg.content_hash`); then those of its external data, in the order of `data`"
        ),
    ],
    filename: Annotated[str, Query(max_length=1000, description="the file's name, with its suffix")],
    dims: Annotated[list[Sizes] | None, Query(description="as in the upload")] = None,
    name: Annotated[str | None, Query(description="as in the upload", json_schema_extra=dict(NAMED))] = None,
    data: Annotated[list[str] | None, Query(description="the names of external data, in order")] = None,
) -> Response:
    """Find the program of a file that was uploaded before, so that a large file need not be sent again.

    It is known by its hash, if it was read by the same versions of the libraries and with the same `dims` and name.
    """
    how = _how(filename, name, dims, data)
    known = parts.store.graphs.uploaded(upload_key(parts, sha256, FILE, *how, data or []))
    if known is None:
        raise UnknownId("no such file was uploaded; send it (POST /v1/graphs/import)")
    return revalidated(request, graph_document(parts.store.graphs.get(known)))


@router.get("", response_model=GraphsAnswer, responses=KEPT | problems(422))
def list_graphs(request: Request, parts: Parts, limit: PageLimit = 50, cursor: PageCursor = None) -> Response:
    """List the uploaded programs, newest first; inputs and outputs are only in the answer for a single program."""
    found = parts.store.graphs.page(limit + 1, read_cursor(cursor))
    page = found[:limit]
    following = cursor_of(page[-1].created_at, page[-1].id) if len(found) > limit else None
    return revalidated(
        request, {"items": [_brief(graph_document(graph)) for graph in page], "next": following}
    )


@router.get("/{graph_id}", response_model=GraphAnswer, responses=KEPT | problems(404))
def get_graph(graph_id: GraphId, request: Request, parts: Parts) -> Response:
    """Show the stored description of a program."""
    return revalidated(request, graph_document(parts.store.graphs.get(graph_id)))


@router.delete("/{graph_id}", status_code=204, responses=problems(404, 409), response_class=Response)
def delete_graph(graph_id: GraphId, parts: Parts) -> Response:
    """Delete a program that no run, batch or rewritten program needs."""
    parts.store.deletions.graph(graph_id)
    return Response(status_code=204)


@router.get(
    "/{graph_id}/document",
    responses=json_answer("The TEG document", EXAMPLE) | problems(404),
    response_class=Response,
)
def get_document(graph_id: GraphId, request: Request, parts: Parts) -> Response:
    """Fetch a program as a TEG document; gzipped where that is accepted."""
    return packed(request, parts.store.graphs.document(graph_id), f"{graph_id}.teg.json")


def _read_document(parts: Context, path: Path, folder: Path, preferences: Preferences) -> Response:
    """Read the document in a file and store it; one that was read before is not read again."""
    limits = parts.settings.limits
    with path.open("rb") as file:
        key = upload_key(parts, [content_hash(file)], DOCUMENT, limits.document_bytes)
    if (known := parts.store.graphs.uploaded(key)) is not None:
        return _answer(parts, SaveResult(known))
    wanted = ImportRequest(True, "", "", {}, (), limits.document_bytes, limits.graph_blocks, versions())
    return _read(parts, ProgramUpload(key, wanted, path, folder), preferences)


def _read(parts: Context, upload: ProgramUpload, preferences: Preferences) -> Response:
    found = read_upload(parts, upload, preferences)
    return accepted(parts, found, preferences) if isinstance(found, str) else _answer(parts, found)


def upload_key(parts: Context, hashes: Sequence[str], *how: Any) -> str:
    """Return a hash of what a program is made from, given the hashes of its files, and of how it is made."""
    blocks = parts.settings.limits.graph_blocks
    return hashlib.sha256(
        json.dumps([*how, blocks, versions(), *hashes], sort_keys=True).encode()
    ).hexdigest()


def graph_document(graph: StoredGraph) -> dict[str, Any]:
    """Convert a stored program to JSON."""
    return {
        "id": graph.id,
        "name": graph.name,
        "blocks": graph.blocks,
        "lacks_values": graph.lacks_values,
        "created_at": moment(graph.created_at),
        "summary": None if graph.summary is None else dict(graph.summary),
        "objectives": [
            objective_document(objective)
            for name in priced_resources(graph.summary)
            for objective in resource_objectives(Resource(name))
        ],
        "links": {
            "self": f"/v1/graphs/{graph.id}",
            "document": f"/v1/graphs/{graph.id}/document",
            "drawing": f"/v1/graphs/{graph.id}/drawing",
            "rewrites": f"/v1/graphs/{graph.id}/rewrites",
            "history": f"/v1/graphs/{graph.id}/history",
            "runs": f"/v1/runs?graph_id={graph.id}",
            "page": f"/graphs/{graph.id}",
        },
    }


def _brief(document: dict[str, Any]) -> dict[str, Any]:
    """Remove the parts of a summary that grow with the program: a list holds up to 200 of them."""
    summary = document["summary"] or {}
    kept = {name: value for name, value in summary.items() if name not in ("sources", "sinks")}
    return {**document, "summary": kept or None}


def _answer(parts: Context, saved: SaveResult) -> Response:
    if (refusal := saved.refusal) is not None:
        raise Problem(*refusal)
    document = graph_document(parts.store.graphs.get(saved.id))
    headers = {"Location": document["links"]["self"]}
    return answer(document, 201 if saved.is_new else 200, headers)


def _how(
    filename: str | None, name: str | None, dims: Sequence[str] | None, data: Sequence[Any] | None
) -> tuple[str, dict[str, int], str]:
    """Return the suffix of an uploaded file, the sizes of its dynamic dimensions and the program's name.

    Raises:
        Problem: they are none, or there is external data of a file that keeps its data itself.
    """
    ending, sizes, called = _ending(filename), _dims(dims or ()), _name(name, filename)
    if data and ending:
        raise invalid((Fault("/data", "external data is for ONNX files; others have theirs inside"),))
    return ending, sizes, called


def _dims(texts: Sequence[str]) -> dict[str, int]:
    sizes, faults = {}, []
    for text in (part for given in texts for part in given.split(",") if part):
        name, _, size = (piece.strip() for piece in text.partition("="))
        if re.fullmatch(SIZE, text):
            sizes[name] = int(size)
        else:
            faults.append(Fault("/dims", f"expected NAME=SIZE such as batch=8, not {text[:80]!r}"))
    if faults:
        raise Problem(422, "invalid", faults[0].detail, tuple(faults))
    return sizes


def _receive_data(part: UploadFile, folder: Path) -> Path:
    """Write external data to its place in a private folder, and return that."""
    try:
        place = place_in(folder, part.filename or "")
        if place.exists():
            raise ImportFailure(f"{part.filename!r} was sent twice")
    except ImportFailure as error:
        raise invalid((Fault("/data", str(error)),)) from None
    receive(part, place)
    return place


def _ending(filename: str | None) -> str:
    """Return the suffix that specifies the format of a file; empty for ONNX."""
    lower = (filename or "").lower()
    return next((e for e in (PYTORCH, *STABLEHLO, ZIP) if lower.endswith(e)), "")


def _name(given: str | None, filename: str | None) -> str:
    """Return the program's name: `given`, else the file's name without folders and suffix."""
    if given is None:
        file = Path((filename or "").replace("\\", "/"))
        stem = file.name[: -len(ending)] if (ending := _ending(filename)) else file.stem
        return "".join(c for c in stem if is_printable(c))[:LONGEST_NAME] or "model"
    if not 0 < len(given) <= LONGEST_NAME or not is_printable(given):
        fault = Fault("/name", f"expected 1 to {LONGEST_NAME} printable characters")
        raise Problem(422, "invalid", fault.detail, (fault,))
    return given
