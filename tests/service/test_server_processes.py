"""Tests of a service with several processes: they share one address, are replaced, and end together."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tapestry.service.store import Store
from tests.service.databases import file_with_tables
from tests.service.processes import Service, eventually
from tests.service.programs import finished_run, two_layers

SOON_S = 60.0


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """Start a service with two processes and no worker."""
    url = file_with_tables(tmp_path / "service.db")
    with Service(url, tmp_path / "log", "--processes", "2", "--no-worker") as started:
        yield started


def servers(service: Service) -> list[int]:
    """Return the ids of the processes that answer requests."""
    parent = service.pid
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    commands = {int(child): Path(f"/proc/{child}/cmdline").read_text() for child in children}
    return [child for child, command in commands.items() if "spawn_main" in command]


def fetched(service: Service, path: str) -> httpx.Response:
    """Fetch what is at a path over a connection of its own."""
    return httpx.get(service.address + path, timeout=30, trust_env=False)


def counted(service: Service) -> float:
    """Return how many answers about a run all processes together have counted."""
    text = fetched(service, "/metrics").text
    pattern = r'tapestry_requests_total{method="GET",route="/v1/runs/{run_id}",status="200"} (\S+)'
    return sum(map(float, re.findall(pattern, text)))


@pytest.mark.slow
def test_processes_share_an_address_and_their_figures_and_are_replaced(service: Service) -> None:
    store = Store(service.database_url)
    run_id = store.runs.save_finished(finished_run(two_layers()))
    first = eventually(lambda: found if len(found := servers(service)) == 2 else None, SOON_S, "two servers")
    answers = [fetched(service, f"/v1/runs/{run_id}") for _ in range(30)]
    assert len({answer.content for answer in answers}) == 1
    assert {counted(service) for _ in range(8)} == {30.0}, "whichever process is asked"

    os.kill(first[0], signal.SIGKILL)
    second = eventually(
        lambda: found if len(found := servers(service)) == 2 and first[0] not in found else None,
        SOON_S,
        "another server",
    )
    assert first[1] in second
    eventually(lambda: all(fetched(service, "/readyz").is_success for _ in range(8)), SOON_S, "all answer")
    assert counted(service) == 30.0, "what a process counted stays when it is gone"

    store.close()
    assert service.stop() == 0
    for server in second:
        assert not Path(f"/proc/{server}").exists()
