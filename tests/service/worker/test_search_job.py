"""Tests of a run's job: a worker searches, publishes, checks and stores plans; and the next worker goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from tapestry.costmodel.version import COST_MODEL_VERSION
from tapestry.optimizer import Checkpoint, Plan
from tapestry.optimizer.run.workers import InlineExecutor
from tapestry.rewrites import Rule, catalog
from tapestry.rewrites.rule import op, tensor
from tapestry.service.store import LeaseLost, Store
from tapestry.service.verdicts import verdict_of
from tapestry.service.worker.executing import do_execution
from tapestry.service.worker.heartbeat import ClaimedJob, Drained
from tapestry.service.worker.searching import LARGEST_SHOWN, SearchJob
from tests.cases import first
from tests.service.programs import plan_by_hand, two_layers
from tests.service.store.submissions import update_of
from tests.service.worker.conftest import LEASE_S, OBJECTIVES, Bench
from tests.teg.sharding.test_external_graphs import paper


def plans(store: Store, run_id: str) -> dict[str, dict[str, float]]:
    return {plan.id: dict(plan.cost) for plan in store.runs.frontier(run_id)}


def values(costs: dict[str, dict[str, float]]) -> np.ndarray:
    return np.array([[cost[name] for name in OBJECTIVES] for cost in costs.values()])


def drain_at(monkeypatch: pytest.MonkeyPatch, bench: Bench, number: int) -> None:
    """Ask the worker to end once it has written so many checkpoints."""
    write, count = bench.store.jobs.checkpoint, 0

    def counted(*arguments: Any) -> None:
        nonlocal count
        write(*arguments)
        count += 1
        if count == number:
            bench.draining.set()

    monkeypatch.setattr(bench.store.jobs, "checkpoint", counted)


@pytest.mark.slow
def test_a_run_is_searched_published_proven_and_ended(bench: Bench) -> None:
    run_id = bench.run(two_layers(width=256))

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
def test_no_shown_plan_is_beaten_by_another(bench: Bench) -> None:
    found = values(plans(bench.store, bench.run(two_layers(width=256))))
    no_worse = (found[:, None] <= found[None]).all(axis=2)
    np.fill_diagonal(no_worse, False)
    assert not no_worse.any()


@pytest.mark.slow
def test_events_report_the_whole_run_in_order(bench: Bench) -> None:
    run_id = bench.run(two_layers(width=256))

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


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 3])
def test_a_drained_run_goes_on_elsewhere_as_if_nothing_had_happened(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    undisturbed = bench.run(two_layers(width=256))

    disturbed = bench.ask(two_layers(width=256))
    first = bench.claim("first")
    with monkeypatch.context() as patch:
        drain_at(patch, bench, number)
        with pytest.raises(Drained):
            bench.do(first)
    visible = plans(bench.store, disturbed)
    assert visible
    bench.draining.clear()
    bench.store.jobs.release_owner("first", bench.store.runs.get(disturbed).created_at)
    bench.do(bench.claim("second"))

    final = plans(bench.store, disturbed)
    assert bench.store.runs.get(disturbed).evaluations == bench.store.runs.get(undisturbed).evaluations
    for plan_id, cost in visible.items():
        beaten = (values(final) <= np.array([cost[name] for name in OBJECTIVES])).all(axis=1).any()
        assert plan_id in final or beaten


def at_phase(monkeypatch: pytest.MonkeyPatch, bench: Bench, phase: str, request: Callable[[], None]) -> None:
    """Make a request of the worker as soon as its run is in a phase."""
    write = bench.store.jobs.phase

    def noted(*arguments: Any) -> None:
        write(*arguments)
        if arguments[-1] == phase:
            request()

    monkeypatch.setattr(bench.store.jobs, "phase", noted)


@pytest.mark.parametrize("phase", ["compiling", "seeding"])
def test_a_run_cancelled_before_its_search_ends_as_cancelled(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    run_id = bench.ask(two_layers(width=64))
    held = bench.claim()
    at_phase(monkeypatch, bench, phase, lambda: setattr(held, "is_cancelled", True))

    bench.do(held)

    run = bench.store.runs.get(run_id)
    assert (run.status, run.stopped, run.problem) == ("cancelled", "cancelled", None)
    assert bench.store.jobs.saved(run_id) is None


@pytest.mark.parametrize("phase", first(1, ["compiling", "seeding"]))
def test_a_worker_that_must_end_before_the_search_hands_the_run_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    run_id = bench.ask(two_layers(width=64), evaluations=500, rules=(), verify="dry")
    with monkeypatch.context() as patch:
        at_phase(patch, bench, phase, bench.draining.set)
        with pytest.raises(Drained):
            bench.do(bench.claim("first"))
    assert bench.store.jobs.saved(run_id) is None
    bench.draining.clear()
    bench.store.jobs.release_owner("first", bench.store.runs.get(run_id).created_at)

    bench.do(bench.claim("second"))

    assert bench.store.runs.get(run_id).status == "succeeded"


def test_a_run_cancelled_while_it_is_restored_keeps_what_it_had_published(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = bench.ask(two_layers(width=64), rules=())
    with monkeypatch.context() as patch:
        drain_at(patch, bench, 1)
        with pytest.raises(Drained):
            bench.do(bench.claim("first"))
    published = plans(bench.store, run_id)
    bench.draining.clear()
    bench.store.jobs.release_owner("first", bench.store.runs.get(run_id).created_at)
    held = bench.claim("second")
    at_phase(monkeypatch, bench, "compiling", lambda: setattr(held, "is_cancelled", True))

    bench.do(held)

    assert bench.store.runs.get(run_id).status == "cancelled"
    assert published and plans(bench.store, run_id) == published


@pytest.mark.slow
def test_a_checkpoint_that_means_nothing_any_more_is_a_warm_start(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = bench.ask(two_layers(width=256))
    first = bench.claim("first")
    with monkeypatch.context() as patch:
        drain_at(patch, bench, 2)
        with pytest.raises(Drained):
            bench.do(first)
    visible = plans(bench.store, run_id)
    bench.draining.clear()
    bench.store.jobs.release_owner("first", bench.store.runs.get(run_id).created_at)
    monkeypatch.setattr(bench.store.jobs, "saved", lambda _: b"of another release")
    bench.do(bench.claim("second"))

    final = plans(bench.store, run_id)
    assert bench.store.runs.get(run_id).status == "succeeded"
    for plan_id, cost in visible.items():
        beaten = (values(final) <= np.array([cost[name] for name in OBJECTIVES])).all(axis=1).any()
        assert plan_id in final or beaten


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
    run_id, _ = older_plans(bench, store)
    bench.do(bench.claim())
    shown = store.runs.frontier(run_id)
    assert store.runs.get(run_id).status == "succeeded"
    assert {plan.cost_model for plan in shown} == {COST_MODEL_VERSION}
    assert {verdict_of(plan.verified) for plan in shown} == {"verified"}
    found = values(plans(store, run_id))
    no_worse = (found[:, None] <= found[None]).all(axis=2)
    np.fill_diagonal(no_worse, False)
    assert not no_worse.any()


@pytest.mark.slow
def test_a_search_that_was_over_is_not_searched_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = bench.ask(two_layers(width=256))
    verify, count = bench.store.jobs.verified, 0

    def counted(*arguments: Any) -> None:
        nonlocal count
        verify(*arguments)
        count += 1
        if count == 2:
            bench.draining.set()

    with monkeypatch.context() as patch:
        patch.setattr(bench.store.jobs, "verified", counted)
        with pytest.raises(Drained):
            bench.do(bench.claim("first"))
    saved = bench.store.jobs.saved(run_id)
    assert saved is not None
    assert Checkpoint.from_bytes(saved).stopped == "budget"
    before = len(bench.store.runs.history(run_id))
    bench.draining.clear()
    bench.store.jobs.release_owner("first", bench.store.runs.get(run_id).created_at)
    bench.do(bench.claim("second"))

    events = bench.store.runs.events(run_id, limit=10_000)
    assert len(bench.store.runs.history(run_id)) == before
    assert len([e for e in events if e.kind == "verified"]) == len(bench.store.runs.frontier(run_id))
    assert bench.store.runs.get(run_id).status == "succeeded"


def test_a_cancelled_run_ends_with_what_it_has_found(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = bench.ask(two_layers(width=256), evaluations=10**9)
    held = bench.claim()
    write = bench.store.jobs.checkpoint

    def cancelled(*arguments: Any) -> None:
        write(*arguments)
        held.is_cancelled = True

    monkeypatch.setattr(bench.store.jobs, "checkpoint", cancelled)
    bench.do(held)
    run = bench.store.runs.get(run_id)
    assert (run.status, run.stopped) == ("cancelled", "cancelled")
    assert bench.store.runs.frontier(run_id)


def test_who_has_lost_the_lease_writes_nothing_more(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = bench.ask(two_layers(width=256), evaluations=10**9)
    held = bench.claim("slow")
    write, seen = bench.store.jobs.checkpoint, {}

    def lost(*arguments: Any) -> None:
        write(*arguments)
        bench.store.jobs.release_owner("slow", bench.store.runs.get(run_id).created_at)
        assert bench.store.jobs.claim("quick", bench.store.runs.get(run_id).created_at, 1e6) is not None
        seen.update(plans(bench.store, run_id))

    monkeypatch.setattr(bench.store.jobs, "checkpoint", lost)
    with pytest.raises(LeaseLost):
        bench.do(held)
    assert plans(bench.store, run_id) == seen
    assert bench.store.runs.get(run_id).attempt == 2


def test_a_graph_that_fits_nowhere_fails_with_the_bound_and_the_distance(bench: Bench) -> None:
    run_id = bench.run(two_layers(width=256), constraints=("peak_memory_bytes<=1KiB",))
    run = bench.store.runs.get(run_id)
    assert run.status == "failed"
    assert run.problem is not None
    assert run.problem["code"] == "no_feasible_plan"
    assert "peak_memory_bytes<=1024B" in run.problem["detail"]
    assert "too much" in run.problem["detail"]


@pytest.mark.slow
def test_why_there_is_no_plan_is_known_to_the_next_worker_too(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = bench.ask(two_layers(width=256), constraints=("peak_memory_bytes<=1KiB",), evaluations=500)
    write = bench.store.jobs.checkpoint

    def drained_at_the_end(job: Any, now: Any, lease_s: float, update: Any) -> None:
        write(job, now, lease_s, update)
        if update.phase == "verifying":
            bench.draining.set()

    with monkeypatch.context() as patch:
        patch.setattr(bench.store.jobs, "checkpoint", drained_at_the_end)
        with pytest.raises(Drained):
            bench.do(bench.claim("first"))
    bench.draining.clear()
    bench.store.jobs.release_owner("first", bench.store.runs.get(run_id).created_at)
    bench.do(bench.claim("second"))
    run = bench.store.runs.get(run_id)
    assert (run.status, run.problem and run.problem["code"]) == ("failed", "no_feasible_plan")


@pytest.mark.slow
def test_a_run_starts_from_another_ones_frontier(bench: Bench) -> None:
    source = bench.run(two_layers(width=256), evaluations=40_000)
    follower = bench.run(two_layers(width=256), evaluations=300, start_from=source)
    mine = values(plans(bench.store, follower))
    for cost in values(plans(bench.store, source)):
        assert (mine <= cost * 1.006).all(axis=1).any()


def test_a_lost_lease_is_noticed_before_the_next_write(bench: Bench) -> None:
    bench.ask(two_layers(width=256))
    held: ClaimedJob = bench.claim()
    held.is_lost = True
    with pytest.raises(LeaseLost):
        bench.do(held)


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
