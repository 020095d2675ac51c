"""The read side of the service under load: many readers, viewers, slow clients, and many stored runs.

    python -m benchmarks.reading [--seconds 10] [--rounds 3] [--processes 1] [--json FILE]

A service of its own is started, without a worker; a worker beside it, at a lower priority, searches GPT-2 small with
one island per core. In rounds, 64 clients (wrk) read an ended run and its frontier in turn: from the service, and from
a bare FastAPI application that answers with the same bytes (`benchmarks.reading_peer`); the ratio is that of a round.
`/healthz` is probed meanwhile, of both. Then 1,000 event streams are opened, 600 slow clients are connected, and lists
of 10,000 runs are fetched. What needs wrk is left out where it is not installed, and the output says so.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

import httpx
from sqlalchemy import insert, select

from benchmarks.reading_load import WRK, cpu_s, percentiles, probed, slow_clients, streams, wrk
from benchmarks.service_latency import MESSAGE, MODEL, submit, wait_until
from benchmarks.setting import ROOT, find_models, write
from tapestry.service.store.database import open_database
from tapestry.service.store.tables import RunRow

CLIENTS, STREAMS, SLOW, STORED = 64, 1000, 600, 10_000
LEAST_RATIO, LEAST_RATE, LIMIT_HEALTH_MS = 0.5, 500.0, 100.0
LIMIT_STREAMS_BYTES, LIMIT_SLOW_S, LIMIT_LIST_MS = 150 * 2**20, 15.0, 50.0
LISTS = (
    "/v1/runs",
    "/v1/runs?limit=200",
    "/v1/runs?status=failed",
    "/v1/runs?mesh=mesh-7",
    "/v1/runs?mesh=none",
    "/v1/runs?graph_id={graph}",
    "/v1/runs?graph_id={graph}&status=failed&mesh=mesh-7",
    "/v1/graphs",
    "/v1/batches",
)
STATUSES = ("succeeded", "failed", "cancelled")


@contextmanager
def serving(url: str, processes: int) -> Iterator[tuple[str, int]]:
    """Run a service without a worker; yield its address and the id of its process."""
    command = [sys.executable, "-m", "tapestry.service.cli", "serve", "--port", "0", "--no-worker"]
    command += ["--log-level", "error", "--database-url", url, "--processes", str(processes)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        line = next(line for line in process.stderr if MESSAGE in line)
        address = line.split(MESSAGE)[1].strip()
        _wait(address)
        yield address, process.pid
    finally:
        process.terminate()
        process.wait()


@contextmanager
def working(url: str) -> Iterator[None]:
    """Run a worker at the lowest priority."""
    command = ["nice", "-n", "19", sys.executable, "-m", "tapestry.service.cli", "worker"]
    process = subprocess.Popen([*command, "--log-level", "error", "--database-url", url], cwd=ROOT)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


@contextmanager
def peer(run: bytes, frontier: bytes, folder: Path) -> Iterator[tuple[str, int]]:
    """Run the bare application; yield its address and the id of its process."""
    files = (folder / "run.json", folder / "frontier.json")
    for file, content in zip(files, (run, frontier), strict=True):
        file.write_bytes(content)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    command = [sys.executable, "-m", "benchmarks.reading_peer", str(port), *map(str, files)]
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        _wait(f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}", process.pid
    finally:
        process.terminate()
        process.wait()


def readers(
    address: str, pid: int, other: str, other_pid: int, paths: Sequence[str], seconds: float, folder: Path
) -> dict[str, Any]:
    """Measure one round: the service with probes of its health, and the peer; `cpu_us` is that of one request."""
    began_s = cpu_s(pid)
    with probed(address, "/healthz") as took:
        ours = wrk(address, paths, CLIENTS, seconds, folder)
    ours["cpu_us"] = 1e6 * (cpu_s(pid) - began_s) / ours["requests"]
    began_s = cpu_s(other_pid)
    with probed(other, "/healthz") as also_took:
        theirs = wrk(other, paths, CLIENTS, seconds, folder)
    theirs["cpu_us"] = 1e6 * (cpu_s(other_pid) - began_s) / theirs["requests"]
    return {
        "service": ours,
        "peer": theirs,
        "ratio": ours["requests_per_s"] / theirs["requests_per_s"],
        "cpu_ratio": theirs["cpu_us"] / ours["cpu_us"],
        "health": percentiles(took),
        "peer_health": percentiles(also_took),
        "load": round(os.getloadavg()[0], 2),
    }


def lists(url: str, address: str, run_id: str) -> dict[str, Any]:
    """Store many copies of a run, and measure the lists."""
    graph = _store_copies(url, run_id)
    found = {}
    with httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
        for path in LISTS:
            took = []
            for _ in range(40):
                began = time.perf_counter()
                client.get(path.format(graph=graph)).raise_for_status()
                took.append(1e3 * (time.perf_counter() - began))
            found[path] = percentiles(took)
    return found


def _store_copies(url: str, run_id: str) -> str:
    """Store copies of a run, each a second older, with other statuses and names of meshes; return their program."""
    engine = open_database(url)
    with engine.begin() as connection:
        row = dict(connection.execute(select(RunRow.__table__).where(RunRow.id == run_id)).mappings().one())
        copies = [
            {
                **row,
                "id": f"{number:012x}",
                "created_at": row["created_at"] - timedelta(seconds=number + 1),
                "status": STATUSES[number % 3],
                "mesh_name": f"mesh-{number % 10}",
            }
            for number in range(STORED)
        ]
        connection.execute(insert(RunRow), copies)
    engine.dispose()
    return str(row["graph_id"])


def measure(seconds: float, rounds: int, processes: int) -> dict[str, Any]:
    """Run the whole benchmark, each half of a round of readers for so many seconds."""
    with tempfile.TemporaryDirectory(prefix="tapestry-bench-") as name:
        folder = Path(name)
        url = f"sqlite:///{folder / 'bench.db'}"
        with serving(url, processes) as (address, pid), httpx.Client(base_url=address, timeout=60) as client:
            document: dict[str, Any] = {"cores": os.cpu_count(), "processes": processes, "clients": CLIENTS}
            with working(url):
                with find_models([MODEL])[0].open("rb") as file:
                    graph = client.post("/v1/graphs/import", files={"file": file}).raise_for_status().json()
                first = submit(client, graph["id"], 5.0, seed=0)
                wait_until(client, first, ("done",))
                going_on = submit(client, graph["id"], 3600.0, seed=1)
                wait_until(client, going_on, ("searching",))
                if WRK is None:
                    print("wrk is not installed (https://github.com/wg/wrk): readers are not measured")
                else:
                    document["readers"] = _rounds(client, pid, first, seconds, rounds, folder)
                document["streams"] = streams(address, going_on, STREAMS, pid) if processes == 1 else None
                document["slow_clients"] = slow_clients(address, SLOW)
                client.post(f"/v1/runs/{going_on}/cancel").raise_for_status()
                wait_until(client, going_on, ("done",))
            document["lists"] = lists(url, address, first)
    return document


def _rounds(
    client: httpx.Client, pid: int, run_id: str, seconds: float, rounds: int, folder: Path
) -> dict[str, Any]:
    address = str(client.base_url).rstrip("/")
    paths = (f"/v1/runs/{run_id}", f"/v1/runs/{run_id}/frontier")
    run, frontier = (client.get(path).raise_for_status().content for path in paths)
    with peer(run, frontier, folder) as (other, other_pid):
        found = [readers(address, pid, other, other_pid, paths, seconds, folder) for _ in range(rounds)]
    return {
        "bytes": [len(run), len(frontier)],
        "rounds": found,
        "ratio": median(each["ratio"] for each in found),
        "cpu_ratio": median(each["cpu_ratio"] for each in found),
        "requests_per_s": median(each["service"]["requests_per_s"] for each in found),
        "health_p99_ms": median(each["health"]["p99_ms"] for each in found),
        "peer_health_p99_ms": median(each["peer_health"]["p99_ms"] for each in found),
    }


def _wait(address: str) -> None:
    """Wait until a server answers."""
    until = time.monotonic() + 60.0
    while True:
        try:
            httpx.get(f"{address}/healthz", trust_env=False)
            return
        except httpx.TransportError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def show(document: dict[str, Any]) -> None:
    """Print the figures with what they must be."""
    if "readers" in document:
        found = document["readers"]
        print(f"readers: {found['requests_per_s']:.0f} requests/s (at least {LEAST_RATE:.0f})")
        print(f"  {found['ratio']:.2f} of a bare endpoint with the same bytes (at least {LEAST_RATIO})")
        print(
            f"  {found['cpu_ratio']:.2f} of it by processor time per request, which other processes do not change"
        )
        health, other = found["health_p99_ms"], found["peer_health_p99_ms"]
        print(
            f"  /healthz meanwhile: p99 {health:.1f} ms (below {LIMIT_HEALTH_MS:.0f} ms); peer: {other:.1f} ms"
        )
    if document["streams"]:
        more, limit = document["streams"]["more_bytes"] / 2**20, LIMIT_STREAMS_BYTES / 2**20
        print(f"{document['streams']['count']} event streams: {more:.0f} MiB more (at most {limit:.0f} MiB)")
    slow = document["slow_clients"]
    print(
        f"{slow['count']} slow clients: closed after {slow['closed_s']:.1f} s (within {LIMIT_SLOW_S:.0f} s)"
    )
    print(f"  lists meanwhile: p95 {slow['others']['p95_ms']:.1f} ms")
    for path, figures in document["lists"].items():
        print(f"{STORED} runs: {path}: p95 {figures['p95_ms']:.1f} ms (below {LIMIT_LIST_MS:.0f} ms)")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and store the figures if a file is requested."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args(argv)
    document = measure(given.seconds, given.rounds, given.processes)
    show(document)
    write(given.json, document)


if __name__ == "__main__":
    main()
