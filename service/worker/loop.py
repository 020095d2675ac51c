"""The worker: lanes of runs, executions and imports side by side; each claims a job, has a child do it, repeats."""

from __future__ import annotations

import logging
import math
import os
import platform
import secrets
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tapestry.service.children import ChildLimits, share_of_memory
from tapestry.service.lifecycle import Event
from tapestry.service.problems import problem
from tapestry.service.store import Job, LeaseLost, Store, StoreError
from tapestry.service.store.records import Kind
from tapestry.service.worker.executing import EXECUTION_MEMORY, LONGEST_S
from tapestry.service.worker.heartbeat import Heartbeat
from tapestry.service.worker.job_process import PHASES_S, JobProcess
from tapestry.service.worker.job_spans import job_fields
from tapestry.service.worker.jobs import Cluster, JobOutcome, JobSettings
from tapestry.service.worker.shared_islands import release_text

log = logging.getLogger("tapestry.worker")

MOST_DEATHS = 3  # of the process of a job, by which it is told to be the cause
MOST_WITHOUT_PROGRESS = 10  # attempts that ended with their worker, without a checkpoint
# Shares of the machine's memory; the API's task pool has the rest of it.
MEMORY: Mapping[Kind, float] = {"run": 0.45, "execution": EXECUTION_MEMORY, "import": 0.15}


def new_name() -> str:
    """Generate a name that no other worker has, here or elsewhere: the host, the process id, and a random token."""
    return f"{platform.node()}:{os.getpid()}:{secrets.token_hex(3)}"


@dataclass(frozen=True)
class WorkerSettings:
    """The settings of a worker; times in seconds.

    It does so many `runs` at a time, each with `islands`, and `memory_bytes` for each; None: a share of the machine's.
    A worker that dies silently is presumed dead after `lease_s`; `beat_s` must be well below it. A worker that is
    `alone` shares no islands of its runs with other workers, and runs none of theirs. Runs are searched on a
    `cluster` if there is one. A phase of a job may take `phases_s`.
    """

    name: str = field(default_factory=new_name)
    islands: int = field(default_factory=lambda: os.cpu_count() or 1)
    runs: int = 1
    memory_bytes: int | None = None
    lease_s: float = 15.0
    beat_s: float = 1.0
    checkpoint_s: float = 1.0
    poll_s: float = 0.5
    alone: bool = False
    cluster: Cluster | None = None
    phases_s: Mapping[str, float] = field(default_factory=lambda: PHASES_S)


def work(store: Store, settings: WorkerSettings, draining: threading.Event) -> None:
    """Carry out jobs until `draining` is set; the current ones then go back to the queue."""
    heartbeat = Heartbeat(store, settings.name, draining, lease_s=settings.lease_s, beat_s=settings.beat_s)
    heartbeat.start()
    log.info("worker %s: %d runs at a time, %d islands each", settings.name, settings.runs, settings.islands)
    lanes = [_Lane("run", store, settings, heartbeat, draining) for _ in range(settings.runs)]
    lanes += [_Lane(kind, store, settings, heartbeat, draining) for kind in ("execution", "import")]
    threads = [threading.Thread(target=lane.run, name=f"{lane.kind}s", daemon=True) for lane in lanes]
    for thread in threads:
        thread.start()
    try:
        draining.wait()
    finally:
        draining.set()
        for thread in threads:
            thread.join()
        heartbeat.stop()
        log.info("worker %s has ended", settings.name)


def _limits(kind: Kind, settings: WorkerSettings) -> ChildLimits:
    if kind != "run":
        return ChildLimits(share_of_memory(MEMORY[kind]))
    return ChildLimits(settings.memory_bytes or share_of_memory(MEMORY[kind], settings.runs))


