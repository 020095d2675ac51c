"""The fields that every log line of a request or job has, and what a job keeps of the request that made it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Final

from tapestry.service.telemetry.tracing import TraceSpan

REQUEST_ID: Final = "request_id"
TRACEPARENT: Final = "traceparent"

NOTHING: Mapping[str, str] = MappingProxyType({})
_fields: ContextVar[Mapping[str, str]] = ContextVar("tapestry_fields", default=NOTHING)
_span: ContextVar[TraceSpan | None] = ContextVar("tapestry_span", default=None)


@contextmanager
def correlated(span: TraceSpan | None = None, **fields: str) -> Iterator[None]:
    """Give all log lines of a block these fields beside those that they have, and its spans this parent."""
    known = _fields.set({**_fields.get(), **fields})
    parent = _span.set(span if span is not None else _span.get())
    try:
        yield
    finally:
        _span.reset(parent)
        _fields.reset(known)


def correlation_fields() -> Mapping[str, str]:
    """Return the fields of the request or job that this thread is about."""
    return _fields.get()


def current_span() -> TraceSpan | None:
    """Return the span of the request or job that this thread is about; None without one."""
    return _span.get()


def origin() -> dict[str, str]:
    """Return what a new job keeps of the request that makes it: the request's id, and its place in a trace."""
    found = {}
    if REQUEST_ID in _fields.get():
        found[REQUEST_ID] = _fields.get()[REQUEST_ID]
    span = _span.get()
    if span is not None and span.traceparent:
        found[TRACEPARENT] = span.traceparent
    return found
