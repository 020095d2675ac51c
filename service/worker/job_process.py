"""The child in which a worker does its jobs: it is ended where a job does not end by itself when it has to."""

from __future__ import annotations

import logging
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tapestry.service.children import ChildDied, ChildLimits, ChildProcess, TaskOutcome
from tapestry.service.store import Job, SharedEpoch
from tapestry.service.worker.heartbeat import ClaimedJob
from tapestry.service.worker.importing import READING
from tapestry.service.worker.jobs import CANCEL, DRAIN, JobOutcome, JobSettings, do_help, do_job, failed

PRELOAD = ("tapestry.service.worker.jobs",)
POLL_S = 0.1
GRACE_S = 1.0  # for a job that is cancelled or drained to end by itself
WARM_S = 60.0
JOBS_PER_PROCESS = 50
# The seconds that a phase of a job may take, beside what its user limits; searching has the user's limits alone.
PHASES_S: Mapping[str, float] = {
    "": 300.0,
    "compiling": 1800.0,
    "seeding": 1800.0,
    "verifying": 3600.0,
    READING: 1800.0,
}

log = logging.getLogger("tapestry.worker")


class JobProcess:
    """A child that does one job after another, with a folder of its own for temporary files.

    Its worker ends it, with all that it has begun, when a job is cancelled, drained, lost, or too slow, and does not
    end by itself within a second; the store has what was found until then.
    """

    def __init__(
        self, settings: JobSettings, limits: ChildLimits, phases_s: Mapping[str, float] = PHASES_S
    ) -> None:
        self._settings, self._phases_s = settings, phases_s
        self._child = ChildProcess("jobs", PRELOAD, limits)
        self._folder = ""

    def warm_up(self) -> None:
        """Begin the child, which takes seconds where it is the first of its worker, before there is a job to cancel."""
        try:
            self._child.begin(os.getpid, ())
            self._child.take(WARM_S)
        except (ChildDied, OSError) as error:
            log.warning("a process for jobs could not be begun, and is tried again with a job: %s", error)
            self._end()

    def do(self, held: ClaimedJob, limit_s: float = math.inf) -> JobOutcome:
        """Do a job and return how it ended; `limit_s` is for all of it.

        Raises:
            LeaseLost: another worker has the job.
        """
        phase, began_s = "", time.monotonic()
        phase_until = began_s + self._phases_s.get(phase, math.inf)
        is_over_at = began_s + limit_s
        word, kill_at = "", math.inf
        try:
            self._begin(do_job, held.job)
            while (outcome := self._child.take(POLL_S)) is None or not outcome.is_last:
                now = time.monotonic()
                if outcome is not None:
                    phase, own_limit_s = outcome.result
                    phase_until = now + min(self._phases_s.get(phase, math.inf), own_limit_s)
                if held.is_lost:
                    self._end()
                    held.check()
                if not word and (held.is_cancelled or held.is_draining):
                    word, kill_at = CANCEL if held.is_cancelled else DRAIN, now + GRACE_S
                    self._child.signal(word)
                if now > kill_at:
                    self._end()
                    return JobOutcome("cancelled" if word == CANCEL else "released")
                if now > min(phase_until, is_over_at):
                    self._end()
                    return _too_slow(phase, now - began_s)
        except ChildDied as death:
            self._clean()
            return _outcome_of(death)
        return self._result(outcome)

    def help(
        self, first: SharedEpoch, on_run: Callable[[str | None], None], is_draining: Callable[[], bool]
    ) -> None:
        """Run islands of another worker's run until there are none, a job waits, or the worker is to end."""
        kill_at = math.inf
        try:
            self._begin(do_help, first)
            while (outcome := self._child.take(POLL_S)) is None or not outcome.is_last:
                if outcome is not None:
                    on_run(outcome.result)
                if is_draining() and kill_at == math.inf:
                    kill_at = time.monotonic() + GRACE_S
                    self._child.signal(DRAIN)
                if time.monotonic() > kill_at:
                    self._end()
                    return
            if outcome.error is not None:
                log.warning("cannot help with other runs: %s", outcome.error)
        except ChildDied as death:
            self._clean()
            log.warning("a process that helped with other runs died: %s", death)
        finally:
            on_run(None)

    def close(self) -> None:
        """End the child."""
        self._end()

    def _begin(self, task: Callable[..., Any], subject: Job | SharedEpoch) -> None:
        if self._child.tasks_begun >= JOBS_PER_PROCESS:
            self._end()
        if not self._folder:
            self._folder = tempfile.mkdtemp(prefix="jobs-")
        self._child.begin(task, (subject, replace(self._settings, folder=self._folder)), "job")

    def _result(self, outcome: TaskOutcome) -> JobOutcome:
        if outcome.error is not None:
            return failed("internal", "A fault of this program", f"please report it: {outcome.error}")
        result: JobOutcome = outcome.result
        if result.event == "died":
            reason = "a process of it was ended for want of memory" if self._child.has_lost_to_memory else ""
            self._end()
            return replace(result, message=reason or result.message)
        return result

    def _end(self) -> None:
        self._child.dismiss()
        self._clean()

    def _clean(self) -> None:
        """Delete the temporary files of a child that has ended."""
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""


def _outcome_of(death: ChildDied) -> JobOutcome:
    """Return the outcome of an attempt whose child has died: of the job itself, unless somebody has killed it."""
    if death.cause == "killed":
        return JobOutcome("killed", message=f"its process died: {death}")
    return JobOutcome("died", message=str(death))


def _too_slow(phase: str, seconds: float) -> JobOutcome:
    doing = {"": "it", "verifying": "checking its plans"}.get(phase, phase)
    kept = "submit a smaller program" if phase == READING else "what was found is kept"
    message = f"{doing} took more than is allowed and was ended after {seconds:.0f} s; {kept}"
    return failed("too_slow", "It took too long", message)
