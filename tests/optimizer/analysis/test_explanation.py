"""Tests of a plan's history step by step: costs that end at the plan's, effects that add up, and stale histories."""

import pytest

from tapestry.costmodel.reference import reference_cost
from tapestry.hardware import load_mesh
from tapestry.optimizer import StaleHistory, explain
from tapestry.optimizer.analysis.explanation import first_line
from tapestry.optimizer.analysis.plan_costs import PlanCosts
from tapestry.optimizer.archive.report import costs_of
from tapestry.rewrites import RULES, Move, apply_move, find, is_structural, replay_plan, saturate
from tapestry.rewrites.cell_form import INPUT
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.mesh_shape import MeshShape
from tests.costmodel.programs import GRAPHS
from tests.optimizer.searches import EIGHT, search

EIGHT_SHAPE = MeshShape(EIGHT.axis_sizes)


def plain(graph: Graph, moves: list[Move]) -> dict[str, float]:
    """Return the costs of a history's plan by the slow reference cost model."""
    rewritten, placements = replay_plan(graph, moves, EIGHT_SHAPE)
    used = EIGHT.part(EIGHT_SHAPE.part(placements.devices).axes)
    return costs_of(reference_cost(rewritten, placements, EIGHT).vector(), used)


@pytest.mark.parametrize("mesh", ["dgx-h100", pytest.param("t3000", marks=pytest.mark.slow)])
def test_the_last_line_is_the_plans_cost_to_the_last_digit(mesh: str) -> None:
    result = search(GRAPHS["observed"](), mesh=load_mesh(mesh), evaluations=600)
    for plan in result.frontier:
        reported = explain(result.graph, plan.moves, result.mesh)
        assert reported.cost == plan.cost
        assert reported.devices == plan.placements.devices


@pytest.mark.slow
def test_every_step_is_costed_as_the_plain_model_says() -> None:
    result = search(evaluations=2000)
    plan = max(result.frontier, key=lambda p: len(p.moves))
    moves = list(plan.moves)
    reported = explain(result.graph, moves, EIGHT, ablation=True)
    before = plain(result.graph, [])
    assert reported.start == before
    for step in reported.steps:
        end = step.first + len(step.moves)
        after = plain(result.graph, moves[:end])
        assert step.cost == after
        assert step.effect == {name: after[name] - before[name] for name in after}
        if not any(map(is_structural, moves[step.first :])):
            rest = plain(result.graph, moves[: step.first] + moves[end:])
            assert step.ablation == {name: rest[name] - plan.cost[name] for name in rest}
            assert step.gone_with == ()
        before = after
        assert step.ablation is not None


@pytest.mark.slow
@pytest.mark.parametrize("mesh", ["dgx-h100", pytest.param("t3000", marks=pytest.mark.slow)])
def test_compiled_costs_are_those_of_the_plain_model(mesh: str) -> None:
    result = search(GRAPHS["observed"](), mesh=load_mesh(mesh), evaluations=600)
    mesh_shape = MeshShape(result.mesh.axis_sizes)
    for plan in result.frontier[::3]:
        states = [replay_plan(result.graph, plan.moves[:k], mesh_shape) for k in range(len(plan.moves) + 1)]
        fast, slow = (PlanCosts(result.mesh, compiled=c).costs(states) for c in (True, False))
        assert fast == slow
        assert fast[-1] == plan.cost


def test_saturating_moves_in_a_row_are_one_step_unless_they_are_requested_singly() -> None:
    b = ExampleBuilder("layer")
    copied = b.op("concat", b.tensor("x", 16, 8), axis=0)
    doubled = b.cell(("mul", INPUT, INPUT), {b.cell(("neg", INPUT), {copied: "rc"}): "rc"})
    graph = b.result(b.cell(("exp", INPUT), {b.op("softmax", doubled, axes=(1,)): "rc"}))
    rules = [r for r in RULES if r.saturating]
    before = saturate(graph, rules)
    expansion = next(m for m in find(before.graph, RULES) if m.rule == "expand_softmax")
    after = saturate(apply_move(before.graph, expansion), rules)
    moves = [*before.moves, expansion, *after.moves]
    assert len(before.moves) > 1
    reported = explain(graph, moves, EIGHT)
    assert [step.moves for step in reported.steps] == [tuple(before.moves), (expansion,), tuple(after.moves)]
    singly = explain(graph, moves, EIGHT, single=True)
    assert [step.moves for step in singly.steps] == [(move,) for move in moves]
    assert [step.first for step in singly.steps] == list(range(len(moves)))
    assert singly.cost == reported.cost


