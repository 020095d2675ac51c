"""Utilities of all benchmarks: the models that come with the project, and the system a figure was measured on."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
MODELS = (ROOT / "examples" / "models", ROOT / "tests" / "data" / "graphs")
PACKAGES = ("numpy", "numba", "llvmlite", "deap", "moocore", "onnx")


def find_models(names: Sequence[str]) -> list[Path]:
    """Find the files of the named models that come with the project, in the order of the names.

    Raises:
        FileNotFoundError: there is none of some name.
    """
    files = {path.stem: path for folder in MODELS for path in sorted(folder.rglob("*.onnx"))}
    for name in names:
        if name not in files:
            raise FileNotFoundError(f"no model {name!r} in {', '.join(str(f) for f in MODELS)}")
    return [files[name] for name in names]


def indented(document: Mapping[str, Any]) -> str:
    """Format a document as JSON with a line per value."""
    return json.dumps(document, indent=1) + "\n"


def surroundings() -> dict[str, Any]:
    """Return the date, versions and the kind of host, without its name; `load` is the average of the last minute."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "versions": {"python": platform.python_version()} | {p: version(p) for p in PACKAGES},
        "host": {
            "processor": _processor(),
            "cores": os.cpu_count() or 1,
            "system": f"{platform.system()} {platform.machine()}",
        },
        "load": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    """Return the processor's model, where the system reports it, with the family and model numbers that date it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = dict(line.split(":", 1) for line in lines if ":" in line)
    facts = {key.strip(): value.strip() for key, value in named.items()}
    family = f"family {facts.get('cpu family', '?')} model {facts.get('model', '?')}"
    return f"{facts.get('model name', platform.machine())} ({family})"


def write(
    path: Path | None,
    document: Mapping[str, Any],
    text: Callable[[Mapping[str, Any]], str] = indented,
) -> None:
    """Write a benchmark's figures with their surroundings as JSON, if a file is requested: all of them or none."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.part")
        part.write_text(text({**surroundings(), **document}))
        part.replace(path)
