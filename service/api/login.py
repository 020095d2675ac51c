"""`/login` and `/logout`: a browser's session for a key. The form itself is a page of the dashboard."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated
from urllib.parse import quote, urlsplit

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from tapestry.service.api.context import Parts
from tapestry.service.api.keys import COOKIE, Locks, WrongKeys, address_of, token_of, too_many
from tapestry.service.api.rates import RateBuckets
from tapestry.service.api.users import note_user

COOKIE_S = 30 * 24 * 3600


def login_router(locks: Locks, wrong: WrongKeys, buckets: RateBuckets) -> APIRouter:
    """Build the router of logins with the keys of a service, each of which is one more of what a key writes."""
    router = APIRouter(include_in_schema=False)

    @router.post("/login")
    async def login(
        request: Request,
        key: Annotated[str, Form(max_length=1000)] = "",
        next: Annotated[str, Form(max_length=2000)] = "/",
    ) -> Response:
        """Check the key from the login page and begin a session of the browser."""
        target = _local(next)
        if not await run_in_threadpool(locks.is_locked):
            return RedirectResponse(target, 303)
        known = await run_in_threadpool(locks.of_text, key)
        if known is None:
            if not await wrong.pause(address_of(request.scope)):
                return too_many()
            return RedirectResponse(f"/login?wrong=1&next={quote(target)}", 303)
        note_user(request.scope, known)
        bucket = buckets.of(known, writes=True)
        refusal = None if bucket is None else buckets.take(bucket)
        if refusal is not None:
            return refusal
        now = datetime.now(UTC)
        latest = now + timedelta(seconds=COOKIE_S)  # in the store, so that the oldest sessions end first
        ends_at = min(latest, known.expires_at or latest)
        token = await run_in_threadpool(locks.begin_session, known, now, latest)
        answer = RedirectResponse(target, 303)
        is_safe = request.url.scheme == "https"
        left_s = int((ends_at - now).total_seconds())
        answer.set_cookie(COOKIE, token, left_s, httponly=True, samesite="strict", secure=is_safe)
        return answer

    @router.post("/logout")
    def logout(request: Request, parts: Parts) -> RedirectResponse:
        """End the session, and delete the cookie: who kept a copy has nothing."""
        token = token_of(request.headers)
        if token is not None:
            parts.all_tenants.keys.end_session(token)
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return answer

    return router


def _local(target: str) -> str:
    """Return `target` if it is a path of this service, else `/`; never another site's address."""
    is_path = target.startswith("/") and target.isprintable() and not any(c in target for c in "\\ ")
    return target if is_path and not target.startswith("//") and not urlsplit(target).netloc else "/"
