"""The heartbeat of a worker: it renews the leases of running jobs, notices cancellations, records the worker."""

from __future__ import annotations

import logging
import math
import os
import platform
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from tapestry.service.children.memory import tree_bytes
from tapestry.service.store import Job, LeaseLost, Store, StoreError

log = logging.getLogger("tapestry.worker")

LOOK_S = 0.25  # between looks at cancellations
MEMORY_S = 10.0  # between two looks at the memory of this worker
SKEW_S = 5.0  # of a clock: more is told


class Drained(Exception):
    """Error raised when the worker was requested to end: its current job goes back to the queue."""


class ClaimedJob:
    """A claimed job, with flags for its cancellation by the user and for the loss of its lease to another worker."""

    def __init__(self, job: Job, lease_s: float, draining: threading.Event) -> None:
        self.job = job
        self.lease_s = lease_s
        self.is_cancelled = job.cancel_requested
        self.is_lost = False
        self._draining = draining

    @property
    def is_draining(self) -> bool:
        """True if the worker was requested to end."""
        return self._draining.is_set()

    def check(self) -> None:
        """Check that no other worker has the job.

        Raises:
            LeaseLost: another worker has claimed it.
        """
        if self.is_lost:
            raise LeaseLost(f"{self.job.kind} {self.job.subject} belongs to another worker by now")


class Heartbeat:
    """A heartbeat every `beat_s` seconds until `stop()`; `draining` is set when the worker is to end."""

    def __init__(
        self, store: Store, name: str, draining: threading.Event, *, lease_s: float, beat_s: float
    ) -> None:
        self._store, self._name, self._draining = store, name, draining
        self._lease_s, self._beat_s = lease_s, beat_s
        self._held: list[ClaimedJob] = []
        self._helped: str | None = None
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._is_skewed = False
        self._measured_s, self._pss_bytes = -math.inf, 0
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._beat()
        self._thread.start()

    def stop(self) -> None:
        """Stop the heartbeat, and remove this worker from the store."""
        self._stopped.set()
        self._thread.join()
        try:
            self._store.flush_tallies()
            self._store.workers.gone(self._name)
        except StoreError as error:
            log.warning("could not sign off: %s", error)

    @contextmanager
    def hold(self, job: Job) -> Iterator[ClaimedJob]:
        """Keep a job's lease alive while the block runs."""
        held = ClaimedJob(job, self._lease_s, self._draining)
        with self._lock:
            self._held.append(held)
        try:
            yield held
        finally:
            with self._lock:
                self._held.remove(held)

    def help(self, run_id: str | None) -> None:
        """Record the run of another worker whose islands run here now; None: there is none any more."""
        self._helped = run_id

    def _run(self) -> None:
        """Beat, and look between two beats whether somebody has cancelled what is held."""
        beats_at = time.monotonic() + self._beat_s
        while not self._stopped.wait(min(LOOK_S, self._beat_s)):
            is_beat = time.monotonic() >= beats_at
            try:
                self._beat() if is_beat else self._look()
            except Exception:  # without heartbeats a worker would lose all its jobs
                log.exception("a fault of this program, please report it")
            if is_beat:
                beats_at = time.monotonic() + self._beat_s

    def _look(self) -> None:
        with self._lock:
            held = tuple(one for one in self._held if not one.is_cancelled)
        if not held:
            return
        try:
            cancelled = self._store.jobs.cancelled([one.job for one in held])
        except StoreError:  # the next heartbeat reports it
            return
        for one in held:
            one.is_cancelled |= one.job.subject in cancelled

    def _beat(self) -> None:
        """Renew all leases and record the worker; an unreachable database is tried again at the next heartbeat."""
        with self._lock:
            held = tuple(self._held)
        resting = "idle" if self._helped is None else "helping"
        for one in held:
            try:
                one.is_cancelled |= self._store.jobs.renew(one.job, self._lease_s)
            except LeaseLost:
                with self._lock:  # a job that has just ended has no lease to lose
                    one.is_lost |= one in self._held
            except StoreError as error:
                log.warning("could not renew the lease of %s %s: %s", one.job.kind, one.job.subject, error)
        try:
            ahead_s = self._store.workers.beat(
                self._name,
                datetime.now(UTC),
                host=platform.node(),
                pid=os.getpid(),
                status="draining" if self._draining.is_set() else "busy" if held else resting,
                subject=held[0].job.subject if held else self._helped,
                pss_bytes=self._memory(),
            )
            self._store.flush_tallies()
        except StoreError as error:
            log.warning("could not say that this worker lives: %s", error)
        else:
            self._report_skew(ahead_s or 0.0)

    def _memory(self) -> int:
        """Return the memory of this worker and its processes, measured now and then, as that takes milliseconds."""
        now_s = time.monotonic()
        if now_s >= self._measured_s + MEMORY_S:
            self._measured_s, self._pss_bytes = now_s, tree_bytes(os.getpid())
        return self._pss_bytes

    def _report_skew(self, ahead_s: float) -> None:
        """Warn of a clock that is wrong, once until it is right again: nothing depends on it but what people read."""
        is_wrong = abs(ahead_s) > SKEW_S
        if is_wrong and not self._is_skewed:
            direction = "ahead of" if ahead_s > 0 else "behind"
            message = (
                "the clock of this machine is %.0f s %s the database's: times of its runs are wrong by that"
            )
            log.warning(message, abs(ahead_s), direction)
        self._is_skewed = is_wrong
