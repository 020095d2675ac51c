"""Space: nothing that would be stored is taken where the disk is nearly full, or its tenant has stored all that it may.

That is found before the body of a request is read. Deletions and cancellations always go on.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tapestry.service.api.keys import is_pure
from tapestry.service.api.problems import quota_problem, respond
from tapestry.service.api.users import user_of
from tapestry.service.settings import Limits
from tapestry.service.store import QuotaExceeded, Store, StoreError, TenantSpace

STORING = ("POST", "PUT")
CANCEL, OWN = re.compile(r"/v1/(runs|batches|imports)/[^/]+/cancel"), ("/login", "/logout")
LOOKED_S = 5.0  # for so long the space of a tenant, or of a server's database, is not looked at again


class SpaceLeft:
    """A check that there is space for anything more, made every few seconds."""

    def __init__(self, store: Store, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._limits, self._clock = store, limits, clock
        self._shortage: tuple[str | None, float] = (None, 0.0)
        self._tenants: dict[str, tuple[TenantSpace | None, float]] = {}
        self._lock = threading.Lock()

    def shortage(self) -> str | None:
        """Return in a sentence why nothing more is taken; None where there is space."""
        found, until = self._shortage
        if self._clock() >= until:
            found = self._look()
            self._shortage = (found, self._clock() + LOOKED_S)
        return found

    def _look(self) -> str | None:
        least, most = self._limits.free_bytes, self._limits.stored_bytes
        free, stored = self._store.space()
        if free is not None and free < least:
            return f"the disk of the database has {free:,} bytes left, and {least:,} are kept free"
        if stored is not None and most is not None and stored > most:
            return f"the database takes {stored:,} bytes, and may take {most:,}"
        return None

    def require(self, tenant: str, more_bytes: int) -> None:
        """Check that a tenant may store a body of so many bytes; what was taken since the last look counts, too.

        Raises:
            QuotaExceeded: it has stored all that it may.
        """
        with self._lock:
            space, until = self._tenants.get(tenant, (None, 0.0))
            if self._clock() >= until:
                space, until = self._looked_at(tenant)
            if space is None:
                return
            try:
                space.require(more_bytes)
            except QuotaExceeded:  # who has deleted something may go on at once
                space, until = self._looked_at(tenant)
                if space is not None:
                    space.require(more_bytes)
            if space is not None:
                taken = TenantSpace(space.used_bytes + more_bytes, space.limit_bytes)
                self._tenants[tenant] = (taken, until)

    def _looked_at(self, tenant: str) -> tuple[TenantSpace | None, float]:
        space = self._store.of(tenant).quotas.space(datetime.now(UTC))
        self._tenants[tenant] = found = (space, self._clock() + LOOKED_S)
        return found


class SpaceRequired:
    """Middleware that refuses what would be stored where there is no space for it (507)."""

    def __init__(self, app: ASGIApp, space: SpaceLeft) -> None:
        self._app, self._space = app, space

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = None
        if scope["type"] == "http" and _stores(scope):
            refusal = await run_in_threadpool(self._refusal, user_of(scope).tenant, _body_bytes(scope))
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, tenant: str, body_bytes: int) -> Response | None:
        try:
            shortage = self._space.shortage()
            if shortage is not None:
                return respond(
                    507, "no_space", f"{shortage}; delete what is not needed, and compact the database"
                )
            self._space.require(tenant, body_bytes)
        except QuotaExceeded as error:
            return quota_problem(error)
        except StoreError:  # the endpoint reports it
            return None
        return None


def _body_bytes(scope: Scope) -> int:
    """Return the length of a body as its header states it; 0 where it is sent in chunks, and counted when stored."""
    text = dict(scope["headers"]).get(b"content-length", b"0")
    return int(text) if text.isdigit() else 0


def _stores(scope: Scope) -> bool:
    path = scope["path"]
    if scope["method"] not in STORING or path in OWN or is_pure(path):
        return False
    return not (scope["method"] == "POST" and CANCEL.fullmatch(path))
