"""A client of the service's own API for the command line; a compiler can do the same with any HTTP client."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from tapestry.service.cli.errors import INTERNAL, CommandError

TIMEOUT_S = 60.0
RETRY_S = 0.5
PATIENCE_S = 30.0


@dataclass(frozen=True)
class ServerEvent:
    """One event of a run, with the number that the service gives it."""

    number: int
    kind: str
    data: Any


class Client:
    """A client of the service at `address`; a problem document becomes a CommandError with its detail."""

    def __init__(self, address: str, api_key: str | None = None) -> None:
        library = _library()
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._lost = library.TransportError
        self._http = library.Client(base_url=address, headers=headers, timeout=TIMEOUT_S, trust_env=False)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def import_graph(self, path: Path) -> dict[str, Any]:
        """Upload an ONNX file."""
        with path.open("rb") as file:
            return self._json("POST", "/v1/graphs/import", files={"file": (path.name, file)})

    def graph(self, graph_id: str) -> dict[str, Any]:
        return self._json("GET", f"/v1/graphs/{graph_id}")

    def submit(self, request: Mapping[str, Any]) -> str:
        """Queue a run and return its id."""
        return str(self._json("POST", "/v1/runs", json=dict(request))["id"])

    def run(self, run_id: str) -> dict[str, Any]:
        return self._json("GET", f"/v1/runs/{run_id}")

    def cancel(self, run_id: str) -> None:
        self._json("POST", f"/v1/runs/{run_id}/cancel")

    def frontier(self, run_id: str) -> dict[str, Any]:
        return self._json("GET", f"/v1/runs/{run_id}/frontier")

    def plan(self, plan_id: str) -> dict[str, Any]:
        return self._json("GET", f"/v1/plans/{plan_id}")

    def events(self, run_id: str, after: int = 0) -> Iterator[ServerEvent]:
        """Yield the events of a run until it ends; a lost connection is resumed after the last event received."""
        lost_s = 0.0
        while True:
            try:
                for event in self._stream(run_id, after):
                    after, lost_s = event.number, 0.0
                    yield event
                return
            except self._lost as error:
                lost_s += RETRY_S
                if lost_s > PATIENCE_S:
                    raise CommandError(f"the service does not answer any more: {error}", INTERNAL) from error
                time.sleep(RETRY_S)

    def _stream(self, run_id: str, after: int) -> Iterator[ServerEvent]:
        headers = {"Last-Event-ID": str(after)}
        with self._http.stream("GET", f"/v1/runs/{run_id}/events", headers=headers) as response:
            if response.is_error:
                response.read()
                raise CommandError(_complaint(response))
            fields: dict[str, str] = {}
            for line in response.iter_lines():
                name, _, value = line.partition(":")
                if line and name:
                    fields[name] = value.removeprefix(" ")
                elif not line and "data" in fields:
                    yield ServerEvent(
                        int(fields["id"]), fields.get("event", "message"), json.loads(fields["data"])
                    )
                    fields = {}

    def _json(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        try:
            response = self._http.request(method, path, **arguments)
        except self._lost as error:
            raise CommandError(f"the service does not answer: {error}", INTERNAL) from error
        if response.is_error:
            raise CommandError(_complaint(response))
        document = response.json()
        assert isinstance(document, dict)
        return document


def _complaint(response: Any) -> str:
    try:
        document = response.json()
        faults = "; ".join(f"{e['pointer']}: {e['detail']}" for e in document.get("errors", ()))
        return f"{document['title']}: {faults or document['detail']}"
    except (ValueError, KeyError, TypeError):
        return f"the service answered {response.status_code} to {response.request.url.path}"


def _library() -> Any:
    """Load the HTTP library.

    Raises:
        CommandError: it is not installed.
    """
    try:
        import httpx
    except ImportError:
        raise CommandError(
            "this command speaks to the service by httpx, which is not installed: pip install 'tapestry[client]'"
        ) from None
    return httpx
