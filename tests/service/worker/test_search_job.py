"""Tests of a run's job: a worker searches, publishes, checks and stores plans."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from tapestry.costmodel.version import COST_MODEL_VERSION
from tapestry.optimizer import Plan
from tapestry.optimizer.run.search import search
from tapestry.optimizer.run.workers import InlineExecutor
from tapestry.rewrites import Rule, catalog
from tapestry.rewrites.rule import op, tensor
from tapestry.service.store import Store
from tapestry.service.verdicts import verdict_of
from tapestry.service.worker import searching
from tapestry.service.worker.executing import do_execution
from tapestry.service.worker.heartbeat import ClaimedJob
from tapestry.service.worker.searching import LARGEST_SHOWN, SearchJob
from tests.service.databases import file_with_tables
from tests.service.programs import plan_by_hand, two_layers
from tests.service.store.submissions import update_of
from tests.service.worker.conftest import LEASE_S, OBJECTIVES, Bench, plans, values
from tests.teg.sharding.test_external_graphs import paper


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bench, str]]:
    """Do one run, for all tests that look at what a whole run leaves."""
    store = Store(file_with_tables(tmp_path_factory.mktemp("searched") / "worker.db"))
    bench = Bench(store)
    yield bench, bench.run(two_layers(width=256))
    store.close()


@pytest.mark.slow
def test_a_run_is_searched_published_proven_and_ended(searched: tuple[Bench, str]) -> None:
    bench, run_id = searched
    run = bench.store.runs.get(run_id)
    assert (run.status, run.phase, run.stopped, run.problem) == ("succeeded", "done", "budget", None)
    assert run.evaluations >= 20_000
    shown = bench.store.runs.frontier(run_id)
    assert 1 < len(shown) <= LARGEST_SHOWN + len(OBJECTIVES)
    for plan in shown:
        assert plan.verified is not None
        assert plan.verified["sharding"]["ok"]
        assert plan.verified["memory"]["predicted"] == plan.verified["memory"]["counted"]
        assert plan.verified["traffic"]["predicted"] == plan.verified["traffic"]["counted"]
    executed = [plan for plan in shown if plan.verified and plan.verified["values"]["executed"]]
    assert executed
    assert all(plan.verified["values"]["ok"] for plan in executed if plan.verified)
    for plan in executed:
        (execution,) = bench.store.executions.of_plan(plan.key)
        trace = bench.store.executions.trace(execution.id)
        assert trace is not None and trace["traceEvents"]
    assert bench.store.jobs.saved(run_id) is None


@pytest.mark.slow
def test_the_program_of_a_sharded_one_is_searched_and_its_plans_keep_their_promises(bench: Bench) -> None:
    run_id = bench.run(paper(concat=False))

    assert bench.store.runs.get(run_id).status == "succeeded"
    shown = bench.store.runs.frontier(run_id)
    executed = [plan for plan in shown if plan.verified and plan.verified["values"]["executed"]]
    assert executed and all(plan.verified["values"]["ok"] for plan in executed if plan.verified)
    assert {b.operator for b in bench.store.plans.load(shown[0].key).graph.blocks} >= {"source", "cell"}


@pytest.mark.slow
def test_no_shown_plan_is_beaten_by_another(searched: tuple[Bench, str]) -> None:
    bench, run_id = searched
    found = values(plans(bench.store, run_id))
    no_worse = (found[:, None] <= found[None]).all(axis=2)
    np.fill_diagonal(no_worse, False)
    assert not no_worse.any()


@pytest.mark.slow
def test_events_report_the_whole_run_in_order(searched: tuple[Bench, str]) -> None:
    bench, run_id = searched
    events = bench.store.runs.events(run_id, limit=10_000)
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    statuses = [(e.data["status"], e.data["phase"]) for e in events if e.kind == "status"]
    assert statuses[:2] == [("queued", "queued"), ("running", "queued")]
    assert statuses[-2:] == [("running", "verifying"), ("succeeded", "done")]
    shown: set[str] = set()
    for event in events:
        if event.kind == "frontier":
            shown |= {plan["id"] for plan in event.data["added"]}
            shown -= set(event.data["removed"])
            assert len(shown) == event.data["size"]
    assert shown == {plan.public_id for plan in bench.store.runs.frontier(run_id)}
    assert {e.data["plan"] for e in events if e.kind == "verified"} == shown


def older_plans(bench: Bench, store: Store, **requested: Any) -> tuple[str, list[Plan]]:
    """Request a run for which an older release has published two plans, too cheap to be true, and a checkpoint."""
    run_id = bench.ask(two_layers(), **requested)
    cheap = dict.fromkeys((*OBJECTIVES, "compute_flops", "total_memory_bytes"), 1.0)
    published = [
        replace(plan_by_hand(two_layers(), 1e-9, 1, split), cost={**cheap, "time_s": time_s}, cost_model=1)
        for split, time_s in (("(gpu.0, -, -)", 1e-9), ("(-, -, gpu.0*gpu.1*gpu.2)", 2e-9))
    ]
    held = bench.claim("older")
    store.jobs.checkpoint(held.job, datetime.now(UTC), LEASE_S, update_of(published))
    store.jobs.release(held.job, datetime.now(UTC))
    return run_id, published


def test_published_plans_of_an_older_cost_model_are_costed_again(bench: Bench, store: Store) -> None:
    run_id, (first, second) = older_plans(bench, store)
    job = SearchJob(store, bench.claim(), InlineExecutor(), islands=1, checkpoint_s=0.0)
    job.recost()
    shown = store.runs.frontier(run_id)
    everyone = [store.plans.get(f"{run_id}-{plan.id}") for plan in (first, second)]
    assert [plan.cost_model for plan in everyone] == [COST_MODEL_VERSION] * 2
    assert all(plan.cost["time_s"] > 1e-6 for plan in everyone)
    assert [plan.on_frontier for plan in everyone] == [plan.id in {s.id for s in shown} for plan in everyone]
    assert store.jobs.saved(run_id) is None


def test_plans_that_break_a_bound_by_this_cost_model_leave_the_frontier(bench: Bench, store: Store) -> None:
    run_id, _ = older_plans(bench, store, constraints=("peak_memory_bytes<=1KiB",))
    SearchJob(store, bench.claim(), InlineExecutor(), islands=1, checkpoint_s=0.0).recost()
    assert store.runs.frontier(run_id) == ()
    assert store.runs.get(run_id).front == 0


@pytest.mark.slow
def test_a_run_goes_on_without_costs_of_an_older_cost_model(bench: Bench, store: Store) -> None:
    run_id, _ = older_plans(bench, store, evaluations=3000, verify="dry")
    bench.do(bench.claim())
    shown = store.runs.frontier(run_id)
    assert store.runs.get(run_id).status == "succeeded"
    assert {plan.cost_model for plan in shown} == {COST_MODEL_VERSION}
    assert {verdict_of(plan.verified) for plan in shown} == {"verified"}
    found = values(plans(store, run_id))
    no_worse = (found[:, None] <= found[None]).all(axis=2)
    np.fill_diagonal(no_worse, False)
    assert not no_worse.any()


def test_a_graph_that_fits_nowhere_fails_with_the_bound_and_the_distance(bench: Bench) -> None:
    run_id = bench.run(two_layers(width=256), constraints=("peak_memory_bytes<=1KiB",), evaluations=500)
    run = bench.store.runs.get(run_id)
    assert run.status == "failed"
    assert run.problem is not None
    assert run.problem["code"] == "no_feasible_plan"
    assert "peak memory <= 1.000 KiB" in run.problem["detail"]
    assert " times as much" in run.problem["detail"]
    bounds = bench.store.runs.details(run_id).bounds
    assert bounds["peak_memory_bytes"]["bound"] > 1024
    assert (bounds["peak_memory_bytes"]["best"], bounds["peak_memory_bytes"]["gap"]) == (None, None)


def test_the_bounds_of_a_run_are_kept_and_no_plan_is_below_them(bench: Bench) -> None:
    run_id = bench.run(two_layers(width=64), evaluations=500, rules=(), verify="none")
    bounds, shown = bench.store.runs.details(run_id).bounds, bench.store.runs.frontier(run_id)
    assert list(bounds) == [*OBJECTIVES, "device_memory_bytes"]
    for name, bound in bounds.items():
        assert 0 <= bound["bound"] <= min(plan.cost[name] for plan in shown), name
        assert bound["scope"]["structures"] == 1


@pytest.mark.slow
def test_a_run_starts_from_another_ones_frontier(bench: Bench) -> None:
    source = bench.run(two_layers(width=256), evaluations=40_000, verify="none")
    follower = bench.run(two_layers(width=256), evaluations=300, start_from=source, verify="none")
    mine = values(plans(bench.store, follower))
    for cost in values(plans(bench.store, source)):
        assert (mine <= cost * 1.006).all(axis=1).any()


def failing(m: object) -> bool:
    raise KeyError("nothing")


@pytest.mark.slow
def test_a_rule_that_fails_is_named_with_reason_and_hint_and_the_run_succeeds(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = tensor("x")
    bad = Rule("bad", op("cell", x), x, "", "", lambda size: two_layers(), when=failing, saturating=True)
    monkeypatch.setitem(catalog(), "bad", bad)
    run_id = bench.run(two_layers(width=256), rules=("bad",), evaluations=500)
    assert bench.store.runs.get(run_id).status == "succeeded"
    (refusal,) = bench.store.runs.details(run_id).refused
    assert refusal["rule"] == "bad"
    assert refusal["reason"].startswith("its guard or choices fail at 'active': KeyError")
    assert "name the others in `rules`" in refusal["hint"]
    assert [e.data for e in bench.store.runs.events(run_id) if e.kind == "refused"] == [[refusal]]


def dropping(monkeypatch: pytest.MonkeyPatch) -> str:
    """Register a rule that changes values in the catalog, and return its name."""
    x = tensor("x")
    bad = Rule("acme_drop", op("cell", x), x, "", "", lambda size: two_layers(), saturating=True)
    monkeypatch.setitem(catalog(), "acme_drop", bad)
    return bad.name


def plans_with(bench: Bench, run_id: str, rule: str) -> dict[int, dict[str, Any]]:
    """Return the checks of the plans with the rule in their history, by their keys."""
    shown = {plan.key: dict(plan.verified or {}) for plan in bench.store.runs.frontier(run_id)}
    loaded = bench.store.plans.load_all(list(shown))
    pairs = zip(shown, loaded, strict=True)
    return {key: shown[key] for key, plan in pairs if any(move.rule == rule for move in plan.moves)}


@pytest.mark.slow
def test_a_rule_that_changes_values_is_suspected_in_every_plan_and_the_run_says_so(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = dropping(monkeypatch)
    run_id = bench.run(two_layers(width=256), rules=(rule,), evaluations=2000)
    run = bench.store.runs.get(run_id)
    assert (run.status, run.problem and run.problem["code"]) == ("succeeded", "plans_refuted")
    with_it = plans_with(bench, run_id, rule).values()
    assert with_it and all(message["suspects"] == [rule] for message in with_it)
    verdicts = {verdict_of(message) for message in with_it}
    assert "failed" in verdicts and verdicts <= {"failed", "untrusted"}


def test_a_plan_that_is_refuted_later_is_marked_and_so_are_those_with_its_rule(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = dropping(monkeypatch)
    run_id = bench.run(two_layers(width=256), rules=(rule,), evaluations=2000, verify="dry")
    first, *others = plans_with(bench, run_id, rule)
    now = datetime.now(UTC)
    bench.store.executions.submit(first, backend="numpy", values=True, seed=0, created_at=now)
    job = bench.store.jobs.claim("worker", datetime.now(UTC), 60.0, ("execution",))
    assert job is not None
    do_execution(bench.store, ClaimedJob(job, 60.0, bench.draining))
    after = plans_with(bench, run_id, rule)
    assert verdict_of(after[first]) == "failed"
    assert {verdict_of(after[key]) for key in others} == {"untrusted"}
    assert all(message["suspects"] == [rule] for message in after.values())


@pytest.mark.slow
def test_plans_that_a_tightening_bound_excludes_are_shown_no_more(bench: Bench) -> None:
    run_id = bench.run(
        two_layers(), constraints=("time_s<=120%",), objectives=("peak_memory_bytes", "time_s")
    )

    times = [plan.cost["time_s"] for plan in bench.store.runs.frontier(run_id)]
    assert times
    assert max(times) <= 1.2 * min(times) * (1 + 1e-9)


@pytest.mark.slow
def test_a_run_starts_from_its_own_program_and_from_related_ones_together(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {"evaluations": 500, "verify": "none", "prior": "none"}
    own, related = bench.run(two_layers(), **few), bench.run(two_layers(width=128), **few)
    given: list[tuple[int, int]] = []

    def noted(*arguments: Any, **keywords: Any) -> Any:
        given.append((len(keywords["start_from"]), len(keywords["relatives"])))
        return search(*arguments, **keywords)

    monkeypatch.setattr(searching, "search", noted)
    run_id = bench.run(two_layers(), start_from=f"{own},{related}", **few)
    assert given == [(len(bench.store.runs.frontier(own)), len(bench.store.runs.frontier(related)))]
    assert bench.store.runs.get(run_id).options.start_from == f"{own},{related}"
