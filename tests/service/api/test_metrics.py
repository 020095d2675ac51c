"""Tests of the metrics: their figures, and that the page, the board and the alerts name what there is."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tapestry.service.store import Store, StoreError
from tapestry.service.store.tallies import PHASE_SECONDS, Tallies, TallyKey
from tests.service.api.conftest import Service
from tests.service.programs import NOON, finished_run, two_layers

ROW = re.compile(r"^\| `(tapestry_\w+)` \| (\w+) \| (.*?) \|", re.MULTILINE)
NAMES = re.compile(r"\btapestry_\w+")
UNITS = ("_seconds", "_bytes")
SUFFIXES = re.compile(r"_(total|bucket|sum|count)$")


def families(service: Service) -> dict[str, Any]:
    text = service.http.get("/metrics").text
    parsed = text_string_to_metric_families(text)
    return {family.name: family for family in parsed if not family.name.endswith("_created")}


def figure(service: Service, metric: str, **labels: str) -> float:
    """Return the value of one sample."""
    (value,) = [
        sample.value
        for family in families(service).values()
        for sample in family.samples
        if sample.name == metric and labels.items() <= sample.labels.items()
    ]
    return float(value)


def worked(service: Service) -> None:
    """Do a bit of everything that is counted: a request with a task, an attempt that ends and one that is lost."""
    document = service.http.get(f"/v1/graphs/{service.graph()}/document").json()
    assert service.http.post("/v1/graphs", json=document).is_success
    for _ in range(2):
        assert service.submit(fresh=True).status_code == 202
    first, second = service.claimed(), service.claimed()
    service.store.jobs.phase(first, NOON, 60.0, "compiling")
    service.store.jobs.phase(first, NOON, 60.0, "seeding")
    service.store.jobs.end_run(first, NOON, "failed", stopped="failed", problem={"code": "x"})
    service.store.jobs.release_owner("worker")
    service.store.observers.lost(second)
    service.store.flush_tallies()
    now = datetime.now(UTC)
    service.store.workers.beat("ada", now, host="h", pid=1, status="idle", subject=None, pss_bytes=2**20)


def test_attempts_phases_losses_and_the_queue_are_counted(service: Service) -> None:
    worked(service)
    assert figure(service, "tapestry_attempts_total", kind="run") == 2
    assert figure(service, "tapestry_attempts_total", kind="execution") == 0
    assert figure(service, "tapestry_lease_losses_total", kind="run") == 1
    assert figure(service, "tapestry_jobs_ended_total", kind="run", outcome="failed") == 1
    assert figure(service, "tapestry_phase_duration_seconds_count", phase="compiling") == 1
    assert figure(service, "tapestry_phase_duration_seconds_bucket", phase="compiling", le="+Inf") == 1
    assert figure(service, "tapestry_task_wait_seconds_count") >= 1
    assert figure(service, "tapestry_database_transaction_seconds_count", operation="write") > 3
    assert figure(service, "tapestry_memory_pss_bytes", process="worker", name="ada") == 2**20
    assert figure(service, "tapestry_memory_pss_bytes", process="api", name=str(os.getpid())) > 2**20
    assert 0 <= figure(service, "tapestry_queue_age_seconds", kind="run") < 60
    assert figure(service, "tapestry_queue_age_seconds", kind="execution") == 0
    assert figure(service, "tapestry_open_requests") == 1
    assert figure(service, "tapestry_database_up") == 1


def test_evaluations_are_those_that_are_new(service: Service) -> None:
    store, tallies = service.store, service.store.tallies
    service.submit()
    job = service.claimed()
    tallies.evaluated(job, 100)
    tallies.evaluated(job, 20)
    store.flush_tallies()
    assert figure(service, "tapestry_evaluations_total") == 120


def test_without_its_database_a_service_says_so(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> None:
        raise StoreError("gone")

    monkeypatch.setattr(Store, "ping", broken)
    assert figure(service, "tapestry_database_up") == 0
    assert "tapestry_attempts" not in families(service)


def test_a_duration_is_in_the_class_that_holds_it() -> None:
    tallies = Tallies()
    for seconds in (0.1, 0.11, 4000.0):
        tallies.time(PHASE_SECONDS, "seeding", seconds)
    found = tallies.take()
    assert found == {
        TallyKey(PHASE_SECONDS, "seeding", "0.1"): 1,
        TallyKey(PHASE_SECONDS, "seeding", "0.5"): 1,
        TallyKey(PHASE_SECONDS, "seeding", "+Inf"): 1,
        TallyKey(PHASE_SECONDS, "seeding", "sum"): pytest.approx(4000.21),
    }
    assert tallies.take() == {}


def test_tallies_of_two_processes_add_up_and_survive_a_failure(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Store(store_url), Store(store_url)
    for store in (first, second):
        store.tallies.count("attempts", "run", 2)
        store.flush_tallies()
    second.tallies.count("attempts", "run")
    monkeypatch.setattr("tapestry.service.store.store.add_tallies", refuse)
    with pytest.raises(StoreError):
        second.flush_tallies()
    monkeypatch.undo()
    second.flush_tallies()
    assert first.all_tallies()[TallyKey("attempts", "run")] == 5
    first.close()
    second.close()


def refuse(*_: object) -> None:
    raise StoreError("the disk is full")


def test_the_age_of_the_queue_is_that_of_the_job_that_waits_longest(store_url: str) -> None:
    store = Store(store_url)
    request = store.runs.request(store.runs.save_finished(finished_run(two_layers())))
    for minutes in (0, 5, 7):
        store.runs.submit(request, NOON + timedelta(minutes=minutes))
    assert store.jobs.counts()["oldest"] == {"run": NOON}
    assert store.jobs.claim("ada", NOON, 60.0) is not None
    assert store.jobs.counts()["oldest"] == {"run": NOON + timedelta(minutes=5)}
    store.close()


def test_the_page_names_every_metric_with_its_kind_and_labels(service: Service, root: Path) -> None:
    worked(service)
    rows = ROW.findall((root / "docs" / "deployment.md").read_text())
    documented = {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    found = {
        f"{family.name}_total" if family.type == "counter" else family.name: (
            family.type,
            {label for sample in family.samples for label in sample.labels} - {"le"},
        )
        for family in families(service).values()
    }
    assert documented == found
    for name, (kind, _) in documented.items():
        assert (kind == "counter") == name.endswith("_total")
        assert kind != "histogram" or name.endswith(UNITS)


def test_the_board_and_the_alerts_name_only_what_there_is(service: Service, root: Path) -> None:
    worked(service)
    known = set(families(service))
    board = json.loads((root / "deploy" / "grafana" / "tapestry.json").read_text())
    shown = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    rules = yaml.safe_load((root / "deploy" / "prometheus" / "alerts.yml").read_text())
    alerts = [rule for group in rules["groups"] for rule in group["rules"]]
    for expression in (*shown, *(rule["expr"] for rule in alerts)):
        named = {SUFFIXES.sub("", name) for name in NAMES.findall(expression)}
        assert named and named <= known, expression
        assert expression.count("(") == expression.count(")")
    drawn = {SUFFIXES.sub("", name) for expression in shown for name in NAMES.findall(expression)}
    assert drawn == known, "every metric is on the board"
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    assert all({"alert", "expr", "for", "labels", "annotations"} <= set(rule) for rule in alerts)
