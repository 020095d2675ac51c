"""The events of a run over connections that may break: what to request next, what a line means, when it is over."""

from __future__ import annotations

import json

from tapestry.client.calls import Call, Lost, Reply, failure_of
from tapestry.client.records import EventRecord
from tapestry.client.retrying import Retries


class Following:
    """The state of one follower of a run's server-sent events; a lost connection is resumed after the last event.

    For each connection: send `call`, tell `opened` the answer, give each line to `line`; then, unless `is_over`, wait
    as long as `lost` says and begin again. Its lines are about a run's events, the last of which ends the run.
    """

    def __init__(self, run_id: str, after: int, retries: Retries) -> None:
        self._path = f"/v1/runs/{run_id}/events"
        self._after, self._retries = after, retries
        self._attempts = 0
        self._failed: Reply | None = None
        self._fields: dict[str, str] = {}
        self.is_over = False

    @property
    def call(self) -> Call:
        """The request for the events that are not seen yet."""
        headers = {"Last-Event-ID": str(self._after), "Accept": "text/event-stream"}
        return Call("GET", self._path, headers=headers)

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
        self._attempts += 1
        reply = self._failed or Lost(reason)
        headers = reply.headers if isinstance(reply, Reply) else {}
        pause_s = self._retries.pause_s(self._attempts, headers)
        if pause_s is None:
            raise failure_of(self._path, reply)[0]
        return pause_s
