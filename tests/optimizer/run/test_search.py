"""Tests of the arguments of a search: pins, rules, options, stopping; and that it finds more than its seeds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tapestry.hardware import device_from_dict, device_to_dict, load_mesh
from tapestry.optimizer import Budget, Progress, Result
from tapestry.optimizer.archive.fronts import hypervolume
from tapestry.optimizer.archive.representatives import values_of
from tapestry.optimizer.placement.variation import RULES as PLACEMENT_RULES
from tapestry.optimizer.run.workers import InlineExecutor
from tapestry.rewrites import RULES
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.faults import ArgumentError
from tapestry.teg.sharding.strategy import consumer_spec, producer_spec, read_of
from tapestry.teg.validate import InvalidGraphError
from tests.cases import first
from tests.costmodel.programs import GRAPHS, layers, product_of
from tests.optimizer.searches import EIGHT, frontier, search

OTHER = load_mesh("2x-dgx-h100")


def spec_at(plan: Any, site: str) -> str:
    """Return the spec in which the block at `site` produces its tensor, or reads it if it is a sink."""
    block = plan.graph.by_site[site]
    strategy = plan.placements.of(block).strategy
    if block.outputs:
        rank = len(plan.graph.tensors[block.outputs[0]].shape)
        return str(producer_spec(block.signature, 0, rank, strategy))
    read = read_of(plan.graph, site, 0)
    return str(consumer_spec(read.rows, plan.graph.tensors[read.root].shape, block.signature, strategy))


@pytest.mark.parametrize(
    ("site", "spec"),
    [
        ("x", "[gpu.1, -]"),
        pytest.param("wq", "[-, -, gpu.2]", marks=pytest.mark.slow),
        pytest.param("softmax", "[gpu.0, gpu.1*gpu.2, -]", marks=pytest.mark.slow),
        pytest.param("y.out", "[-, gpu.0*gpu.1]", marks=pytest.mark.slow),
        pytest.param("scores", "[-, -, -] sum(gpu.0)", marks=pytest.mark.slow),
    ],
)
def test_pins_are_honored_in_every_plan(site: str, spec: str) -> None:
    result = search(pins={site: spec}, evaluations=3000)
    assert result.frontier
    assert {spec_at(plan, site) for plan in result.frontier} == {spec}


def test_several_pins_leave_the_rest_free() -> None:
    pins = {"x": "[gpu.0*gpu.1*gpu.2, -]", "y.out": "[-, -]"}
    result = search(pins=pins, rules=())
    for plan in result.frontier:
        assert {site: spec_at(plan, site) for site in pins} == pins
    assert len({spec_at(plan, "mixed") for plan in result.frontier}) > 1


@pytest.mark.parametrize(
    ("pins", "message"),
    [
        ({"nothing": "[-]"}, "pins\\['nothing'\\]: there is no block 'nothing'"),
        ({"turn": "[-, -, -]"}, "pins\\['turn'\\]: a view has no placement; pin the block it views"),
        ({"x": "[gpu.0]"}, "pin 'x': .*2 dimensions"),
        ({"x": "[rack.0, -]"}, r"pin 'x': no strategy of this block gives \[rack.0, -\]; possible are"),
        ({"x": "split"}, "pins\\['x'\\]: .*spec"),
    ],
)
def test_pins_that_cannot_be_are_explained(pins: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        search(GRAPHS["perceptron"](), pins=pins)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objectives": ("time",)}, "there is no objective 'time'; did you mean time_s"),
        ({"constraints": ("time_s<=1GiB",)}, "time_s is in s"),
        ({"rules": ("expand_softmx",)}, "there is no rule 'expand_softmx'; did you mean expand_softmax"),
        ({"inputs": "anywhere"}, "inputs: expected one of chosen, replicated, not 'anywhere'"),
        ({"outputs": "none"}, "outputs: expected one of sharded, gathered, not 'none'"),
        ({"devices": "some"}, "devices: expected one of any, all, not 'some'"),
        ({"islands": 0}, "islands: expected a whole number of at least 1, not 0"),
    ],
)
def test_unknown_options_are_answered(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        search(**options)


@pytest.mark.parametrize("missing", ["vector", "fp32"])
def test_energy_figures_are_missed_only_where_energy_is_requested(missing: str) -> None:
    device = EIGHT.device
    known = {name: rate for name, rate in (device.joules_per_flop or {}).items() if name != missing}
    mesh = replace(EIGHT, device=device_from_dict(device_to_dict(device) | {"joules_per_flop": known}))

    graph = GRAPHS["perceptron"]()

    found = search(graph, mesh=mesh, objectives=("time_s", "traffic_bytes"), evaluations=500)

    assert {"time_s", "price_usd"} <= set(found.frontier[0].cost)
    assert "energy_j" not in found.frontier[0].cost
    for preference in (
        {"objectives": ("time_s", "energy_j")},
        {"constraints": ("energy_j<=1J",), "objectives": ("time_s",)},
    ):
        with pytest.raises(ValueError, match=f"'energy_j' cannot be computed.*joules_per_flop.{missing}"):
            search(graph, mesh=mesh, **preference)


@pytest.mark.slow
def test_a_bound_that_only_rewritten_programs_keep_is_kept() -> None:
    """Find a bound kept by rewritten programs alone, which no plan of the given one in one round comes near to."""
    graph = product_of(65536, 16384, 16384)
    given = search(
        graph, evaluations=20_000, rules=(), micro_batches=1, constraints=("peak_memory_bytes<=1500MiB",)
    )
    assert not given.frontier and given.shortfall is not None
    assert given.shortfall.value > 1500 * 2**20
    result = search(graph, evaluations=150_000, micro_batches=1, constraints=("peak_memory_bytes<=1500MiB",))
    assert min(plan.cost["peak_memory_bytes"] for plan in result.frontier) <= 1408 * 2**20
    assert all("chunk" in {move.rule for move in plan.moves} for plan in result.frontier)


def test_a_coarser_archive_keeps_fewer_plans() -> None:
    fine, coarse = (search(epsilon=epsilon, evaluations=5000, rules=()) for epsilon in (0.001, 0.5))
    assert 0 < len(coarse.frontier) < len(fine.frontier)


def test_a_budget_is_positive() -> None:
    with pytest.raises(ValueError, match="needs seconds, evaluations or deadline_seconds"):
        Budget()
    for wrong in ({"seconds": 0.0}, {"evaluations": 0}, {"seconds": float("nan")}):
        with pytest.raises(
            ValueError, match=r"(seconds|evaluations): expected a .*(above 0|at least 1), not "
        ):
            Budget(**wrong)
    with pytest.raises(ArgumentError) as raised:
        Budget(second=1)  # type: ignore[call-arg]
    assert raised.value.faults == ("Budget() has no argument 'second'; did you mean seconds?",)
    with pytest.raises(ArgumentError) as raised:
        Budget(second=1, evaluations=0)  # type: ignore[call-arg]
    assert [fault.partition(":")[0] for fault in raised.value.faults] == [
        "Budget() has no argument 'second'; did you mean seconds?",
        "evaluations",
    ]


def test_an_invalid_graph_is_refused_before_anything_is_searched() -> None:
    b = GraphBuilder("no result")
    b.source("x", (4,), "float32")
    graph = b.build()
    broken = type(graph)(graph.name, (*graph.blocks, *graph.blocks), graph.tensors, graph.data)
    with pytest.raises(InvalidGraphError):
        search(broken)


def structural_rules(result: Result) -> set[str]:
    return {name for name, (applied, _) in result.rules.items() if applied} - set(PLACEMENT_RULES)


@pytest.mark.slow
def test_only_the_chosen_rules_change_the_graph() -> None:
    saturating = {r.name for r in RULES if r.saturating}
    assert structural_rules(search(rules=(), evaluations=100_000)) == set()
    assert structural_rules(search(rules=("expand_softmax",), evaluations=100_000)) == {"expand_softmax"}
    found = structural_rules(search(evaluations=200_000))
    assert len(found - saturating) >= 3, "left to itself a search tries several"
    moves = {m.rule for p in search(rules=(), evaluations=20_000).frontier for m in p.moves}
    assert moves <= {"reshard", "prefetch", "regather", "set_option"}


def test_every_placement_rule_is_used_and_some_improve() -> None:
    rules = search(evaluations=20_000, rules=()).rules
    assert {name for name in PLACEMENT_RULES if rules[name][0] <= 50} == {"relayout"}, "GPUs store one way"
    assert rules["relayout"] == (0, 0)
    assert sum(rules[name][1] > 0 for name in PLACEMENT_RULES) >= 5
    assert all(improved <= applied for applied, improved in rules.values())


class Interrupted:
    """A callback that presses Ctrl-C in the given report of the given phase."""

    def __init__(self, after: int, phase: str = "searching") -> None:
        self.after, self.phase = after, phase
        self.reports: list[Progress] = []

    def __call__(self, progress: Progress) -> None:
        self.reports.append(progress)
        if sum(p.phase == self.phase for p in self.reports) == self.after:
            raise KeyboardInterrupt


@pytest.mark.slow
def test_ctrl_c_keeps_the_frontier_found() -> None:
    stop = Interrupted(after=2)
    result = search(seed=3, evaluations=10_000_000, on_progress=stop)

    assert result.stopped == "interrupted"
    assert len(result.frontier) > 5
    assert result.evaluations == stop.reports[-1].evaluations
    assert frontier(result) == frontier(search(seed=3, evaluations=result.evaluations))


def test_a_request_to_stop_is_read_between_rounds() -> None:
    rounds: list[int] = []
    result = search(
        GRAPHS["perceptron"](),
        evaluations=10_000_000,
        on_progress=lambda p: rounds.append(p.evaluations),
        should_stop=lambda: len(rounds) > 4,
    )
    assert result.stopped == "cancelled"
    assert result.frontier
    assert len(result.history) == len(rounds) - 2, "compiling and seeding are reported too"


@pytest.mark.slow
def test_progress_reports_how_far_and_how_good() -> None:
    reports: list[Progress] = []
    result = search(evaluations=80_000, on_progress=reports.append)
    phases = [p.phase for p in reports]
    assert phases[:2] == ["compiling", "seeding"]
    assert set(phases[2:]) == {"searching"}
    assert list(result.history) == reports[2:]
    assert [p.evaluations for p in reports] == sorted(p.evaluations for p in reports)
    assert [p.fraction for p in result.history] == sorted(p.fraction for p in result.history)
    assert result.history[-1].fraction == 1.0
    best = np.array([p.best for p in result.history])
    assert (np.diff(best, axis=0) <= 0).all(), "the best of every objective is never lost"
    found = values_of([p.cost for p in result.frontier], result.objectives).min(axis=0)
    assert best[-1].tolist() == pytest.approx(found.tolist(), rel=1e-12, abs=0)


@pytest.mark.parametrize(
    ("option", "sites"),
    first(1, [({"inputs": "replicated"}, "x wq wk wv wo"), ({"outputs": "gathered"}, "y.out seen")]),
)
def test_boundary_options_hold_in_every_plan(option: dict[str, str], sites: str) -> None:
    for plan in search(evaluations=3000, **option).frontier:
        for site in sites.split():
            if site in plan.graph.by_site:
                block = plan.graph.by_site[site]
                assert not any(s.axes for s in plan.placements.of(block).strategy.splits)


@pytest.mark.slow
def test_the_search_adds_to_its_seeds() -> None:
    """Compare hypervolumes of seeds, of a search without them and of both, with one reference, as in the benchmark."""
    graph = GRAPHS["attention"]()
    runs = {
        "seeds": search(graph, mesh=OTHER, search=False),
        "search": search(
            graph, mesh=OTHER, seeds=False, evaluations=100_000, islands=2, executor=InlineExecutor()
        ),
        "both": search(graph, mesh=OTHER, evaluations=100_000, islands=2, executor=InlineExecutor()),
    }
    values = {name: values_of([p.cost for p in r.frontier], r.objectives) for name, r in runs.items()}
    reference = np.concatenate(list(values.values())).max(axis=0) * 1.1

    volume = {name: hypervolume(v, reference) for name, v in values.items()}

    assert runs["seeds"].stopped == "seeds"
    assert volume["both"] > 1.02 * volume["seeds"]
    assert volume["both"] >= 0.98 * volume["search"]
    assert runs["seeds"].evaluations < runs["both"].evaluations


def test_a_search_of_nothing_but_the_abstract_plan() -> None:
    result = search(layers(1), search=False, seeds=False)
    assert len(result.frontier) >= 1
    assert not any(m.rule == "reshard" for p in result.frontier for m in p.moves)


def test_one_device_is_a_mesh_too() -> None:
    mesh = EIGHT.part((("gpu", 1),))
    result = search(GRAPHS["perceptron"](), mesh=mesh, evaluations=500)
    assert result.frontier
    assert {p.cost["traffic_bytes"] for p in result.frontier} == {0}
