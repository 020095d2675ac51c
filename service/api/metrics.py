"""Metrics for Prometheus: what this server answered, what the store has, and what workers have counted."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Response
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from tapestry.service.api.context import Context
from tapestry.service.api.openapi_parts import problems, text_answer
from tapestry.service.api.process_figures import figures_text
from tapestry.service.children.memory import descendants, proportional_bytes
from tapestry.service.lifecycle import STATUSES
from tapestry.service.store import ALIVE_S, StoreError, WorkerHeartbeat
from tapestry.service.store.jobs import KINDS
from tapestry.service.store.tallies import (
    ATTEMPTS,
    CLASSES,
    DATABASE_SECONDS,
    ENDED,
    EVALUATIONS,
    LEASE_LOSSES,
    PHASE_SECONDS,
    SUM,
    TallyKey,
)

ANSWERS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
TASKS = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)
EXAMPLE = """# HELP tapestry_queued_jobs Jobs that nobody does yet
# TYPE tapestry_queued_jobs gauge
tapestry_queued_jobs 0.0
"""


class Metrics:
    """All metrics of one application."""

    def __init__(self, context: Context) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "tapestry_requests", "Requests answered", ("method", "route", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "tapestry_request_seconds",
            "Time to the first byte of an answer",
            ("method", "route"),
            buckets=ANSWERS,
            registry=self.registry,
        )
        self.open = Gauge(
            "tapestry_open_requests",
            "Requests that are being answered, streams among them",
            multiprocess_mode="livesum",
            registry=self.registry,
        )
        self.waiting = Histogram(
            "tapestry_task_wait_seconds",
            "Time that tasks waited for the task pool",
            buckets=TASKS,
            registry=self.registry,
        )
        self.tasks = Histogram(
            "tapestry_task_duration_seconds",
            "Time of tasks in the task pool",
            ("task",),
            buckets=TASKS,
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
        """Fetch metrics for Prometheus: requests, jobs by status, the queue, workers, durations, memory, viewers."""
        return Response(metrics.text(), headers={"Cache-Control": "no-store"}, media_type=CONTENT_TYPE_LATEST)

    return figures


def skew_s(workers: Sequence[WorkerHeartbeat]) -> float:
    """Return the largest difference of a worker's clock from the database's, as far as it is known."""
    return max((abs(worker.ahead_s or 0.0) for worker in workers), default=0.0)


class _StoreCollector:
    """Metrics that are read when they are requested: from the store, and from this system's list of processes."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        try:
            began_s = time.perf_counter()
            self._context.all_tenants.ping()
            ping_s = time.perf_counter() - began_s
            counts = self._context.all_tenants.jobs.counts()
            alive = self._context.all_tenants.workers.alive(ALIVE_S)
            tallies = self._context.all_tenants.all_tallies()
        except StoreError:
            yield _gauge("tapestry_database_up", "Whether the database answers: 1, or 0", 0)
            yield _memory(())
            return
        yield _gauge("tapestry_database_up", "Whether the database answers: 1, or 0", 1)
        yield _gauge("tapestry_database_latency_seconds", "Time in which the database answers now", ping_s)
        yield from _jobs(counts)
        yield _gauge("tapestry_workers", "Workers heard of in the last seconds", len(alive))
        yield _gauge(
            "tapestry_clock_skew_seconds", "Largest difference from the database's clock", skew_s(alive)
        )
        yield from _tallied(tallies)
        yield _memory(alive)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text)
    family.add_metric((), value)
    return family


def _jobs(counts: Mapping[str, Any]) -> Iterator[Metric]:
    for kind in ("runs", "executions", "imports"):
        family = GaugeMetricFamily(f"tapestry_{kind}", f"{kind.capitalize()} by status", labels=["status"])
        for status in STATUSES:
            family.add_metric([status], counts[kind].get(status, 0))
        yield family
    yield _gauge("tapestry_queued_jobs", "Jobs that nobody does yet", counts["queued"])
    ages = GaugeMetricFamily(
        "tapestry_queue_age_seconds", "Age of the job that waits longest", labels=["kind"]
    )
    now = datetime.now(UTC)
    for kind in KINDS:
        since = counts["oldest"].get(kind, now)
        ages.add_metric([kind], max((now - since).total_seconds(), 0.0))
    yield ages


def _tallied(tallies: Mapping[TallyKey, float]) -> Iterator[Metric]:
    yield _counter(tallies, ATTEMPTS, "Attempts at jobs that workers have begun", ["kind"], KINDS)
    yield _counter(tallies, LEASE_LOSSES, "Attempts that lost their job to another worker", ["kind"], KINDS)
    yield _counter(tallies, EVALUATIONS, "Plans that searches have evaluated", [], ("",))
    yield _counter(
        tallies,
        ENDED,
        "Attempts that are over, by how",
        ["kind", "outcome"],
        (),
        lambda label: label.split(" "),
    )
    yield _histogram(tallies, PHASE_SECONDS, "Time of an attempt at a run in a phase", "phase")
    yield _histogram(
        tallies, DATABASE_SECONDS, "Time of transactions of this server and of workers", "operation"
    )


def _counter(
    tallies: Mapping[TallyKey, float],
    name: str,
    text: str,
    labels: Sequence[str],
    known: Sequence[str],
    values: Callable[[str], Sequence[str]] = lambda label: [label],
) -> CounterMetricFamily:
    """Build a counter; `known` labels are there from the start, at 0."""
    family = CounterMetricFamily(f"tapestry_{name}", text, labels=labels)
    found = dict.fromkeys(known, 0.0) | {
        key.label: value for key, value in tallies.items() if key.name == name
    }
    for label, value in sorted(found.items()):
        family.add_metric(values(label) if labels else (), value)
    return family


def _histogram(tallies: Mapping[TallyKey, float], name: str, text: str, label: str) -> HistogramMetricFamily:
    family = HistogramMetricFamily(f"tapestry_{name}", text, labels=[label])
    for value in sorted({key.label for key in tallies if key.name == name}):
        total, buckets = 0.0, []
        for part in (*map(repr, CLASSES[name]), "+Inf"):
            total += tallies.get(TallyKey(name, value, part), 0.0)
            buckets.append((part, total))
        family.add_metric([value], buckets, tallies.get(TallyKey(name, value, SUM), 0.0))
    return family


def _memory(alive: Sequence[WorkerHeartbeat]) -> GaugeMetricFamily:
    """Return the memory of this process, of its task pool, and of workers by what they report themselves."""
    family = GaugeMetricFamily(
        "tapestry_memory_pss_bytes", "Memory, of shared pages the share", labels=["process", "name"]
    )
    family.add_metric(["api", str(os.getpid())], proportional_bytes(os.getpid()))
    workers = frozenset(worker.pid for worker in alive)  # an embedded one is a child of this process
    pool = descendants(os.getpid(), without=workers)
    family.add_metric(["pool", str(os.getpid())], sum(map(proportional_bytes, pool)))
    for worker in alive:
        family.add_metric(["worker", worker.name], worker.pss_bytes)
    return family
