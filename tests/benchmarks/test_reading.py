"""Tests of the benchmark of reading: its clients against a service, and the copies of a run that it stores."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import httpx
import pytest

from benchmarks import reading
from benchmarks.reading_load import probed, slow_clients, streams, wrk_figures
from benchmarks.reading_peer import application
from tapestry.service.settings import ConnectionLimits
from tapestry.service.store import Store
from tests.service.api.conftest import serving
from tests.service.databases import file_with_tables
from tests.service.programs import finished_run, two_layers

PRINTED = """Running 6s test @ http://127.0.0.1:18801
  1 threads and 64 connections
  Latency Distribution
     50%   10.92ms
     99%    {p99}
  28171 requests in 5.00s, 540.76MB read
  Non-2xx or 3xx responses: 17
Requests/sec:   5631.59
"""


@pytest.mark.parametrize(("p99", "ms"), [("15.31ms", 15.31), ("1.50s", 1500.0), ("250.00us", 0.25)])
def test_the_output_of_wrk_is_read(p99: str, ms: float) -> None:
    assert wrk_figures(PRINTED.format(p99=p99)) == {
        "requests": 28171,
        "requests_per_s": 5631.59,
        "p99_ms": ms,
        "failed": 17,
    }


def test_the_peer_answers_with_the_same_bytes() -> None:
    async def fetched(path: str) -> bytes:
        transport = httpx.ASGITransport(application(b'{"id":1}', b"[]"))
        async with httpx.AsyncClient(transport=transport, base_url="http://peer") as client:
            return (await client.get(path)).content

    assert [asyncio.run(fetched(f"/v1/runs/x{path}")) for path in ("", "/frontier")] == [b'{"id":1}', b"[]"]


@pytest.mark.slow
def test_clients_are_served_cut_off_and_measured(tmp_path: Path) -> None:
    with serving(tmp_path, connections=ConnectionLimits(header_s=0.3, body_s=0.3)) as service:
        run_id = service.submit().json()["id"]
        opened = streams(service.address, run_id, 50, os.getpid())
        assert (opened["count"], opened["before_bytes"] > 0) == (50, True)
        slow = slow_clients(service.address, 8)
        assert (slow["left"], 0.3 < slow["closed_s"] < 20.0) == (0, True)
        with probed(service.address, "/healthz") as took:
            pass
        assert len(took) <= 1


def test_copies_of_a_run_fill_the_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "STORED", 20)
    url = file_with_tables(tmp_path / "store.db")
    store = Store(url)
    run_id = store.runs.save_finished(finished_run(two_layers()))
    graph = reading._store_copies(url, run_id)
    assert len(store.runs.page(50, graph_id=graph)) == 21
    assert len(store.runs.page(50, graph_id=graph, mesh="mesh-7")) == 2
    assert len(store.runs.page(50, status="failed")) == 7
    store.close()
