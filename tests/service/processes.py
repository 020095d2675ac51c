"""The service as people run it: a server process with its worker, which tests may kill and start again."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx

ROOT = Path(__file__).resolve().parents[2]
STARTING_S = 90.0
POLL_S = 0.05

T = TypeVar("T")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def eventually(what: Callable[[], T | None], seconds: float, message: str) -> T:
    """Return the first result of `what` that is true; raise AssertionError with `message` if none comes in time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = what()
        if found:
            return found
        time.sleep(POLL_S)
    raise AssertionError(f"after {seconds:g} s still not: {message}")


class Service:
    """A `tapestry serve` on one port and one database, through as many processes as it takes."""

    def __init__(
        self, database_url: str, log: Path, *options: str, python: str = sys.executable, folder: Path = ROOT
    ) -> None:
        self._python, self._folder = python, folder
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.database_url = database_url
        self._log = log
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.http = httpx.Client(base_url=self.address, timeout=30, trust_env=False)

    def __enter__(self) -> Service:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()
        self.stop()

    def start(self) -> None:
        command = [self._python, "-m", "tapestry.service.cli", "serve", "--port", str(self.port)]
        command += ["--database-url", self.database_url, *self._options]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TAPESTRY_API")}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self._folder, stderr=log, stdout=log, env=environment
            )
        eventually(self._answers, STARTING_S, f"the service answers; its log is {self._log}")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"the service ended: {self.log[-2000:]}"
        with contextlib.suppress(httpx.TransportError):
            return self.http.get("/healthz").status_code == 200
        return False

    @property
    def pid(self) -> int:
        """The id of the server's process."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        return self._log.read_text()

    def kill(self) -> None:
        """Send SIGKILL to the server; its worker is left running."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """Send SIGTERM and return the exit code once the server has ended; a killed server has one already."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self._process.wait(60)

    # What a client does, once and with a clear failure.

    def get(self, path: str) -> Any:
        response = self.http.get(path)
        assert response.is_success, f"GET {path}: {response.status_code} {response.text[:500]}"
        return response.json()

    def post(self, path: str, **arguments: Any) -> Any:
        response = self.http.post(path, **arguments)
        assert response.is_success, f"POST {path}: {response.status_code} {response.text[:500]}"
        return response.json()

    def wait_for_run(self, run_id: str, seconds: float = 120.0) -> Any:
        """Wait until the run has ended and return it."""

        def ended() -> Any:
            run = self.get(f"/v1/runs/{run_id}")
            return run if run["status"] in ("succeeded", "failed", "cancelled") else None

        return eventually(ended, seconds, f"run {run_id} ends")
