"""Reports of what happens to jobs, for whoever measures it: tallies for the metrics, spans of traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tapestry.service.store.records import Job


class JobObserver(Protocol):
    """Something that is notified, on the thread of the worker, after the store has written what it is about."""

    def claimed(self, job: Job) -> None:
        """Note that an attempt at a job has begun here."""

    def entered(self, job: Job, phase: str) -> None:
        """Note that a run is in a phase, perhaps the one in which it was."""

    def evaluated(self, job: Job, evaluations: int) -> None:
        """Note that a search has evaluated so many more plans."""

    def left(self, job: Job, outcome: str) -> None:
        """Note that an attempt is over: by the event that ended the job, or `released`."""

    def lost(self, job: Job) -> None:
        """Note that the lease of a job is another worker's by now; its attempt notices, not the store."""


class Observers:
    """All observers of one store's jobs as one."""

    def __init__(self, observers: Sequence[JobObserver]) -> None:
        self._observers = list(observers)

    def add(self, observer: JobObserver) -> None:
        """Notify one more from now on."""
        self._observers.append(observer)

    def remove(self, observer: JobObserver) -> None:
        """Notify one no longer."""
        self._observers.remove(observer)

    def claimed(self, job: Job) -> None:
        for one in self._observers:
            one.claimed(job)

    def entered(self, job: Job, phase: str) -> None:
        for one in self._observers:
            one.entered(job, phase)

    def evaluated(self, job: Job, evaluations: int) -> None:
        for one in self._observers:
            one.evaluated(job, evaluations)

    def left(self, job: Job, outcome: str) -> None:
        for one in self._observers:
            one.left(job, outcome)

    def lost(self, job: Job) -> None:
        for one in self._observers:
            one.lost(job)
