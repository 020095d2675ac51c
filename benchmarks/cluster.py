"""Rate of a search on a Dask cluster of this machine: plans per second with one worker and more, and what it costs.

    python -m benchmarks.cluster [--workers 1,2] [--layers 4] [--seconds 20] [--repeat 3] [--json FILE]

A scheduler and workers are processes of this machine, so no network is measured. A program of equal layers
(`benchmarks.layered`) is searched on eight H100 for so many seconds, as often as `--repeat` says, with the
same number of islands, two for each of the most workers. `whole` is the search as
it is; `placement` leaves out structural moves and presearch, whose compilation is the coordinator's own work, and shows
what the distribution alone costs. Stored are the plans per second of the rounds, the share of one core that the
coordinator takes, and the cores that the workers take together. Cores that others use too make figures differ, so
medians are compared, and `at_once` says how many times as much plain arithmetic the workers did at once as one of them
alone just before: more than that no search can gain.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.layered import transformer
from benchmarks.setting import ROOT, write
from tapestry.hardware import load_mesh
from tapestry.optimizer import Budget, ClusterIslands, Progress
from tapestry.optimizer.run.parts import ALL_PARTS, SearchParts
from tapestry.optimizer.run.search import search
from tapestry.teg.graph import Graph

PARTS = {
    "whole": ALL_PARTS,
    "placement": SearchParts(
        presearch=False, recomputation=False, views=False, schedule_orders=False, structure=False
    ),
}
ADDRESS = re.compile(r"Scheduler at:\s+(tcp://[\d.:]+)")
START_S, ISLANDS_EACH, ARITHMETIC_S = 120.0, 2, 1.0


def main(argv: Sequence[str] | None = None) -> None:
    """Measure all searches in turn, print a table, store the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=_counts, default=[1, 2], metavar="A,B")
    parser.add_argument("--layers", type=int, default=4, metavar="N")
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds of each search")
    parser.add_argument("--repeat", type=int, default=3, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args(argv)
    graph, islands = transformer(given.layers), ISLANDS_EACH * max(given.workers)
    searches = []
    for turn in range(given.repeat):
        for count in given.workers:
            with cluster_of(count) as address, ClusterIslands(address, connect_s=START_S) as executor:
                for name in PARTS:
                    searches.append(measure(graph, name, executor, count, islands, given.seconds))
                    print(f"{turn + 1}: " + " ".join(f"{k}={v}" for k, v in searches[-1].items()), flush=True)
    figures = summary(searches)
    Console(width=120).print(table_of(figures))
    settings = {"layers": given.layers, "seconds": given.seconds, "islands": islands}
    write(given.json, {"benchmark": "cluster", **settings, "searches": searches, "summary": figures})


def _counts(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.isdigit() and int(part) > 0 for part in parts):
        raise argparse.ArgumentTypeError(
            f"expected counts of workers of at least 1, such as 1,2, not {text!r}"
        )
    return sorted({int(part) for part in parts})


@contextmanager
def cluster_of(workers: int) -> Iterator[str]:
    """Start a scheduler and so many workers; yield the address of the scheduler, and end them all."""
    with tempfile.TemporaryDirectory(prefix="tapestry-bench-") as folder:
        log = Path(folder) / "scheduler.log"
        options = ["--host", "tcp://127.0.0.1", "--port", "0", "--no-dashboard"]
        with log.open("wb") as output:
            command = [sys.executable, "-m", "distributed.cli.dask_scheduler", *options]
            scheduler = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        started = [scheduler]
        try:
            address = _address(log)
            command = [sys.executable, "-m", "tapestry.service.cli", "worker", "--cluster", address]
            command += ["--islands", str(workers), "--log-level", "error"]
            started.append(subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL))
            yield address
        finally:
            for process in reversed(started):
                process.terminate()
                process.wait()


def _address(log: Path) -> str:
    end_s = time.monotonic() + START_S
    while time.monotonic() < end_s:
        if found := ADDRESS.search(log.read_text()):
            return found[1]
        time.sleep(0.1)
    raise TimeoutError(f"no scheduler started within {START_S:g} s: {log.read_text()}")


