"""Signs of life, figures for monitoring, and the measurement of every request."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from fastapi import APIRouter, Response
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.context import Context, Parts
from service.api.models import HealthAnswer
from service.lifecycle import STATUSES
from service.store import StoreError

router = APIRouter(tags=["operations"])

ALIVE_S = 10.0
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
LONGEST_ID = 100
QUIET = ("/healthz", "/readyz", "/metrics")

log = logging.getLogger("tapestry.api")


@router.get("/healthz", response_model=HealthAnswer, response_model_exclude_none=True)
async def healthz() -> dict[str, Any]:
    """The process lives."""
    return {"status": "ok"}


@router.get(
    "/readyz",
    response_model=HealthAnswer,
    responses={503: {"model": HealthAnswer, "description": "Not ready"}},
)
def readyz(parts: Parts) -> Response:
    """The database answers; `workers` says how many do what is queued (none: runs wait)."""
    try:
        parts.store.ping()
        workers = len(parts.store.workers.alive(datetime.now(UTC) - timedelta(seconds=ALIVE_S)))
    except StoreError:
        return JSONResponse({"status": "unavailable", "database": False, "workers": 0}, 503)
    return JSONResponse({"status": "ok", "database": True, "workers": workers})


class Metrics:
    """What Prometheus asks for: requests as they were answered, jobs and workers as the store has them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self.requests = Counter("tapestry_requests", "Requests answered", labels, registry=self.registry)
        self.seconds = Histogram(
            "tapestry_request_seconds",
            "Time to the first byte of an answer",
            ("method", "route"),
            buckets=BUCKETS,
            registry=self.registry,
        )

    def watch(self, context: Context) -> None:
        """Ask this application's store and feed whenever somebody asks for the metrics."""
        self.registry.register(_StoreCollector(context))

    def text(self) -> bytes:
        return generate_latest(self.registry)


class _StoreCollector:
    """Gauges that are read when they are asked for."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def describe(self) -> Iterable[GaugeMetricFamily]:
        return ()

    def collect(self) -> Iterable[GaugeMetricFamily]:
        viewers = GaugeMetricFamily("tapestry_event_viewers", "Open streams of events")
        viewers.add_metric((), self._context.feed.viewers)
        yield viewers
        try:
            counts = self._context.store.jobs.counts()
            alive = self._context.store.workers.alive(datetime.now(UTC) - timedelta(seconds=ALIVE_S))
        except StoreError:
            return
        for kind in ("runs", "executions"):
            family = GaugeMetricFamily(
                f"tapestry_{kind}", f"{kind.capitalize()} by status", labels=["status"]
            )
            for status in STATUSES:
                family.add_metric([status], counts[kind].get(status, 0))
            yield family
        for name, text, value in (
            ("tapestry_queued_jobs", "Jobs that nobody does yet", counts["queued"]),
            ("tapestry_workers", "Workers heard of in the last seconds", len(alive)),
        ):
            family = GaugeMetricFamily(name, text)
            family.add_metric((), value)
            yield family


class Measured:
    """Gives every request an id, measures it, and writes one line about it."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        request_id = Headers(scope=scope).get("x-request-id", "")
        if not (0 < len(request_id) <= LONGEST_ID and request_id.isascii() and request_id.isprintable()):
            request_id = secrets.token_hex(8)
        method = scope["method"]

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["X-Request-ID"] = request_id
                self._note(scope, method, message["status"], time.perf_counter() - began, request_id)
            await send(message)

        await self._app(scope, receive, noted)

    def _note(self, scope: Scope, method: str, status: int, seconds: float, request_id: str) -> None:
        route = getattr(scope.get("route"), "path", "unknown")
        self._metrics.requests.labels(method, route, str(status)).inc()
        self._metrics.seconds.labels(method, route).observe(seconds)
        if scope["path"] in QUIET:
            return
        extra = {
            "request_id": request_id,
            "method": method,
            "path": scope["path"],
            "status": status,
            "seconds": round(seconds, 4),
        }
        log.info("%s %s %d", method, scope["path"], status, extra=extra)
