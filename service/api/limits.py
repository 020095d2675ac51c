"""Limits on bodies: their type is checked before their content, and their length is counted as they arrive.

A gzipped body is unpacked as it arrives; what comes of it is limited like what is sent as it is.
"""

from __future__ import annotations

import zlib
from typing import Any

from fastapi import Depends, Request
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tapestry.service.api.problems import Problem, respond
from tapestry.service.settings import Limits

FORM = "multipart/form-data"
AT_ONCE_BYTES = 1024  # more may stand for many MiB, and others are not to wait for them
GZIP = 16 + zlib.MAX_WBITS  # of `zlib`: with gzip's header and checksum


class FormRoute(APIRoute):
    """A route for requests that send a form, beside another one at the same place for all others."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        kind = dict(scope["headers"]).get(b"content-type", b"")
        if not kind.lower().startswith(FORM.encode()):
            return Match.NONE, {}
        return super().matches(scope)


class BodyLimit:
    """Middleware that refuses bodies beyond the limit of their path, whatever length their sender states."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app, self._limits = app, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        limit, taken = self._limit(scope["path"], headers.get(b"content-type", b"")), 0
        encoding = headers.get(b"content-encoding", b"identity").lower()
        if encoding not in (b"identity", b"gzip"):
            reason = "send the body as it is, or with Content-Encoding: gzip"
            await respond(415, "unsupported_media_type", reason)(scope, receive, send)
            return
        stated = headers.get(b"content-length", b"0")
        if stated.isdigit() and (len(stated) > 18 or int(stated) > limit):
            await respond(413, "too_large", _too_large(limit), headers={"Connection": "close"})(
                scope, receive, send
            )
            return

        unpacking = _Unpacking(limit) if encoding == b"gzip" else None

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > limit:  # the one kind of error that those who read bodies let through
                raise HTTPException(413, _too_large(limit), headers={"Connection": "close"})
            if unpacking is None or message["type"] != "http.request":
                return message
            packed, is_last = message.get("body", b""), not message.get("more_body", False)
            if len(packed) <= AT_ONCE_BYTES:
                return {**message, "body": unpacking.unpack(packed, is_last)}
            return {**message, "body": await run_in_threadpool(unpacking.unpack, packed, is_last)}

        await self._app(scope if unpacking is None else _unpacked(scope), counted, send)

    def _limit(self, path: str, kind: bytes) -> int:
        is_form = kind.lower().startswith(FORM.encode())
        if path.startswith("/v1/tensors/") or (is_form and path.endswith("/executions")):
            return self._limits.tensor_bytes
        if path == "/v1/graphs/import" or (is_form and path.endswith("/export")):
            return self._limits.upload_bytes
        return self._limits.document_bytes if path == "/v1/graphs" else self._limits.body_bytes


class _Unpacking:
    """The unpacking of a gzipped body, of which at most `limit` bytes may come, however little was sent."""

    def __init__(self, limit: int) -> None:
        self._limit, self._size, self._has_begun = limit, 0, False
        self._stream = zlib.decompressobj(GZIP)

    def unpack(self, packed: bytes, is_last: bool) -> bytes:
        """Return the bytes that a piece of the body stands for; gzipped contents may follow each other."""
        found = []
        try:
            while packed:
                self._has_begun = True
                if self._stream.eof:
                    self._stream = zlib.decompressobj(GZIP)
                found.append(self._stream.decompress(packed, self._limit - self._size + 1))
                self._size += len(found[-1])
                if self._size > self._limit:
                    message = f"unpacked, {_too_large(self._limit)}"
                    raise HTTPException(413, message, headers={"Connection": "close"})
                packed = self._stream.unused_data or self._stream.unconsumed_tail
        except zlib.error as error:
            raise HTTPException(400, f"the body is not gzipped: {error}") from error
        if is_last and self._has_begun and not self._stream.eof:
            raise HTTPException(400, "the body ends before its gzipped content does")
        return b"".join(found)


def _unpacked(scope: Scope) -> Scope:
    """Return a request as if it had been sent unpacked, without saying its length."""
    own = (b"content-encoding", b"content-length", b"transfer-encoding")
    headers = [(name, value) for name, value in scope["headers"] if name not in own]
    return {**scope, "headers": [*headers, (b"transfer-encoding", b"chunked")]}


def _too_large(limit: int) -> str:
    return f"the body has more than the {limit:,} bytes that are allowed here"


def body_of(kind: str, *others: str) -> Any:
    """Build a dependency of endpoints whose bodies have this media type: others are refused with 415.

    The message also names the `others`, which another endpoint at the same place takes.
    """

    def check(request: Request) -> None:
        headers = request.headers
        if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
            return  # no body: that it is missing is said by those who need it
        given = headers.get("content-type", "").partition(";")[0].strip().lower()
        is_json = kind == "application/json" and given.startswith("application/") and given.endswith("+json")
        if given != kind and not is_json:
            reason = f"expected Content-Type: {' or '.join((kind, *others))}, not {given[:100] or 'none'}"
            raise Problem(415, "unsupported_media_type", reason)

    return Depends(check)
