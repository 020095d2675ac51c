"""Tests of lists of runs: searched, filtered, sorted and read page by page, with tags, notes and best values."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tapestry.service.run_orders import RUN_ORDERS
from tests.service.api.conftest import Service, complaint
from tests.service.programs import NOON, finished_run, two_layers


def test_tags_and_notes_are_written_found_and_removed(service: Service) -> None:
    one, other = (service.submit(seed=seed).json()["id"] for seed in range(2))
    path = f"/v1/runs/{one}"
    tag = service.http.get(path).headers["etag"]
    changed = service.http.patch(path, json={"tags": ["good", "a b"], "notes": "the 2nd line\nis 100% Mine"})
    assert (changed.json()["tags"], changed.json()["notes"][:3]) == (["a b", "good"], "the")
    again = service.http.get(path, headers={"If-None-Match": tag})
    assert (again.status_code, again.json()["tags"]) == (200, ["a b", "good"])
    service.http.patch(f"/v1/runs/{other}", json={"tags": ["good"], "priority": 2})
    labels = service.http.get("/v1/runs/labels").json()
    assert labels["tags"] == {"a b": 1, "good": 2} and sum(labels["meshes"].values()) == 2

    def found(**query: str) -> list[str]:
        return [run["id"] for run in service.http.get("/v1/runs", params=query).json()["items"]]

    assert found(tag="good") == [other, one] and found(tag="goo") == []
    for words in ("mine", "100% LINE", "a", one[2:9], "2nd good"):
        assert one in found(q=words), words
    assert found(q="100_") == [] == found(q="mine nothing") and found(q="GOOD") == [other, one]
    service.http.patch(path, json={"tags": [], "notes": ""})
    assert (found(tag="good"), found(q="mine")) == ([other], [])
    assert service.http.get(f"/v1/runs/{other}").json()["priority"] == 2


@pytest.mark.parametrize(
    "body",
    [
        *(
            {"tags": tags}
            for tags in (["a,b"], [""], [" a"], ["a" * 61], ["a", "a"], ["a\n"], "a", [1], ["a"] * 21)
        ),
        *({"notes": notes} for notes in ("a" * 10_001, "\t", 3, ["a"])),
        {"tags": None},
        {"tags": None, "notes": "new"},
    ],
    ids=lambda body: str(body)[:30],
)
def test_tags_and_notes_of_another_form_are_refused(shared: Service, body: dict[str, Any]) -> None:
    run = shared.submit(seed=3).json()["id"]
    complaint(shared.http.patch(f"/v1/runs/{run}", json=body), 422, "invalid")
    assert shared.http.get(f"/v1/runs/{run}").json()["tags"] == []


def test_lists_have_best_values_and_a_trend_without_further_queries(service: Service) -> None:
    finished = finished_run(two_layers())
    run = service.store.runs.save_finished(finished)
    (shown,) = service.http.get("/v1/runs").json()["items"]
    assert shown["id"] == run
    assert shown["best"] == {"time_s": 1e-3, "peak_memory_bytes": 2**19}
    assert shown["trend"] == [[point.seconds, point.hypervolume] for point in finished.result.history]


def test_runs_are_filtered(service: Service) -> None:
    finished = service.finished()
    other = service.graph("another")
    waiting = service.submit(graph_id=other).json()["id"]

    def found(**filters: str) -> list[str]:
        return [run["id"] for run in service.http.get("/v1/runs", params=filters).json()["items"]]

    assert found() == [waiting, finished]
    assert found(status="queued") == found(graph_id=other) == [waiting]
    assert found(status="succeeded", mesh="dgx-h100") == [finished]
    assert found(mesh="nowhere") == found(status="failed") == []


@pytest.mark.parametrize("key", RUN_ORDERS)
@pytest.mark.parametrize("way", ["", "-"])
def test_pages_follow_each_other_in_every_order(service: Service, key: str, way: str) -> None:
    with_plans = [service.store.runs.save_finished(finished_run(two_layers(name))) for name in "abca"]
    without = [service.submit(seed=seed).json()["id"] for seed in range(3)]
    query, seen = {"limit": "2", "sort": f"{way}{key}"}, list[dict[str, Any]]()
    while True:
        page = service.http.get("/v1/runs", params=query).json()
        seen += page["items"]
        if page["next"] is None:
            break
        query["cursor"] = page["next"]
    assert sorted(run["id"] for run in seen) == sorted([*with_plans, *without])
    of = {"created": "created_at", "mesh": "mesh", "status": "status", "program": "graph"}
    if key in of:
        values = [run[of[key]] for run in seen]
    else:
        assert {run["id"] for run in seen[4:]} == set(without)
        values = [run["best"]["time_s" if key == "time" else "peak_memory_bytes"] for run in seen[:4]]
    assert values == sorted(values, reverse=way == "-")


def test_pages_hold_every_run_exactly_once(service: Service) -> None:
    service.graph()
    made = {service.submit(seed=seed).json()["id"] for seed in range(7)}
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        query = {"limit": "3", **({"cursor": cursor} if cursor else {})}
        page = service.http.get("/v1/runs", params=query).json()
        seen += [run["id"] for run in page["items"]]
        if len(seen) == 3:
            service.submit(seed=99)  # what comes later is no part of the walk
        cursor = page["next"]
    assert len(seen) == 7
    assert set(seen) == made


def test_pages_go_on_where_a_cursor_says(service: Service) -> None:
    assert timedelta(0) == NOON.utcoffset()
    run_id = service.finished()
    page = service.http.get("/v1/runs?limit=1").json()
    assert ([run["id"] for run in page["items"]], page["next"]) == ([run_id], None)


def test_graphs_of_one_moment_are_paged_too(service: Service) -> None:
    made = {service.store.graphs.save(two_layers(f"g{k}"), NOON).id for k in range(5)}
    first = service.http.get("/v1/graphs?limit=3").json()
    second = service.http.get("/v1/graphs", params={"limit": 3, "cursor": first["next"]}).json()
    assert second["next"] is None
    ids = [graph["id"] for graph in first["items"] + second["items"]]
    assert (len(ids), set(ids)) == (5, made)


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("limit=0", "#query/limit"),
        ("limit=201", "#query/limit"),
        ("limit=many", "#query/limit"),
        ("cursor=nonsense", "#query/cursor"),
        ("cursor=" + "9" * 18 + "-a", "#query/cursor"),
        ("cursor=1-A", "#query/cursor"),
        ("cursors=1-a", "#query/cursors"),
        ("state=queued", "#query/state"),
        ("cursor=" + "a" * 201, "#query/cursor"),
        ("cursor=%00", "#query/cursor"),
        ("status=lost", "#query/status"),
        ("mesh=%00", "#query/mesh"),
        ("graph_id=" + "a" * 65, "#query/graph_id"),
    ],
)
def test_wrong_queries_are_refused(shared: Service, query: str, pointer: str) -> None:
    faults = complaint(shared.http.get(f"/v1/runs?{query}"), 422, "invalid")["errors"]
    assert [fault["pointer"] for fault in faults] == [pointer]
    if pointer == "#query/status":
        assert faults[0]["allowed"] == ["queued", "running", "succeeded", "failed", "cancelled"]


@pytest.mark.parametrize("cursor", ["0-0", "9" * 17 + "-" + "f" * 64])
def test_every_cursor_of_the_form_is_accepted(shared: Service, cursor: str) -> None:
    answer = shared.http.get("/v1/runs", params={"cursor": cursor})
    assert answer.status_code == 200, answer.text


def test_what_is_no_parameter_is_refused_with_those_that_are(shared: Service) -> None:
    (fault,) = complaint(shared.http.get("/v1/runs?stauts=queued"), 422, "invalid")["errors"]
    assert fault == {
        "pointer": "#query/stauts",
        "detail": "there is no parameter 'stauts'; did you mean status?",
    }
    (fault,) = complaint(shared.http.get("/healthz?x=1"), 422, "invalid")["errors"]
    assert fault["detail"] == "there is no parameter 'x'; there are none here"
    assert shared.http.get("/?x=1").status_code == 200  # pages take any
