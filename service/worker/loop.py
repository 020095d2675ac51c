"""The worker: two threads, so that no execution waits for a long search; each claims a job, does it, repeats."""

from __future__ import annotations

import logging
import os
import platform
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from tapestry.optimizer import ProcessIslands
from tapestry.optimizer.run.cluster import ClusterIslands
from tapestry.optimizer.run.workers import WorkersLost
from tapestry.service.lifecycle import Event
from tapestry.service.problems import problem
from tapestry.service.store import Job, LeaseLost, Store, StoreError, Unreadable
from tapestry.service.worker.executing import Cancelled, do_execution
from tapestry.service.worker.heartbeat import ClaimedJob, Drained, Heartbeat
from tapestry.service.worker.searching import SearchJob
from tapestry.service.worker.shared_islands import Helper, SharedIslands

log = logging.getLogger("tapestry.worker")

MOST_WITHOUT_PROGRESS = 10  # attempts that ended without a checkpoint: the job itself brings its workers down


def new_name() -> str:
    """Generate a name that no other worker has, here or elsewhere: the host, the process id, and a random token."""
    return f"{platform.node()}:{os.getpid()}:{secrets.token_hex(3)}"


@dataclass(frozen=True)
class WorkerSettings:
    """The settings of a worker; times in seconds.

    A worker that dies silently is presumed dead after `lease_s`; `beat_s` must be well below it. A worker that is
    `alone` shares no islands of its runs with other workers, and runs none of theirs.
    """

    name: str = field(default_factory=new_name)
    islands: int = field(default_factory=lambda: os.cpu_count() or 1)
    lease_s: float = 15.0
    beat_s: float = 1.0
    checkpoint_s: float = 1.0
    poll_s: float = 0.5
    alone: bool = False


def work(
    store: Store,
    settings: WorkerSettings,
    draining: threading.Event,
    cluster: ClusterIslands | None = None,
) -> None:
    """Carry out jobs until `draining` is set; the current job then goes back to the queue.

    Runs are searched by processes of the worker, or on a `cluster`, which stays open.
    """
    heartbeat = Heartbeat(store, settings.name, draining, lease_s=settings.lease_s, beat_s=settings.beat_s)
    heartbeat.start()
    log.info("worker %s: %d islands", settings.name, settings.islands)
    islands = ProcessIslands(settings.islands) if cluster is None else cluster
    shared = islands if isinstance(islands, ProcessIslands) and not settings.alone else None

    def search(held: ClaimedJob) -> None:
        with ExitStack() as stack:
            executor: Executor = islands
            if shared is not None:
                executor = stack.enter_context(SharedIslands(store, held.job, shared))
            SearchJob(store, held, executor, settings.islands, settings.checkpoint_s).do()

    def execute(held: ClaimedJob) -> None:
        do_execution(store, held)

    def on_run(run_id: str | None) -> None:
        heartbeat.helped_run = run_id

    helper = None if shared is None else Helper(store, settings.name, shared, draining, on_run)
    runs = _Lane("run", search, store, settings, heartbeat, draining, helper)
    executions = _Lane("execution", execute, store, settings, heartbeat, draining)
    beside = threading.Thread(target=executions.run, name="executions", daemon=True)
    beside.start()
    try:
        runs.run()
    finally:
        draining.set()
        beside.join()
        heartbeat.stop()
        if isinstance(islands, ProcessIslands):
            islands.abandon()  # a round whose result nobody takes any more
        log.info("worker %s has ended", settings.name)


