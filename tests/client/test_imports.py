"""Tests of clients that follow the import of a large program to its end."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tapestry.client import AsyncClient, Client, ImportCancelledError, ImportRecord, ProblemError
from tapestry.service.cli import main
from tapestry.service.settings import Limits
from tapestry.service.worker.heartbeat import ClaimedJob
from tapestry.service.worker.importing import do_import
from tapestry.teg.document import dumps
from tests.client.conftest import QUICK
from tests.service.api.conftest import PATIENCE_S, Service, serving
from tests.service.programs import two_layers
from tests.service.store.submissions import LEASE_S

DOCUMENT = json.loads(dumps(two_layers()))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """Start a service for which every program is large."""
    with serving(tmp_path, limits=Limits(import_bytes=1)) as running:
        yield running


@pytest.fixture
def worker(service: Service) -> Iterator[None]:
    """Do imports as a worker does, until the test has ended."""
    ends = threading.Event()

    def work() -> None:
        while not ends.wait(0.01):
            job = service.store.jobs.claim("ada", datetime.now(UTC), LEASE_S, ("import",))
            if job is not None:
                do_import(service.store, ClaimedJob(job, LEASE_S, ends), lambda _: None)

    thread = threading.Thread(target=work)
    thread.start()
    yield
    ends.set()
    thread.join(PATIENCE_S)


def broken() -> dict[str, object]:
    blocks = [{**block, "inputs": ["nothing"] * len(block["inputs"])} for block in DOCUMENT["blocks"]]
    return {**DOCUMENT, "blocks": blocks}


@pytest.mark.usefixtures("worker")
def test_a_client_waits_for_the_import_of_a_large_program(service: Service) -> None:
    seen = list[ImportRecord]()
    with Client(service.address, retries=QUICK) as client:
        graph = client.upload(DOCUMENT, on_import=seen.append)
        assert client.graph(graph) == graph == client.upload(DOCUMENT)
        assert seen[0].status in ("queued", "running") and seen[-1].status == "succeeded"
        assert (len({found.id for found in seen}), seen[-1].graph_id) == (1, graph.id)
        assert client.find_import(seen[0].id) == seen[-1]
        with pytest.raises(ProblemError) as caught:
            client.upload(broken())
    assert (caught.value.status, caught.value.code) == (422, "invalid_graph")
    assert "/blocks/6/inputs/0" in {fault.pointer for fault in caught.value.faults}


@pytest.mark.usefixtures("worker")
def test_an_awaited_client_does_the_same(service: Service) -> None:
    async def upload() -> tuple[str, list[str]]:
        seen = list[str]()
        async with AsyncClient(service.address, retries=QUICK) as client:
            graph = await client.upload(DOCUMENT, on_import=lambda found: seen.append(found.status))
        return graph.name, seen

    name, seen = asyncio.run(upload())
    assert (name, seen[-1]) == ("two_layers", "succeeded") and seen[0] in ("queued", "running")


def test_a_cancelled_import_is_an_error_of_its_own(service: Service) -> None:
    seen = list[ImportRecord]()

    def cancel(found: ImportRecord) -> None:
        seen.append(found)
        if not found.has_ended:
            client.cancel_import(found.id)

    with Client(service.address, retries=QUICK) as client, pytest.raises(ImportCancelledError) as caught:
        client.upload(DOCUMENT, on_import=cancel)
    assert (seen[0].position, seen[-1].position) == (1, None)
    assert client_page(service) == [(caught.value.import_id, "cancelled")]


@pytest.mark.usefixtures("worker")
def test_submit_shows_how_far_an_import_is(
    service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(DOCUMENT))
    bad.write_text(json.dumps(broken()))
    arguments = ["--mesh", "dgx-h100", "--url", service.address, "--evaluations", "100"]
    main(["submit", str(good), str(bad), *arguments])
    shown = capsys.readouterr()
    imports = [import_id for import_id, _ in client_page(service)]
    # The place in the queue is missing where a worker has begun before the place was counted.
    assert re.search(f"good.json is import {imports[1]}: queued(, number 1 in the queue)?\n", shown.err)
    assert f"good.json is import {imports[1]}: succeeded" in shown.err
    assert f"bad.json is import {imports[0]}: failed" in shown.err and "this is no program" in shown.out


def client_page(service: Service) -> list[tuple[str, str]]:
    return [(found.id, found.status) for found in service.store.imports.page()]
