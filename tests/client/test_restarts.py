"""Tests that a client outlives its server: a run is followed to its end through a kill and a restart."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tapestry.client import Client, EventRecord, Retries
from tapestry.teg.document import dumps
from tests.service.processes import Service
from tests.service.programs import two_layers

pytestmark = pytest.mark.slow


def test_a_run_is_followed_through_a_kill_of_the_server(tmp_path: Path) -> None:
    seen, searching = list[EventRecord](), threading.Event()

    def note(event: EventRecord) -> None:
        seen.append(event)
        if event.kind == "progress":
            searching.set()

    with Service(f"sqlite:///{tmp_path / 'tapestry.db'}", tmp_path / "log", "--islands", "1") as service:
        patient = Client(service.address, retries=Retries(attempts=300, first_s=0.2, most_s=0.2))
        with patient as client:
            run = client.submit(client.upload(dumps(two_layers())), "dgx-h100", seconds=4, verify="dry")
            ended = list[str]()
            waiting = threading.Thread(target=lambda: ended.append(client.wait(run, note).status))
            waiting.start()
            assert searching.wait(120)
            service.kill()
            service.start()
            waiting.join(120)
            assert ended == ["succeeded"]
            assert [event.number for event in seen] == list(range(1, len(seen) + 1))
            assert seen[-1].ends_run
            assert len(client.frontier(run).plans) >= 1
