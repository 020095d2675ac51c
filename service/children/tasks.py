"""The inside of a child: it takes tasks from its owner's pipe and does them, until that is closed."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from typing import Any, Literal, NamedTuple

from tapestry.service.children.limits import ChildLimits, limit_memory, limit_processor
from tapestry.service.store import StoreError
from tapestry.service.temporary import is_full
from tapestry.teg.child_processes import follow_owner

Form = Literal["call", "stream", "job"]


class Begin(NamedTuple):
    """A message to a child: do a task.

    Its result is that of a `call`, each one of a `stream`, or that of a `job`, which takes a `ChildContext` first.
    """

    task: Callable[..., Any]
    arguments: tuple[Any, ...]
    form: Form


class Signal(NamedTuple):
    """A message to a child about the job that it does."""

    word: str


class TaskOutcome(NamedTuple):
    """A message of a child: a result of its task, or its error, and whether the task is over.

    Errors of the store, and those that memory or space on a disk is missing, come unchanged, others as a text for the
    log.
    """

    result: Any
    error: Exception | str | None
    is_last: bool


class ChildContext:
    """The owner of a job, as the job sees it: it takes reports, and sends signals, which come on another thread."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()
        self._received: list[str] = []
        self._listener: Callable[[str], None] | None = None

    def report(self, value: Any) -> None:
        """Send a value to the owner."""
        self._pipe.send(TaskOutcome(value, None, False))

    def listen(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with every signal, first those that have come before."""
        with self._lock:
            self._listener = listener
            for word in self._received:
                listener(word)

    def receive(self, word: str) -> None:
        """Pass a signal on."""
        with self._lock:
            self._received.append(word)
            if self._listener is not None:
                self._listener(word)


def serve_tasks(pipe: Connection, environment: Mapping[str, str], limits: ChildLimits, niceness: int) -> None:
    """Do tasks in a child until the other end of its pipe is closed, or its owner dies.

    It leads a session of its own, in which its own children are, so that all of them can be counted and ended.
    """
    os.setsid()
    follow_owner()
    os.environ.clear()  # that of the process from which this one was forked, which may be older
    os.environ.update(environment)
    os.nice(niceness)
    limit_memory(limits.memory_bytes)
    inbox: queue.SimpleQueue[tuple[Begin, ChildContext]] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(pipe, inbox), name="messages of the owner", daemon=True).start()
    with contextlib.suppress(EOFError, OSError):
        pipe.send("here")
        while True:
            begin, context = inbox.get()
            limit_processor(limits.processor_s)
            for outcome in _outcomes(begin, context):
                pipe.send(outcome)


def _receive(pipe: Connection, inbox: queue.SimpleQueue[tuple[Begin, ChildContext]]) -> None:
    """Take messages of the owner; signals reach the job that was begun last."""
    context = ChildContext(pipe)
    while True:
        try:
            message = pipe.recv()
        except (EOFError, OSError):
            os._exit(0)
        except Exception:  # a task that this process does not know
            pipe.send(TaskOutcome(None, traceback.format_exc(), True))
            continue
        if isinstance(message, Begin):
            context = ChildContext(pipe)
            inbox.put((message, context))
        else:
            context.receive(message.word)


def _outcomes(begin: Begin, context: ChildContext) -> Iterator[TaskOutcome]:
    """Do a task and yield its results or its error."""
    error: Exception | str
    try:
        result = begin.task(*([context] if begin.form == "job" else []), *begin.arguments)
        if begin.form == "stream":
            for portion in result:
                yield TaskOutcome(portion, None, False)
            result = None
    except (StoreError, MemoryError) as caught:
        error = caught
    except Exception as caught:
        error = caught if is_full(caught) else traceback.format_exc()
    else:
        yield TaskOutcome(result, None, True)
        return
    yield TaskOutcome(None, error, True)
