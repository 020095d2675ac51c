"""The process that runs a user's module to record it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tapestry.teg.importers.failure import ImportFailure

RECORDER = "tapestry.teg.importers.torch.ranks.recorder"


def record(module: Path, ranks: int, backend: str) -> list[Mapping[str, Any]]:
    """Run the text of a module in a process of its own, once for each rank, and return what every rank does.

    The module's code is executed, on tensors without elements: nothing is computed, sent or received. `backend` is
    the one that the module sees.

    Raises:
        ImportFailure: there is no such file, PyTorch is not installed, or the module fails.
    """
    if not module.is_file():
        raise ImportFailure(f"there is no file {str(module)!r}")
    if find_spec("torch") is None:
        raise ImportFailure("a module for PyTorch is read back in by PyTorch: pip install tapestry[torch]")
    with TemporaryDirectory() as folder:
        target = Path(folder) / "ranks.json"
        command = [sys.executable, "-m", RECORDER, str(module.resolve()), str(ranks), backend, str(target)]
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
        )
        if not target.exists():
            reason = ended.stderr.strip().rpartition("\n")[2] or f"exit code {ended.returncode}"
            raise ImportFailure(f"{str(module)!r} cannot be recorded: {reason}")
        return recorded(module, json.loads(target.read_bytes()))


def recorded(module: Path, document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return what the ranks of a module do, from the document of the process that recorded them.

    Raises:
        ImportFailure: the module failed there.
    """
    if "error" in document:
        raise ImportFailure(f"{str(module)!r} cannot be recorded: {document['error']}")
    found: list[Mapping[str, Any]] = document["ranks"]
    return found
