"""A Dask scheduler and workers for tests, as processes that may be killed."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[3]
START_S = 60.0


class ClusterProcesses:
    """A scheduler of its own and workers, each a process: what they print is in `folder`."""

    def __init__(self, folder: Path, *, tls: tuple[str, str, str] | None = None) -> None:
        self.folder, self.tls = folder, tls
        self.workers: list[subprocess.Popen[bytes]] = []
        scheme = "tcp" if tls is None else "tls"
        options = ["--host", f"{scheme}://127.0.0.1", "--port", "0", "--no-dashboard"]
        self.scheduler = self._start(
            "scheduler", ["-m", "distributed.cli.dask_scheduler", *options, *self._tls()]
        )
        pattern = re.compile(rf"Scheduler at:\s+({scheme}://[\d.:]+)")
        self.address = self._wait("scheduler", pattern)

    def _tls(self) -> list[str]:
        if self.tls is None:
            return []
        names = ("--tls-ca-file", "--tls-cert", "--tls-key")
        return [text for pair in zip(names, self.tls, strict=True) for text in pair]

    def _start(self, name: str, arguments: list[str]) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "50"}
        with self._log(name, "wb") as log:
            return subprocess.Popen(
                [sys.executable, *arguments], cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT
            )

    def _log(self, name: str, mode: str) -> IO[bytes]:
        return (self.folder / f"{name}.log").open(mode)

    def _wait(self, name: str, pattern: re.Pattern[str]) -> str:
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            text = (self.folder / f"{name}.log").read_text()
            if found := pattern.search(text):
                return found[1]
            time.sleep(0.05)
        raise TimeoutError(f"{name} did not start within {START_S:g} s:\n{text}")

    def add_workers(self, count: int) -> None:
        """Start plain Dask workers without a nanny: one that is killed is not replaced."""
        for _ in range(count):
            name = f"worker{len(self.workers)}"
            options = [self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1"]
            options += ["--local-directory", str(self.folder), *self._tls()]
            self.workers.append(self._start(name, ["-m", "distributed.cli.dask_worker", *options]))

    def kill_worker(self, which: int) -> None:
        """Kill the worker of this number, and wait until it has ended."""
        self.workers[which].kill()
        self.workers[which].wait()

    def close(self) -> None:
        for process in (*self.workers, self.scheduler):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            process.wait()
