"""Jobs as a child of the worker does them: searches, executions, imports, and islands of other workers' runs."""

from __future__ import annotations

import logging
import math
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from tapestry.optimizer import ProcessIslands
from tapestry.optimizer.run.cluster import ClusterIslands
from tapestry.optimizer.run.tls import Tls
from tapestry.optimizer.run.workers import WorkersLost
from tapestry.service.children import ChildContext
from tapestry.service.logs import start_logging
from tapestry.service.problems import problem
from tapestry.service.store import Job, LeaseLost, SharedEpoch, Store, StoreError, Unreadable
from tapestry.service.telemetry.tracing import start_tracing
from tapestry.service.temporary import is_full
from tapestry.service.worker.executing import Cancelled, do_execution
from tapestry.service.worker.heartbeat import ClaimedJob, Drained
from tapestry.service.worker.importing import do_import
from tapestry.service.worker.job_spans import job_fields, observed_job
from tapestry.service.worker.searching import SearchJob
from tapestry.service.worker.shared_islands import Helper, SharedIslands

log = logging.getLogger("tapestry.worker")

CANCEL, DRAIN = "cancel", "drain"  # signals of the worker to a job


@dataclass(frozen=True)
class Cluster:
    """The address of a Dask scheduler on whose workers runs are searched, and the files of its TLS."""

    address: str
    tls: Tls | None = None


@dataclass(frozen=True)
class JobSettings:
    """The settings of a worker that its children need. Times in seconds; `folder` is for temporary files."""

    database_url: str
    name: str
    islands: int
    lease_s: float
    checkpoint_s: float
    folder: str
    log_level: str
    alone: bool = False
    cluster: Cluster | None = None


@dataclass(frozen=True)
class JobOutcome:
    """The end of an attempt at a job: `done` is in the store already, all others are for the worker to write.

    A job that is `left` keeps its lease until that has stood still: the pause before the next attempt at a database.
    """

    event: Literal["done", "released", "cancelled", "failed", "left", "died", "killed"]
    problem: Mapping[str, Any] | None = None
    message: str = ""


def do_job(context: ChildContext, job: Job, settings: JobSettings) -> JobOutcome:
    """Do a job until it ends; reports the phases of a run or an import, and the seconds that its user grants each."""
    _begin(settings)
    try:
        store = store_at(settings.database_url)
    except StoreError as error:
        return JobOutcome("left", message=f"{error}; tried again when its lease has run out")
    with observed_job(store, job) as spans:
        outcome = _attempt(context, job, settings, store)
        spans.left(job, outcome.event)
    return outcome


def _attempt(context: ChildContext, job: Job, settings: JobSettings, store: Store) -> JobOutcome:
    draining = threading.Event()
    held = ClaimedJob(job, settings.lease_s, draining)

    def hear(word: str) -> None:
        if word == CANCEL:
            held.is_cancelled = True
        else:
            draining.set()

    context.listen(hear)
    try:
        if job.kind == "run":
            _search(held, settings, lambda phase, limit_s: context.report((phase, limit_s)))
        elif job.kind == "import":
            do_import(store, held, lambda phase: context.report((phase, math.inf)))
        else:
            do_execution(store, held)
    except Drained:
        return JobOutcome("released")
    except Cancelled:
        return JobOutcome("cancelled")
    except WorkersLost as error:
        return JobOutcome("released", message=f"{error}; it goes on once there are some")
    except LeaseLost as error:
        store.observers.lost(job)
        return JobOutcome("done", message=str(error))
    except Unreadable as error:
        return failed("unreadable", "Something that it needs is not installed", str(error))
    except StoreError as error:
        return JobOutcome("left", message=f"{error}; tried again when its lease has run out")
    except BrokenProcessPool as error:
        return JobOutcome("died", message=str(error))
    except MemoryError:
        return JobOutcome("died", message="it needs more memory than it is allowed, or than there is")
    except ValueError as error:
        return failed("invalid_request", "The request cannot be carried out", str(error))
    except Exception as error:
        if is_full(error):
            return JobOutcome("left", message=f"no space for temporary files: {error}; it is tried again")
        log.exception("%s %s: a fault of this program", job.kind, job.subject, extra=job_fields(job))
        message = f"a fault of this program, please report it: {type(error).__name__}: {error}"
        return failed("internal", "A fault of this program", message)
    return JobOutcome("done")


def do_help(context: ChildContext, first: SharedEpoch, settings: JobSettings) -> None:
    """Run islands of another worker's run, from one that was taken; reports the run, and None when it is over."""
    _begin(settings)
    draining = threading.Event()
    context.listen(lambda _: draining.set())
    store, islands = store_at(settings.database_url), _processes(settings.islands)
    Helper(store, settings.name, islands, draining, context.report).help_from(first)


def failed(code: str, title: str, detail: str) -> JobOutcome:
    """Return the outcome of a job that has failed for a reason."""
    return JobOutcome("failed", problem(code, title, " ".join(detail.split())))


@lru_cache(maxsize=1)
def store_at(url: str) -> Store:
    """Return the store, opened once per process."""
    return Store(url)


@lru_cache(maxsize=1)
def _processes(count: int) -> ProcessIslands:
    """Return processes for islands, begun once: the next run finds them warm."""
    return ProcessIslands(count)


@lru_cache(maxsize=1)
def _cluster_islands(cluster: Cluster) -> ClusterIslands:
    """Return the workers of a cluster, connected once."""
    return ClusterIslands(cluster.address, tls=cluster.tls, on_change=log.warning)


def _begin(settings: JobSettings) -> None:
    tempfile.tempdir = settings.folder
    start_logging(settings.log_level)
    _trace()


@lru_cache(maxsize=1)
def _trace() -> None:
    """Begin to trace, once per process, if the environment asks for it."""
    start_tracing(os.environ, "tapestry-worker")


def _search(held: ClaimedJob, settings: JobSettings, on_phase: Callable[[str, float], None]) -> None:
    store = store_at(settings.database_url)
    with _executor(store, held.job, settings) as executor:
        SearchJob(store, held, executor, settings.islands, settings.checkpoint_s, on_phase).do()


@contextmanager
def _executor(store: Store, job: Job, settings: JobSettings) -> Iterator[Executor]:
    """Enter the executor of a run's islands: processes here, those of other workers beside them, or a cluster."""
    if settings.cluster is not None:
        yield _cluster_islands(settings.cluster)
        return
    processes = _processes(settings.islands)
    if settings.alone:
        yield processes
        return
    with SharedIslands(store, job, processes) as shared:
        yield shared
