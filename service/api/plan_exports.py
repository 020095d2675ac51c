"""Exports of plans: one record per format. The endpoint, its description and its errors are made from these."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from fastapi import Request, Response, UploadFile

from tapestry.costmodel.version import COST_MODEL_VERSION
from tapestry.service.api import tasks
from tapestry.service.api.answers import download_headers, not_modified, revalidated, tag_of, takes_gzip
from tapestry.service.api.context import Context
from tapestry.service.api.graphs import EXAMPLE
from tapestry.service.api.openapi_parts import UNCHANGED, Answers
from tapestry.service.api.plan_accounts import schedule_answer
from tapestry.service.api.problems import Problem, invalid
from tapestry.service.api.streams import Streamed
from tapestry.service.api.task_pool import TaskStream
from tapestry.service.api.uploads import private_file, receive
from tapestry.service.plan_tables import FORMS, TableForm
from tapestry.service.store import StoredPlan
from tapestry.teg.faults import Fault
from tapestry.teg.sharding.explicit_parts import GraphPart
from tapestry.teg.sharding.explicit_size import ExplicitSize

JSON = "application/json"
WHOLE = GraphPart()
PROGRAM, TABLE, GRAPH = KINDS = ("Programs", "Tables of shardings", "Graphs and figures")
TABLE_EXAMPLES: dict[str, Any] = {
    "table": {"format": "tapestry.shardings", "version": 1, "mesh": {"axes": []}, "tensors": []},
    "jax-specs": 'INPUTS = {"x": P("gpu")}\n',
    "dtensor": 'INPUTS = {"x": [Shard(0)]}\n',
    "ttnn": "SPECS = {}\n",
    "tt": "// x: float32[8, 16] over [gpu, -]\n",
    "ttcore": "// x: float32[8, 16] over [gpu, -]\n",
}


@dataclass(frozen=True)
class PlanExport:
    """A format for other programs: name, a line for readers, an example of its media type, and how it is answered.

    `kind` is one of `KINDS`. `has_parts` says whether devices, layers and blocks may be asked for.
    """

    name: str
    description: str
    media_type: str
    example: Any
    answer: Callable[[Request, StoredPlan, Context, GraphPart], Response]
    kind: str = GRAPH
    has_parts: bool = False


def explicit_graph(request: Request, plan: StoredPlan, parts: Context, part: GraphPart = WHOLE) -> Response:
    """Answer with a plan's explicit graph, or a part of it, sent while a process of the task pool writes it.

    Raises:
        Problem: the part does not exist, or it is too large, with size and limit.
    """
    limits = parts.settings.limits
    limit = ExplicitSize(limits.explicit_nodes, limits.explicit_bytes)
    form = "teg" if part.is_whole else "part.teg"
    return _streamed(request, plan, parts, form, tasks.stream_explicit, plan.key, plan.run_id, part, limit)


def _rewritten(request: Request, plan: StoredPlan, parts: Context, _: GraphPart) -> Response:
    return _streamed(request, plan, parts, "rewritten.teg", tasks.stream_rewritten, plan.key)


def _streamed(
    request: Request,
    plan: StoredPlan,
    parts: Context,
    form: str,
    task: Callable[..., Iterable[bytes | tasks.Refused]],
    *subject: Any,
) -> Response:
    """Answer with what a task of the pool writes of a `subject`, all that it depends on, while it is written."""
    is_gzip = takes_gzip(request)
    content = (plan.public_id, COST_MODEL_VERSION, version("tapestry"), form, subject)
    tag = tag_of(repr(content).encode(), "gzip" if is_gzip else "plain")
    if (kept := not_modified(request, tag)) is not None:
        return kept
    stream: TaskStream[Any] = parts.pool.stream(task, *subject, parts.store.address, is_gzip)
    first = next(stream)
    if isinstance(first, tasks.Refused):
        next(stream, None)  # it has ended by itself, and its process is not lost
        raise _refusal(first)
    headers = download_headers(tag, f"{plan.public_id}.{form}.json", is_gzip)
    return Streamed(first, stream, headers)


def _refusal(refused: tasks.Refused) -> Problem:
    if refused.option:
        fault = Fault(f"#query/{refused.option}", refused.detail)
        return Problem(422, "invalid", fault.detail, (fault,))
    members = {
        name: figures._asdict()
        for name, figures in (("size", refused.size), ("limit", refused.limit))
        if figures is not None
    }
    return Problem(422, "too_large_to_unfold", refused.detail, members=members)


def _placements(request: Request, plan: StoredPlan, _: Context, __: GraphPart) -> Response:
    found = revalidated(request, dict(plan.placements or {}))
    found.headers["Content-Disposition"] = _attached(f"{plan.public_id}.placements.json")
    return found


def _csv(_: Request, plan: StoredPlan, __: Context, ___: GraphPart) -> Response:
    """Answer with each cost by name, counted values beside predicted ones, and the version of the cost model."""
    checked = plan.verified or {}
    counted = {"peak_memory_bytes": "memory", "traffic_bytes": "traffic"}
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(("objective", "predicted", "counted"))
    for name, value in plan.cost.items():
        figures = checked.get(counted.get(name, ""), {})
        writer.writerow((name, repr(value), figures.get("counted", "")))
    writer.writerow(("cost_model", plan.cost_model, ""))
    return _file(table.getvalue(), "text/csv", f"{plan.public_id}.csv")


def _dot(_: Request, plan: StoredPlan, parts: Context, __: GraphPart) -> Response:
    drawing = parts.pool.do(tasks.draw, plan.key, parts.store.address)
    return _file(drawing, "text/vnd.graphviz", f"{plan.public_id}.dot")


def _in_form(form: TableForm) -> Callable[[Request, StoredPlan, Context, GraphPart], Response]:
    """Return how a table of shardings is answered in one form."""

    def answer(_: Request, plan: StoredPlan, parts: Context, __: GraphPart) -> Response:
        written = _written(plan, parts, form)
        ending = {JSON: ".json", "text/plain": ".txt"}.get(form.media_type, ".py")
        return _file(written.text, form.media_type, f"{plan.public_id}.{form.name}{ending}")

    return answer


def into_program(plan: StoredPlan, parts: Context, form: TableForm, program: UploadFile) -> Response:
    """Answer with the user's own program, into which a plan's table is written.

    Raises:
        Problem: the file is no program of this kind, or not the one that was searched; or no table describes the plan.
    """
    with private_file() as path:
        receive(program, path)
        written = _written(plan, parts, form, str(path))
    if written.fault:
        raise invalid((Fault("/file", written.fault),))
    return _file(written.text, form.media_type, f"{plan.public_id}.{form.name}.mlir")


def _written(
    plan: StoredPlan, parts: Context, form: TableForm, path: str | None = None
) -> tasks.WrittenTable:
    written = parts.pool.do(tasks.write_table, plan.public_id, form.name, parts.store.address, path)
    if written.refusal:
        raise Problem(422, "not_expressible", written.refusal)
    return written


def _file(content: str, media_type: str, name: str) -> Response:
    headers = {"Cache-Control": "private, no-cache", "Content-Disposition": _attached(name)}
    return Response(content, headers=headers, media_type=media_type)


def _attached(name: str) -> str:
    return f'attachment; filename="{name}"'


def _program(library: str, plan: StoredPlan, parts: Context) -> Response:
    text, refusal = parts.pool.do(tasks.write_program, plan.key, plan.run_id, library, parts.store.address)
    if refusal:
        raise Problem(422, "not_expressible", refusal)
    return _file(text, "text/x-python", f"{plan.public_id}.py")


def _torch(_: Request, plan: StoredPlan, parts: Context, __: GraphPart) -> Response:
    return _program("torch", plan, parts)


def _jax(_: Request, plan: StoredPlan, parts: Context, __: GraphPart) -> Response:
    return _program("jax", plan, parts)


def _perfetto(request: Request, plan: StoredPlan, parts: Context, _: GraphPart) -> Response:
    return schedule_answer(request, plan, parts, is_trace=True)


EXPORTS: tuple[PlanExport, ...] = (
    PlanExport(
        "teg", "the explicit graph, weights named by content", JSON, EXAMPLE, explicit_graph, has_parts=True
    ),
    PlanExport("rewritten", "the graph that the plan shards, with its weights", JSON, EXAMPLE, _rewritten),
    PlanExport("placements", "every decision, for tapestry's own tools", JSON, EXAMPLE, _placements),
    PlanExport(
        "perfetto",
        "the predicted schedule as a trace for Perfetto or Chrome's tracing",
        JSON,
        {"traceEvents": [{"name": "y", "ph": "X", "ts": 0.0, "dur": 1.5, "pid": 0, "tid": 0}]},
        _perfetto,
    ),
    PlanExport("csv", "costs and checks", "text/csv", "objective,predicted,counted\r\n", _csv),
    PlanExport(
        "dot",
        "the rewritten graph as a drawing for Graphviz",
        "text/vnd.graphviz",
        'digraph "two_layers" {}',
        _dot,
    ),
    PlanExport(
        "torch",
        "a PyTorch module that runs on real devices",
        "text/x-python",
        "import torch",
        _torch,
        PROGRAM,
    ),
    PlanExport(
        "jax",
        "a JAX module that runs on real devices",
        "text/x-python",
        "import jax",
        _jax,
        PROGRAM,
    ),
    *(
        PlanExport(
            form.name, form.description, form.media_type, TABLE_EXAMPLES[form.name], _in_form(form), TABLE
        )
        for form in FORMS
        if not form.needs_program
    ),
)


INTO_PROGRAMS: tuple[TableForm, ...] = tuple(form for form in FORMS if form.needs_program)


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
