"""Tests of schedules as documents: bytes by mesh axis and names of exchanges are those that the simulator counts."""

from __future__ import annotations

from collections import Counter

import pytest

from tapestry.optimizer import Plan
from tapestry.optimizer.analysis.plan_traffic import plan_traffic
from tapestry.service.plan_schedules import plan_schedule, schedule_document
from tapestry.service.plan_shardings import kind_of
from tests.optimizer.analysis.shared_plans import CASES

SOME = ("attention on two", "layers on a torus", "a step in rounds", "pipeline 0", "pipeline 2", "pipeline 5")


@pytest.mark.parametrize("name", SOME)
def test_copies_have_the_bytes_by_axis_and_the_names_that_the_sharding_has(name: str) -> None:
    case = CASES[name]()
    found = schedule_document(plan_schedule(Plan(case.graph, case.placements, (), {}, True), case.mesh))
    traffic = plan_traffic(case.graph, case.placements, case.mesh)
    bytes_by_axis, times_by_kind = Counter[str](), Counter[str]()
    for what in found["spans"]["what"]:
        if what < 0:
            copy = found["copies"][-1 - what]
            assert sum(copy["axis_bytes"].values()) == copy["traffic_bytes"]
            bytes_by_axis.update(copy["axis_bytes"])
            kinds = dict.fromkeys(one.partition(" on ")[0] for one in copy["kind"].split(" + "))
            times_by_kind["+".join(kinds)] += bool(copy["traffic_bytes"])
    axes = [axis.name for axis in case.mesh.axes]
    assert [bytes_by_axis[axis] for axis in axes] == traffic.received_bytes.sum(axis=1).tolist()
    assert {axis for axis, size in bytes_by_axis.items() if size} <= {one["name"] for one in found["axes"]}
    counted = Counter[str]()
    for each in traffic.redistributions:
        counted[kind_of(each)] += each.times * bool(each.exchanges)
    assert +times_by_kind == +counted
