"""Tests of the cards of plans, results and verifications: what they show is what the values have, and nothing runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tapestry
from tapestry.costmodel.known_objectives import KnownObjectives, objective_called
from tapestry.optimizer import Plan, Result
from tapestry.optimizer.archive.representatives import representative_plans
from tapestry.optimizer.run.frontier_chart import ChartAxis, ChartPoint, frontier_chart
from tapestry.optimizer.run.plan_colors import PlanColors
from tapestry.teg.readable_html import column, quantity
from tapestry.teg.sharding.placement import Placements, whole_placement
from tapestry.teg.sharding.stages import parse_stages
from tests.optimizer.searches import search
from tests.service.programs import two_layers
from tests.teg.test_graph_card import HOSTILE, Reader, is_inert


@pytest.fixture(scope="module")
def result() -> Result:
    return search(evaluations=300, rules=(), objectives=("time_s", "peak_memory_bytes", "traffic_bytes"))


def rows_of(shown: Reader, head: str, width: int) -> list[list[str]]:
    """Return the cells of the table whose last head this is."""
    cells = shown.texts[shown.texts.index(head) + 1 :]
    return [cells[k : k + width] for k in range(0, len(cells) - width + 1, width)]


def test_a_result_is_a_chart_and_a_table_of_its_plans(result: Result) -> None:
    markup = result._repr_html_()
    shown = is_inert(markup)
    assert shown.texts[:2] == [
        "attention on dgx-h100",
        f"{len(result.frontier)} plans over time, peak memory and traffic",
    ]
    assert {"evaluations", f"{result.evaluations:,}", "ended", result.stopped} <= set(shown.texts)
    assert shown.tags.count("circle") == len(result.frontier)
    roles = representative_plans(result.frontier, result.objectives)
    ids = [plan.id for plan in sorted(result.frontier, key=lambda plan: (plan.cost["time_s"], plan.id))]
    assert [text for text in shown.texts if text in set(ids)] == ids[:20] + [
        plan for plan in ids[20:] if plan in {each.id for each in roles.values()}
    ]
    for role, plan in roles.items():
        words = ", ".join(
            quantity(plan.cost[name], unit) for name, unit in (("time_s", "s"), ("peak_memory_bytes", "B"))
        )
        assert any(text.startswith(plan.id) and text.endswith(words) for text in shown.texts), role
    times = column([plan.cost["time_s"] for plan in result.frontier], "s")
    assert f"time ({times[0]})" in shown.texts and set(times[1][:3]) <= set(shown.texts)


def test_a_result_of_one_objective_is_drawn_against_another_cost() -> None:
    result = search(evaluations=100, objectives=("time_s",), rules=())
    shown = is_inert(result._repr_html_())
    assert any(text.startswith("peak memory (") for text in shown.texts)


def test_a_cost_without_unit_is_headed_by_its_title(result: Result) -> None:
    ratio = KnownObjectives().named("time_s*energy_j")
    plans = tuple(replace(p, cost={**p.cost, ratio.name: 0.5}) for p in result.frontier)
    shown = is_inert(replace(result, objectives=(ratio,), frontier=plans)._repr_html_())
    assert "time_s*energy_j" in shown.texts and "0.5000" in shown.texts


def test_a_result_without_plans_says_why(result: Result) -> None:
    shown = is_inert(replace(result, frontier=())._repr_html_())
    assert "0 plans over time, peak memory and traffic" in shown.texts


def test_a_plan_shows_its_costs_with_units_and_its_decisions_in_words(result: Result) -> None:
    plan = result.frontier[0]
    named = replace(plan, graph=replace(plan.graph, name=HOSTILE))
    shown = is_inert(named._repr_html_())
    assert shown.texts[0] == f"Plan {named.id}" and {"feasible", "not verified"} <= set(shown.texts)
    rows = rows_of(shown, "what it is", 3)
    assert [row[:2] for row in rows] == [
        [objective_called(name).title, quantity(value, objective_called(name).unit)]
        for name, value in plan.cost.items()
    ]
    assert any(text.startswith("Split over gpu: ") for text in shown.texts) or plan.cost["traffic_bytes"] == 0


def split_plans(result: Result) -> list[Plan]:
    return [plan for plan in result.frontier if plan.cost["traffic_bytes"]]


def test_what_splits_the_work_is_named(result: Result) -> None:
    words = [text for plan in split_plans(result) for text in Reader(plan._repr_html_()).texts]
    assert any(text.startswith("Split over gpu: ") and text.endswith("of the work).") for text in words)


def test_the_diagram_of_a_plan_has_the_colors_of_its_splits(result: Result) -> None:
    plan = split_plans(result)[0]
    shown = is_inert(plan._repr_html_())
    colors = PlanColors(plan.graph, plan.placements)
    assert "Diagram: split over mesh axes" in shown.texts and set(colors.legend) <= set(shown.texts)
    assert all(" over gpu" in name for name in colors.names)
    used = {
        word
        for name, value in shown.attributes
        if name == "class"
        for word in value.split()
        if word[:4] == "tp-s"
    }
    assert {colors.class_of([b]) for b in plan.graph.blocks} - {""} <= used
    alone = result.frontier[0]
    whole = replace(alone, placements=Placements())
    assert "Diagram: split over mesh axes" not in is_inert(whole._repr_html_()).texts


def test_the_diagram_of_a_pipeline_has_the_colors_of_its_stages() -> None:
    graph = two_layers()
    placed = {
        site: replace(whole_placement(graph.by_site[site]), part=part)
        for site, part in (("hidden", 0), ("active", 0), ("y", 1))
    }
    colors = PlanColors(graph, Placements(placed, stages=parse_stages("2 x gpipe")))
    assert (colors.title, colors.names) == ("Stages", ["part 0", "part 1"])
    classes = [colors.class_of([graph.by_site[site]]) for site in ("x", "hidden", "active", "y")]
    assert classes == ["", "tp-s1", "tp-s1", "tp-s2"]
    assert colors.class_of(graph.blocks) == "tp-s3"  # several


def test_an_infeasible_plan_says_so(result: Result) -> None:
    assert "infeasible" in is_inert(replace(result.frontier[0], feasible=False)._repr_html_()).texts


def test_a_verification_has_a_chip_per_check(result: Result) -> None:
    found = tapestry.verify(result, "fastest", execute=True)
    shown = is_inert(found._repr_html_())
    assert shown.texts[:5] == ["Verification", "all checks passed", "proven", "counted", "executed"]
    size = quantity(found.memory.counted, "B")
    assert shown.texts.count(size) >= 2 and "equal" in shown.texts
    refuted = replace(found, issues=("<b> is cut twice",), max_error={"y": 0.5})
    shown = is_inert(refuted._repr_html_())
    assert {"a check failed", "other values", "sharding: <b> is cut twice"} <= set(shown.texts)


@pytest.mark.parametrize("count", [1, 2, 5000])
def test_a_chart_is_small_and_its_points_lie_inside(count: int) -> None:
    points = [
        ChartPoint(f"p{k}", 1e-3 * (1 + k % 97), 1e6 + 1e4 * (k * k % 89), "knee" if not k else "")
        for k in range(count)
    ]
    x = ChartAxis.of("time", "s", [point.x for point in points])
    y = ChartAxis.of("memory", "B", [point.y for point in points])
    drawn = Reader(frontier_chart("all", points, x, y))
    assert len(frontier_chart("all", points, x, y)) < 50_000
    assert drawn.tags.count("circle") <= 301 and "p0, knee: 1.000 ms, 976.6 KiB" in drawn.texts
    places = [(float(v)) for name, v in drawn.attributes if name == "cx"]
    assert all(64 <= place <= 506 for place in places)
    assert x.is_logarithmic == (count > 20) and len(x.ticks) >= 1


def test_ticks_are_round_numbers_in_the_unit_of_the_axis() -> None:
    axis = ChartAxis.of("memory", "B", [2.0**20, 5 * 2.0**20])
    assert (axis.texts(), axis.heading) == (["1", "2", "3", "4", "5"], "memory (MiB)")
    wide = ChartAxis.of("time", "s", [0.001, 0.1])
    assert (wide.texts(), wide.heading) == (
        ["1", "2", "5", "10", "20", "50", "100"],
        "time (ms, logarithmic)",
    )
