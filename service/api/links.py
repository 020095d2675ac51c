"""Links between operations, as OpenAPI has them: which answer names something, and who takes its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class _Named(NamedTuple):
    """A name in an answer: of which operation and statuses, where it is, and the parameter of paths that takes it."""

    operation: str
    statuses: tuple[str, ...]
    place: str
    parameter: str
    under: str = "/v1/"


NAMED = (
    _Named("POST /v1/graphs", ("200", "201"), "/id", "graph_id"),
    _Named("POST /v1/graphs", ("202",), "/id", "import_id"),
    _Named("POST /v1/graphs/import", ("200", "201"), "/id", "graph_id"),
    _Named("POST /v1/graphs/import", ("202",), "/id", "import_id"),
    _Named("GET /v1/graphs/import", ("200",), "/id", "graph_id"),
    _Named("GET /v1/imports/{import_id}", ("200",), "/graph_id", "graph_id"),
    _Named("POST /v1/graphs/{graph_id}/rewrites", ("200", "201"), "/graph/id", "graph_id"),
    _Named("POST /v1/graphs/{graph_id}/precisions/{dtype}", ("200", "201"), "/graph/id", "graph_id"),
    _Named("POST /v1/runs", ("200", "202"), "/id", "run_id"),
    _Named("GET /v1/runs/{run_id}/frontier", ("200",), "/plans/0/id", "plan_id"),
    _Named("POST /v1/plans/{plan_id}/executions", ("202",), "/id", "execution_id"),
    _Named("GET /v1/plans/{plan_id}", ("200",), "/run", "run_id"),
    _Named("POST /v1/batches", ("202",), "/id", "batch_id"),
    _Named("GET /v1/batches/{batch_id}", ("200",), "/entries/0/run", "run_id"),
    _Named("PUT /v1/tensors/{name}", ("200",), "/name", "name"),
    _Named("GET /v1/graphs", ("200",), "/items/0/id", "graph_id"),
    _Named("GET /v1/imports", ("200",), "/items/0/id", "import_id"),
    _Named("GET /v1/runs", ("200",), "/items/0/id", "run_id"),
    _Named("GET /v1/batches", ("200",), "/items/0/id", "batch_id"),
    _Named("GET /v1/tensors", ("200",), "/items/0/name", "name"),
    *(
        _Named(f"GET /v1/{catalog}", ("200",), "/items/0/name", "member", f"/v1/{catalog}/")
        for catalog in ("meshes", "devices", "rules", "operators", "objectives")
    ),
)


def add_links(paths: Mapping[str, Mapping[str, Any]]) -> None:
    """Add to each answer that names something links to the operations on what has that name."""
    operations = {
        f"{method.upper()} {path}": operation
        for path, methods in paths.items()
        for method, operation in methods.items()
    }
    for named in NAMED:
        links = {
            operation["operationId"]: {
                "operationId": operation["operationId"],
                "parameters": {named.parameter: f"$response.body#{named.place}"},
            }
            for title, operation in operations.items()
            if f"{{{named.parameter}}}" in title and title.partition(" ")[2].startswith(named.under)
        }
        for status in named.statuses:
            operations[named.operation]["responses"][status].setdefault("links", {}).update(links)
