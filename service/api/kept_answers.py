"""Answers about runs, encoded once for all who request them, until something of the run changes.

An answer is kept with the revision of its run. Before it is sent again, this is found to be the present one: by the
database's counter of changes where it has one and nothing was written at all, else by one query for all requests that
wait, on a thread of its own. So nobody is sent what a write before the request has changed, whichever process wrote it.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from tapestry.service.api.answers import (
    REVALIDATE,
    accepts_gzip,
    encoded,
    in_gzip,
    is_known,
    is_worth_gzip,
    tag_in_gzip,
    tag_of,
)
from tapestry.service.api.users import user_of
from tapestry.service.store import StoreError

KEPT_BYTES = 32 * 2**20
RUN, FRONTIER = "run", "frontier"
Subject = tuple[str, str]  # the tenant whose run it is, and the run's id
Key = tuple[str, str, str]
Build = Callable[[str], Mapping[str, Any]]  # from the id of a run to a document with its status


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """An encoded document with its ETag, and the revision of the run that it shows; it `lasts` until that changes.

    `gzipped` is the content for those who take gzip; None where it is small.
    """

    revision: int
    content: bytes
    gzipped: bytes | None
    tag: str
    lasts: bool

    @property
    def size_bytes(self) -> int:
        """The bytes that it takes, in both forms."""
        return len(self.content) + len(self.gzipped or b"")

    def form(self, accepted: str) -> tuple[bytes, str, list[tuple[bytes, bytes]]]:
        """Return the content as an `Accept-Encoding` allows, its tag, and the headers that name and describe it."""
        is_gzip = self.gzipped is not None and accepts_gzip(accepted)
        content = self.gzipped if is_gzip and self.gzipped is not None else self.content
        tag = tag_in_gzip(self.tag) if is_gzip else self.tag
        named = [
            (b"etag", tag.encode()),
            (b"cache-control", REVALIDATE.encode()),
            (b"vary", b"Accept-Encoding"),
        ]
        return content, tag, [*named, (b"content-encoding", b"gzip")] if is_gzip else named


class Revisions:
    """The present revisions of runs: while one query runs, requests gather for the next one.

    Every request is answered by a query that began after it.
    """

    def __init__(self, read: Callable[[Collection[Subject]], Mapping[Subject, int]]) -> None:
        self._read = read
        self._waiting: dict[Subject, list[asyncio.Future[int | None]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "revisions")

    async def of(self, subject: Subject) -> int | None:
        """Return the revision of a run; None if its tenant has no such run.

        Raises:
            StoreError: the database does not answer.
        """
        future: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(subject, []).append(future)
        if self._task is None:
            self._task = asyncio.create_task(self._answer())
        return await future

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _answer(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                waiting, self._waiting = self._waiting, {}
                pending = [(subject, future) for subject, futures in waiting.items() for future in futures]
                try:
                    found = await loop.run_in_executor(self._thread, self._read, tuple(waiting))
                except StoreError as error:
                    for _, future in pending:
                        if not future.done():  # whoever waited may be gone
                            future.set_exception(error)
                else:
                    for subject, future in pending:
                        if not future.done():
                            future.set_result(found.get(subject))
        finally:
            self._task = None


class KeptAnswers:
    """The answers about runs that were encoded before, within a limit of bytes; those not used for longest go first."""

    def __init__(
        self, revisions: Revisions, changes: Callable[[], int | None], limit_bytes: int = KEPT_BYTES
    ) -> None:
        self._revisions, self._changes, self._limit = revisions, changes, limit_bytes
        self._valid: dict[Key, int] = {}  # at which count of changes an answer was found valid
        self._answers: OrderedDict[Key, KeptAnswer] = OrderedDict()
        self._size = 0
        self._building: dict[tuple[Key, int], asyncio.Task[KeptAnswer]] = {}

    async def find(self, kind: str, subject: Subject) -> KeptAnswer | None:
        """Return the kept answer of a kind about a run if it shows what is so now; None if it must be made."""
        key = (kind, *subject)
        known = self._answers.get(key)
        if known is None:
            return None
        changes = self._changes()
        if changes is None or self._valid.get(key) != changes:
            revision = await self._revisions.of(subject)
            known = self._answers.get(key)
            if known is None or known.revision != revision:
                return None
            if changes is not None:  # counted before the revision was read
                self._valid[key] = changes
        self._answers.move_to_end(key)
        return known

    async def get(self, kind: str, subject: Subject, build: Build) -> KeptAnswer:
        """Return the answer of a kind about a run: the kept one, or what `build` makes, once for all who wait for it.

        What shows a run that waits is not kept: when it will begin depends on other runs.

        Raises:
            StoreError: the database does not answer, or there is no such run (as `build` reports it).
        """
        key = (kind, *subject)
        revision = await self._revisions.of(subject)
        known = self._answers.get(key)
        if known is not None and known.revision == revision:
            return known
        if revision is None:
            self._drop(key)
            return await run_in_threadpool(_built, build, subject[1], -1)
        # Read before the document: what changes in between is in the document, and the next reader makes it again.
        task = self._building.get((key, revision))
        if task is None:
            task = asyncio.create_task(run_in_threadpool(_built, build, subject[1], revision))
            self._building[key, revision] = task
            task.add_done_callback(lambda done: self._keep(key, revision, done))
        return await asyncio.shield(task)

    def close(self) -> None:
        """End the thread that reads revisions."""
        self._revisions.close()

    def _keep(self, key: Key, revision: int, done: asyncio.Task[KeptAnswer]) -> None:
        del self._building[key, revision]
        if done.cancelled() or done.exception() is not None:
            return
        self._drop(key)
        answer = done.result()
        if not answer.lasts:
            return
        self._answers[key] = answer
        self._size += answer.size_bytes
        while self._size > self._limit:
            self._drop(next(iter(self._answers)))

    def _drop(self, key: Key) -> None:
        known = self._answers.pop(key, None)
        if known is not None:
            self._size -= known.size_bytes
        self._valid.pop(key, None)


def _built(build: Build, run_id: str, revision: int) -> KeptAnswer:
    document = build(run_id)
    content = encoded(document)
    gzipped = in_gzip(content) if is_worth_gzip(content) else None
    return KeptAnswer(revision, content, gzipped, tag_of(content), document["status"] != "queued")


@dataclass(frozen=True, slots=True)
class _Template:
    """The path of an endpoint with the names of its parameters, as routes have it."""

    path: str


PATH = re.compile("/v1/runs/([0-9a-f]{12})(/frontier)?")
TEMPLATES = {RUN: _Template("/v1/runs/{run_id}"), FRONTIER: _Template("/v1/runs/{run_id}/frontier")}


class ServeKept:
    """Middleware that sends kept answers about runs; all other requests go on to their endpoints, which make answers.

    It stands inside of everything that may refuse a request.
    """

    def __init__(self, app: ASGIApp, answers: KeptAnswers) -> None:
        self._app, self._answers = app, answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_plain = scope["type"] == "http" and scope["method"] == "GET" and not scope["query_string"]
        place = PATH.fullmatch(scope["path"]) if is_plain else None
        kind = FRONTIER if place is not None and place[2] else RUN
        found = None if place is None else await self._find(kind, (user_of(scope).tenant, place[1]))
        if place is None or found is None:
            await self._app(scope, receive, send)
            return
        scope["route"], scope["path_params"] = TEMPLATES[kind], {"run_id": place[1]}
        content, tag, headers = found.form(_header(scope, b"accept-encoding"))
        if is_known(_header(scope, b"if-none-match"), tag):
            named = [each for each in headers if each[0] != b"content-encoding"]
            await send({"type": "http.response.start", "status": 304, "headers": named})
            await send({"type": "http.response.body", "body": b""})
            return
        described = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        await send({"type": "http.response.start", "status": 200, "headers": headers + described})
        await send({"type": "http.response.body", "body": content})

    async def _find(self, kind: str, subject: Subject) -> KeptAnswer | None:
        try:
            return await self._answers.find(kind, subject)
        except StoreError:  # the endpoint reports it
            return None


def _header(scope: Scope, name: bytes) -> str:
    values = (value.decode("latin-1") for each, value in scope["headers"] if each == name)
    return ", ".join(values)
