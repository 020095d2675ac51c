"""Requests and answers as values, and the steps of an operation: no input or output happens here.

An operation is a generator: it yields what is to be done and is sent what came of it. So the same operation runs over
blocking and over asynchronous connections (`client.clients`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tapestry.client.errors import ProblemError, UnreachableError
from tapestry.client.records import EventRecord
from tapestry.client.retrying import HOPELESS, PASSING, Retries

T = TypeVar("T")

log = logging.getLogger("tapestry.client")


@dataclass(frozen=True)
class Upload:
    """A file of a multipart request: its content, or where it lies, and the fields and other files beside it.

    `data` are the other files by name.
    """

    name: str
    content: bytes | Path
    fields: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    data: Mapping[str, bytes | Path] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    """A request: it has a JSON body, another `content`, an upload, or none.

    `read_timeout_s` is the longest wait for a part of its answer, where that is not the client's own.
    """

    method: str
    path: str
    json: Any = None
    content: bytes | None = None
    upload: Upload | None = None
    params: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    read_timeout_s: float | None = None


@dataclass(frozen=True)
class Reply:
    """An answer of the service; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes


@dataclass(frozen=True)
class Lost:
    """A lost request, to which no answer came: the reason."""

    reason: str


@dataclass(frozen=True)
class Pause:
    """A step: wait so long."""

    seconds: float


@dataclass(frozen=True)
class Follow:
    """A step: follow the events of a run to its end, for `timeout_s` at most where that is given."""

    run_id: str
    on_event: Callable[[EventRecord], object] | None
    timeout_s: float | None = None


Step = Call | Pause | Follow
Steps = Generator[Step, Reply | Lost | None, T]


def answered(call: Call, retries: Retries) -> Steps[Reply]:
    """Send a request until it is answered, and return the answer.

    Every request of the client may be sent again: it reads, it is addressed by content, or it has a key.

    Raises:
        ProblemError: the service refuses it.
        UnreachableError: no answer came.
    """
    attempt = 0
    while True:
        attempt += 1
        reply = yield call
        if isinstance(reply, Reply) and reply.status < 400:
            return reply
        error, is_passing = failure_of(call.path, reply)
        headers = reply.headers if isinstance(reply, Reply) else {}
        pause_s = retries.pause_s(attempt, headers) if is_passing else None
        if pause_s is None:
            raise error
        log.warning("%s %s: %s; again in %.1f s", call.method, call.path, error, pause_s)
        yield Pause(pause_s)


def failure_of(path: str, reply: Reply | Lost | None) -> tuple[Exception, bool]:
    """Return the error for a request that failed, and whether it may succeed when it is sent again."""
    if isinstance(reply, Reply):
        problem = ProblemError.of_content(reply.status, reply.content)
        return problem, reply.status in PASSING and problem.code not in HOPELESS
    reason = reply.reason if isinstance(reply, Lost) else "it did not answer"
    return UnreachableError(f"the service does not answer at {path}: {reason}"), True
