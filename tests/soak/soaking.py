"""One soak of one database: runs are requested while processes are killed and the ground moves under them."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tapestry.service.cli.errors import INTERNAL
from tapestry.service.store import Store, StoreError, WorkerHeartbeat
from tests.service.processes import eventually
from tests.soak.clocks import library
from tests.soak.databases import DISK_BYTES, Disk, PostgresUnderTest, SqliteUnderTest
from tests.soak.processes import Fleet, family, signal_all
from tests.soak.submitting import PATIENCE_S, Submitter
from tests.soak.watching import ENDED, OBJECTIVES, Watcher, order_faults

HOUR_S = 3600
LEAST_PAUSE_S = 0.5  # between two disturbances
FULL_S = 6.0  # for which the disk is full
POOL = '"logger": "sqlalchemy.pool'  # which reports connections that a restart of the database has cut
LATE = re.compile(r"belongs to another worker|could not .*belongs to another")


@dataclass(frozen=True)
class SoakSettings:
    """A soak: its database, for about how long it disturbs, how many runs and kills there are, and the seed."""

    database: str
    seconds: float = 90.0
    runs: int = 30
    kills: int = 25
    seed: int = 0


@dataclass
class SoakReport:
    """The result of a soak: `faults` are what should not have happened, `skipped` what could not be tried here."""

    database: str
    seed: int
    seconds: float = 0.0
    acknowledged: int = 0
    imports: int = 0
    executions: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    attempts: int = 0
    events: int = 0
    plans_seen: int = 0
    answers: dict[str, int] = field(default_factory=dict)
    disturbances: dict[str, int] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        return asdict(self)


class Soak:
    """A service on a database of a kind, and what is done to it."""

    def __init__(self, settings: SoakSettings, report: Callable[[str], None]) -> None:
        self.settings, self._report = settings, report
        self.result = SoakReport(settings.database, settings.seed)
        self._random = random.Random(f"{settings.database} {settings.seed}")
        self._folder = Path(tempfile.mkdtemp(prefix="tapestry-soak-logs-"))
        self._disk = Disk(DISK_BYTES)
        kind = SqliteUnderTest if settings.database == "sqlite" else PostgresUnderTest
        self._database: SqliteUnderTest | PostgresUnderTest = kind(self._disk)
        self._store = Store(self._database.url)
        self._fleet = Fleet(self._folder, self._database.url)
        self._watcher = Watcher(self._fleet.address)
        self._submitter = Submitter(self._fleet.address, self._watcher, settings.runs, settings.seconds)

    def run(self) -> SoakReport:
        """Carry the soak out, and return what was found; a soak without faults leaves no files."""
        began_s = time.monotonic()
        try:
            self._fleet.start()
            self._disturb_beside_requests()
            self._say("waits until all runs have ended")
            self._wait_for_the_ends()
            self._say("checks")
            self._watcher.stop()
            self._fleet.stop()
            self._check()
        except AssertionError as error:
            self.result.faults.append(str(error))
        finally:
            self._close()
        self.result.seconds = round(time.monotonic() - began_s, 1)
        if not self.result.faults:
            shutil.rmtree(self._folder, ignore_errors=True)
        else:
            self._report(f"the logs of the processes are in {self._folder}")
        return self.result

    def _close(self) -> None:
        self._watcher.stop()
        signal_all(self._fleet.left(), signal.SIGKILL)
        self._store.close()
        self._database.stop()
        self._disk.remove()

    # What people do.

    def _disturb_beside_requests(self) -> None:
        eventually(self._answers, PATIENCE_S, "the service answers")
        self._submitter.start()
        steps = self._steps()
        pause_s = self.settings.seconds / len(steps)
        for name, step in steps:
            began_s = time.monotonic()
            self._say(name)
            step()
            self.result.disturbances[name] = self.result.disturbances.get(name, 0) + 1
            self._fleet.revive()
            time.sleep(max(began_s + pause_s - time.monotonic(), LEAST_PAUSE_S))
        self._submitter.finish()

    def _say(self, text: str) -> None:
        self._report(f"{time.monotonic() - self._began_s:6.1f} s  {self.settings.database}: {text}")

    def _answers(self) -> bool:
        with contextlib.suppress(httpx.TransportError):
            answer = httpx.get(f"{self._fleet.address}/healthz", timeout=5, trust_env=False)
            self._began_s = time.monotonic()
            return answer.status_code == 200
        return False

    # What happens to them.

    def _steps(self) -> list[tuple[str, Callable[[], None]]]:
        """Return the disturbances in order: the worker that is stopped first, as its run is there, then at random."""
        servers = embedded = self.settings.kills // 5
        workers = self.settings.kills - servers - embedded
        steps: list[tuple[str, Callable[[], None]]] = [("server killed", self._kill_server)] * servers
        steps += [("server's worker killed", self._kill_embedded)] * embedded
        steps += [("worker killed", self._kill_worker)] * workers
        if self._disk.is_small:
            steps += [("disk full", self._fill_disk)]
        else:
            self.result.skipped.append("a full disk: no small file system can be mounted here (root may)")
        if isinstance(self._database, PostgresUnderTest):
            steps += [("database restarted", self._restart_database)] * 2
        if library() is not None:
            steps += [("clock jumped", self._jump)] * 6
        else:
            self.result.skipped.append(
                "clocks that jump: libfaketime is not installed (apt-get install faketime)"
            )
        self._random.shuffle(steps)
        return [("worker stopped", self._stop_worker), *steps]

    def _kill_server(self) -> None:
        self._fleet.server.kill()

    def _kill_embedded(self) -> None:
        """Kill the worker of the server, which starts another one."""
        ours = {program.pid for program in self._fleet.programs}
        pids = [worker.pid for worker in self._alive() if worker.pid not in ours]
        if pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._random.choice(pids), signal.SIGKILL)
                self._fleet.embedded_kills += 1

    def _kill_worker(self) -> None:
        """Kill a worker; of both rather one that has a run."""
        busy = {worker.pid for worker in self._alive() if worker.subject}
        workers = sorted(
            self._fleet.workers, key=lambda worker: (worker.pid not in busy, self._random.random())
        )
        workers[0].kill()

    def _alive(self) -> tuple[WorkerHeartbeat, ...]:
        try:
            return self._store.workers.alive(5.0)
        except StoreError:
            return ()

    def _jump(self) -> None:
        """Set the clock of some processes an hour ahead, or back, or right again."""
        program = self._random.choice(self._fleet.programs)
        program.clock.jump(self._random.choice((-HOUR_S, 0, HOUR_S)))

    def _fill_disk(self) -> None:
        """Fill the disk of the database for some seconds; meanwhile the service says that it takes nothing."""
        self._disk.fill()
        until_s = time.monotonic() + FULL_S
        try:
            if self.settings.database == "sqlite":
                full = ("read_only", "no_space")
                eventually(
                    lambda: self._readiness() in full, PATIENCE_S, "/readyz says that the disk is full"
                )
            time.sleep(max(until_s - time.monotonic(), 0.0))
        finally:
            self._disk.free()
        if isinstance(self._database, PostgresUnderTest) and not self._database.is_up():
            self._database.restart()
        eventually(lambda: self._readiness() == "ok", PATIENCE_S, "/readyz is right again")

    def _readiness(self) -> str:
        """Return what /readyz says; servers that could not start on the full disk are started again."""
        self._fleet.revive()
        with contextlib.suppress(httpx.TransportError):
            answer = httpx.get(f"{self._fleet.address}/readyz", timeout=40, trust_env=False).json()
            return str(answer.get("code", answer["status"]))
        return ""

    def _restart_database(self) -> None:
        self._database.restart()

    def _stop_worker(self) -> None:
        """Stop a worker in a run until another one has taken that over; what it then writes is refused."""

        def holder() -> tuple[int, str] | None:
            going = {
                run for run, plans in list(self._watcher.plans.items()) if plans
            } - self._watcher.ended.keys()
            return next(((w.pid, w.subject) for w in self._alive() if w.subject and w.subject in going), None)

        for _ in range(10):
            pid, run = eventually(holder, PATIENCE_S, "a worker has a run that shows plans")
            before = self._store.runs.get(run).attempt
            stopped = family(pid)  # it works in processes of its own
            signal_all(stopped, signal.SIGSTOP)
            try:
                if not self._taken_over(run, before):
                    continue
                time.sleep(1.0)  # the other one has begun to write
            finally:
                signal_all(stopped, signal.SIGCONT)
            eventually(lambda: LATE.search(self._fleet.log()), 60, "the worker that wrote late is refused")
            return
        raise AssertionError("no worker could be stopped in the middle of a run")

    def _taken_over(self, run: str, attempt: int) -> bool:
        """Wait until a stopped worker's run has another one.

        Return False at once where it was stopped too late, or within a transaction of a file, which then nobody can
        write to.
        """
        if self._store.runs.get(run).status in ENDED or not self._database.takes_writes():
            return False
        eventually(
            lambda: self._store.runs.get(run).attempt > attempt, PATIENCE_S, f"another worker takes run {run}"
        )
        self._say(f"run {run} was taken over")
        return True

    # What must hold in the end.

    def _wait_for_the_ends(self) -> None:
        for program in self._fleet.programs:
            program.clock.jump(0)
        runs = set(self._submitter.runs.values())

        def over() -> bool:
            self._fleet.revive()
            return (
                self._submitter.jobs_have_ended(self._store)
                and runs <= self._watcher.ended.keys()
                and all(
                    events and events[-1].ends_run for events in map(self._watcher.events.__getitem__, runs)
                )
            )

        try:
            eventually(over, PATIENCE_S, "all runs have ended and said so")
        except AssertionError as error:
            going = {run: self._store.runs.get(run).status for run in runs - self._watcher.ended.keys()}
            going |= self._submitter.job_statuses(self._store)
            raise AssertionError(f"{error}: {going}") from error

    def _check(self) -> None:
        result, faults = self.result, self.result.faults
        runs = list(self._submitter.runs.values())
        stored = {run.id: run for run in self._store.runs.page(self.settings.runs + 10)}
        if sorted(stored) != sorted(runs) or len(set(runs)) != self.settings.runs:
            faults.append(f"{len(stored)} runs are stored, {len(set(runs))} were acknowledged")
        for run in runs:
            status = stored[run].status
            result.statuses[status] = result.statuses.get(status, 0) + 1
            if status != "succeeded":
                faults.append(f"run {run} is {status}: {stored[run].problem}")
            faults += order_faults(run, self._watcher.events[run])
            kept = [(e.number, e.kind) for e in self._store.runs.events(run, limit=1_000_000)]
            if kept != [(e.number, e.kind) for e in self._watcher.events[run]]:
                faults.append(f"run {run}: other events are stored than were sent")
            faults += self._lost_plans(run)
        jobs = self._submitter.job_statuses(self._store)
        faults += [f"{name} is {status}" for name, status in jobs.items() if status != "succeeded"]
        faults += [f"program {name} is lost" for name in self._submitter.lost_programs(self._store)]
        result.acknowledged = len(runs)
        result.imports = len(self._submitter.imports) + len(self._submitter.programs)
        result.executions = len(self._submitter.executions)
        result.attempts = sum(stored[run].attempt for run in runs)
        result.events = sum(map(len, self._watcher.events.values()))
        result.plans_seen = sum(map(len, self._watcher.plans.values()))
        result.answers = {str(status): count for status, count in sorted(self._watcher.answers.items())}
        if result.attempts <= self.settings.runs:
            faults.append("no run was begun twice: nothing that was done to the workers hit one")
        if (counts := self._store.jobs.counts())["queued"] or counts["runs"].keys() - {*ENDED}:
            faults.append(f"something waits or runs still: {counts}")
        faults += self._watcher.faults + self._end_faults() + self._database.faults()

    def _lost_plans(self, run: str) -> list[str]:
        """Return the plans that were seen and are gone, though none that is there now is as good in everything."""
        final = {
            plan.public_id: [plan.cost[name] for name in OBJECTIVES]
            for plan in self._store.runs.frontier(run)
        }
        return [
            f"plan {plan} of run {run} was shown, and is gone"
            for plan, cost in self._watcher.plans[run].items()
            if plan not in final
            and not any(all(a <= b for a, b in zip(other, cost, strict=True)) for other in final.values())
        ]

    def _end_faults(self) -> list[str]:
        """Return the ends of processes that nobody here caused: by the system for want of memory, or by themselves."""
        ends = self._fleet.ends.others
        found = [f"{name} ended by itself with {code}" for name, code in ends if code < 0 or code == INTERNAL]
        died = len(re.findall(r"the worker ended with -9", self._fleet.log()))
        if died > self._fleet.embedded_kills:
            found.append(f"{died} workers of servers were killed, {self._fleet.embedded_kills} of them here")
        if self._fleet.ends.killed + self._fleet.embedded_kills < self.settings.kills * 0.8:
            found.append(f"only {self._fleet.ends.killed + self._fleet.embedded_kills} kills hit a process")
        with contextlib.suppress(AssertionError):
            eventually(lambda: not self._fleet.left(), 15, "no process is left")
        found += [f"process {pid} is left" for pid in self._fleet.left()]
        if any('"traceback"' in line and POOL not in line for line in self._fleet.log().splitlines()):
            found.append(f"a traceback is in the logs in {self._folder}")
        return found
