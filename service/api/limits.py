"""Limits on bodies: counted as they come in, so that no length a client states has to be believed."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.problems import Problem
from service.settings import Limits


class TooLarge(Problem):
    """A body beyond its limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            413, "too_large", f"the body has more than the {limit:,} bytes that are allowed here"
        )


class BodyLimit:
    """Refuses bodies beyond the limit of their path."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app, self._limits = app, limits

    def _limit(self, path: str) -> int:
        if path == "/v1/graphs/import":
            return self._limits.upload_bytes
        return self._limits.document_bytes if path == "/v1/graphs" else self._limits.body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit, taken, has_begun = self._limit(scope["path"]), 0, False
        stated = dict(scope["headers"]).get(b"content-length", b"0")
        too_large = stated.isdigit() and int(stated) > limit

        async def counted() -> Message:
            nonlocal taken, too_large
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > limit:
                too_large = True
                raise TooLarge(limit)
            return message

        async def noted(message: Message) -> None:
            nonlocal has_begun
            if too_large and not has_begun and message["type"] == "http.response.start":
                has_begun = True
                await TooLarge(limit).response()(scope, receive, send)
            if not (too_large and has_begun):
                await send(message)

        if too_large:
            await TooLarge(limit).response()(scope, receive, send)
            return
        await self._app(scope, counted, noted)
