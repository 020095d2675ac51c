"""Limits on bodies: their type is checked before their content, and their length is counted as they arrive."""

from __future__ import annotations

from typing import Any

from fastapi import Depends, Request
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tapestry.service.api.problems import Problem, respond
from tapestry.service.settings import Limits


class BodyLimit:
    """Middleware that refuses bodies beyond the limit of their path, whatever length their sender states."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app, self._limits = app, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit, taken = self._limit(scope["path"]), 0
        headers = dict(scope["headers"])
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            reason = "send the body as it is, without a Content-Encoding"
            await respond(415, "unsupported_media_type", reason)(scope, receive, send)
            return
        stated = headers.get(b"content-length", b"0")
        if stated.isdigit() and (len(stated) > 18 or int(stated) > limit):
            await respond(413, "too_large", _too_large(limit), headers={"Connection": "close"})(
                scope, receive, send
            )
            return

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > limit:  # the one kind of error that those who read bodies let through
                raise HTTPException(413, _too_large(limit), headers={"Connection": "close"})
            return message

        await self._app(scope, counted, send)

    def _limit(self, path: str) -> int:
        if path == "/v1/graphs/import":
            return self._limits.upload_bytes
        return self._limits.document_bytes if path == "/v1/graphs" else self._limits.body_bytes


def _too_large(limit: int) -> str:
    return f"the body has more than the {limit:,} bytes that are allowed here"


def body_of(kind: str) -> Any:
    """Build a dependency of endpoints whose bodies have this media type: others are refused with 415."""

    def check(request: Request) -> None:
        headers = request.headers
        if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
            return  # no body: that it is missing is said by those who need it
        given = headers.get("content-type", "").partition(";")[0].strip().lower()
        is_json = kind == "application/json" and given.startswith("application/") and given.endswith("+json")
        if given != kind and not is_json:
            reason = f"expected Content-Type: {kind}, not {given[:100] or 'none'}"
            raise Problem(415, "unsupported_media_type", reason)

    return Depends(check)
