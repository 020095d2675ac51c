"""Clients of `benchmarks.reading`: wrk, probes of the health, viewers of events, and clients that are too slow."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np

from tapestry.service.children.memory import descendants, proportional_bytes

WRK = shutil.which("wrk")
SCRIPT = """local paths, k = {{{paths}}}, 0
request = function()
  k = k % #paths + 1
  return wrk.format("GET", paths[k])
end
"""
PROBE_S = 0.05
OPEN_S = 5.0  # for which streams are read before the memory is
SLOW_KINDS = (
    b"",
    b"GET / HT",
    b"GET /v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\n",
    b"POST /v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n{",
)
PATIENCE_S = 60.0


def wrk(address: str, paths: Sequence[str], clients: int, seconds: float, folder: Path) -> dict[str, float]:
    """Request the paths in turn from many connections; return `wrk_figures`."""
    assert WRK is not None
    script = folder / "paths.lua"
    script.write_text(SCRIPT.format(paths=", ".join(f'"{path}"' for path in paths)))
    command = [WRK, "-t1", f"-c{clients}", f"-d{seconds:g}s", "--latency", "-s", str(script), address]
    return wrk_figures(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def wrk_figures(text: str) -> dict[str, float]:
    """Return requests/s, the p99 in milliseconds, and the failed requests of what wrk prints."""
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    p99 = re.search(r"99%\s+([\d.]+)(us|ms|s)", text)
    assert rate is not None and p99 is not None, text
    requests = re.search(r"(\d+) requests in", text)
    assert requests is not None, text
    failed = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    unit_ms = {"us": 1e-3, "ms": 1.0, "s": 1e3}[p99[2]]
    return {
        "requests": int(requests[1]),
        "requests_per_s": float(rate[1]),
        "p99_ms": float(p99[1]) * unit_ms,
        "failed": 0 if failed is None else int(failed[1]),
    }


@contextmanager
def probed(address: str, path: str) -> Iterator[list[float]]:
    """Fetch a path again and again over one connection while the block runs; yield the milliseconds so far."""
    took: list[float] = []
    ended = threading.Event()

    def probe() -> None:
        with httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
            while not ended.wait(PROBE_S):
                began = time.perf_counter()
                client.get(path).raise_for_status()
                took.append(1e3 * (time.perf_counter() - began))

    thread = threading.Thread(target=probe)
    thread.start()
    try:
        yield took
    finally:
        ended.set()
        thread.join()


def percentiles(took: Sequence[float]) -> dict[str, float]:
    """Compute the count, the percentiles and the maximum in milliseconds."""
    p50, p95, p99 = np.percentile(took, (50, 95, 99))
    return {"count": len(took), "p50_ms": p50, "p95_ms": p95, "p99_ms": p99, "max_ms": max(took)}


def cpu_s(pid: int) -> float:
    """Return the seconds of processor time that a process and its children have taken."""
    processes = (pid, *descendants(pid))
    fields = [Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split() for each in processes]
    return sum(int(found[11]) + int(found[12]) for found in fields) / os.sysconf("SC_CLK_TCK")


def streams(address: str, run_id: str, count: int, pid: int) -> dict[str, Any]:
    """Open event streams of one run; return the server's memory before and while all are read."""
    return asyncio.run(_streams(urlsplit(address), run_id, count, pid))


async def _streams(place: Any, run_id: str, count: int, pid: int) -> dict[str, Any]:
    request = f"GET /v1/runs/{run_id}/events HTTP/1.1\r\nHost: {place.hostname}\r\n\r\n".encode()

    async def opened() -> asyncio.StreamWriter:
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write(request)
        await reader.readuntil(b"id: 1\n")
        readers.append(asyncio.create_task(_read(reader)))
        return writer

    readers: list[asyncio.Task[None]] = []
    before, writers = proportional_bytes(pid), []
    began = time.perf_counter()
    for _ in range(0, count, 50):
        writers += await asyncio.gather(*(opened() for _ in range(50)))
    opening_s = time.perf_counter() - began
    await asyncio.sleep(OPEN_S)
    while_open = proportional_bytes(pid)
    for writer in writers:
        writer.close()
    return {
        "count": len(writers),
        "opening_s": opening_s,
        "before_bytes": before,
        "more_bytes": while_open - before,
    }


async def _read(reader: asyncio.StreamReader) -> None:
    while await reader.read(2**16):
        pass


def slow_clients(address: str, count: int) -> dict[str, Any]:
    """Connect clients that send nothing, half a header, or a byte of a body now and then, and fetch a list meanwhile.

    Return the seconds until the server had closed all of them, and the milliseconds of the lists.
    """
    place = urlsplit(address)
    waiting: dict[socket.socket, int] = {}
    for number in range(count):
        connection = socket.create_connection((place.hostname or "", place.port or 0))
        connection.sendall(SLOW_KINDS[number % len(SLOW_KINDS)])
        connection.setblocking(False)
        waiting[connection] = number
    began, closed_s = time.monotonic(), 0.0
    with probed(address, "/v1/runs") as took:
        while waiting and time.monotonic() - began < PATIENCE_S:
            time.sleep(0.25)
            for connection, number in list(waiting.items()):
                if _is_closed(connection, number):
                    del waiting[connection]
                    connection.close()
                    closed_s = time.monotonic() - began
    return {"count": count, "left": len(waiting), "closed_s": closed_s, "others": percentiles(took)}


def _is_closed(connection: socket.socket, number: int) -> bool:
    """Return whether the server has closed a connection; if not, send another byte where some were sent before."""
    try:
        while connection.recv(4096):
            pass
        return True
    except BlockingIOError:
        pass
    except OSError:
        return True
    try:
        if number % len(SLOW_KINDS) >= 2:
            connection.send(b"x")
    except OSError:
        return True
    return False
