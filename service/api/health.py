"""Health checks and metrics for monitoring."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from fastapi import APIRouter, Response
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
)
from prometheus_client.core import GaugeMetricFamily

from tapestry.service.api.answers import answer
from tapestry.service.api.context import Context, Parts
from tapestry.service.api.models import HealthAnswer, ReadyAnswer
from tapestry.service.api.openapi_parts import problems, text_answer
from tapestry.service.api.problems import RETRY_AFTER_S, Problem
from tapestry.service.api.process_figures import figures_text
from tapestry.service.lifecycle import STATUSES
from tapestry.service.store import ALIVE_S, StoreError, WorkerHeartbeat

log = logging.getLogger("tapestry.api")
router = APIRouter(tags=["operations"])

PROBES = ThreadPoolExecutor(1, "probes")  # apart from the threads that requests may keep busy
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
EXAMPLE = """# HELP tapestry_queued_jobs Jobs that nobody does yet
# TYPE tapestry_queued_jobs gauge
tapestry_queued_jobs 0.0
"""


@router.get("/healthz", response_model=HealthAnswer, responses=problems())
async def healthz() -> Response:
    """Report that the process is alive."""
    return answer({"status": "ok"})


@router.get("/readyz", response_model=ReadyAnswer, responses=problems())
async def readyz(parts: Parts) -> Response:
    """Check that the database answers, takes writes and has space; `workers` are those that live (none: runs wait)."""
    return await asyncio.get_running_loop().run_in_executor(PROBES, _readiness, parts)


def _readiness(parts: Context) -> Response:
    parts.all_tenants.ping()
    try:
        parts.all_tenants.check_writes()
    except StoreError as error:
        log.error("not ready: %s", error)
        message = "the database answers, but takes no writes: its disk is full, or another process holds it"
        raise Problem(503, "read_only", message, headers={"Retry-After": str(RETRY_AFTER_S)}) from error
    shortage = parts.space.shortage()
    if shortage is not None:
        raise Problem(503, "no_space", shortage, headers={"Retry-After": str(RETRY_AFTER_S)})
    workers = parts.all_tenants.workers.alive(ALIVE_S)
    return answer({"status": "ok", "workers": len(workers), "clock_skew_s": _skew_s(workers)})


def _skew_s(workers: Sequence[WorkerHeartbeat]) -> float:
    """Return the largest difference of a worker's clock from the database's, as far as it is known."""
    return max((abs(worker.ahead_s or 0.0) for worker in workers), default=0.0)


class Metrics:
    """Metrics for Prometheus: requests as they were answered, jobs and workers as the store has them."""

    def __init__(self, context: Context) -> None:
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
        self.viewers = Gauge(
            "tapestry_event_viewers",
            "Open streams of events",
            registry=self.registry,
            multiprocess_mode="livesum",
        )
        context.event_feed.observe(self.viewers.set)
        self._read_now = _StoreCollector(context)
        self.registry.register(self._read_now)

    def note(self, method: str, route: str, status: int, seconds: float) -> None:
        """Record an answered request; `route` is the template of its path."""
        self.requests.labels(method, route, str(status)).inc()
        self.seconds.labels(method, route).observe(seconds)

    def text(self) -> bytes:
        return figures_text(self.registry, self._read_now)


def metrics_router(metrics: Metrics) -> APIRouter:
    """Build the router of the endpoint that serves an application's metrics."""
    figures = APIRouter(tags=["operations"])

    @figures.get(
        "/metrics",
        responses=text_answer(CONTENT_TYPE_LATEST, "Figures in Prometheus' text format", EXAMPLE)
        | problems(),
        response_class=Response,
    )
    def get_metrics() -> Response:
        """Fetch metrics for Prometheus: requests, runs and executions by status, the queue, workers, viewers."""
        return Response(metrics.text(), headers={"Cache-Control": "no-store"}, media_type=CONTENT_TYPE_LATEST)

    return figures


class _StoreCollector:
    """Gauges that are computed from the store when they are requested."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def describe(self) -> Iterable[GaugeMetricFamily]:
        return ()

    def collect(self) -> Iterable[GaugeMetricFamily]:
        try:
            counts = self._context.all_tenants.jobs.counts()
            alive = self._context.all_tenants.workers.alive(ALIVE_S)
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
            ("tapestry_clock_skew_seconds", "Largest difference from the database's clock", _skew_s(alive)),
        ):
            family = GaugeMetricFamily(name, text)
            family.add_metric((), value)
            yield family
