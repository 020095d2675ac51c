"""`/docs`: the interactive reference, from files that come with a package rather than from another host; and login."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Form
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from service.api.context import Parts
from service.api.keys import COOKIE, cookie_value, is_key

router = APIRouter(include_in_schema=False)

COOKIE_S = 30 * 24 * 3600
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
    """The reference's styles and scripts."""
    return StaticFiles(packages=[("fastapi_swagger", "resources")])


@router.get("/docs")
def get_reference() -> HTMLResponse:
    """The page."""
    return HTMLResponse(PAGE)


@router.get("/docs/start.js")
def get_start() -> Response:
    """The script that begins it, in a file of its own: the page may run no script in itself."""
    return Response(START, media_type="text/javascript")


@router.post("/login")
def login(parts: Parts, key: Annotated[str, Form()], next: Annotated[str, Form()] = "/") -> RedirectResponse:
    """Take the key from the login page and give the browser a cookie for it."""
    expected = parts.settings.api_key
    if expected is None or not is_key(key, expected):
        return RedirectResponse("/login?wrong=1", 303)
    target = next if next.startswith("/") and not urlsplit(next).netloc and "\\" not in next else "/"
    answer = RedirectResponse(target, 303)
    answer.set_cookie(COOKIE, cookie_value(expected), COOKIE_S, httponly=True, samesite="strict")
    return answer
