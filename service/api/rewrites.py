"""`/v1/graphs/{id}/rewrites`: candidate moves of a program, and rewriting by rules; in the task pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from tapestry.rewrites.rules import FAMILY_NAMES
from tapestry.service.api import rewrite_tasks
from tapestry.service.api.answers import answer, revalidated
from tapestry.service.api.bodies import RewriteBody
from tapestry.service.api.context import Parts
from tapestry.service.api.graphs import graph_document
from tapestry.service.api.limits import body_of
from tapestry.service.api.openapi_parts import KEPT, LOCATION, Answers, GraphId, Printable, problems
from tapestry.service.api.problems import Problem
from tapestry.service.api.rewrite_models import CandidateMovesAnswer, GraphHistoryAnswer, RewriteAnswer
from tapestry.service.presentation import moment
from tapestry.service.rewriting import KINDS, RewriteRequest
from tapestry.teg.faults import Fault

router = APIRouter(prefix="/v1/graphs", tags=["graphs"])

MOST_MOVES = 10_000_000
SAVED: Answers = {
    200: {"model": RewriteAnswer, "description": "The program was known already", "headers": LOCATION},
    201: {"headers": LOCATION},
}


def _between_commas(name: str) -> str:
    """Return a regular expression for names of a form, with commas in between and spaces around them."""
    return f"^ *{name} *(?:, *{name} *)*$"


# Names with commas in between, so long and so many that they fit into the first line of a request.
# That none is empty is checked here below.
Names = Annotated[
    str,
    Field(
        max_length=2000,
        pattern="^[A-Za-z0-9_., -]*$",
        json_schema_extra={"pattern": _between_commas("[A-Za-z0-9_.-]+(?: +[A-Za-z0-9_.-]+)*")},
    ),
]
FamilyNames = Annotated[
    str,
    Field(max_length=2000, json_schema_extra={"pattern": _between_commas(f"(?:{'|'.join(FAMILY_NAMES)})")}),
]


@router.get(
    "/{graph_id}/rewrites", response_model=CandidateMovesAnswer, responses=KEPT | problems(404, 422, 503)
)
def list_moves(
    graph_id: GraphId,
    request: Request,
    parts: Parts,
    rules: Annotated[
        list[Names] | None,
        Query(max_length=20, description="only moves of these rules; may be repeated, or names with commas"),
    ] = None,
    families: Annotated[
        list[FamilyNames] | None,
        Query(max_length=20, description=f"only rules of these families: {', '.join(FAMILY_NAMES)}"),
    ] = None,
    kind: Annotated[
        str | None,
        Query(max_length=40, description="only rules of this kind", json_schema_extra={"enum": list(KINDS)}),
        Printable,
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="how many at most")] = 100,
    after: Annotated[int, Query(ge=0, le=MOST_MOVES, description="`next` of the page before")] = 0,
) -> Response:
    """List the candidate moves of a program, in program order, those of equal layers as one. Each can be applied as
    it stands: by `POST` with it among `moves`.
    """
    summary = parts.store.graphs.get(graph_id)
    wanted = RewriteRequest(_names("rules", rules), _names("families", families), kind)
    address = parts.store.address
    reported, faults = parts.pool.do(rewrite_tasks.list_moves, graph_id, wanted, after, limit, address)
    _refuse([replace(f, pointer=f"#query{f.pointer}") for f in faults])
    end = after + len(reported["moves"])
    following = end if end < reported["total"] else None
    return revalidated(
        request, {"graph_id": summary.id, "graph": summary.name, **reported, "next": following}
    )


@router.post(
    "/{graph_id}/rewrites",
    status_code=201,
    response_model=RewriteAnswer,
    responses=SAVED | problems(404, 413, 415, 422),
    dependencies=[body_of("application/json")],
)
def rewrite_graph(graph_id: GraphId, body: RewriteBody, parts: Parts) -> Response:
    """Apply rules or moves to a program. The result is stored as a program of its own, with its history; the original
    program is unchanged.
    """
    parts.store.graphs.get(graph_id)
    moves = None if body.moves is None else [move.model_dump() for move in body.moves]
    wanted = RewriteRequest(
        body.rules, body.families, body.kind, body.mode, body.pipeline, moves, body.prepare
    )
    address, most = parts.store.address, parts.settings.limits.graph_blocks
    made = parts.pool.do(rewrite_tasks.rewrite, graph_id, wanted, body.name, address, most)
    if made.is_too_large:
        raise Problem(413, "too_large", made.faults[0].detail, made.faults)
    _refuse(made.faults)
    graph = graph_document(parts.store.graphs.get(made.id))
    before = None if made.before is None else graph_document(parts.store.graphs.get(made.before))
    document = {"graph": graph, "before": before, "source": graph_id, **(made.report or {})}
    return answer(document, 201 if made.is_new else 200, {"Location": graph["links"]["self"]})


@router.get("/{graph_id}/history", response_model=GraphHistoryAnswer, responses=KEPT | problems(404))
def get_history(graph_id: GraphId, request: Request, parts: Parts) -> Response:
    """Show how a program was derived from others here, oldest first; empty for one that was uploaded."""
    parts.store.graphs.get(graph_id)
    items = [
        {
            "source": made.source_id,
            "part": made.part or None,
            "moves": [dict(move) for move in made.moves],
            "created_at": moment(made.created_at),
            "links": {
                "source": f"/v1/graphs/{made.source_id}",
                "changes": f"/v1/graphs/{graph_id}/changes?source={made.source_id}",
            },
        }
        for made in parts.store.graphs.rewritings(graph_id)
    ]
    return revalidated(request, {"graph_id": graph_id, "items": items})


def _names(field: str, given: Sequence[str] | None) -> list[str] | None:
    """Parse the names of a query's field, which may be repeated or hold several with commas; none is empty."""
    if given is None:
        return None
    names = [name.strip() for text in given for name in text.split(",")]
    if not all(names):
        came = ", ".join(map(repr, given))
        _refuse([Fault(f"#query/{field}", f"expected names with commas in between, not {came[:200]}")])
    return names


def _refuse(faults: Sequence[Fault]) -> None:
    if faults:
        detail = "; ".join(f"{fault.pointer}: {fault.detail}" for fault in faults)
        raise Problem(422, "invalid", detail, tuple(faults))
