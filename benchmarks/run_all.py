"""All benchmarks, briefly, each in a process of its own; their figures go into one file.

    python -m benchmarks.run_all [--json FILE] [--longer 1]

The file is `benchmarks/results/CORES-cores.json` unless another is named: by kind of machine, without its
name. `--longer 4` gives every search and clock four times as long.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.setting import ROOT, write

RESULTS = ROOT / "benchmarks" / "results"
SECONDS = {
    "throughput": 5.0,
    "search": 5.0,
    "specialists": 10.0,
    "service_latency": 10.0,
    "reading": 5.0,
    "layouts": 5.0,
    "layout_choice": 10.0,
    "matching": 5.0,
}
OPTIONS = {
    "throughput": (),
    "search": ("--few", "3", "--seeds", "1", "--contenders", "ours", "alone", "--meshes", "dgx-h100"),
    "specialists": (),
    "service_latency": (),
    "reading": ("--rounds", "1"),
    "layouts": (),
    "layout_choice": (),
    "matching": (),
}


def run(name: str, seconds: float, options: Sequence[str]) -> dict[str, Any]:
    """Run one benchmark and return the document it writes.

    Raises:
        subprocess.CalledProcessError: the benchmark failed.
    """
    with tempfile.TemporaryDirectory(prefix="tapestry-bench-") as folder:
        path = Path(folder) / f"{name}.json"
        command = [sys.executable, "-m", f"benchmarks.{name}", "--json", str(path)]
        subprocess.run([*command, "--seconds", f"{seconds:g}", *options], check=True, cwd=ROOT)
        document: dict[str, Any] = json.loads(path.read_text())
    return document


def run_all(longer: float, options: Mapping[str, Sequence[str]] = OPTIONS) -> dict[str, Any]:
    """Run every benchmark; return the documents by name."""
    return {name: run(name, longer * seconds, options[name]) for name, seconds in SECONDS.items()}


def main(argv: Sequence[str] | None = None) -> None:
    """Run all benchmarks and store the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = RESULTS / f"{os.cpu_count() or 1}-cores.json"
    parser.add_argument("--json", type=Path, metavar="FILE", default=default)
    parser.add_argument("--longer", type=float, default=1.0, metavar="FACTOR")
    given = parser.parse_args(argv)
    write(given.json, run_all(given.longer))
    print(f"figures in {given.json}")


if __name__ == "__main__":
    main()
