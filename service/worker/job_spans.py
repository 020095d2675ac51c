"""The spans of a worker's attempts and of the phases of runs, in the trace of the request that made the job."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from tapestry.service.store import Job, Store, StoreError
from tapestry.service.telemetry.correlation_fields import REQUEST_ID, TRACEPARENT, correlated
from tapestry.service.telemetry.tracing import NO_SPAN, TraceSpan, tracing

log = logging.getLogger("tapestry.worker")


class JobSpans:
    """An observer of jobs that keeps one span per attempt, and below it one per phase."""

    def __init__(self) -> None:
        self._attempts: dict[tuple[str, str], TraceSpan] = {}
        self._phases: dict[tuple[str, str], tuple[str, TraceSpan]] = {}

    def span(self, job: Job) -> TraceSpan:
        """Return the span of the attempt at a job."""
        return self._attempts.get((job.kind, job.subject), NO_SPAN)

    def claimed(self, job: Job) -> None:
        attributes: dict[str, str | int] = {
            f"tapestry.{job.kind}_id": job.subject,
            "tapestry.worker": job.owner,
            "tapestry.attempt": job.attempt,
        }
        if REQUEST_ID in job.origin:
            attributes["tapestry.request_id"] = job.origin[REQUEST_ID]
        started = tracing().start(job.kind, job.origin.get(TRACEPARENT), "consumer", attributes)
        self._attempts[job.kind, job.subject] = started

    def entered(self, job: Job, phase: str) -> None:
        before, _ = self._phases.get((job.kind, job.subject), ("", NO_SPAN))
        if phase != before:
            self._end_phase(job)
            self._phases[job.kind, job.subject] = (phase, tracing().start(phase, self.span(job)))

    def evaluated(self, job: Job, evaluations: int) -> None:
        """Do nothing: the number is a metric."""

    def left(self, job: Job, outcome: str) -> None:
        self._end(job, "the job failed" if outcome == "failed" else "", outcome)

    def lost(self, job: Job) -> None:
        self._end(job, "another worker has the job", "lost")

    def close(self, job: Job) -> None:
        """End the spans of an attempt that ended without a word to the store."""
        self._end(job, "the attempt was given up", "given up")

    def _end(self, job: Job, fault: str, outcome: str) -> None:
        self._end_phase(job)
        span = self._attempts.pop((job.kind, job.subject), None)
        if span is not None:
            span.note(tapestry__outcome=outcome)
            span.end(fault)

    def _end_phase(self, job: Job) -> None:
        _, span = self._phases.pop((job.kind, job.subject), ("", NO_SPAN))
        span.end()


def job_fields(job: Job) -> dict[str, str]:
    """Return the fields of all log lines about a job, for searching."""
    fields = {
        f"{job.kind}_id": job.subject,
        "tenant": job.tenant,
        "worker": job.owner,
        "attempt": str(job.attempt),
    }
    return fields | {REQUEST_ID: job.origin[REQUEST_ID]} if REQUEST_ID in job.origin else fields


@contextmanager
def observed_job(store: Store, job: Job) -> Iterator[JobSpans]:
    """Trace the attempt at a job in a block, give its log lines the job's fields, and store what was counted."""
    spans = JobSpans()
    store.observers.add(spans)
    spans.claimed(job)
    try:
        with correlated(spans.span(job), **job_fields(job)):
            yield spans
    finally:
        spans.close(job)
        store.observers.remove(spans)
        tracing().flush()
        try:
            store.flush_tallies()
        except StoreError as error:
            log.warning("what was counted of %s %s comes later: %s", job.kind, job.subject, error)
