"""Several processes that answer requests on one socket: started, watched, replaced and ended together."""

from __future__ import annotations

import logging
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from types import FrameType

from prometheus_client import multiprocess

from tapestry.service.api.process_figures import FOLDER
from tapestry.service.restarting import RestartPause

LOOK_S = 0.5

log = logging.getLogger("tapestry.supervisor")

Serve = Callable[[socket.socket], None]


class ServerProcesses:
    """A supervisor of processes that all serve one listening socket.

    `serve` is a function of a module, perhaps with some arguments, that serves the socket until SIGTERM comes. A
    process that dies is replaced; all end when their parent does, however that dies.
    """

    def __init__(self, serve: Serve, listening: socket.socket, count: int) -> None:
        self._serve, self._socket, self._count = serve, listening, count
        self._ending = threading.Event()
        self._running: dict[SpawnProcess, float] = {}

    def run(self, grace_s: float) -> None:
        """Serve until SIGTERM or SIGINT comes; then processes that take longer than `grace_s` to end are killed."""
        with tempfile.TemporaryDirectory(prefix="figures-") as folder:
            os.environ[FOLDER] = folder
            signal.signal(signal.SIGTERM, self._end)
            signal.signal(signal.SIGINT, self._end)
            try:
                self._keep(folder)
            finally:
                self._stop(grace_s)
                del os.environ[FOLDER]

    def _keep(self, folder: str) -> None:
        """Start the processes, and replace each that dies, ever more slowly where they die young."""
        pause, next_s = RestartPause(), 0.0
        while not self._ending.is_set():
            now = time.monotonic()
            if len(self._running) < self._count and now >= next_s:
                self._start()
                continue
            wait([process.sentinel for process in self._running], timeout=LOOK_S)
            for process in [one for one in self._running if not one.is_alive()]:
                lived_s = time.monotonic() - self._running.pop(process)
                if self._ending.is_set():
                    return
                multiprocess.mark_process_dead(process.pid, folder)  # type: ignore[no-untyped-call]
                pause_s = pause.after(lived_s)
                next_s = time.monotonic() + pause_s
                message = "process %s of the server ended with %s; another one starts in %g s"
                log.error(message, process.pid, process.exitcode, pause_s)

    def _start(self) -> None:
        process = get_context("spawn").Process(target=_serve, args=(self._serve, self._socket), name="server")
        process.start()
        self._running[process] = time.monotonic()

    def _end(self, _: int, __: FrameType | None) -> None:
        self._ending.set()

    def _stop(self, grace_s: float) -> None:
        for process in self._running:
            process.terminate()
        until = time.monotonic() + grace_s
        for process in self._running:
            process.join(max(0.0, until - time.monotonic()))
            if process.is_alive():
                log.warning(
                    "process %s of the server did not end within %g s and is killed", process.pid, grace_s
                )
                process.kill()
                process.join()


def _serve(serve: Serve, listening: socket.socket) -> None:
    """Serve in a process of its own, until SIGTERM comes or the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal's Ctrl-C, which the parent gets, too
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    serve(listening)


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
