"""Tests of a plan's schedule, its memory over time and the alternatives of its blocks, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.api.conftest import Service, complaint
from tests.service.programs import costed_run, two_layers


@pytest.fixture(scope="module")
def path(shared: Service) -> str:
    """Save a run with one plan whose costs are true, and return the plan's path."""
    run = costed_run(two_layers("accounts"))
    run_id = shared.store.runs.save_finished(run)
    return f"/v1/plans/{run_id}-{run.result.frontier[0].id}"


def get(shared: Service, path: str) -> Any:
    answer = shared.http.get(path)
    assert answer.status_code == 200, answer.text
    assert shared.http.get(path, headers={"If-None-Match": answer.headers["etag"]}).status_code == 304
    return answer.json()


def test_the_schedule_ends_when_the_plan_does(shared: Service, path: str) -> None:
    plan, found = get(shared, path), get(shared, f"{path}/schedule")
    # The run computes contractions in bf16, and its costs were made without.
    again = get(shared, f"{path}/alternatives?block=y")["current"]["cost"]["time_s"]
    assert found["time_s"] == again
    assert found["cost_model"] == plan["cost_model"]
    spans = found["spans"]
    assert max(spans["end_ps"]) / 1e12 == found["time_s"]
    ordered = [found["blocks"][k]["site"] for k in spans["what"] if k >= 0]
    assert ordered == ["hidden", "active", "y", "result"]
    assert [(c["tensor"], c["reader"], c["kind"]) for c in found["copies"]] == [
        ("y", "result", "all_gather on gpu")
    ]
    (stage,) = found["stages"]
    waits = stage["computes_s"] + stage["waits_for_copies_s"] + stage["waits_for_stages_s"]
    assert waits == pytest.approx(found["time_s"], rel=1e-12)
    assert stage["devices"] == 8
    ticks = [spans["end_ps"][k] - spans["start_ps"][k] for k in found["critical"]]
    assert sum(ticks) / 1e12 == found["time_s"]


def test_the_trace_has_the_spans_of_the_schedule(shared: Service, path: str) -> None:
    found, trace = get(shared, f"{path}/schedule"), get(shared, f"{path}/export?to=perfetto")
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    lanes = [e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"]
    assert lanes == found["lanes"]
    assert len(events) == len(found["spans"]["what"])
    assert [event["ts"] for event in events] == [start / 1e6 for start in found["spans"]["start_ps"]]
    assert sum(event["args"]["critical"] for event in events) == len(found["critical"])


def test_the_peak_of_the_memory_is_that_of_the_plan_and_its_roles_add_up(shared: Service, path: str) -> None:
    plan, found = get(shared, path), get(shared, f"{path}/memory")
    peak = found["peak"]
    assert (
        plan["cost"]["peak_memory_bytes"]
        == found["predicted_bytes"]
        == found["counted_bytes"]
        == peak["bytes"]
    )
    assert sum(peak["roles"].values()) == sum(each["bytes"] for each in peak["live"]) == peak["bytes"]
    assert len(peak["live"]) == peak["live_count"]
    allocations, most = found["allocations"], 0
    for k, each in enumerate(found["classes"]):
        curve = [0] * (2 * len(found["slots"]["block"]) + 1)
        for first, end, size in zip(
            allocations["first"], allocations["end"], allocations["bytes"][k], strict=True
        ):
            for sample in range(first, end):
                curve[sample] += size
        assert max(curve) == each["peak_bytes"] == curve[each["peak_sample"]]
        assert len(each["start_s"]) == len(each["block_s"]) == len(found["slots"]["block"])
        assert all(start <= block for start, block in zip(each["start_s"], each["block_s"], strict=True))
        most = max(most, each["peak_bytes"])
    assert most == peak["bytes"]
    assert sorted(d for each in found["classes"] for d in each["devices"]) == list(range(8))
    assert found["blocks"][found["slots"]["block"][0]] == "hidden"
    names = {tensor["name"]: tensor["role"] for tensor in allocations["tensors"]}
    assert names["up"] == "parameters" and names["x"] == "inputs" and names["hidden"] == "activations"


def test_alternatives_have_the_costs_of_the_changed_plan(shared: Service, path: str) -> None:
    found = get(shared, f"{path}/alternatives?block=y")
    assert found["operator"] == "contract"
    assert [dim["name"] for dim in found["dims"]] == ["m", "n", "k"]
    assert found["current"]["strategy"] == "(gpu.0, -, -)"
    strategies = [each["strategy"] for each in found["alternatives"]]
    assert (
        len(set(strategies)) == len(strategies) == 4**3 - 1
    )  # each of three sub-axes splits a dimension, or none
    times = [each["cost"]["time_s"] for each in found["alternatives"] if each["feasible"]]
    assert times == sorted(times)
    for each in found["alternatives"]:
        for name, value in each["difference"].items():
            assert value == each["cost"][name] - found["current"]["cost"][name]
        assert each["verdict"]
    whole = next(each for each in found["alternatives"] if each["strategy"] == "(-, -, -)")
    assert whole["block_s"] >= found["current"]["block_s"]


def test_neighbors_that_follow_cost_no_more(shared: Service, path: str) -> None:
    alone = get(shared, f"{path}/alternatives?block=active")
    together = get(shared, f"{path}/alternatives?block=active&follow=time_s")
    before = {each["strategy"]: each["cost"]["time_s"] for each in alone["alternatives"]}
    assert before.keys() == {each["strategy"] for each in together["alternatives"]}
    for each in together["alternatives"]:
        assert each["cost"]["time_s"] <= before[each["strategy"]]
        assert set(each["followed"]) <= set(together["neighbors"]) == {"hidden", "y"}
    assert any(each["followed"] for each in together["alternatives"])


@pytest.mark.parametrize(
    ("query", "pointer", "message"),
    [
        ("block=nowhere", "#query/block", "no block 'nowhere'"),
        ("block=y&follow=beauty", "#query/follow", "no objective of the run"),
        ("", "#query/block", ""),
        ("block=y&tied=perhaps", "#query/tied", ""),
    ],
)
def test_questions_that_make_no_sense_are_refused(
    shared: Service, path: str, query: str, pointer: str, message: str
) -> None:
    found = complaint(shared.http.get(f"{path}/alternatives?{query}"), 422, "invalid")
    assert [error["pointer"] for error in found["errors"]] == [pointer]
    assert message in found["errors"][0]["detail"]


@pytest.mark.parametrize("what", ["schedule", "memory", "alternatives?block=y"])
def test_an_unknown_plan_is_not_found(shared: Service, what: str) -> None:
    complaint(shared.http.get(f"/v1/plans/{'0' * 12}-{'0' * 12}/{what}"), 404, "unknown_id")
