"""Traces by OpenTelemetry, if the environment asks for them: requests, tasks, and the phases of runs.

The variables are OpenTelemetry's own. Traces are exported where OTEL_EXPORTER_OTLP_ENDPOINT (or the same for traces)
is set, and OTEL_SDK_DISABLED and OTEL_TRACES_EXPORTER do not say otherwise. The libraries come with the extra `otel`;
where they are missing, one line of the log says so and nothing is traced.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Literal, Protocol

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
DISABLED = "OTEL_SDK_DISABLED"
EXPORTER = "OTEL_TRACES_EXPORTER"
SERVICE_NAME = "OTEL_SERVICE_NAME"
SPOKEN = "http/protobuf"
FLUSH_MS = 2000
EXTRA_HINT = "pip install 'tapestry[otel]'"

SpanKind = Literal["server", "consumer", "internal"]

log = logging.getLogger("tapestry.tracing")


class TraceSpan(Protocol):
    """A part of a trace, until `end`; `traceparent` names it to other processes (W3C), empty: to none."""

    @property
    def traceparent(self) -> str: ...

    @property
    def trace_id(self) -> str: ...

    def rename(self, name: str) -> None: ...

    def note(self, **attributes: str | int | float) -> None: ...

    def end(self, fault: str = "") -> None: ...


class Tracing(Protocol):
    """A maker of spans: below `parent`, which is a span here or the `traceparent` of one elsewhere."""

    def start(
        self,
        name: str,
        parent: TraceSpan | str | None = None,
        kind: SpanKind = "internal",
        attributes: Mapping[str, str | int | float] = {},
    ) -> TraceSpan: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class _NoSpan:
    """A span of which nothing is kept."""

    traceparent = trace_id = ""

    def rename(self, name: str) -> None:
        """Do nothing."""

    def note(self, **attributes: str | int | float) -> None:
        """Do nothing."""

    def end(self, fault: str = "") -> None:
        """Do nothing."""


class _NoTracing:
    """Tracing that is off."""

    def start(
        self,
        name: str,
        parent: TraceSpan | str | None = None,
        kind: SpanKind = "internal",
        attributes: Mapping[str, str | int | float] = {},
    ) -> TraceSpan:
        return NO_SPAN

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


NO_SPAN: TraceSpan = _NoSpan()
NO_TRACING: Tracing = _NoTracing()
_active: list[Tracing] = [NO_TRACING]


def tracing() -> Tracing:
    """Return the tracing of this process; off until `start_tracing`."""
    return _active[0]


def start_tracing(environment: Mapping[str, str], service_name: str) -> Tracing:
    """Begin to trace if the environment asks for it; `service_name` is used where that names none."""
    _active[0] = _from_environment(environment, service_name)
    return _active[0]


def stop_tracing() -> None:
    """Export what is left, and trace no more."""
    _active[0].close()
    _active[0] = NO_TRACING


def is_requested(environment: Mapping[str, str]) -> bool:
    """Return whether the environment asks for traces."""
    if environment.get(DISABLED, "").lower() == "true" or environment.get(EXPORTER) == "none":
        return False
    return any(environment.get(name) for name in ENDPOINTS)


def _from_environment(environment: Mapping[str, str], service_name: str) -> Tracing:
    if not is_requested(environment):
        return NO_TRACING
    exporter = environment.get(EXPORTER, "otlp")
    protocol = next((environment[name] for name in PROTOCOLS if environment.get(name)), SPOKEN)
    if exporter != "otlp" or protocol != SPOKEN:
        message = "no traces: %s=%s, protocol %s; only otlp by %s is spoken"
        log.warning(message, EXPORTER, exporter, protocol, SPOKEN)
        return NO_TRACING
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        log.warning("no traces: the environment asks for them, but OpenTelemetry is missing: %s", EXTRA_HINT)
        return NO_TRACING
    named = environment.get(SERVICE_NAME) or service_name
    return OpenTelemetry(named, BatchSpanProcessor(OTLPSpanExporter()))


class OpenTelemetry:
    """Tracing by OpenTelemetry's SDK, which passes spans to a processor of its own kind."""

    def __init__(self, service_name: str, processor: Any) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider

        resource = Resource.create({"service.name": service_name})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("tapestry")

    def start(
        self,
        name: str,
        parent: TraceSpan | str | None = None,
        kind: SpanKind = "internal",
        attributes: Mapping[str, str | int | float] = {},
    ) -> TraceSpan:
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind as Kind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        carrier = parent if isinstance(parent, str) else parent.traceparent if parent is not None else ""
        context = TraceContextTextMapPropagator().extract({"traceparent": carrier}, Context())
        kinds = {"server": Kind.SERVER, "consumer": Kind.CONSUMER, "internal": Kind.INTERNAL}
        return _OpenSpan(self._tracer.start_span(name, context, kinds[kind], dict(attributes)))

    def flush(self) -> None:
        """Export what has ended, and go on."""
        self._provider.force_flush(FLUSH_MS)

    def close(self) -> None:
        """Export what is left."""
        self._provider.shutdown()


class _OpenSpan:
    """A span of OpenTelemetry."""

    def __init__(self, span: Any) -> None:
        self._span = span

    @property
    def traceparent(self) -> str:
        found = self._span.get_span_context()
        return f"00-{found.trace_id:032x}-{found.span_id:016x}-{int(found.trace_flags):02x}"

    @property
    def trace_id(self) -> str:
        return f"{self._span.get_span_context().trace_id:032x}"

    def rename(self, name: str) -> None:
        self._span.update_name(name)

    def note(self, **attributes: str | int | float) -> None:
        self._span.set_attributes({name.replace("__", "."): value for name, value in attributes.items()})

    def end(self, fault: str = "") -> None:
        from opentelemetry.trace import Status, StatusCode

        if fault:
            self._span.set_status(Status(StatusCode.ERROR, fault))
        self._span.end()
