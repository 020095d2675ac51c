"""Responses that are sent while another process computes them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from itertools import chain

import anyio
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from tapestry.service.api.task_pool import TaskStream

STALL_S = 60.0

log = logging.getLogger("tapestry.api")


class Streamed(StreamingResponse):
    """A response of bytes that another process computes; its work ends when the client is gone or takes nothing."""

    def __init__(self, first: bytes, rest: TaskStream[bytes], headers: Mapping[str, str]) -> None:
        super().__init__(chain((first,), rest), headers=headers, media_type="application/json")
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sent_in_time(message: Message) -> None:
            with anyio.fail_after(STALL_S):
                await send(message)

        try:
            await super().__call__(scope, receive, sent_in_time)
        except TimeoutError:
            log.warning("%s: nothing was taken for %g s; the connection is cut", scope["path"], STALL_S)
        finally:
            self._rest.end()

    async def listen_for_disconnect(self, receive: Receive) -> None:
        """Return when the client is gone, having ended the work that it waits for."""
        await super().listen_for_disconnect(receive)
        await run_in_threadpool(self._rest.end)