class _Lane:
    """A loop that claims jobs of one kind and does them one by one.

    While there is none, a `helper` runs islands of other workers' runs.

    A job that fails because of the database keeps its lease until it runs out: that is the pause before the
    next attempt, which counts as one more without a checkpoint.
    """

    def __init__(
        self,
        kind: Literal["run", "execution"],
        do: Callable[[ClaimedJob], None],
        store: Store,
        settings: WorkerSettings,
        heartbeat: Heartbeat,
        draining: threading.Event,
        helper: Helper | None = None,
    ) -> None:
        self._kind, self._do, self._store, self._settings = kind, do, store, settings
        self._heartbeat, self._draining, self._helper = heartbeat, draining, helper

    def run(self) -> None:
        while not self._draining.is_set():
            job = self._claim()
            if job is None:
                self._help()
                self._draining.wait(self._settings.poll_s)
                continue
            with self._heartbeat.hold(job) as held:
                self._attempt(held)

    def _claim(self) -> Job | None:
        now = datetime.now(UTC)
        try:
            return self._store.jobs.claim(
                self._settings.name, now, self._settings.lease_s, kinds=(self._kind,)
            )
        except StoreError as error:
            log.warning("cannot look for work: %s", error)
            return None

    def _help(self) -> None:
        """Run islands of another worker's run, if it shares some."""
        try:
            if self._helper is not None:
                self._helper.help()
        except StoreError as error:
            log.warning("cannot help with other runs: %s", error)

    def _attempt(self, held: ClaimedJob) -> None:
        """Do a job until it ends, and record how it ended."""
        job = held.job
        log.info("%s %s: attempt %d", job.kind, job.subject, job.attempt, extra=_ids(job))
        try:
            if job.cancel_requested:
                self._end(job, "cancelled", None)
            elif job.attempts_without_progress > MOST_WITHOUT_PROGRESS:
                self._fail_for_worker(job, f"it ended its worker {job.attempts_without_progress - 1} times")
            else:
                self._do(held)
        except Drained:
            self._release(job)
        except Cancelled:
            self._end(job, "cancelled", None)
        except WorkersLost as error:
            log.warning("%s %s: %s; it goes on once there are some", job.kind, job.subject, error)
            self._release(job)
        except LeaseLost as error:
            log.warning("%s %s: %s", job.kind, job.subject, error, extra=_ids(job))
        except Unreadable as error:
            self._fail(job, "unreadable", "Something that it needs is not installed", str(error))
        except StoreError as error:
            message = "%s %s: %s; tried again when its lease has run out"
            log.error(message, job.kind, job.subject, error, extra=_ids(job))
        except BrokenProcessPool as error:
            self._fail_for_worker(job, str(error))
        except MemoryError:
            self._fail(
                job, "out_of_memory", "Not enough memory", "the worker's machine has too little memory"
            )
        except ValueError as error:
            self._fail(job, "invalid_request", "The request cannot be carried out", str(error))
        except Exception as error:
            log.exception("%s %s: a fault of this program", job.kind, job.subject, extra=_ids(job))
            message = f"a fault of this program, please report it: {type(error).__name__}: {error}"
            self._fail(job, "internal", "A fault of this program", message)
        else:
            log.info("%s %s: done", job.kind, job.subject, extra=_ids(job))

    def _fail_for_worker(self, job: Job, what: str) -> None:
        self._fail(job, "worker_died", "The work ended its worker", f"{what}; perhaps it lacks memory")

    def _fail(self, job: Job, code: str, title: str, detail: str) -> None:
        log.error("%s %s failed: %s", job.kind, job.subject, detail, extra=_ids(job))
        self._end(job, "failed", problem(code, title, " ".join(detail.split())))

    def _end(self, job: Job, event: Event, why: dict[str, object] | None) -> None:
        now = datetime.now(UTC)
        try:
            if job.kind == "run":
                self._store.jobs.end_run(job, now, event, stopped=event, problem=why)
            else:
                self._store.jobs.end_execution(job, now, event, problem=why)
        except StoreError as error:
            log.warning("%s %s: %s", job.kind, job.subject, error, extra=_ids(job))

    def _release(self, job: Job) -> None:
        try:
            self._store.jobs.release(job, datetime.now(UTC))
        except StoreError as error:
            log.warning("could not give %s %s back, its lease will run out: %s", job.kind, job.subject, error)


def _ids(job: Job) -> dict[str, str]:
    """Return the extra fields of log lines about a job, for searching."""
    return {f"{job.kind}_id": job.subject}
