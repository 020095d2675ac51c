"""Runs of an example as people run it: a process beside a service."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.service.processes import ROOT, Service


def runs_of_pass(name: str, folder: Path, *options: str) -> tuple[str, str]:
    """Run a pass twice against one service, and return what each run has printed.

    The pass itself compares its output with that of the unsharded program, and fails where they differ.
    """
    with Service(f"sqlite:///{folder / 'tapestry.db'}", folder / "log", "--islands", "1") as service:
        command = [sys.executable, "-m", f"tapestry.examples.compiler_client.{name}"]
        command += ["--service", service.address, *options]
        printed = []
        for _ in range(2):
            ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
            assert ran.returncode == 0, ran.stdout + ran.stderr
            printed.append(ran.stdout)
    return printed[0], printed[1]
