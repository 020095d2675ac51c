"""A child, as its owner sees it: begun when it is needed, forked from a process that has loaded everything already."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Any
from weakref import WeakSet

from tapestry.service.children.deaths import ChildDied, death_of, system_kills
from tapestry.service.children.limits import ChildLimits
from tapestry.service.children.memory import MemoryGroup, new_group, remove_abandoned_groups
from tapestry.service.children.tasks import Begin, Form, Signal, TaskOutcome, serve_tasks
from tapestry.service.children.watch import WATCH
from tapestry.teg.child_processes import program_hidden, signals_held

START_S = 60.0
END_S = 5.0  # for a process that was killed to be gone
CONTEXT = get_context("forkserver")
_starting = threading.Lock()  # a start replaces what belongs to the whole process, for a moment
_all: WeakSet[ChildProcess] = WeakSet()


@atexit.register  # before `multiprocessing` waits for all processes that were not ended
def _end_all() -> None:
    for child in list(_all):
        child.dismiss()


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Keep the tracker of `multiprocessing`, if it starts now, from reporting semaphores of children that are ended.

    It removes them, as it should.
    """
    name = "PYTHONWARNINGS"
    before = os.environ.get(name)
    os.environ[name] = ",".join(filter(None, (before, "ignore:resource_tracker:UserWarning")))
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


class ChildProcess:
    """A process that does one task after another; a next one is begun after `dismiss`, or when it has died.

    It dies with its owner. All methods but `kill` are for one thread at a time.
    """

    def __init__(
        self, name: str, preload: Sequence[str], limits: ChildLimits | None = None, niceness: int = 0
    ) -> None:
        self._name, self._preload, self._niceness = name, list(preload), niceness
        self._limits = limits or ChildLimits()
        self._process: ForkServerProcess | None = None
        self._pipe: Connection | None = None
        self._group: MemoryGroup | None = None
        self._excess: str | None = None
        self._was_ended = self._is_working = False
        self._lock = threading.Lock()  # of what the watch over memory decides by
        self._system_kills = self._group_kills = 0
        self.tasks_begun = 0
        _all.add(self)

    @property
    def pid(self) -> int | None:
        """The id of the process, which leads a session; None if there is none."""
        return None if self._process is None else self._process.pid

    @property
    def limit_bytes(self) -> int:
        """The bytes that the process and its own children may hold."""
        assert self._limits.memory_bytes is not None, "a child without a limit is not watched"
        return self._limits.memory_bytes

    def begin(self, task: Callable[..., Any], arguments: tuple[Any, ...], form: Form = "call") -> None:
        """Begin a task, in a new process if there is none.

        Raises:
            ChildDied: the process died before it could take the task.
        """
        self._system_kills = system_kills()
        pipe = self._begun()
        with self._lock:
            self._excess, self._is_working = None, True
        self._group_kills = 0 if self._group is None else self._group.kills
        self.tasks_begun += 1
        if self._limits.memory_bytes is not None:
            WATCH.add(self)
        try:
            pipe.send(Begin(task, arguments, form))
        except OSError:
            raise self._death() from None

    def take(self, wait_s: float) -> TaskOutcome | None:
        """Return the next outcome of the task; None if none comes in so many seconds.

        Raises:
            ChildDied: the process has died; there is none any more.
        """
        assert self._pipe is not None
        try:
            if not self._pipe.poll(wait_s):
                return None
            outcome: TaskOutcome = self._pipe.recv()
        except (EOFError, OSError):
            raise self._death() from None
        if outcome.is_last:
            self._rest()
        if isinstance(outcome.error, MemoryError):
            self.dismiss()
            raise ChildDied("memory", f"it needs more memory than {self._allowed}")
        return outcome

    @property
    def has_lost_to_memory(self) -> bool:
        """True if the system has ended a process of its session for want of memory since the task began."""
        return self._group is not None and self._group.kills > self._group_kills

    def signal(self, word: str) -> None:
        """Send a word to the job that has begun; nothing happens if the process has died."""
        if self._pipe is not None:
            with contextlib.suppress(OSError):
                self._pipe.send(Signal(word))

    def kill(self) -> None:
        """End the process and its own children; whoever waits for an outcome gets `ChildDied` (`ended`)."""
        if self._process is not None:
            self._was_ended = True
            self._kill()

    def exceed(self, pid: int, held_bytes: int) -> None:
        """End the process if it is still this one and at work, since it holds more memory than its limit."""
        with self._lock:
            if self._is_working and self.pid == pid:
                self._excess = f"it held {held_bytes / 2**20:,.0f} MiB of memory, more than {self._allowed}"
                self._kill()

    def dismiss(self) -> None:
        """End the process, if there is one; the next task gets another one."""
        self._rest()
        process, pipe, group = self._process, self._pipe, self._group
        if process is not None:
            self._kill()
            process.join(END_S)
        self._process = self._pipe = self._group = self._excess = None
        self._was_ended, self.tasks_begun = False, 0
        if pipe is not None:
            pipe.close()
        if group is not None:
            group.remove()

    def _rest(self) -> None:
        """Be watched no more: no task is under way."""
        WATCH.remove(self)
        with self._lock:
            self._is_working = False

    @property
    def _allowed(self) -> str:
        limit_bytes = self._limits.memory_bytes
        return "there is" if limit_bytes is None else f"the {limit_bytes / 2**20:,.0f} MiB that are allowed"

    def _begun(self) -> Connection:
        if self._pipe is not None:
            return self._pipe
        with _starting:
            return self._start()

    def _start(self) -> Connection:
        CONTEXT.set_forkserver_preload(self._preload)
        ours, theirs = CONTEXT.Pipe()
        arguments = (theirs, dict(os.environ), self._limits, self._niceness)
        process = CONTEXT.Process(target=serve_tasks, args=arguments, name=f"tapestry {self._name}")
        process.daemon = False  # a daemon may have no children of its own
        with signals_held(), program_hidden(), _without_warnings():
            process.start()
        theirs.close()
        self._process, self._pipe = process, ours
        if self._limits.memory_bytes is not None and process.pid is not None:
            remove_abandoned_groups()
            self._group = new_group(process.pid, self._limits.memory_bytes)
        try:
            if not ours.poll(START_S):
                raise EOFError
            ours.recv()
        except (EOFError, OSError):
            raise self._death() from None
        return ours

    def _kill(self) -> None:
        """Kill the session of the process: itself, and its own children."""
        pid = self.pid
        if pid is not None and self._process is not None:
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
            self._process.kill()  # it has no session of its own before it serves

    def _death(self) -> ChildDied:
        """Return what the process has died of, and forget it."""
        process = self._process
        if process is not None:
            process.join(END_S)
        if self._excess is not None:
            death = ChildDied("memory", self._excess)
        else:
            death = death_of(
                None if process is None else process.exitcode,
                was_ended=self._was_ended,
                was_killed_by_system=system_kills() > self._system_kills or self.has_lost_to_memory,
            )
        self.dismiss()
        return death
