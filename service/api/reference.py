"""`/docs` and `/openapi.json`: the API reference, from files of an installed package, not from another host."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, Response
from pydantic.json_schema import models_json_schema
from starlette.staticfiles import StaticFiles

from tapestry.optimizer.run.options import OPTIONS
from tapestry.service.api.examples import EXAMPLES, REQUESTS
from tapestry.service.api.limits import FORM
from tapestry.service.api.links import add_links
from tapestry.service.api.mesh_schemas import MESH, MESH_SCHEMA, MESH_SCHEMAS
from tapestry.service.api.models import ProblemAnswer
from tapestry.service.api.openapi_parts import DOCUMENT_SCHEMA
from tapestry.service.api.option_models import LARGEST
from tapestry.service.requests import greatest
from tapestry.service.settings import Limits

router = APIRouter(include_in_schema=False)

BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
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


def described(app: FastAPI, limits: Limits, *, has_key: bool) -> Callable[[], dict[str, Any]]:
    """Build the function behind `/openapi.json`: with examples of all bodies and answers, and the actual errors."""
    document: dict[str, Any] = {}

    def describe() -> dict[str, Any]:
        if not document:
            document.update(_document(app, limits, has_key))
        return document

    return describe


def _document(app: FastAPI, limits: Limits, has_key: bool) -> dict[str, Any]:
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    schemas = document["components"]["schemas"]
    _, definitions = models_json_schema(
        [(ProblemAnswer, "serialization")], ref_template="#/components/schemas/{model}"
    )
    schemas.update(definitions["$defs"])
    for body, members in (("RunBody", ["mesh"]), ("BatchBody", ["meshes", "items"])):
        part = schemas[body]["properties"]
        for member in members:
            part = part[member]
        part["anyOf"] = [{"$ref": MESH_SCHEMA} if kind == MESH else kind for kind in part["anyOf"]]
    schemas.update(MESH_SCHEMAS, TegDocument=_document_schema())
    _limit(schemas, limits)
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    if has_key:
        document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"key": []}]
    for path in document["paths"].values():
        for operation in path.values():
            _forget_unused(operation["responses"])
            body = operation.get("requestBody", {})
            for parameter in operation.get("parameters", ()):
                _forget_null(parameter["schema"])
            if FORM in body.get("content", {}):
                form = body["content"][FORM]["schema"]
                for field in schemas.get(form.get("$ref", "").rpartition("/")[2], form)[
                    "properties"
                ].values():
                    _forget_null(field)
            for media in (body, *operation["responses"].values()):
                _exemplify(media.get("content", {}))
    add_links(document["paths"])
    _mend_bounds(document)
    return document


def _document_schema() -> dict[str, Any]:
    """Return the JSON Schema of TEG documents, its definitions at their place in the API's document."""
    text = (files("tapestry.teg") / "schema" / "teg-1.schema.json").read_text()
    schema = json.loads(text.replace("#/$defs/", f"{DOCUMENT_SCHEMA}/$defs/"))
    return {name: value for name, value in schema.items() if name not in ("$schema", "$id")}


def _limit(schemas: dict[str, Any], limits: Limits) -> None:
    """Add the greatest numbers that this service allows to the options of runs."""
    for option in OPTIONS:
        most = greatest(limits).get(option.name)
        bodies = (
            ("RunBody", "BatchBody") if len(option.path) == 1 else (f"{option.path[0].capitalize()}Body",)
        )
        for body in bodies if most is not None else ():
            schemas[body]["properties"][option.path[-1]]["maximum"] = most


def _mend_bounds(part: Any) -> None:
    """Write bounds without fractions as whole numbers; FastAPI has floats, which round those of 64 bits up."""
    for value in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        _mend_bounds(value)
    for name in BOUNDS if isinstance(part, dict) else ():
        if isinstance(bound := part.get(name), float) and bound.is_integer():
            part[name] = min(int(bound), LARGEST) if name == "maximum" else int(bound)


def _forget_unused(answers: dict[str, Any]) -> None:
    """Remove FastAPI's 422 answer from endpoints whose only parameters are ids: ids of another form are not found."""
    if "application/json" in answers.get("422", {}).get("content", {}):
        del answers["422"]


def _forget_null(schema: dict[str, Any]) -> None:
    """Remove null from what a parameter or a field of a form may be: one that is not sent is missing."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) == 1:
        del schema["anyOf"]
        schema.update({**kinds[0], **schema})
    elif kinds:
        schema["anyOf"] = kinds


def _exemplify(content: dict[str, Any]) -> None:
    """Add to each body whose model has a name the example of that model."""
    for media in content.values():
        name = media.get("schema", {}).get("$ref", "").rpartition("/")[2]
        example = EXAMPLES.get(name) or REQUESTS.get(name)
        if example is not None:
            media.setdefault("example", example)
