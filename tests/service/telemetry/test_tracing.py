"""Tests of traces: one per request, through the store to the worker; exported where the environment says so."""

from __future__ import annotations

import gzip
import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tapestry.optimizer.run.workers import InlineExecutor
from tapestry.service.store import Store
from tapestry.service.telemetry import tracing
from tapestry.service.telemetry.correlation_fields import TRACEPARENT, correlated, origin
from tapestry.service.telemetry.tracing import NO_TRACING, OpenTelemetry, is_requested, start_tracing
from tapestry.service.worker.heartbeat import ClaimedJob
from tapestry.service.worker.job_spans import JobSpans
from tapestry.service.worker.searching import SearchJob
from tests.service.api.conftest import serving
from tests.service.programs import NOON, finished_run, two_layers

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.fixture
def spans() -> Iterator[Any]:
    """Trace into memory, and yield what has the finished spans."""
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    exporter = memory.InMemorySpanExporter()
    with patch.object(tracing, "_active", [OpenTelemetry("test", export.SimpleSpanProcessor(exporter))]):
        yield exporter


def test_a_request_its_job_and_their_phases_are_one_trace(spans: Any, tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        headers = {"traceparent": PARENT, "X-Request-ID": "mine-1"}
        budget = {"evaluations": 200}
        run_id = service.submit(headers, budget=budget, verify="none", islands=1).json()["id"]
        service.http.get("/healthz", headers=headers)
        database = f"sqlite:///{tmp_path / 'api.db'}"
    store, watching = Store(database), JobSpans()
    store.observers.add(watching)
    job = store.jobs.claim("ada", datetime.now(UTC), 60.0)
    assert job is not None and job.origin["request_id"] == "mine-1"
    held = ClaimedJob(job, 60.0, threading.Event())
    SearchJob(store, held, InlineExecutor(), islands=1, checkpoint_s=0.0).do()
    store.close()

    found = spans.get_finished_spans()
    assert {f"{span.context.trace_id:032x}" for span in found} == {TRACE}
    (request,) = [span for span in found if span.name == "POST /v1/runs"]
    (attempt,) = [span for span in found if span.name == "run"]
    assert (f"{request.parent.span_id:016x}", request.attributes["http.response.status_code"]) == (
        PARENT.split("-")[2],
        202,
    )
    assert (request.kind.name, attempt.kind.name) == ("SERVER", "CONSUMER")
    assert attempt.parent.span_id == request.context.span_id
    assert attempt.attributes["tapestry.run_id"] == run_id
    assert (attempt.attributes["tapestry.request_id"], attempt.attributes["tapestry.worker"]) == (
        "mine-1",
        "ada",
    )
    assert attempt.attributes["tapestry.outcome"] == "finished"
    below = [span.name for span in found if span.parent.span_id == attempt.context.span_id]
    assert below == ["compiling", "seeding", "verifying"]  # its evaluations are those of the first plans
    assert not [span for span in found if "healthz" in span.name]


def test_tasks_are_parts_of_their_requests(spans: Any, tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        document = service.http.get(f"/v1/graphs/{service.graph()}/document").json()
        spans.clear()
        assert service.http.post("/v1/graphs", json=document).is_success
    (request,) = [span for span in spans.get_finished_spans() if span.name == "POST /v1/graphs"]
    tasks = [span for span in spans.get_finished_spans() if span.name.startswith("task ")]
    assert tasks and all(span.parent.span_id == request.context.span_id for span in tasks)


def test_a_lost_job_ends_its_spans_as_a_fault(spans: Any, store: Store) -> None:
    watching = JobSpans()
    store.observers.add(watching)
    job = claimed(store)
    store.jobs.phase(job, datetime.now(UTC), 60.0, "compiling")
    store.jobs.release_owner("ada")
    store.observers.lost(job)
    attempt = spans.get_finished_spans()[-1]
    assert (attempt.attributes["tapestry.outcome"], attempt.status.status_code.name) == ("lost", "ERROR")


def test_a_job_of_an_older_form_begins_a_trace_of_its_own(spans: Any, store: Store) -> None:
    store.observers.add(watching := JobSpans())
    job = claimed(store)
    assert job.origin == {}
    assert watching.span(job).trace_id != "0" * 32
    watching.close(job)
    assert spans.get_finished_spans()[-1].parent is None


def test_without_tracing_nothing_is_kept_of_it(store: Store) -> None:
    with correlated(NO_TRACING.start("x"), request_id="mine"):
        assert origin() == {"request_id": "mine"}
    assert TRACEPARENT not in origin() and origin() == {}


@pytest.mark.parametrize(
    ("environment", "requested"),
    [
        ({}, False),
        ({ENDPOINT: ""}, False),
        ({ENDPOINT: "http://x:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x:4318/v1/traces"}, True),
        ({ENDPOINT: "http://x:4318", "OTEL_SDK_DISABLED": "TRUE"}, False),
        ({ENDPOINT: "http://x:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_the_environment_decides(environment: dict[str, str], requested: bool) -> None:
    assert is_requested(environment) is requested


@pytest.mark.parametrize(
    "wanted",
    [{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, {"OTEL_TRACES_EXPORTER": "zipkin"}],
    ids=["protocol", "exporter"],
)
def test_what_is_not_spoken_is_one_line(wanted: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    with patch.object(tracing, "_active", [NO_TRACING]):
        assert start_tracing({ENDPOINT: "http://x:4318", **wanted}, "test") is NO_TRACING
    (record,) = caplog.records
    assert next(iter(wanted.values())) in record.getMessage() and record.levelno == logging.WARNING


def test_a_missing_extra_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    hidden = {"opentelemetry.sdk": None, "opentelemetry.sdk.trace": None}
    hidden |= {
        "opentelemetry.exporter.otlp.proto.http.trace_exporter": None,
        "opentelemetry.sdk.trace.export": None,
    }
    with patch.dict("sys.modules", hidden), patch.object(tracing, "_active", [NO_TRACING]):
        assert start_tracing({ENDPOINT: "http://x:4318"}, "test") is NO_TRACING
    (record,) = caplog.records
    assert "pip install 'tapestry[otel]'" in record.getMessage()


def test_spans_reach_a_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    received: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            is_packed = self.headers.get("content-encoding") == "gzip"
            received.append((self.path, gzip.decompress(body) if is_packed else body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {ENDPOINT: f"http://127.0.0.1:{server.server_port}", "OTEL_SERVICE_NAME": "ours"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with patch.object(tracing, "_active", [NO_TRACING]):
        start_tracing(environment, "tapestry-api").start("a request", PARENT, "server").end()
        tracing.stop_tracing()
    server.shutdown()
    server.server_close()

    ((path, body),) = received
    assert path == "/v1/traces"
    (resource,) = service.ExportTraceServiceRequest.FromString(body).resource_spans
    names = {pair.key: pair.value.string_value for pair in resource.resource.attributes}
    assert names["service.name"] == "ours"
    (span,) = resource.scope_spans[0].spans
    assert (span.name, span.trace_id.hex()) == ("a request", TRACE)


def claimed(store: Store) -> Any:
    run_id = store.runs.save_finished(finished_run(two_layers()))
    store.runs.submit(store.runs.request(run_id), NOON)
    return store.jobs.claim("ada", NOON, 60.0)
