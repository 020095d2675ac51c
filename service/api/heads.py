"""HEAD: the answer to a GET without its body."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadAsGet:
    """Middleware that answers HEAD as GET is answered, headers and all, but for the body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        is_done = False

        async def without_body(message: Message) -> None:
            nonlocal is_done
            if message["type"] == "http.response.start":
                await send(message)
            elif not is_done:
                is_done = True
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        async def received() -> Message:
            return {"type": "http.disconnect"} if is_done else await receive()

        await self._app({**scope, "method": "GET"}, received, without_body)
