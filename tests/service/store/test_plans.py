"""Tests of plans: found by name, rebuilt from their moves, and rendered."""

from __future__ import annotations

import dataclasses
import gzip

import pytest

from tapestry.optimizer import Plan
from tapestry.rewrites import Move, replay
from tapestry.service.store import Job, Store, StoreError, UnknownId
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.text import parse_strategy, placements_to_document
from tests.service.programs import NOON, finished_run, plan_by_hand, two_layers
from tests.service.store.submissions import LEASE_S, later, plans, request_for, update_of

FIRST, SECOND = Move("fuse_cells", "c1", ""), Move("fuse_cells", "c2", "")
PLACED = Move("reshard", "c2", "(gpu.0, -)")


def three_steps() -> Graph:
    """Build `relu(-relu(x))`, whose cells can be fused."""
    b = GraphBuilder("three_steps")
    value = b.source("x", (64, 64), "float32")
    for number, function in enumerate(("relu", "neg", "relu")):
        (value,) = b.apply(
            "cell",
            (value,),
            site=f"c{number}",
            expr=(function, ("input", 0)),
            labels=(("m", "n"),),
            dims=(("m", 64), ("n", 64)),
            dtype="float32",
        )
    b.sink(value, site="result")
    return b.build()


def fused(moves: tuple[Move, ...]) -> Plan:
    """Build a plan of the program that these moves make of `three_steps`."""
    graph = replay(three_steps(), [move for move in moves if move.rule == "fuse_cells"])
    placements = Placements({"c2": Placement(parse_strategy("(gpu.0, -)"))}, devices="gpu:4")
    cost = {"time_s": 1e-3, "peak_memory_bytes": 2**20, "compute_flops": 2**62}
    return Plan(graph, placements, moves, cost, True)


@pytest.mark.parametrize(
    "moves", [(PLACED,), (FIRST, PLACED), (FIRST, SECOND, PLACED), (FIRST, PLACED, SECOND)]
)
def test_a_plan_comes_back_as_the_search_made_it(store: Store, moves: tuple[Move, ...]) -> None:
    """Check that the structural moves, anywhere among the others, rebuild the program, which is not stored."""
    given, plan = three_steps(), fused(moves)
    run_id = store.runs.submit(request_for(store.graphs.save(given, NOON).id), NOON).id
    job = store.jobs.claim("ada", later(1), LEASE_S)
    assert job is not None
    store.jobs.checkpoint(job, later(2), LEASE_S, update_of([plan]))
    (shown,) = store.runs.frontier(run_id)
    assert (shown.devices, shown.move_count) == ("gpu:4", len(moves))
    assert store.plans.load(shown.key) == plan
    assert len(store.plans.load(shown.key).graph.blocks) == len(given.blocks) - len(moves) + 1
    assert [graph.name for graph in store.graphs.page()] == ["three_steps"]


def test_plans_of_one_frontier_share_the_program_that_their_moves_make(store: Store) -> None:
    store.runs.submit(request_for(store.graphs.save(three_steps(), NOON).id), NOON)
    job = store.jobs.claim("ada", later(1), LEASE_S)
    assert job is not None
    unplaced = dataclasses.replace(fused((FIRST,)), placements=Placements())
    given = [fused((FIRST, PLACED)), unplaced, fused((FIRST, SECOND, PLACED))]
    store.jobs.checkpoint(job, later(2), LEASE_S, update_of(given))
    keys = {plan.id: plan.key for plan in store.runs.frontier(job.subject)}
    loaded = store.plans.load_all([keys[plan.id] for plan in given])
    assert loaded == given
    assert loaded[0].graph is loaded[1].graph
    with pytest.raises(UnknownId, match="no plan with key 1000"):
        store.plans.load_all([keys[given[0].id], 1000])


def test_a_plan_of_the_command_line_comes_back_as_the_search_made_it(store: Store) -> None:
    finished = finished_run(two_layers(with_weights=True))
    run = store.runs.find(store.runs.save_finished(finished))
    for stored, plan in zip(run.frontier, finished.result.frontier, strict=True):
        assert store.plans.load(stored.key) == dataclasses.replace(plan, cost=dict(plan.cost))


def test_a_plan_is_known_by_its_whole_name(store: Store, job: Job) -> None:
    (plan,) = plans((1e-3, 1024))
    store.jobs.checkpoint(job, later(2), LEASE_S, update_of([plan]))
    (shown,) = store.runs.frontier(job.subject)
    assert shown.public_id == f"{job.subject}-{plan.id}"
    found = store.plans.get(shown.public_id)
    assert found == dataclasses.replace(shown, moves=found.moves, placements=found.placements)
    assert list(found.moves) == [move.to_json() for move in plan.moves]
    assert found.placements == placements_to_document(plan.placements)
    assert store.plans.get(plan.id) == found


def test_a_plan_of_several_runs_means_the_newest_one(store: Store) -> None:
    old = finished_run(two_layers())
    newest = store.runs.save_finished(dataclasses.replace(old, created_at=later(60)))
    oldest = store.runs.save_finished(old)
    plan = old.result.frontier[0].id
    assert store.plans.get(plan).run_id == store.plans.find(plan).run_id == newest
    assert store.plans.get(f"{oldest}-{plan}").run_id == oldest
    for reference in (f"{oldest}/{plan}", f"{oldest[:6]}-{plan[:6]}"):
        assert store.plans.find(reference).run_id == oldest


