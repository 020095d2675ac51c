"""The processes of a soak: a server with its worker, and workers beside it; how each of them ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.service.processes import ROOT, free_port
from tests.soak.clocks import Clock

MARK = "TAPESTRY_SOAK"  # a variable of all processes of one soak, by which those that are left are found


def family(pid: int) -> list[int]:
    """Return a process and all that it has begun, directly or not, each after the one that began it."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                parents[int(folder.name)] = int(fields[1])
    found = [pid]
    for member in found:
        found += [child for child, parent in parents.items() if parent == member]
    return found


def signal_all(pids: list[int], number: signal.Signals) -> None:
    """Send a signal to processes, as far as they are there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@dataclass
class Ends:
    """The ends of processes: those that this program killed, and all others with their exit codes."""

    killed: int = 0
    others: list[tuple[str, int]] = field(default_factory=list)


class Program:
    """A program of the service that is started again after each end."""

    def __init__(self, name: str, folder: Path, url: str, ends: Ends, *arguments: str) -> None:
        self.name, self._ends, self._url = name, ends, url
        self.clock = Clock(folder / f"{name}.clock")
        self.log = folder / f"{name}.log"
        self._arguments = arguments
        self._mark = str(folder)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TAPESTRY")}
        environment |= {MARK: self._mark, **self.clock.environment}
        command = [
            sys.executable,
            "-m",
            "tapestry.service.cli",
            *self._arguments,
            "--database-url",
            self._url,
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, env=environment)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def revive(self) -> None:
        """Note an end that nobody caused here, and start again, as a process manager does."""
        assert self._process is not None
        if (code := self._process.poll()) is not None:
            self._ends.others.append((self.name, code))
            self.start()

    def kill(self) -> None:
        """Send SIGKILL, and start again."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
            self._ends.killed += 1
        else:
            self._ends.others.append((self.name, self._process.returncode))
        self.start()

    def stop(self) -> None:
        """Send SIGTERM, and note the exit code, which should be 0."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        if code:
            self._ends.others.append((self.name, code))


class Fleet:
    """A server with a worker as its child, and two workers beside it."""

    def __init__(self, folder: Path, url: str) -> None:
        self.ends = Ends()
        self.embedded_kills = 0
        port = free_port()
        self.address = f"http://127.0.0.1:{port}"
        serve = ("serve", "--port", str(port), "--islands", "1")
        self.server = Program("server", folder, url, self.ends, *serve)
        work = ("worker", "--islands", "1")
        self.workers = [Program(f"worker-{k}", folder, url, self.ends, *work) for k in (1, 2)]
        self._mark = str(folder)

    @property
    def programs(self) -> list[Program]:
        return [self.server, *self.workers]

    def start(self) -> None:
        for program in self.programs:
            program.start()

    def revive(self) -> None:
        for program in self.programs:
            program.revive()

    def stop(self) -> None:
        for program in self.programs:
            program.stop()

    def left(self) -> list[int]:
        """Return the processes that are left of these programs: the worker of a server, islands."""
        found = []
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit() or int(folder.name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                variables = (folder / "environ").read_bytes().split(b"\0")
                if f"{MARK}={self._mark}".encode() in variables:
                    found.append(int(folder.name))
        return found

    def log(self) -> str:
        return "".join(program.log.read_text(errors="replace") for program in self.programs)
