"""Tests of runs that are cancelled, drained or lose their lease: what is published stays, the next worker goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tapestry.optimizer import Checkpoint
from tapestry.service.store import LeaseLost
from tapestry.service.worker.heartbeat import ClaimedJob, Drained
from tests.cases import first, rotating
from tests.service.programs import two_layers
from tests.service.worker.conftest import OBJECTIVES, Bench, falls, plans, values


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


@pytest.mark.parametrize("number", rotating(2, [1, 3]))
def test_a_drained_run_goes_on_elsewhere_as_if_nothing_had_happened(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Check it with what runs have learned: the next attempt has the prior of the first, not what is newest by then."""
    bench.run(two_layers(width=64), evaluations=500, verify="none")
    disturbed = bench.ask(two_layers(width=256), verify="dry", evaluations=5000, prior="latest")
    first = bench.claim("first")
    with monkeypatch.context() as patch:
        drain_at(patch, bench, number)
        with pytest.raises(Drained):
            bench.do(first)
    visible = plans(bench.store, disturbed)
    assert visible
    bench.draining.clear()
    undisturbed = bench.run(two_layers(width=256), verify="dry", evaluations=5000, prior="1")
    bench.store.jobs.release_owner("first")
    bench.do(bench.claim("second"))

    runs = [bench.store.runs.get(run_id) for run_id in (disturbed, undisturbed)]
    assert [run.options.prior for run in runs] == ["1", "1"]
    assert runs[0].evaluations == runs[1].evaluations
    assert plans(bench.store, disturbed) == plans(bench.store, undisturbed)
    assert falls(bench.store, disturbed) == []


def test_reports_go_on_where_a_search_starts_anew(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = bench.ask(two_layers(width=64), evaluations=2000, verify="none")
    with monkeypatch.context() as patch:
        drain_at(patch, bench, 3)
        with pytest.raises(Drained):
            bench.do(bench.claim("first"))
    before = bench.store.runs.get(run_id)
    bench.draining.clear()
    bench.store.jobs.release_owner("first")
    monkeypatch.setattr("tapestry.optimizer.run.initialization._release", lambda: "another")
    with monkeypatch.context() as patch:
        drain_at(patch, bench, 2)
        with pytest.raises(Drained):
            bench.do(bench.claim("second"))
    bench.draining.clear()
    bench.store.jobs.release_owner("second")

    bench.do(bench.claim("third"))

    run = bench.store.runs.get(run_id)
    assert (run.status, run.attempt) == ("succeeded", 3)
    assert run.evaluations >= before.evaluations + 2000
    assert falls(bench.store, run_id) == []


def test_a_prior_of_another_release_is_replaced_by_the_newest(bench: Bench) -> None:
    wrong = bench.ask(two_layers(width=64), prior="7", evaluations=500, verify="none")
    held = bench.claim("first")
    with pytest.raises(ValueError, match="no prior 7"):
        bench.do(held)

    bench.store.jobs.release_owner("first")
    bench.do(bench.claim("second"))

    run = bench.store.runs.get(wrong)
    assert (run.status, run.options.prior) == ("succeeded", "none")


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
    bench.store.jobs.release_owner("first")

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
    bench.store.jobs.release_owner("first")
    held = bench.claim("second")
    at_phase(monkeypatch, bench, "compiling", lambda: setattr(held, "is_cancelled", True))

    bench.do(held)

    assert bench.store.runs.get(run_id).status == "cancelled"
    assert published and plans(bench.store, run_id) == published


@pytest.mark.slow
def test_a_checkpoint_that_means_nothing_any_more_is_a_warm_start(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = bench.ask(two_layers(width=256), verify="dry")
    first = bench.claim("first")
    with monkeypatch.context() as patch:
        drain_at(patch, bench, 2)
        with pytest.raises(Drained):
            bench.do(first)
    visible = plans(bench.store, run_id)
    bench.draining.clear()
    bench.store.jobs.release_owner("first")
    monkeypatch.setattr(bench.store.jobs, "saved", lambda _: b"of another release")
    bench.do(bench.claim("second"))

    final = plans(bench.store, run_id)
    assert bench.store.runs.get(run_id).status == "succeeded"
    for plan_id, cost in visible.items():
        beaten = (values(final) <= np.array([cost[name] for name in OBJECTIVES])).all(axis=1).any()
        assert plan_id in final or beaten


@pytest.mark.slow
def test_a_search_that_was_over_is_not_searched_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = bench.ask(two_layers(width=256), evaluations=3000)
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
    before, bounds = len(bench.store.runs.history(run_id)), bench.store.runs.details(run_id).bounds
    assert set(OBJECTIVES) <= set(bounds)
    bench.draining.clear()
    bench.store.jobs.release_owner("first")
    bench.do(bench.claim("second"))

    events = bench.store.runs.events(run_id, limit=10_000)
    assert len(bench.store.runs.history(run_id)) == before
    assert bench.store.runs.details(run_id).bounds == bounds
    checked = [e.data["plan"] for e in events if e.kind == "verified"]
    executed = len(checked) - len(
        set(checked)
    )  # those are counted first, and verified again with their values
    assert len(set(checked)) == len(bench.store.runs.frontier(run_id))
    assert executed <= 3
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
        bench.store.jobs.release_owner("slow")
        assert bench.store.jobs.claim("quick", bench.store.runs.get(run_id).created_at, 1e6) is not None
        seen.update(plans(bench.store, run_id))

    monkeypatch.setattr(bench.store.jobs, "checkpoint", lost)
    with pytest.raises(LeaseLost):
        bench.do(held)
    assert plans(bench.store, run_id) == seen
    assert bench.store.runs.get(run_id).attempt == 2


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
    bench.store.jobs.release_owner("first")
    bench.do(bench.claim("second"))
    run = bench.store.runs.get(run_id)
    assert (run.status, run.problem and run.problem["code"]) == ("failed", "no_feasible_plan")


def test_a_lost_lease_is_noticed_before_the_next_write(bench: Bench) -> None:
    bench.ask(two_layers(width=256))
    held: ClaimedJob = bench.claim()
    held.is_lost = True
    with pytest.raises(LeaseLost):
        bench.do(held)
