"""`/login` and `/logout`: a browser's cookie for the key. The form itself is a page of the dashboard."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote, urlsplit

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse

from tapestry.service.api.context import Parts
from tapestry.service.api.keys import COOKIE, cookie_value, is_key

router = APIRouter(include_in_schema=False)

COOKIE_S = 30 * 24 * 3600


@router.post("/login")
def login(
    request: Request,
    parts: Parts,
    key: Annotated[str, Form(max_length=1000)] = "",
    next: Annotated[str, Form(max_length=2000)] = "/",
) -> RedirectResponse:
    """Check the key from the login page and give the browser a cookie for it."""
    expected = parts.settings.api_key
    target = _local(next)
    if expected is not None:
        if not is_key(key, expected):
            return RedirectResponse(f"/login?wrong=1&next={quote(target)}", 303)
        answer = RedirectResponse(target, 303)
        is_safe = request.url.scheme == "https"
        answer.set_cookie(
            COOKIE, cookie_value(expected), COOKIE_S, httponly=True, samesite="strict", secure=is_safe
        )
        return answer
    return RedirectResponse(target, 303)


@router.post("/logout")
def logout() -> RedirectResponse:
    """Delete the cookie."""
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer


def _local(target: str) -> str:
    """Return `target` if it is a path of this service, else `/`; never another site's address."""
    is_path = target.startswith("/") and target.isprintable() and not any(c in target for c in "\\ ")
    return target if is_path and not target.startswith("//") and not urlsplit(target).netloc else "/"
