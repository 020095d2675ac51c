"""`/docs` and `/openapi.json`: the API reference, from files of an installed package, not from another host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, Response
from pydantic.json_schema import models_json_schema
from starlette.staticfiles import StaticFiles

from tapestry.service.api.examples import EXAMPLES, REQUESTS
from tapestry.service.api.models import ProblemAnswer

router = APIRouter(include_in_schema=False)

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Tapestry: API reference</title>
<link rel="stylesheet" href="/static/reference/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="/static/reference/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"""
START = """SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis],
});
"""


def assets() -> StaticFiles:
    """Return the static files of the reference: styles and scripts."""
    return StaticFiles(packages=[("fastapi_swagger", "resources")])


@router.get("/docs")
def get_reference() -> HTMLResponse:
    """Return the page of the reference."""
    return HTMLResponse(PAGE)


@router.get("/docs/start.js")
def get_start() -> Response:
    """Return the script that starts the page, as a file of its own: the page may not run inline scripts."""
    return Response(START, media_type="text/javascript")


def described(app: FastAPI, *, has_key: bool) -> Callable[[], dict[str, Any]]:
    """Build the function behind `/openapi.json`: with examples of all bodies and answers, and the actual errors."""
    document: dict[str, Any] = {}

    def describe() -> dict[str, Any]:
        if not document:
            document.update(_document(app, has_key))
        return document

    return describe


def _document(app: FastAPI, has_key: bool) -> dict[str, Any]:
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    schemas = document["components"]["schemas"]
    _, definitions = models_json_schema(
        [(ProblemAnswer, "serialization")], ref_template="#/components/schemas/{model}"
    )
    schemas.update(definitions["$defs"])
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    if has_key:
        document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"key": []}]
    for path in document["paths"].values():
        for operation in path.values():
            _forget_unused(operation["responses"])
            body = operation.get("requestBody", {})
            for media in (body, *operation["responses"].values()):
                _exemplify(media.get("content", {}))
    return document


def _forget_unused(answers: dict[str, Any]) -> None:
    """Remove FastAPI's 422 answer from endpoints whose only parameters are ids: ids of another form are not found."""
    if "application/json" in answers.get("422", {}).get("content", {}):
        del answers["422"]


def _exemplify(content: dict[str, Any]) -> None:
    """Add to each body whose model has a name the example of that model."""
    for media in content.values():
        name = media.get("schema", {}).get("$ref", "").rpartition("/")[2]
        example = EXAMPLES.get(name) or REQUESTS.get(name)
        if example is not None:
            media.setdefault("example", example)
