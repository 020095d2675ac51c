"""Tests of measured times of plans over HTTP: reported, shown beside the plan, deleted, and refused where wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tapestry.service.store import NewMeasurement
from tapestry.service.store.measurements import MOST
from tests.service.api.conftest import Service, complaint
from tests.service.api.test_plans import first_plan
from tests.service.programs import NOON
from tests.service.store.submissions import later

REPORT = {
    "seconds": 0.00107,
    "measured_on": "4 x H100 SXM, PyTorch 2.11",
    "repeats": 100,
    "repeat_error": 0.02,
}


def test_a_measured_time_is_shown_with_its_plan_until_it_is_deleted(service: Service) -> None:
    path = f"/v1/plans/{first_plan(service)}"
    assert service.http.get(path).json()["measurements"] == []
    answer = service.http.post(f"{path}/measurements", json=REPORT)
    assert answer.status_code == 201
    first = answer.json()
    assert REPORT.items() <= first.items()
    bare = {"seconds": 2, "measured_on": "elsewhere"}
    second = service.http.post(f"{path}/measurements", json=bare).json()
    assert (second["seconds"], second["repeats"], second["repeat_error"]) == (2.0, None, None)
    assert service.http.get(path).json()["measurements"] == [second, first]
    assert service.http.delete(f"{path}/measurements/{second['id']}").status_code == 204
    assert service.http.get(path).json()["measurements"] == [first]
    complaint(service.http.delete(f"{path}/measurements/{second['id']}"), 404, "unknown_id")


def test_a_measurement_is_deleted_by_its_own_plan_only(service: Service) -> None:
    plans = [
        plan["id"] for plan in service.http.get(f"/v1/runs/{service.finished()}/frontier").json()["plans"]
    ]
    measured = service.http.post(f"/v1/plans/{plans[0]}/measurements", json=REPORT).json()
    complaint(service.http.delete(f"/v1/plans/{plans[1]}/measurements/{measured['id']}"), 404, "unknown_id")
    assert service.http.get(f"/v1/plans/{plans[0]}").json()["measurements"] == [measured]
    assert service.http.get(f"/v1/plans/{plans[1]}").json()["measurements"] == []


def test_the_oldest_measurements_of_a_plan_make_place(service: Service) -> None:
    key = service.store.plans.get(first_plan(service)).key
    for number in range(MOST + 3):
        service.store.measurements.save(key, NewMeasurement(1.0 + number, "here"), later(number))
    kept = service.store.measurements.of_plan(key)
    assert [one.seconds for one in kept] == [1.0 + number for number in range(MOST + 2, 2, -1)]
    assert kept[-1].created_at == later(3) > NOON


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("seconds", value) for value in (0, -1, "1", None, True, 1e300)],
        *[("measured_on", value) for value in ("", 5, None, "a" * 1001, "a\u0000")],
        *[("repeats", value) for value in (0, 1.5, "3", 2**31)],
        *[("repeat_error", value) for value in (-0.1, "0", True)],
        ("second", 1),
    ],
)
def test_a_wrong_measurement_is_refused(shared: Service, field: str, value: Any) -> None:
    path = f"/v1/plans/{first_plan(shared)}/measurements"
    faults = complaint(shared.http.post(path, json=REPORT | {field: value}), 422, "invalid")["errors"]
    assert [fault["pointer"] for fault in faults] == [f"/{field}"]
