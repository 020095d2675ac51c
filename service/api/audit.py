"""The audit log of requests: what was changed, asked to change or refused, by whom, from where, and its outcome.

`GET /v1/audit` shows it to administrators: the operator all of it, others the lines of their tenant.
"""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import AwareDatetime, BeforeValidator, Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tapestry.service.api.answers import answer
from tapestry.service.api.context import Parts
from tapestry.service.api.keys import READING, address_of, has_credentials, is_pure
from tapestry.service.api.models import Answer
from tapestry.service.api.openapi_parts import PageLimit, problems
from tapestry.service.api.rates import MOST_BUCKETS, TokenBucket
from tapestry.service.api.users import actor_of, is_operator, noted_user, user_of
from tapestry.service.store import AuditLine, Store, StoreError
from tapestry.service.store.audit import Outcome

REFUSED = (401, 403, 421, 429)
REFUSALS_PER_S = 1.0
REQUEST_ID = "tapestry.request_id"
OPEN, NOBODY = "open", "nobody"

log = logging.getLogger("tapestry.api")
router = APIRouter(prefix="/v1/audit", tags=["operations"])


DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def _date_time(text: Any) -> Any:
    """Refuse what is no date and time of RFC 3339, such as a number of seconds."""
    if isinstance(text, str) and not DATE_TIME.fullmatch(text):
        raise ValueError("expected a date and time with its offset, such as 2026-01-31T12:00:00Z")
    return text


class AuditLineAnswer(Answer):
    """A line of the audit log."""

    number: int
    at: str
    tenant: str | None = Field(description="null where nobody was known")
    actor: str = Field(description="the prefix of a key, or what stands for another identity")
    address: str
    action: str = Field(description="the method and the template of the path, or a command")
    subject: str = Field(description="the id of what it was about")
    outcome: str = Field(description="done, refused (401, 403, 421, 429) or failed")
    status: int | None
    request_id: str


class AuditAnswer(Answer):
    """Lines of the audit log, newest first; `next` is `before` of the next page."""

    items: list[AuditLineAnswer]
    next: int | None


@router.get("", response_model=AuditAnswer, responses=problems(422), operation_id="get_audit")
def get_audit(
    request: Request,
    parts: Parts,
    limit: PageLimit = 50,
    before: Annotated[int | None, Query(ge=1, le=2**53, description="`next` of the page before")] = None,
    since: Annotated[
        AwareDatetime | None,
        BeforeValidator(_date_time),
        Query(description="only lines of this moment and later (RFC 3339)"),
    ] = None,
) -> Response:
    """Show who did what: submissions, cancellations, deletions, changes of keys, logins, and what was refused.

    The operator sees all lines, another administrator those of the tenant.
    """
    user = user_of(request.scope)
    tenant = None if is_operator(user) else user.tenant
    found = parts.all_tenants.audit.page(limit + 1, before, since=since, tenant=tenant)
    page = found[:limit]
    following = page[-1].number if len(found) > limit else None
    return answer({"items": [line.to_json() for line in page], "next": following})


class AuditLog:
    """Middleware that appends a line for every request that changes something or is refused, before it is answered.

    Of what is refused to one sender ten lines may come at once, and one more each second: a flood fills no disk.
    """

    def __init__(self, app: ASGIApp, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._app, self._store, self._clock = app, store, clock
        self._refused: dict[tuple[str, str], TokenBucket] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith("/static/"):
            await self._app(scope, receive, send)
            return

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start" and _matters(scope, message["status"]):
                await self._append(_line(scope, message))
            await send(message)

        await self._app(scope, receive, noted)

    async def _append(self, line: AuditLine) -> None:
        if line.outcome == "refused" and self._is_flood(line):
            log.warning("not in the audit log: %s by %s (one of many)", line.action, line.actor)
            return
        try:
            await run_in_threadpool(self._store.audit.append, line)
        except StoreError as error:
            log.error("not in the audit log: %s by %s (%s)", line.action, line.actor, error)

    def _is_flood(self, line: AuditLine) -> bool:
        if len(self._refused) >= MOST_BUCKETS:
            self._refused.clear()
        now_s, sender = self._clock(), (line.address, line.actor)
        bucket = self._refused.setdefault(sender, TokenBucket("refusals", REFUSALS_PER_S, math.inf, now_s))
        return bucket.take(now_s) > 0


def _matters(scope: Scope, status: int) -> bool:
    """Return whether a request belongs in the log; who shows no key at all, and reads, is only sent to the login."""
    if status in (401, 429) and noted_user(scope) is None:
        return has_credentials(scope)
    if status in (401, 403, 421):
        return True
    return scope["method"] not in READING and not is_pure(scope["path"])


def _line(scope: Scope, message: Message) -> AuditLine:
    status, user = message["status"], user_of(scope)
    outcome: Outcome = "refused" if status in REFUSED else "failed" if status >= 400 else "done"
    is_login, known = scope["path"] == "/login", noted_user(scope) is not None
    if is_login and not known:
        outcome = "refused"
    is_nobody = not known and (is_login or status in REFUSED)
    headers = {name: value for name, value in message["headers"] if name == b"location"}
    made = headers.get(b"location", b"").decode("latin-1").rpartition("/")[2] if status in (201, 202) else ""
    given = [str(value) for value in (scope.get("path_params") or {}).values()]
    template = getattr(scope.get("route"), "path", None) or scope["path"]
    return AuditLine(
        at=datetime.now(UTC),
        tenant=None if is_nobody else user.tenant,
        actor=NOBODY if is_nobody else actor_of(user) if known else OPEN,
        action=f"{scope['method']} {template}",
        outcome=outcome,
        subject=" ".join([*given, *([made] if made and made not in given else [])]),
        address=address_of(scope),
        status=status,
        request_id=scope.get(REQUEST_ID, ""),
    )
