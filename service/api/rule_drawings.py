"""`/v1/rules/{member}/drawing` and `…/runs`: a rule on its example, and the runs in which it was applied."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from tapestry.rewrites import PLACEMENT, catalog
from tapestry.service.api import drawing_tasks
from tapestry.service.api.answers import packed
from tapestry.service.api.context import Parts
from tapestry.service.api.drawings import EXAMPLE
from tapestry.service.api.models import Answer
from tapestry.service.api.openapi_parts import json_answer, problems
from tapestry.service.api.problems import Problem
from tapestry.service.api.program_changes import CHANGES
from tapestry.service.presentation import moment
from tapestry.teg.faults import Fault, near_names

router = APIRouter(prefix="/v1/rules", tags=["catalogs"])

MOST_RUNS = 20
SIDE: dict[str, Any] = {**EXAMPLE, "changed": [1], "cost": {"blocks": 1, "flops": 128, "bytes": 1024}}
DRAWN = {
    "rule": "relu_of_maximum",
    "place": ["h"],
    "choice": "",
    "choices": [],
    "before": SIDE,
    "after": SIDE,
    "blocks": CHANGES["blocks"],
}
RuleName = Annotated[str, Path(description="the name of a rule", examples=["fuse_cells"])]


class RuleInRun(Answer):
    """Counts of one run: how often it applied a rule, and how often that improved its frontier."""

    run: str
    graph: str = Field(description="the name of the program")
    mesh: str
    created_at: str
    applied: int
    improved: int


class RuleRunsAnswer(Answer):
    """The newest runs in which a rule was applied, and how many there are in all."""

    items: list[RuleInRun]
    total: int


@router.get(
    "/{member}/drawing",
    responses=json_answer("The two drawings", DRAWN) | problems(404),
    response_class=Response,
)
def get_rule_drawing(member: RuleName, request: Request, parts: Parts) -> Response:
    """Draw a structural rule by the smallest example of its tests, before its move and after it: columns as those of
    programs, the numbers of the blocks that it takes away and makes (`changed`), and what each side costs.
    """
    content = parts.pool.do(drawing_tasks.draw_rule, member)
    if content is None:
        known = [*catalog(), *(each.name for each in PLACEMENT)]
        message = f"nothing among the rules is called {member[:80]!r}"
        if member in known:
            message = f"{member} changes placements, not programs: there is nothing to draw"
        raise Problem(
            404, "unknown_id", message, (Fault("#path/member", message, near_names(member, catalog())),)
        )
    return packed(request, content, f"{member}.drawing.json")


@router.get(
    "/{member}/runs", response_model=RuleRunsAnswer, responses=problems(), operation_id="list_runs_of_rule"
)
def list_runs(member: RuleName, parts: Parts) -> dict[str, Any]:
    """List the newest runs in which a rule was applied, the newest first, with how often that improved a frontier."""
    items, total = parts.store.learning.runs_with(member, MOST_RUNS)
    return {"items": [{**each, "created_at": moment(each["created_at"])} for each in items], "total": total}