def measure(
    graph: Graph, name: str, executor: ClusterIslands, workers: int, islands: int, seconds: float
) -> dict[str, Any]:
    """Search once, after the cluster has all its workers; times are those of the rounds alone."""
    while len(before := _seconds_by_worker(executor, workers)) < workers:
        time.sleep(0.2)
    alone, together = arithmetic(executor, 1), arithmetic(executor, workers)
    ours: list[tuple[float, float]] = []

    def note(progress: Progress) -> None:
        if progress.phase == "searching":
            ours.append((time.perf_counter(), time.process_time()))

    found = search(
        graph,
        load_mesh("dgx-h100"),
        budget=Budget(seconds=seconds),
        islands=islands,
        executor=executor,
        parts=PARTS[name],
        on_progress=note,
    )
    after = _seconds_by_worker(executor, workers)
    worked_s = sum(after.values()) - sum(before.values())
    wall_s, own_s = (last - first for first, last in zip(ours[0], ours[-1], strict=True))
    rounds = found.history
    evaluated = rounds[-1].evaluations - rounds[0].evaluations
    return {
        "parts": name,
        "workers": workers,
        "rounds": len(rounds),
        "evaluations_per_s": round(evaluated / wall_s),
        "coordinator_share": round(own_s / wall_s, 3),
        "workers_share": round(worked_s / found.seconds, 3),
        "at_once": round(together / alone, 2),
    }


def _seconds_by_worker(executor: ClusterIslands, workers: int) -> dict[int, float]:
    """Return the CPU seconds of each worker so far, by process: of those that take some of many short tasks."""
    futures = [executor.submit(_pid_and_seconds, 0.05) for _ in range(8 * workers)]
    return dict(future.result() for future in futures)


def arithmetic(executor: ClusterIslands, count: int) -> float:
    """Return how many additions per second so many workers do at once."""
    futures = [executor.submit(_additions, ARITHMETIC_S) for _ in range(count)]
    return sum(future.result() for future in futures) / ARITHMETIC_S


def _additions(seconds: float) -> int:
    done, end_s = 0, time.perf_counter() + seconds
    while time.perf_counter() < end_s:
        sum(range(10_000))
        done += 10_000
    return done


def _pid_and_seconds(seconds: float) -> tuple[int, float]:
    time.sleep(seconds)
    return os.getpid(), time.process_time()


def summary(searches: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compute the medians by parts and workers, and how many times the rate of the fewest workers each has."""
    keys = list(dict.fromkeys((each["parts"], each["workers"]) for each in searches))
    names = ("evaluations_per_s", "coordinator_share", "workers_share", "at_once")
    found = []
    for parts, workers in keys:
        alike = [each for each in searches if (each["parts"], each["workers"]) == (parts, workers)]
        medians = {name: statistics.median(each[name] for each in alike) for name in names}
        found.append({"parts": parts, "workers": workers, "searches": len(alike), **medians})
    for each in found:
        fewest = min(
            (other for other in found if other["parts"] == each["parts"]), key=lambda o: o["workers"]
        )
        each["speedup"] = round(each["evaluations_per_s"] / fewest["evaluations_per_s"], 2)
    return found


def table_of(figures: Sequence[dict[str, Any]]) -> Table:
    """Build a table of the medians."""
    table = Table(
        "parts", "workers", "searches", "plans/s", "times the fewest", "at_once", "coordinator", "workers"
    )
    for each in figures:
        counts = (str(each[name]) for name in ("workers", "searches"))
        times = (f"{each[name]:.2f}" for name in ("speedup", "at_once"))
        shares = (f"{100 * each[name]:.0f}%" for name in ("coordinator_share", "workers_share"))
        table.add_row(each["parts"], *counts, f"{each['evaluations_per_s']:,.0f}", *times, *shares)
    return table


if __name__ == "__main__":
    main()