class _Lane:
    """A loop that claims jobs of one kind and has a child do them one by one.

    While there is none, a lane of runs runs islands of other workers' runs.

    A job that fails because of the database keeps its lease until it runs out: that is the pause before the
    next attempt, which counts as one more without a checkpoint.
    """

    def __init__(
        self,
        kind: Kind,
        store: Store,
        settings: WorkerSettings,
        heartbeat: Heartbeat,
        draining: threading.Event,
    ) -> None:
        self.kind, self._store, self._settings = kind, store, settings
        self._heartbeat, self._draining = heartbeat, draining
        self._helps = kind == "run" and settings.cluster is None and not settings.alone
        self._process = JobProcess(_for_child(store, settings), _limits(kind, settings), settings.phases_s)

    def run(self) -> None:
        try:
            self._process.warm_up()
            while not self._draining.is_set():
                try:
                    is_idle = not self._step()
                except Exception:  # a lane that ended would leave jobs to nobody
                    log.exception("a fault of this program, please report it")
                    is_idle = True
                if is_idle:
                    self._draining.wait(self._settings.poll_s)
        finally:
            self._process.close()

    def _step(self) -> bool:
        """Do a job, or help with another worker's; return whether there was a job."""
        job = self._claim()
        if job is None:
            self._help()
        else:
            self._do(job)
        return job is not None

    def _claim(self) -> Job | None:
        now = datetime.now(UTC)
        try:
            return self._store.jobs.claim(
                self._settings.name, now, self._settings.lease_s, kinds=(self.kind,)
            )
        except StoreError as error:
            log.warning("cannot look for work: %s", error)
            return None

    def _help(self) -> None:
        """Run islands of another worker's run, if it shares some."""
        if not self._helps:
            return
        try:
            first = self._store.epochs.take(self._settings.name, release_text())
        except StoreError as error:
            log.warning("cannot help with other runs: %s", error)
            return
        if first is not None:
            self._process.help(first, self._heartbeat.help, self._draining.is_set)

    def _do(self, job: Job) -> None:
        """Have a job done, and record how the attempt ended."""
        log.info("%s %s: attempt %d", job.kind, job.subject, job.attempt, extra=job_fields(job))
        if job.cancel_requested:
            self._end(job, "cancelled", None)
            return
        if job.attempts_without_progress > MOST_WITHOUT_PROGRESS:
            what = f"it ended with its worker {job.attempts_without_progress - 1} times"
            self._fail(job, _died(f"{what}; perhaps it lacks memory"))
            return
        with self._heartbeat.hold(job) as held:
            try:
                outcome = self._process.do(held, LONGEST_S if job.kind == "execution" else math.inf)
            except LeaseLost as error:
                self._store.observers.lost(job)
                log.warning("%s %s: %s", job.kind, job.subject, error, extra=job_fields(job))
                return
            except (
                OSError
            ) as error:  # no process, or no file for it: another attempt is made later, perhaps elsewhere
                outcome = JobOutcome("left", message=f"it cannot be begun: {error}")
            if outcome.message:
                log.warning("%s %s: %s", job.kind, job.subject, outcome.message, extra=job_fields(job))
            self._record(job, outcome)

    def _record(self, job: Job, outcome: JobOutcome) -> None:
        if outcome.event == "released":
            self._release(job)
        elif outcome.event == "killed":
            self._release(job, counts=True)
        elif outcome.event == "cancelled":
            self._end(job, "cancelled", None)
        elif outcome.event == "failed":
            self._fail(job, outcome.problem)
        elif outcome.event == "died" and job.deaths + 1 < MOST_DEATHS:
            self._release(job, outcome.message)
        elif outcome.event == "died":
            self._fail(job, _died(f"its process died {MOST_DEATHS} times: {outcome.message}"))
        else:
            log.info("%s %s: %s", job.kind, job.subject, outcome.event, extra=job_fields(job))

    def _fail(self, job: Job, why: Mapping[str, object] | None) -> None:
        log.error("%s %s failed: %s", job.kind, job.subject, (why or {}).get("detail"), extra=job_fields(job))
        self._end(job, "failed", why)

    def _end(self, job: Job, event: Event, why: Mapping[str, object] | None) -> None:
        now = datetime.now(UTC)
        try:
            if job.kind == "run":
                self._store.jobs.end_run(job, now, event, stopped=event, problem=why)
            elif job.kind == "import":
                self._store.jobs.end_import(job, now, event, problem=why)
            else:
                self._store.jobs.end_execution(job, now, event, problem=why)
        except StoreError as error:
            log.warning("%s %s: %s", job.kind, job.subject, error, extra=job_fields(job))

    def _release(self, job: Job, death: str | None = None, *, counts: bool = False) -> None:
        try:
            self._store.jobs.release(job, datetime.now(UTC), death, counts=counts)
        except StoreError as error:
            log.warning("could not give %s %s back, its lease will run out: %s", job.kind, job.subject, error)


def _for_child(store: Store, settings: WorkerSettings) -> JobSettings:
    return JobSettings(
        store.address.url,
        settings.name,
        settings.islands,
        settings.lease_s,
        settings.checkpoint_s,
        tempfile.gettempdir(),
        logging.getLevelName(log.getEffectiveLevel()),
        settings.alone,
        settings.cluster,
    )


def _died(detail: str) -> Mapping[str, object]:
    return problem("worker_died", "The work ended its process", detail)
