"""Tests of searches for a program's own resources, expressions and relative bounds, up to their reports."""

import numpy as np
import pytest

from tapestry.hardware import load_mesh
from tapestry.optimizer import Budget, Checkpoint, Result, Snapshot, explain, verify_plan
from tapestry.optimizer.run.search import search
from tapestry.teg.costs import cost_table
from tapestry.teg.graph import Graph
from tests.costmodel.programs import GRAPHS
from tests.costmodel.test_resources import SEED, priced_chain

pytestmark = pytest.mark.slow

EIGHT = load_mesh("dgx-h100")


def program() -> Graph:
    return priced_chain(cost_table({"gpu": 10}, SEED), None, cost_table({"ram": 0.5}, {"m": {"ram": 0.25}}))


def search_program(
    objectives: tuple[str, ...], *constraints: str, islands: int = 1, evaluations: int = 2000
) -> Result:
    budget = Budget(evaluations=evaluations)
    return search(program(), EIGHT, objectives, budget=budget, islands=islands, constraints=constraints)


def test_a_resource_is_minimized_verified_and_explained() -> None:
    result = search_program(("time_s", "peak_gpu", "gpu"))

    least = min(plan.cost["gpu"] for plan in result.frontier)
    assert least < max(plan.cost["gpu"] for plan in result.frontier), "copies of work are paid for"
    assert min(plan.cost["peak_gpu"] for plan in result.frontier) < least, "split over devices"
    values = np.array([[plan.cost[o.name] for o in result.objectives] for plan in result.frontier])
    assert all(not (np.delete(values, k, axis=0) <= v).all(axis=1).any() for k, v in enumerate(values))
    for plan in result.frontier[:3]:
        checked = verify_plan(plan, EIGHT)
        assert checked.ok
        assert checked.named_costs == pytest.approx({name: plan.cost[name] for name in ("gpu", "ram")})
        assert explain(result.graph, plan.moves, EIGHT).cost == plan.cost


def test_a_resource_is_bounded() -> None:
    free = search_program(("time_s",))
    bound = 0.5 * max(plan.cost["peak_ram"] for plan in free.frontier)
    result = search_program(("time_s", "traffic_bytes"), f"peak_ram<={bound}")
    assert result.frontier
    assert all(plan.cost["peak_ram"] <= bound for plan in result.frontier)

    impossible = search_program(("time_s",), "gpu<=1")
    assert impossible.frontier == ()
    assert "no plan satisfies gpu <= 1: the nearest plan needs " in str(impossible.shortfall)


def test_an_expression_is_an_objective_and_has_a_value_for_every_plan() -> None:
    linear, product = "0.7*time_s + 1e-9*gpu", "max(time_s, 1e-5)*energy_j"
    result = search_program((linear, product, "gpu"))
    assert [o.name for o in result.objectives] == [
        "0.7*time_s + 1e-09*gpu",
        "max(time_s, 1e-05)*energy_j",
        "gpu",
    ]
    for plan in result.frontier:
        cost = plan.cost
        assert cost["0.7*time_s + 1e-09*gpu"] == pytest.approx(0.7 * cost["time_s"] + 1e-9 * cost["gpu"])
        assert cost["max(time_s, 1e-05)*energy_j"] == pytest.approx(
            max(cost["time_s"], 1e-5) * cost["energy_j"]
        )
        reported = explain(result.graph, plan.moves, EIGHT, objectives=[o.name for o in result.objectives])
        assert reported.cost == cost


@pytest.mark.parametrize("islands", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_every_plan_keeps_a_bound_in_percent_of_the_runs_best(islands: int) -> None:
    graph = GRAPHS["attention"]()
    budget = Budget(evaluations=4000)
    found = search(
        graph,
        EIGHT,
        ("peak_memory_bytes", "traffic_bytes"),
        budget=budget,
        islands=islands,
        constraints=("time_s<=120%",),
        rules=(),
    )
    requested = ("peak_memory_bytes", "traffic_bytes")
    free = search(graph, EIGHT, requested, budget=budget, islands=islands, rules=())
    times = [plan.cost["time_s"] for plan in found.frontier]
    assert times
    assert max(times) <= 1.2 * min(times) * (1 + 1e-12) or len(times) == 1
    assert max(plan.cost["time_s"] for plan in free.frontier) > max(times), (
        "without the bound slower plans are shown"
    )
    assert [str(c) for c in found.constraints][:1] == ["time_s<=120%"]
    assert all(plan.feasible for plan in found.frontier)


def test_a_search_within_percent_resumes_as_if_it_had_never_stopped() -> None:
    saved: list[bytes] = []

    def keep(snapshot: Snapshot) -> None:
        saved.append(snapshot.checkpoint().to_bytes())

    graph, requested = GRAPHS["attention"](), ("peak_memory_bytes", "traffic_bytes")
    options = {
        "budget": Budget(evaluations=4000),
        "islands": 1,
        "constraints": ("time_s<=110%",),
        "rules": (),
    }
    whole = search(graph, EIGHT, requested, **options, on_checkpoint=keep, checkpoint_s=0)
    for content in (saved[1], saved[len(saved) // 2]):
        resumed = search(graph, EIGHT, requested, **options, resume=Checkpoint.from_bytes(content))
        assert [p.id for p in resumed.frontier] == [p.id for p in whole.frontier]


def test_a_resource_named_like_an_objective_ends_a_search_before_it_begins() -> None:
    graph = priced_chain(cost_table({"time_s": 1}))
    with pytest.raises(ValueError, match="block 'y0': its cost table names a resource 'time_s'"):
        search(graph, EIGHT, budget=Budget(evaluations=1))


def test_an_unknown_resource_is_answered_with_near_ones() -> None:
    with pytest.raises(ValueError, match="there is no objective 'peak_gpus'; did you mean peak_gpu"):
        search_program(("peak_gpus",))
