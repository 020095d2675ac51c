"""A real service on a port of its own, on which the tests try its promises as any client would."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tapestry.service.graphs import summarize
from tapestry.service.serving import ServiceServer
from tapestry.service.settings import Limits, ServiceSettings
from tapestry.service.store import Job, Store
from tapestry.service.store.records import Kind
from tests.service.databases import file_with_tables
from tests.service.programs import NOON, finished_run, two_layers

PROBLEM = "application/problem+json"
PATIENCE_S = 90.0


@dataclass(frozen=True)
class Service:
    """A service that listens, a client of it, and the store behind it."""

    http: httpx.Client
    store: Store
    address: str

    def graph(self, name: str = "two_layers") -> str:
        """Save a small program in the store and return its id."""
        graph = two_layers(name)
        return self.store.graphs.save(graph, NOON, summarize(graph).to_json()).id

    def finished(self) -> str:
        """Save a finished run with two plans and return its id."""
        return self.store.runs.save_finished(finished_run(two_layers()))

    def request(self, **changes: Any) -> dict[str, Any]:
        """Build a valid request for a run, with changes."""
        return {"graph_id": self.graph(), "mesh": "dgx-h100", **changes}

    def claimed(self, kind: Kind = "run") -> Job:
        """Claim the next job of a kind, as a worker does."""
        job = self.store.jobs.claim("worker", self.now(), 60.0, (kind,))
        assert job is not None
        return job

    def now(self) -> datetime:
        return datetime.now(UTC)

    def submit(self, headers: Mapping[str, str] | None = None, **changes: Any) -> httpx.Response:
        return self.http.post("/v1/runs", json=self.request(**changes), headers=headers)


Serve = Callable[..., Service]


def file_of(folder: Path) -> str:
    """Return the URL of the database of services in a folder, which is made by the first."""
    path = folder / "api.db"
    return f"sqlite:///{path}" if path.exists() else file_with_tables(path)


@contextmanager
def serving(place: Path | str, **settings: Any) -> Iterator[Service]:
    """Run a service without workers, with settings as given and its database in a folder, or at a URL."""
    url = place if isinstance(place, str) else file_of(place)
    unhurried = Limits(import_seconds=PATIENCE_S)  # nothing becomes a job because this machine is busy
    chosen = ServiceSettings(url, **{"port": 0, "limits": unhurried, **settings})
    with (
        ServiceServer(chosen, worker=False, islands=None, log_level="error") as server,
        server.in_background(),
    ):
        store = Store(url)
        # No certificates are read: that takes longer than to start the service.
        with httpx.Client(base_url=server.address, timeout=30, trust_env=False, verify=False) as http:
            yield Service(http, store, server.address)
        store.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Yield a function that starts services with settings as given, which end with the test."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(serving(tmp_path, **settings))


@pytest.fixture
def service(serve: Serve) -> Service:
    """Start a service with an empty database of its own."""
    return serve()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Start one service for tests that do not affect each other."""
    with serving(tmp_path_factory.mktemp("shared")) as service:
        yield service


def complaint(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Return the problem document of a refusal; check that it has the one form that all have."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM), answer.text
    document: dict[str, Any] = answer.json()
    assert (
        {"type", "title", "detail", "code", "status"}
        <= set(document)
        <= {*FORM, "errors", "size", "limit", "used"}
    )
    assert (document["status"], document["code"]) == (status, code), document
    assert document["type"] == f"/problems/{code}"
    assert "Traceback" not in answer.text
    return document


FORM = ("type", "title", "detail", "code", "status")
