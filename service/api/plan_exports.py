"""Exports of plans: one record per format. The endpoint, its description and its errors are made from these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastapi import Request, Response

from tapestry.service.api import tasks
from tapestry.service.api.answers import packed, revalidated
from tapestry.service.api.context import Context
from tapestry.service.api.graphs import EXAMPLE
from tapestry.service.api.openapi_parts import UNCHANGED, Answers
from tapestry.service.api.problems import Problem
from tapestry.service.store import StoredPlan

JSON = "application/json"


@dataclass(frozen=True)
class PlanExport:
    """A format for other programs: name, a line for readers, an example of its media type, and how it is answered."""

    name: str
    description: str
    media_type: str
    example: Any
    answer: Callable[[Request, StoredPlan, Context], Response]


def explicit_graph(plan: StoredPlan, parts: Context) -> bytes:
    """Return the explicit graph of a plan: expanded in the task pool the first time, stored from then on.

    Raises:
        Problem: the graph would be too large, with the reason.
    """
    content = parts.store.plans.artifact(plan.key, tasks.EXPLICIT)
    if content is None:
        limit = parts.settings.limits.explicit_nodes
        url = parts.settings.database_url
        refusal = parts.pool.do(tasks.render_explicit, plan.key, plan.run_id, url, limit)
        content = parts.store.plans.artifact(plan.key, tasks.EXPLICIT)
        if content is None:
            raise Problem(422, "too_large_to_unfold", refusal)
    return content


def _teg(request: Request, plan: StoredPlan, parts: Context) -> Response:
    return packed(request, explicit_graph(plan, parts), f"{plan.public_id}.teg.json")


def _placements(request: Request, plan: StoredPlan, _: Context) -> Response:
    return revalidated(request, dict(plan.placements or {}))


def _csv(_: Request, plan: StoredPlan, __: Context) -> Response:
    """Answer with each cost by name, counted values beside predicted ones, and the version of the cost model."""
    checked = plan.verified or {}
    counted = {"peak_memory_bytes": "memory", "traffic_bytes": "traffic"}
    lines = ["objective,predicted,counted"]
    for name, value in plan.cost.items():
        figures = checked.get(counted.get(name, ""), {})
        lines.append(f"{name},{value!r},{figures.get('counted', '')}")
    lines.append(f"cost_model,{plan.cost_model},")
    return _file("\r\n".join([*lines, ""]), "text/csv", f"{plan.public_id}.csv")


def _dot(_: Request, plan: StoredPlan, parts: Context) -> Response:
    drawing = parts.pool.do(tasks.draw, plan.key, parts.settings.database_url)
    return _file(drawing, "text/vnd.graphviz", f"{plan.public_id}.dot")


def _file(content: str, media_type: str, name: str) -> Response:
    headers = {"Cache-Control": "private, no-cache", "Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, headers=headers, media_type=media_type)


EXPORTS: tuple[PlanExport, ...] = (
    PlanExport("teg", "the explicit graph", JSON, EXAMPLE, _teg),
    PlanExport("placements", "every decision, for tapestry's own tools", JSON, EXAMPLE, _placements),
    PlanExport("csv", "costs and checks", "text/csv", "objective,predicted,counted\r\n", _csv),
    PlanExport(
        "dot",
        "the rewritten graph as a drawing for Graphviz",
        "text/vnd.graphviz",
        'digraph "two_layers" {}',
        _dot,
    ),
)


def exports_answers() -> Answers:
    """Return the documented success responses of the endpoint that exports: one content per media type."""
    content = {
        export.media_type: {
            "schema": {"type": "object" if export.media_type == JSON else "string"},
            "example": export.example,
        }
        for export in EXPORTS
    }
    return {200: {"description": "The plan in the form that was asked for", "content": content}, **UNCHANGED}
