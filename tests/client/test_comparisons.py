"""Tests of comparisons by the clients: values of runs and of plans beside each other, and refusals."""

from __future__ import annotations

import asyncio

import pytest

from tapestry.client import AsyncClient, Client, ProblemError
from tapestry.teg.document import dumps
from tests.client.conftest import OBJECTIVES, QUICK, work
from tests.service.api.conftest import Service
from tests.service.programs import two_layers

REFERENCE = {"time_s": 1.1 * 2e-3, "peak_memory_bytes": 1.1 * 2**30}


def two_runs(client: Client, service: Service) -> tuple[str, str]:
    """Return two ended runs that differ in their seeds and have the same two plans each."""
    graph = client.upload(dumps(two_layers()).encode())
    for seed in (0, 1):
        client.submit(graph, "dgx-h100", objectives=OBJECTIVES, seed=seed)
    return work(service), work(service)


def test_runs_stand_beside_each_other(client: Client, service: Service) -> None:
    one, other = two_runs(client, service)
    found = client.compare_runs(one, client.run(other))
    assert [run.run for run in found.runs] == [one, other]
    assert [objective.name for objective in found.objectives] == list(OBJECTIVES)
    assert found.reference == pytest.approx(REFERENCE)
    assert [(row["title"], list(row["values"])) for row in found.differences] == [("Seed", ["0", "1"])]
    for run in found.runs:
        assert (run.best, run.plans, run.alone) == ({"time_s": 1e-3, "peak_memory_bytes": 2.0**20}, 2, 0)
        # Two rectangles that overlap, as shares of the reference.
        fast, small = (1 - 1 / 2.2, 1 - 1 / 1.1), (1 - 1 / 1.1, 1 - 2**20 / REFERENCE["peak_memory_bytes"])
        union = fast[0] * fast[1] + small[0] * small[1] - small[0] * fast[1]
        assert run.hypervolume == pytest.approx(union)
        assert run.history is not None and run.history[-1][1] == pytest.approx(union)
        assert sorted(point["cost"]["time_s"] for point in run.points) == [1e-3, 2e-3]
    assert repr(found) == f"RunComparison({one}, {other})"


def test_plans_stand_beside_each_other(client: Client, service: Service) -> None:
    one, _ = two_runs(client, service)
    fast, small = client.frontier(one).plans
    found = client.compare_plans(fast, small.id)
    assert [(plan.id, plan.run, plan.cost["time_s"]) for plan in found.plans] == [
        (fast.id, one, 1e-3),
        (small.id, one, 2e-3),
    ]
    assert found.plans[0].lead is None
    assert [plan.origin for plan in found.plans] == [fast.origin, small.origin]
    rows = {row["title"]: row for row in found.parameters}
    assert list(rows["devices"]["values"]) == [fast.devices, small.devices]
    assert rows["moves"]["differs"] == (fast.move_count != small.move_count)
    different = sum(len(group.sites) for group in found.decisions.groups)
    assert found.decisions.equal + different == found.decisions.blocks > 0
    for group in found.decisions.groups:
        assert len(group.values) == 2 and group.values[0] != group.values[1]


def test_what_cannot_be_compared_is_refused(client: Client, service: Service) -> None:
    one, other = two_runs(client, service)
    with pytest.raises(ProblemError, match="is there twice"):
        client.compare_runs(one, one)
    with pytest.raises(ProblemError) as refused:
        client.compare_runs(one)
    assert refused.value.status == 422
    with pytest.raises(ProblemError) as missing:
        client.compare_runs(one, "0" * 12)
    assert missing.value.status == 404

    async def compared() -> list[str]:
        async with AsyncClient(service.address, retries=QUICK) as awaited:
            return [run.run for run in (await awaited.compare_runs(one, other)).runs]

    assert asyncio.run(compared()) == [one, other]