def test_prefixes_suffice_to_find_a_plan_but_not_to_get_one(store: Store) -> None:
    finished = finished_run(two_layers())
    run_id = store.runs.save_finished(finished)
    plan = finished.result.frontier[1].id
    for reference in (plan[:6], f"{run_id[:4]}/{plan[:4]}", f"{run_id[:4]}-{plan[:4]}"):
        assert store.plans.find(reference).public_id == f"{run_id}-{plan}"
    for reference in (plan[:6], f"{run_id[:4]}-{plan}", f"{run_id}-{plan[:6]}", f"{run_id}/{plan}", ""):
        with pytest.raises(UnknownId, match="there is no plan"):
            store.plans.get(reference)


def test_roles_name_plans_of_the_frontier_of_a_run_or_of_the_newest(store: Store) -> None:
    finished = finished_run(two_layers())
    costs = [(1.0, 90), (2.0, 20), (9.0, 10)]
    frontier = tuple(plan_by_hand(two_layers(), *cost) for cost in costs)
    old = dataclasses.replace(
        finished, result=dataclasses.replace(finished.result, frontier=frontier), executions={}
    )
    oldest = store.runs.save_finished(old)
    newest = store.runs.save_finished(dataclasses.replace(finished, created_at=later(60)))
    for role, plan in zip(("fastest", "knee", "smallest"), frontier, strict=True):
        assert store.plans.find(f"{oldest[:6]}/{role}").public_id == f"{oldest}-{plan.id}"
        assert store.plans.find(role).run_id == newest


def test_roles_without_a_run_are_reported(store: Store) -> None:
    with pytest.raises(UnknownId, match="there is no plan 'knee': no run has plans"):
        store.plans.find("knee")
    runs = [store.runs.save_finished(finished_run(two_layers())) for _ in range(17)]
    with pytest.raises(UnknownId, match="there is no plan 'fastest': run 'nonesuch' has no plans"):
        store.plans.find("nonesuch/fastest")
    shared = next(c for c in "0123456789abcdef" if sum(run.startswith(c) for run in runs) > 1)
    with pytest.raises(StoreError, match=f"run '{shared}' is not one run"):
        store.plans.find(f"{shared}/fastest")


@pytest.mark.parametrize("reference", ["", "nonesuch", "100%", "_", "/", "-"])
def test_names_of_no_plan_are_reported(store: Store, reference: str) -> None:
    store.runs.save_finished(finished_run(two_layers()))
    with pytest.raises(UnknownId, match=f"there is no plan '{reference}'"):
        store.plans.find(reference)


@pytest.mark.parametrize("reference", ["", "nonesuch", "100%", "_"])
def test_names_of_no_plan_of_a_run_are_reported(store: Store, reference: str) -> None:
    run_id = store.runs.save_finished(finished_run(two_layers()))
    with pytest.raises(UnknownId, match=f"there is no plan '{run_id}/{reference}'"):
        store.plans.find(f"{run_id}/{reference}")


@pytest.mark.parametrize("reference", ["nonesuch/plan", "nonesuch-plan", "_/plan"])
def test_plans_of_no_run_are_reported(store: Store, reference: str) -> None:
    store.runs.save_finished(finished_run(two_layers()))
    with pytest.raises(UnknownId, match=f"there is no run '{reference[: -len('/plan')]}'"):
        store.plans.find(reference)


def test_names_of_several_plans_are_reported(store: Store) -> None:
    finished = finished_run(two_layers())
    many = [plan_by_hand(two_layers(), 1e-3, memory) for memory in range(40)]
    result = dataclasses.replace(finished.result, frontier=tuple(many))
    store.runs.save_finished(dataclasses.replace(finished, result=result, executions={}))
    shared = next(c for c in "0123456789abcdef" if sum(p.id.startswith(c) for p in many) > 1)
    with pytest.raises(StoreError, match="is not one plan; it may be"):
        store.plans.find(shared)


def test_keys_of_nothing_are_reported(store: Store) -> None:
    with pytest.raises(UnknownId, match="there is no plan with key 999"):
        store.plans.load(999)


def test_what_was_rendered_once_is_kept(store: Store) -> None:
    run = store.runs.find(store.runs.save_finished(finished_run(two_layers())))
    first, second = (plan.key for plan in run.frontier)
    assert store.plans.artifact(first, "explanation") is None
    content = gzip.compress(b"a large document", mtime=0)
    store.plans.save_artifact(first, "explanation", content, NOON)
    assert store.plans.artifact(first, "explanation") == content
    assert store.plans.artifact(first, "dot") is None
    assert store.plans.artifact(second, "explanation") is None


def test_of_two_who_render_the_same_the_first_is_kept(store: Store) -> None:
    run = store.runs.find(store.runs.save_finished(finished_run(two_layers())))
    key = run.frontier[0].key
    for content in (b"first", b"second"):
        store.plans.save_artifact(key, "dot", content, NOON)
    assert store.plans.artifact(key, "dot") == b"first"
