"""Tests of checkpoints: state, frontier, history and events of a search move on together, or not at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tapestry.costmodel.version import COST_MODEL_VERSION
from tapestry.optimizer.archive.origin import EARLIER_RUN, SEED, PlanOrigin
from tapestry.service.store import Job, Store, StoreError
from tests.service.programs import NOON, finished_run, two_layers, verified
from tests.service.store.submissions import LEASE_S, contents, later, plans, update_of


def ids(store: Store, run_id: str) -> list[str]:
    return [plan.id for plan in store.runs.frontier(run_id)]


def kinds(store: Store, job: Job, after: int) -> list[str]:
    return [event.kind for event in store.runs.events(job.subject, after)]


def last_event(store: Store, job: Job) -> int:
    return store.runs.events(job.subject)[-1].number


def test_a_checkpoint_is_seen_as_a_whole(store: Store, job: Job) -> None:
    slow, fast = plans((2e-3, 1024), (1e-3, 2048))
    before = last_event(store, job)
    store.jobs.checkpoint(job, later(2), LEASE_S, update_of([slow, fast], saved=b"\x00state"))
    assert store.jobs.saved(job.subject) == b"\x00state"
    assert ids(store, job.subject) == [fast.id, slow.id]
    summary = store.runs.get(job.subject)
    assert (summary.phase, summary.evaluations, summary.seconds) == ("searching", 100, 1.0)
    assert (summary.front, summary.hypervolume) == (2, 0.25)
    point = {"seconds": 1.0, "evaluations": 100, "front": 2, "hypervolume": 0.25}
    assert store.runs.history(job.subject) == (point,)
    assert store.runs.rules(job.subject) == {"reshard": (100, 3)}
    status, progress, frontier, rules = store.runs.events(job.subject, before)
    assert status.data["phase"] == "searching"
    assert progress.data == point | {"fraction": 0.1, "best": {"time_s": 1e-3, "peak_memory_bytes": 1024.0}}
    assert [plan["id"] for plan in frontier.data["added"]] == [
        f"{job.subject}-{slow.id}",
        f"{job.subject}-{fast.id}",
    ]
    assert frontier.data["added"][0] | {"cost": None} == {
        "id": f"{job.subject}-{slow.id}",
        "plan": slow.id,
        "cost": None,
        "cost_model": COST_MODEL_VERSION,
        "cost_model_note": None,
        "time": None,
        "feasible": True,
        "devices": "all",
        "micro_batches": 1,
        "recompute": None,
        "offload": None,
        "stages": None,
        "origin": None,
        "move_count": 2,
        "verified": None,
        "verdict": "unchecked",
    }
    assert (frontier.data["removed"], frontier.data["size"]) == ([], 2)
    assert rules.data == {"reshard": {"applied": 100, "improved": 3}}


def test_a_plan_that_comes_back_has_the_origin_that_it_had_first(store: Store, job: Job) -> None:
    seed, found = PlanOrigin(SEED, "data parallel 8"), PlanOrigin(EARLIER_RUN)
    first, other = plans((1e-3, 2**30), (2e-3, 2**20))
    store.jobs.checkpoint(job, later(2), LEASE_S, update_of([replace(first, origin=seed), other]))
    store.jobs.checkpoint(job, later(3), LEASE_S, update_of(removed=[first.id]))
    seen = last_event(store, job)
    store.jobs.checkpoint(job, later(4), LEASE_S, update_of([replace(first, origin=found)]))
    origins = {plan.id: plan.origin for plan in store.runs.frontier(job.subject)}
    assert origins == {first.id: seed.to_json(), other.id: None}
    events = [event.data for event in store.runs.events(job.subject, seen) if event.kind == "frontier"]
    assert [plan["origin"] for event in events for plan in event["added"]] == [seed.to_json()]
    key = next(plan.key for plan in store.runs.frontier(job.subject) if plan.id == first.id)
    assert store.plans.load(key).origin == seed


def test_the_next_checkpoint_replaces_the_state_and_adds_to_the_history(store: Store, job: Job) -> None:
    for second in range(1, 4):
        update = update_of(evaluations=100 * second, saved=b"%d" % second)
        store.jobs.checkpoint(job, later(1 + second), LEASE_S, update)
    assert store.jobs.saved(job.subject) == b"3"
    assert [point["evaluations"] for point in store.runs.history(job.subject)] == [100, 200, 300]
    assert store.runs.rules(job.subject) == {"reshard": (300, 3)}


def test_what_has_not_changed_is_not_reported(store: Store, job: Job) -> None:
    store.jobs.checkpoint(job, later(2), LEASE_S, update_of(plans((1e-3, 1024))))
    before = last_event(store, job)
    store.jobs.checkpoint(job, later(3), LEASE_S, update_of())
    assert kinds(store, job, before) == ["progress"]


def test_a_plan_that_leaves_keeps_its_row_and_may_come_back(store: Store, job: Job) -> None:
    first, second = plans((1e-3, 1024), (2e-3, 512))
    store.jobs.checkpoint(job, later(2), LEASE_S, update_of([first]))
    key = store.runs.frontier(job.subject)[0].key
    store.jobs.verified(job, later(3), LEASE_S, first.id, verified(first), None)
    before = last_event(store, job)
    store.jobs.checkpoint(job, later(4), LEASE_S, update_of([second], [first.id]))
    assert ids(store, job.subject) == [second.id]
    gone = store.plans.get(f"{job.subject}-{first.id}")
    assert (gone.key, gone.on_frontier, gone.verified) == (key, False, verified(first))
    event = next(e for e in store.runs.events(job.subject, before) if e.kind == "frontier")
    assert (event.data["removed"], event.data["size"]) == ([f"{job.subject}-{first.id}"], 1)
    store.jobs.checkpoint(job, later(5), LEASE_S, update_of([first], [second.id]))
    assert ids(store, job.subject) == [first.id]
    assert store.runs.frontier(job.subject)[0].key == key


def test_a_plan_that_comes_back_is_reported_with_what_was_checked(store: Store, job: Job) -> None:
    (plan,) = plans((1e-3, 1024))
    store.jobs.checkpoint(job, later(2), LEASE_S, update_of([plan]))
    store.jobs.verified(job, later(3), LEASE_S, plan.id, verified(plan), None)
    store.jobs.checkpoint(job, later(4), LEASE_S, update_of(removed=[plan.id]))
    before = last_event(store, job)
    store.jobs.checkpoint(job, later(5), LEASE_S, update_of([plan]))
    event = next(e for e in store.runs.events(job.subject, before) if e.kind == "frontier")
    assert [shown["verified"] for shown in event.data["added"]] == [verified(plan)]


def test_a_plan_that_comes_back_has_the_costs_of_the_newer_model(store: Store, job: Job) -> None:
    (plan,) = plans((1e-3, 1024))
    store.jobs.checkpoint(job, later(2), LEASE_S, update_of([replace(plan, cost_model=1)]))
    store.jobs.verified(job, later(3), LEASE_S, plan.id, verified(plan), None)
    (stored,) = store.runs.frontier(job.subject)
    store.plans.save_artifact(stored.key, "explanation", b"of old costs", later(3))
    store.jobs.checkpoint(job, later(4), LEASE_S, update_of(removed=[plan.id]))
    again = replace(plan, cost={**plan.cost, "time_s": 2e-3})
    store.jobs.checkpoint(job, later(5), LEASE_S, update_of([again]))
    (shown,) = store.runs.frontier(job.subject)
    assert (shown.key, shown.cost, shown.cost_model, shown.verified) == (
        stored.key,
        again.cost,
        COST_MODEL_VERSION,
        None,
    )
    assert store.plans.artifact(stored.key, "explanation") is None


def test_plans_are_costed_again_and_reported(store: Store, job: Job) -> None:
    first, second, third = (
        replace(plan, cost_model=1) for plan in plans((1e-3, 1024), (2e-3, 512), (3e-3, 256))
    )
    store.jobs.checkpoint(job, later(2), LEASE_S, update_of([first, second, third]))
    store.jobs.verified(job, later(3), LEASE_S, first.id, verified(first), None)
    before = last_event(store, job)
    costed = {
        plan.id: replace(plan, cost={**plan.cost, "time_s": 5e-3}, cost_model=COST_MODEL_VERSION)
        for plan in (first, second)
    }
    store.jobs.recost(job, later(4), LEASE_S, costed, [second.id, third.id])
    (shown,) = store.runs.frontier(job.subject)
    assert (shown.id, shown.cost["time_s"], shown.cost_model, shown.verified) == (
        first.id,
        5e-3,
        COST_MODEL_VERSION,
        None,
    )
    gone = [store.plans.get(f"{job.subject}-{plan.id}") for plan in (second, third)]
    assert [(plan.cost["time_s"], plan.cost_model) for plan in gone] == [
        (5e-3, COST_MODEL_VERSION),
        (3e-3, 1),
    ]
    (event,) = store.runs.events(job.subject, before)
    assert [plan["plan"] for plan in event.data["added"]] == [first.id]
    assert event.data["removed"] == [plan.public_id for plan in gone]
    assert event.data["size"] == store.runs.get(job.subject).front == 1
    assert store.jobs.saved(job.subject) is None


def test_a_plan_shown_already_is_shown_once(store: Store, job: Job) -> None:
    """Check that an attempt that resumes from an older state may find a stored plan again."""
    (plan,) = plans((1e-3, 1024))
    for second in (2, 3):
        store.jobs.checkpoint(job, later(second), LEASE_S, update_of([plan]))
    assert ids(store, job.subject) == [plan.id]
    assert store.runs.get(job.subject).front == 1


def test_a_checkpoint_that_fails_leaves_nothing(store: Store, job: Job) -> None:
    first, second = plans((1e-3, 1024), (2e-3, 512))
    store.jobs.checkpoint(job, later(2), LEASE_S, update_of([first], saved=b"before"))
    before = contents(store, job.subject)
    twice = update_of([second, second], [first.id], evaluations=999, saved=b"after")
    with pytest.raises(StoreError, match="nothing was stored"):
        store.jobs.checkpoint(job, later(3), LEASE_S, twice)
    assert contents(store, job.subject) == before
    store.jobs.checkpoint(job, later(4), LEASE_S, update_of([second]))  # the lease is as good as ever
    assert ids(store, job.subject) == [first.id, second.id]


@pytest.mark.parametrize("figure", [float("nan"), float("inf")])
def test_a_figure_that_is_not_one_is_never_stored(store: Store, job: Job, figure: float) -> None:
    (plan,) = plans((1e-3, 1024))
    before = contents(store, job.subject)
    broken = replace(plan, cost={**plan.cost, "energy_j": figure})
    with pytest.raises(StoreError, match="energy_j"):
        store.jobs.checkpoint(job, later(2), LEASE_S, update_of([broken]))
    assert contents(store, job.subject) == before


@pytest.mark.parametrize("figure", [float("nan"), float("-inf")])
def test_nor_is_it_where_it_stands_deeper(store: Store, job: Job, figure: float) -> None:
    (plan,) = plans((1e-3, 1024))
    store.jobs.checkpoint(job, later(2), LEASE_S, update_of([plan]))
    before = contents(store, job.subject)
    worst = {**verified(plan), "values": {"executed": True, "ok": False, "max_error": {"result": figure}}}
    with pytest.raises(
        StoreError, match="nothing was stored: Out of range float values are not JSON compliant"
    ):
        store.jobs.verified(job, later(3), LEASE_S, plan.id, worst, None)
    update = update_of()
    broken = replace(update, progress=replace(update.progress, hypervolume=figure))
    with pytest.raises(StoreError, match="nothing was stored"):
        store.jobs.checkpoint(job, later(4), LEASE_S, broken)
    assert contents(store, job.subject) == before


def test_whole_numbers_stay_exact(store: Store, job: Job) -> None:
    (plan,) = plans((1e-3, 1024))
    exact = replace(
        plan, cost={**plan.cost, "compute_flops": 2**62, "traffic_bytes": 2**53 + 1, "energy_j": 0.1}
    )
    store.jobs.checkpoint(job, later(2), LEASE_S, update_of([exact]))
    (shown,) = store.runs.frontier(job.subject)
    assert dict(shown.cost) == dict(exact.cost)
    assert isinstance(shown.cost["compute_flops"], int) and isinstance(shown.cost["energy_j"], float)
    frontier = next(event for event in store.runs.events(job.subject) if event.kind == "frontier")
    assert frontier.data["added"][0]["cost"] == dict(exact.cost)


def test_what_was_checked_is_kept_and_reported_as_it_comes(store: Store, job: Job) -> None:
    (plan,) = plans((1e-3, 1024))
    execution = next(iter(finished_run(two_layers()).executions.values()))
    store.jobs.checkpoint(job, later(2), LEASE_S, update_of([plan]))
    before = last_event(store, job)
    store.jobs.verified(job, later(3), LEASE_S, plan.id, verified(plan), execution)
    (shown,) = store.runs.frontier(job.subject)
    assert shown.verified == verified(plan)
    (kept,) = store.executions.of_plan(shown.key)
    assert (kept.status, kept.values, kept.has_trace, kept.created_at) == ("succeeded", True, True, NOON)
    (event,) = store.runs.events(job.subject, before)
    assert (event.kind, event.created_at) == ("verified", later(3))
    assert event.data == {"plan": f"{job.subject}-{plan.id}", "verified": verified(plan)}


def test_a_plan_that_was_never_shown_cannot_be_checked(store: Store, job: Job) -> None:
    before = contents(store, job.subject)
    with pytest.raises(StoreError, match="no plan 'nonesuch'"):
        store.jobs.verified(job, later(3), LEASE_S, "nonesuch", {"sharding": {}}, None)
    assert contents(store, job.subject) == before


def test_the_rules_of_the_last_checkpoint_are_kept_also_when_no_plan_was_found(
    store: Store, job: Job
) -> None:
    store.jobs.checkpoint(job, later(2), LEASE_S, update_of(plans((1e-3, 1024)), rules={"fuse": (1, 1)}))
    before = last_event(store, job)
    store.jobs.checkpoint(job, later(3), LEASE_S, update_of(rules={"fuse": (2, 1), "hoist": (1, 0)}))
    assert store.runs.rules(job.subject) == {"fuse": (2, 1), "hoist": (1, 0)}
    assert kinds(store, job, before) == ["progress", "rules"]


def test_bounds_are_kept_until_a_later_attempt_proves_others(store: Store, job: Job) -> None:
    assert store.runs.details(job.subject).bounds == {}
    for second, least in enumerate((1e-4, 2e-4), start=2):
        bounds = {"time_s": {"bound": least, "best": None, "gap": None, "scope": {"structures": second}}}
        store.jobs.foresee(job, later(second), LEASE_S, bounds, {"time_s": least}, ())
    store.jobs.end_run(job, later(4), "finished", stopped="budget")
    found = store.runs.details(job.subject)
    assert (found.bounds, found.expected) == (bounds, {"time_s": least})


def test_refused_rules_are_kept_and_reported_when_there_are_more(store: Store, job: Job) -> None:
    before = last_event(store, job)
    first = {"rule": "cube", "reason": "its guard fails", "hint": "repair it"}
    second = {**first, "rule": "square"}
    for second_s, refused in enumerate(([], [first], [first], [first, second]), start=2):
        store.jobs.checkpoint(job, later(second_s), LEASE_S, update_of(refused=refused))
    assert store.runs.details(job.subject).refused == [first, second]
    reported = [event.data for event in store.runs.events(job.subject, before) if event.kind == "refused"]
    assert reported == [[first], [first, second]]
