"""Latency of the API while a search uses every core, compared with the same service at rest.

    python -m benchmarks.service_latency [--seconds 20] [--json FILE]

A service of its own is started on an empty database; a run of GPT-2 small is made so that there is a frontier
to read. Then one client requests the list of runs, a run and its frontier in turn, ten times a second, first
at rest, then during a search with one island per core. Figures are milliseconds; the ratio is of the p95.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks.setting import ROOT, find_models, write

MODEL = "gpt2_small_b1_s1024"
MESH = "dgx-h100"
PAUSE_S = 0.1
LIMIT_P95_MS = 100.0
MESSAGE = "listens on "


@contextmanager
def service(folder: Path, *options: str) -> Iterator[httpx.Client]:
    """Run a service on a new database in `folder`, with more `options` of `tapestry serve`; yield a client of it."""
    command = [sys.executable, "-m", "tapestry.service.cli", "serve", "--port", "0", "--log-level", "error"]
    command += ["--database-url", f"sqlite:///{folder / 'bench.db'}", *options]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        line = next(line for line in process.stderr if MESSAGE in line)
        address = line.split(MESSAGE)[1].strip()
        with httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
            yield client
    finally:
        process.terminate()
        process.wait()


def submit(client: httpx.Client, graph_id: str, seconds: float, seed: int) -> str:
    """Queue a run; return its id."""
    body = {"graph_id": graph_id, "mesh": MESH, "budget": {"seconds": seconds}, "seed": seed}
    return str(client.post("/v1/runs", json=body).raise_for_status().json()["id"])


def wait_until(client: httpx.Client, run_id: str, phases: Sequence[str]) -> None:
    """Wait until a run is in one of the phases."""
    while client.get(f"/v1/runs/{run_id}").raise_for_status().json()["phase"] not in phases:
        time.sleep(0.2)


def answers(client: httpx.Client, run_id: str, seconds: float) -> dict[str, list[float]]:
    """Measure the milliseconds per answer, by request."""
    paths = {"runs": "/v1/runs", "run": f"/v1/runs/{run_id}", "frontier": f"/v1/runs/{run_id}/frontier"}
    took: dict[str, list[float]] = {name: [] for name in paths}
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for name, path in paths.items():
            began = time.perf_counter()
            client.get(path).raise_for_status()
            took[name].append(1e3 * (time.perf_counter() - began))
            time.sleep(PAUSE_S)
    return took


def summary(took: Sequence[float]) -> dict[str, float]:
    """Compute the count, the percentiles and the maximum in milliseconds."""
    p50, p95, p99 = np.percentile(took, (50, 95, 99))
    return {"count": len(took), "p50_ms": p50, "p95_ms": p95, "p99_ms": p99, "max_ms": max(took)}


def measure(seconds: float) -> dict[str, Any]:
    """Run the whole comparison, with `seconds` for each of its two halves."""
    with tempfile.TemporaryDirectory(prefix="tapestry-bench-") as folder, service(Path(folder)) as client:
        with find_models([MODEL])[0].open("rb") as file:
            graph = client.post("/v1/graphs/import", files={"file": file}).raise_for_status().json()
        first = submit(client, graph["id"], 5.0, seed=0)
        wait_until(client, first, ("done",))
        resting = answers(client, first, seconds)
        second = submit(client, graph["id"], seconds + 30.0, seed=1)
        wait_until(client, second, ("searching",))
        searching = answers(client, second, seconds)
        client.post(f"/v1/runs/{second}/cancel").raise_for_status()
    both = {"at_rest": resting, "while_searching": searching}
    document: dict[str, Any] = {
        name: {
            what: summary(took)
            for what, took in [*parts.items(), ("all", [ms for took in parts.values() for ms in took])]
        }
        for name, parts in both.items()
    }
    document["p95_ratio"] = (
        document["while_searching"]["all"]["p95_ms"] / document["at_rest"]["all"]["p95_ms"]
    )
    document["limit_p95_ms"] = LIMIT_P95_MS
    document["cores"] = os.cpu_count()
    return document


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and store the figures if a file is requested."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args(argv)
    document = measure(given.seconds)
    for name in ("at_rest", "while_searching"):
        for what, figures in document[name].items():
            print(
                f"{name:16} {what:9} p50 {figures['p50_ms']:7.1f} ms  p95 {figures['p95_ms']:7.1f} ms  "
                f"max {figures['max_ms']:7.1f} ms  of {figures['count']}"
            )
    print(f"p95 while searching / at rest: {document['p95_ratio']:.1f}")
    write(given.json, document)


if __name__ == "__main__":
    main()