def test_a_history_of_nothing_is_the_program_as_it_was_imported() -> None:
    graph = GRAPHS["attention"]()
    reported = explain(graph, [], EIGHT)
    assert reported.steps == ()
    assert reported.cost == reported.start == plain(graph, [])


def layer() -> Graph:
    """Build exp of softmax along rows."""
    b = ExampleBuilder("layer")
    soft = b.op("softmax", b.tensor("x", 64, 32), site="soft", axes=(1,))
    return b.result(b.cell(("exp", INPUT), {soft: "rc"}))


def test_a_move_is_left_out_with_those_that_build_on_it() -> None:
    """Check that the softmax is there again, and computes on the devices where its input is and its reader works."""
    graph = layer()
    expansion = next(m for m in find(graph, RULES) if m.rule == "expand_softmax")
    spelled = apply_move(graph, expansion)
    everywhere = [b.site for b in spelled.blocks if b.operator != "sink"]
    split = Move("reshard", tuple(everywhere), "(gpu.0*gpu.1*gpu.2, -)")
    reported = explain(graph, [expansion, split], EIGHT, ablation=True)
    assert [step.gone_with for step in reported.steps] == [(1,), ()]
    kept = tuple(site for site in everywhere if site in graph.by_site)
    along = [Move("reshard", kept, split.choice), Move("reshard", "soft", "(gpu.0*gpu.1*gpu.2)")]
    left = plain(graph, along)
    assert reported.steps[0].ablation == {name: left[name] - reported.cost[name] for name in left}
    assert reported.steps[0].ablation["traffic_bytes"] == 0


def test_what_builds_on_what_builds_on_a_move_goes_too() -> None:
    graph = layer()
    expansion = next(m for m in find(graph, RULES) if m.rule == "expand_softmax")
    spelled = apply_move(graph, expansion)
    fusion = next(m for m in find(spelled, RULES) if m.rule == "fuse_normalisation")
    reported = explain(graph, [expansion, fusion], EIGHT, ablation=True)
    first, second = reported.steps
    assert (first.gone_with, second.gone_with) == ((1,), ())
    assert first.ablation == {name: reported.start[name] - reported.cost[name] for name in reported.cost}
    assert second.ablation == {name: first.cost[name] - reported.cost[name] for name in reported.cost}


def test_every_step_of_a_found_plan_has_a_figure_without_it() -> None:
    result = search(evaluations=1000)
    for plan in result.frontier[::4]:
        reported = explain(result.graph, plan.moves, result.mesh, ablation=True)
        assert all(step.ablation is not None for step in reported.steps)
        for step in reported.steps:
            assert all(step.first + len(step.moves) <= k < len(plan.moves) for k in step.gone_with)


@pytest.mark.parametrize(
    ("move", "message"),
    [
        (
            Move("nonesuch", "a"),
            "move 1 of 1 cannot be replayed: .*there is no rule 'nonesuch'; .* install the plug-in",
        ),
        (Move("reshard", "a", "()"), "there is no block 'a'; is this the program and the mesh"),
        (
            Move("set_option", "devices", "node:3"),
            r"not axis:size with a size that divides an axis of gpu:8; is this the program and the mesh",
        ),
    ],
)
def test_a_stale_history_is_refused_with_its_move_and_a_hint(move: Move, message: str) -> None:
    with pytest.raises(StaleHistory, match=message):
        explain(GRAPHS["attention"](), [move], EIGHT)


def test_progress_is_reported_to_its_end() -> None:
    calls: list[tuple[int, int]] = []
    result = search(GRAPHS["observed"](), evaluations=500)
    explain(result.graph, result.frontier[0].moves, EIGHT, on_step=lambda *at: calls.append(at))
    assert calls == [(k, calls[-1][1]) for k in range(1, calls[-1][1] + 1)]


def test_rules_say_in_a_line_what_they_change() -> None:
    assert first_line("reshard") == "A block computes elsewhere."
    assert first_line("set_option") == "An option of the whole plan is set."
    assert first_line("gone") == ""
