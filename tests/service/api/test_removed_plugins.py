"""Tests of data that a removed plug-in had a part in: shown where possible, else refused by what is missing."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tapestry.rewrites import Move
from tapestry.service.store import Store, Unreadable
from tapestry.service.store.codec import graph_of
from tapestry.service.worker import WorkerSettings, work
from tapestry.teg.document import dumps
from tests.service.api.conftest import Service, complaint
from tests.service.processes import eventually
from tests.service.programs import finished_run, two_layers

GONE = Move("acme_gone", "hidden")
MISSING = "the stored plan cannot be made again here: acme_gone at hidden: there is no rule 'acme_gone'"


def stored(service: Service) -> tuple[str, str]:
    """Return the ids of a run and of a plan to which a removed rule led."""
    finished = finished_run(two_layers())
    first, *others = finished.result.frontier
    made = replace(first, moves=(GONE, *first.moves))
    finished = replace(finished, result=replace(finished.result, frontier=(made, *others)))
    run_id = service.store.runs.save_finished(finished)
    return run_id, f"{run_id}-{made.id}"


@contextmanager
def working(store: Store) -> Iterator[None]:
    draining = threading.Event()
    worker = threading.Thread(target=work, args=(store, WorkerSettings(islands=1, poll_s=0.02), draining))
    worker.start()
    try:
        yield
    finally:
        draining.set()
        worker.join()


@pytest.mark.slow
def test_a_plan_of_a_rule_that_has_gone_is_shown_with_its_history(service: Service) -> None:
    run_id, plan_id = stored(service)

    plan = service.http.get(f"/v1/plans/{plan_id}").json()
    frontier = service.http.get(f"/v1/runs/{run_id}/frontier").json()["plans"]

    assert plan["moves"][0] == GONE.to_json()
    assert (plan["cost"]["time_s"], len(frontier)) == (1e-3, 2)
    assert service.http.get(f"/v1/plans/{plan_id}/export", params={"to": "placements"}).is_success
    for form in ("teg", "dot"):
        message = complaint(
            service.http.get(f"/v1/plans/{plan_id}/export", params={"to": form}), 422, "unreadable"
        )
        assert message["detail"].startswith(MISSING)


def test_executing_it_or_starting_from_it_fails_by_name(service: Service) -> None:
    run_id, plan_id = stored(service)
    execution = service.http.post(f"/v1/plans/{plan_id}/executions", json={"values": False}).json()["id"]
    started = service.submit(start_from=run_id, budget={"evaluations": 10}).json()["id"]

    with working(service.store):
        for path in (f"/v1/executions/{execution}", f"/v1/runs/{started}"):
            problem = eventually(lambda p=path: service.http.get(p).json()["problem"], 60.0, f"{path} fails")
            assert problem["code"] == "unreadable"
            assert problem["detail"].startswith(MISSING)


def test_a_program_with_an_operator_that_has_gone_is_refused_by_name() -> None:
    document = dumps(two_layers()).replace('"operator":"contract"', '"operator":"acme_gone"')

    with pytest.raises(
        Unreadable, match="needs operator 'acme_gone': there is none of that name; `tapestry plugins`"
    ):
        graph_of(gzip.compress(document.encode()))


def test_a_run_by_a_rule_that_has_gone_is_refused_by_name(service: Service) -> None:
    message = complaint(service.submit(rules=["fuse_cells", "acme_gone"]), 422, "invalid")

    assert [error["pointer"] for error in message["errors"]] == ["/rules/1"]
    assert message["errors"][0]["detail"].startswith("there is no rule 'acme_gone'")
