"""The events of a run over connections that may break: what to request next, what a line means, when it is over."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable

from tapestry.client.calls import Call, Lost, Reply, failure_of
from tapestry.client.errors import WaitTimeoutError
from tapestry.client.records import EventRecord
from tapestry.client.retrying import Retries

LEAST_READ_S = 0.5


class Following:
    """The state of one follower of a run's server-sent events; a lost connection is resumed after the last event.

    For each connection: send `call`, tell `opened` the answer, give each line to `line`; then, unless `is_over`, wait
    as long as `lost` says and begin again. Its lines are about a run's events, the last of which ends the run.

    With `timeout_s` the time is limited, by the clock `now`. A read of a silent stream cannot be ended from outside, so
    each connection has a limit for its reads, `call.read_timeout_s`: half of the time left. Where less than that is
    left (`is_stale`) the next connection, which has a shorter one, takes over.
    """

    def __init__(
        self,
        run_id: str,
        after: int,
        retries: Retries,
        timeout_s: float | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run_id, self._path = run_id, f"/v1/runs/{run_id}/events"
        self._after, self._retries = after, retries
        self._timeout_s, self._now = timeout_s, now
        self._until_s = math.inf if timeout_s is None else now() + timeout_s
        self._read_s: float | None = None
        self._attempts = 0
        self._failed: Reply | None = None
        self._fields: dict[str, str] = {}
        self.is_over = False

    @property
    def call(self) -> Call:
        """The request for the events that are not seen yet."""
        headers = {"Last-Event-ID": str(self._after), "Accept": "text/event-stream"}
        self._read_s = None if self._timeout_s is None else max(self._left_s / 2, LEAST_READ_S)
        return Call("GET", self._path, headers=headers, read_timeout_s=self._read_s)

    @property
    def _left_s(self) -> float:
        return self._until_s - self._now()

    @property
    def is_stale(self) -> bool:
        """True if a read over this connection may take longer than the time that is left."""
        return self._read_s is not None and LEAST_READ_S < self._read_s > self._left_s

    def check_time(self) -> None:
        """Check that there is time left.

        Raises:
            WaitTimeoutError: there is none.
        """
        if self._timeout_s is not None and self._left_s <= 0:
            raise WaitTimeoutError(self._run_id, self._timeout_s)

    def opened(self, answer: Reply) -> None:
        """Note how the service has answered; the body is that of an error, else its lines follow.

        Raises:
            ProblemError: the service refuses to report the run's events.
        """
        self._fields = {}
        self.is_over = answer.status == 204
        self._failed = answer if answer.status >= 400 else None
        if self._failed is not None:
            error, is_passing = failure_of(self._path, answer)
            if not is_passing:
                raise error

    def line(self, text: str) -> EventRecord | None:
        """Return the event that ends with this line; None if none does."""
        name, _, value = text.partition(":")
        if text and name:
            self._fields[name] = value.removeprefix(" ")
            return None
        if text or "data" not in self._fields:
            return None
        fields, self._fields = self._fields, {}
        event = EventRecord(int(fields["id"]), fields.get("event", "message"), json.loads(fields["data"]))
        self._after, self._attempts = event.number, 0
        self.is_over = event.ends_run
        return event

    def lost(self, reason: str) -> float:
        """Return the seconds to wait before the next connection.

        Raises:
            UnreachableError, ProblemError: it was tried often enough.
        """
        if self._read_s is not None and self._left_s < self._read_s:
            return 0.0  # the limit of this connection has ended it
        self._attempts += 1
        reply = self._failed or Lost(reason)
        headers = reply.headers if isinstance(reply, Reply) else {}
        pause_s = self._retries.pause_s(self._attempts, headers)
        if pause_s is None:
            raise failure_of(self._path, reply)[0]
        return min(pause_s, max(self._left_s, 0.0))
