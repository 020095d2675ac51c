"""The embedded worker: a child process that is restarted when it dies, and ends when its parent does."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

from tapestry.service.restarting import RestartPause
from tapestry.service.settings import DATABASE_URL
from tapestry.service.store import Store, StoreError
from tapestry.service.worker.loop import new_name

log = logging.getLogger("tapestry.supervisor")


class EmbeddedWorker:
    """A supervisor that keeps one worker process alive. The child reads its standard input and drains when that ends,
    so it outlives its parent, however that dies, by no more than a checkpoint.
    """

    def __init__(self, store: Store, database_url: str, options: Sequence[str]) -> None:
        self._store, self._options = store, tuple(options)
        # Not as an argument: a database's password would be seen by everybody who lists processes.
        self._environment = {**os.environ, DATABASE_URL: database_url}
        self._stopping = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def pid(self) -> int | None:
        """The process id of the worker that runs now; None if there is none."""
        child = self._child
        return child.pid if child is not None and child.poll() is None else None

    def stop(self, grace_s: float) -> None:
        """Let the worker drain; after `grace_s` it is killed, and the next worker continues from its checkpoint."""
        self._stopping.set()
        child = self._child
        if child is not None and child.stdin is not None:
            child.stdin.close()
            try:
                child.wait(grace_s)
            except subprocess.TimeoutExpired:
                log.warning("the worker did not end within %g s and is killed", grace_s)
                child.kill()
        self._thread.join()

    def _run(self) -> None:
        pause = RestartPause()
        while not self._stopping.is_set():
            name, began_s = new_name(), time.monotonic()
            command = [sys.executable, "-m", "tapestry.service.cli", "worker", "--embedded", "--name", name]
            self._child = subprocess.Popen(
                [*command, *self._options], stdin=subprocess.PIPE, env=self._environment
            )
            code = self._child.wait()
            self._free(name)
            if self._stopping.is_set():
                return
            pause_s = pause.after(time.monotonic() - began_s)
            log.error("the worker ended with %d; another one starts in %g s", code, pause_s)
            self._stopping.wait(pause_s)

    def _free(self, name: str) -> None:
        """Release the jobs of a dead worker at once, rather than when its leases run out."""
        try:
            self._store.jobs.release_owner(name)
            self._store.workers.gone(name)
        except StoreError as error:
            log.warning("could not free what worker %s held, its leases will run out: %s", name, error)
