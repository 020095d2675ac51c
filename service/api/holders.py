"""Holders of open streams: by what each was let in, and whether that is valid still.

A key may be revoked or expire, and a session may end, while a stream that began with it goes on for hours. One task of
a process looks all of them up together, every `CHECK_S` seconds, however many there are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from starlette.concurrency import run_in_threadpool
from starlette.types import Scope

from tapestry.service.api.event_feed import Viewer
from tapestry.service.api.users import noted_session, noted_user
from tapestry.service.store import Store, StoreError

CHECK_S = 2.0

log = logging.getLogger("tapestry.api")


@dataclass(frozen=True, slots=True)
class StreamHolder:
    """Credentials that a stream depends on: the prefix of a key, the token of a session, or both."""

    prefix: str | None
    session: str | None


def holder_of(scope: Scope) -> StreamHolder | None:
    """Return what the user of a request was let in by; None where that cannot end before the service does.

    The key of the settings cannot, nor what a proxy says, nor the right of those who need no key.
    """
    key, session = noted_user(scope), noted_session(scope)
    if key is None or not (key.prefix or session):
        return None
    return StreamHolder(key.prefix or None, session)


class HolderWatch:
    """The viewers of streams that end when their holders do."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watched: dict[Viewer, StreamHolder] = {}
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def watching(self, holder: StreamHolder | None, viewer: Viewer) -> Iterator[None]:
        """Let a viewer go once its holder is not valid any more, for as long as the block runs."""
        if holder is None:
            yield
            return
        self._watched[viewer] = holder
        if self._task is None:
            self._task = asyncio.create_task(self._check())
        try:
            yield
        finally:
            del self._watched[viewer]

    async def _check(self) -> None:
        """Let those go whose holders have ended, as long as there is anybody."""
        try:
            while self._watched:
                await asyncio.sleep(CHECK_S)
                checked = dict(self._watched)
                try:
                    valid = await run_in_threadpool(self._valid, set(checked.values()))
                except StoreError as error:  # no events come either
                    log.warning("holders of streams: %s", error)
                    continue
                for viewer, holder in checked.items():
                    if holder not in valid:
                        viewer.leave()
        finally:
            self._task = None

    def _valid(self, holders: Collection[StreamHolder]) -> set[StreamHolder]:
        prefixes = {holder.prefix for holder in holders if holder.prefix is not None}
        sessions = {holder.session for holder in holders if holder.session is not None}
        keys, tokens = self._store.keys.still_valid(prefixes, sessions, datetime.now(UTC))
        return {
            holder
            for holder in holders
            if (holder.prefix is None or holder.prefix in keys)
            and (holder.session is None or holder.session in tokens)
        }
