"""Tests of runs: requested, read, changed, cancelled."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tapestry.hardware import load_mesh
from tapestry.service.settings import Limits
from tapestry.service.store import mesh_to_document
from tests.service.api.conftest import Serve, Service, complaint
from tests.service.programs import NOON, two_layers
from tests.teg.test_family import stack


def test_a_run_is_accepted_and_waits_for_a_worker(service: Service) -> None:
    requested = {
        "mesh": "dgx-h100",
        "objectives": ["time_s", "traffic_bytes"],
        "constraints": ["peak_memory_bytes<=40GiB"],
        "budget": {"seconds": 5, "evaluations": 1000, "deadline_seconds": 60},
        "seed": 2**63 - 1,
        "islands": 2,
        "rules": ["fuse_cells"],
        "compute_dtype": "bf16",
        "devices": "all",
        "inputs": "replicated",
        "outputs": "gathered",
        "layouts": "native",
        "verify": "dry",
    }
    answer = service.submit(**requested)

    assert answer.status_code == 202
    accepted = answer.json()
    assert answer.headers["location"] == accepted["links"]["self"] == f"/v1/runs/{accepted['id']}"
    assert accepted["status"] == "queued"
    run = service.http.get(answer.headers["location"]).json()
    assert {name: run[name] for name in requested} == requested
    assert (run["status"], run["phase"], run["attempt"], run["front"]) == ("queued", "queued", 0, 0)
    mesh = service.http.get(run["links"]["mesh"])
    assert (run["mesh"], mesh.json()) == ("dgx-h100", mesh_to_document(load_mesh("dgx-h100")))
    assert (run["started_at"], run["ended_at"], run["problem"], run["history"]) == (None, None, None, [])
    assert service.store.runs.request(accepted["id"]).options.evaluations == 1000


def test_what_is_left_out_has_its_default(service: Service) -> None:
    run = service.http.get(service.submit().headers["location"]).json()
    assert run["objectives"] == ["time_s", "peak_memory_bytes", "traffic_bytes", "energy_j"]
    assert run["budget"] == {"seconds": 20.0, "evaluations": None, "deadline_seconds": None}
    left_out = {name: run[name] for name in ("seed", "islands", "rules", "pins", "constraints", "verify")}
    assert left_out == {
        "seed": 0,
        "islands": None,
        "rules": None,
        "pins": {},
        "constraints": [],
        "verify": "auto",
    }


def test_a_mesh_may_be_written_out(service: Service) -> None:
    written = {**mesh_to_document(load_mesh("dgx-h100")), "name": "my own"}
    by_name = {"name": "mine", "device": "h100", "axes": written["axes"]}
    for mesh, device in ((written, written["device"]["name"]), (by_name, "h100-sxm5-80gb")):
        answer = service.submit(mesh=mesh)
        run = service.http.get(answer.headers["location"]).json()
        document = service.http.get(run["links"]["mesh"]).json()
        assert (run["mesh"], document["device"]["name"]) == (mesh["name"], device)


@pytest.mark.slow
def test_micro_batches_are_checked_against_the_program(shared: Service) -> None:
    assert shared.submit(micro_batches=2).status_code == 202
    (fault,) = complaint(shared.submit(micro_batches=7), 422, "invalid")["errors"]
    assert fault["pointer"] == "/micro_batches"
    assert "can run in 7 micro-batches; possible are " in fault["detail"]


@pytest.mark.slow
def test_stages_are_checked_against_the_program(shared: Service) -> None:
    assert shared.submit(stages=2, micro_batches=2).status_code == 202
    for options, reason in (
        (
            {"stages": 4, "micro_batches": 2},
            "4 stages need as many micro-batches, and no plan here has more than 2",
        ),
        ({"stages": 3}, "8 devices have no 3 equal parts of one shape; possible are 1, 2, 4, 8"),
    ):
        (fault,) = complaint(shared.submit(**options), 422, "invalid")["errors"]
        assert (fault["pointer"], fault["detail"]) == ("/stages", reason)


@pytest.mark.slow
def test_degrees_are_checked_against_the_program(shared: Service) -> None:
    assert shared.submit(data_parallel=2, tensor_parallel=2).status_code == 202
    (fault,) = complaint(shared.submit(data_parallel=8, micro_batches=16), 422, "invalid")["errors"]
    assert fault["pointer"] == "/data_parallel"
    assert "rows in each micro-batch, not 8 or more" in fault["detail"]


def test_pins_are_checked_against_the_program(shared: Service) -> None:
    assert shared.submit(pins={"y": "[gpu.0, -]"}).status_code == 202
    faults = complaint(shared.submit(pins={"z": "[gpu.0, -]", "y": "gpu"}), 422, "invalid")["errors"]
    assert [(fault["pointer"], fault.get("allowed")) for fault in faults] == [("/pins/y", None)]
    faults = complaint(shared.submit(pins={"yy": "[gpu.0, -]"}), 422, "invalid")["errors"]
    assert [(fault["pointer"], fault["allowed"]) for fault in faults] == [("/pins/yy", ["y"])]


@pytest.mark.parametrize("spec", ["[nosuch.0, -]", "[gpu.9, -]", "[-]"])
def test_a_pin_that_no_strategy_leads_to_is_refused_at_once(shared: Service, spec: str) -> None:
    (fault,) = complaint(shared.submit(pins={"y": spec}), 422, "invalid")["errors"]
    assert fault["pointer"] == "/pins/y"
    assert "pin 'y'" in fault["detail"]


def test_a_mesh_of_the_catalog_can_be_changed_and_posted_back(shared: Service) -> None:
    mesh = shared.http.get("/v1/meshes/dgx-h100").json()
    mesh["axes"][0]["size"] = 4
    assert shared.submit(mesh=mesh).status_code == 202


def test_a_mesh_may_be_any_number_of_nodes(shared: Service) -> None:
    answer = shared.submit(mesh="3x-dgx-h100")
    run = shared.http.get(answer.headers["location"]).json()
    mesh = shared.http.get(run["links"]["mesh"]).json()
    assert (answer.status_code, mesh) == (202, mesh_to_document(load_mesh("3x-dgx-h100")))
    assert shared.http.get("/v1/meshes/3x-dgx-h100").json()["device_count"] == 24


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("0x-dgx-h100", "expected from 1 to 125000 nodes, not 0"),
        ("2x-n300", "states no network"),
        ("2x-./mine.toml", "there is no mesh './mine.toml'"),
    ],
)
def test_a_mesh_that_is_no_number_of_nodes_is_refused_by_pointer(
    shared: Service, name: str, detail: str
) -> None:
    (fault,) = complaint(shared.submit(mesh=name), 422, "invalid")["errors"]
    assert fault["pointer"] == "/mesh" and detail in fault["detail"]
    if "/" not in name:
        complaint(shared.http.get(f"/v1/meshes/{name}"), 404, "unknown_id")


def test_a_run_may_start_from_another_of_a_related_graph(service: Service) -> None:
    finished = service.finished()
    assert service.submit(start_from=finished).status_code == 202
    wider = service.store.graphs.save(two_layers("wider", 128), NOON).id
    assert service.submit(start_from=finished, graph_id=wider).status_code == 202
    other = service.store.graphs.save(stack(1), NOON).id
    faults = complaint(service.submit(start_from=finished, graph_id=other), 422, "invalid")["errors"]
    assert "an unrelated program" in faults[0]["detail"]
    waiting = service.submit().json()["id"]
    faults = complaint(service.submit(start_from=waiting), 422, "invalid")["errors"]
    assert faults[0]["detail"] == f"run {waiting} has no plans to start from (queued)"
    faults = complaint(service.submit(start_from="nothing"), 422, "invalid")["errors"]
    assert faults[0]["pointer"] == "/start_from" and "there is no run 'nothing'" in faults[0]["detail"]


def test_a_graph_that_is_not_there_is_reported_by_pointer(service: Service) -> None:
    faults = complaint(service.submit(graph_id="0" * 32), 422, "invalid")["errors"]
    assert [fault["pointer"] for fault in faults] == ["/graph_id"]
    assert "submit it first (POST /v1/graphs)" in faults[0]["detail"]


def test_a_full_queue_says_when_to_come_back(serve: Serve) -> None:
    service = serve(limits=Limits(queued_jobs=2))
    assert [service.submit().status_code for _ in range(2)] == [202, 202]
    refused = service.submit()
    complaint(refused, 429, "queue_full")
    assert int(refused.headers["retry-after"]) > 0
    assert service.store.jobs.counts()["queued"] == 2


def test_the_priority_of_a_waiting_run_is_requested_and_changed(service: Service) -> None:
    usual, urgent = service.submit().json()["id"], service.submit(priority=3).json()["id"]
    path = f"/v1/runs/{usual}"
    assert service.http.get(f"/v1/runs/{urgent}").json()["priority"] == 3
    assert service.http.patch(path, json={"priority": 7}).json()["priority"] == 7
    first = service.store.jobs.claim("ada", datetime.now(UTC), 15.0)
    assert first is not None and first.subject == usual
    for wrong in ({"priority": 11}, {"priority": 1.5}, {"priority": "high"}, {}, {"priority": 1, "seed": 2}):
        complaint(service.http.patch(path, json=wrong), 422, "invalid")
    assert complaint(service.submit(priority=-11), 422, "invalid")["errors"][0]["pointer"] == "/priority"
    service.http.post(f"/v1/runs/{urgent}/cancel")
    complaint(service.http.patch(f"/v1/runs/{urgent}", json={"priority": 1}), 409, "already_ended")
    complaint(service.http.patch("/v1/runs/0123456789ab", json={"priority": 1}), 404, "unknown_id")


def test_a_waiting_run_has_a_place_until_it_begins(service: Service) -> None:
    runs = [service.submit(seed=seed).json()["id"] for seed in range(2)]
    nobody = {"expected_start": None, "earliest_start": None, "latest_start": None, "guess": True}
    places = [service.http.get(f"/v1/runs/{run}").json()["queue"] for run in runs]
    assert places == [{"position": 1, **nobody}, {"position": 2, **nobody}]
    service.http.patch(f"/v1/runs/{runs[1]}", json={"priority": 1})
    alive = {"host": "here", "pid": 1, "status": "idle", "subject": None}
    service.store.workers.beat("ada", datetime.now(UTC), **alive)
    first, second = (service.http.get(f"/v1/runs/{run}").json()["queue"] for run in reversed(runs))
    assert (first["position"], second["position"]) == (1, 2)
    earliest, expected, latest = (
        (datetime.fromisoformat(second[name]) - datetime.fromisoformat(first[name])).total_seconds()
        for name in ("earliest_start", "expected_start", "latest_start")
    )
    assert 5.0 < earliest < expected < latest  # half of the twenty seconds, all, three times as much
    service.store.jobs.claim("ada", datetime.now(UTC), 15.0)
    assert service.http.get(f"/v1/runs/{runs[1]}").json()["queue"] is None
    assert service.http.get(f"/v1/runs/{runs[0]}").json()["queue"]["position"] == 1


def test_cancelling_ends_a_waiting_run_once(service: Service) -> None:
    path = service.submit().headers["location"]
    answer = service.http.post(f"{path}/cancel")
    assert (answer.status_code, answer.json()["status"]) == (202, "cancelled")
    complaint(service.http.post(f"{path}/cancel"), 409, "already_ended")
    complaint(service.http.post("/v1/runs/0123456789ab/cancel"), 404, "unknown_id")


def test_cancelling_a_running_run_is_left_to_its_worker(service: Service) -> None:
    run_id = service.submit().json()["id"]
    service.store.jobs.claim("ada", datetime.now(UTC), 15.0)
    answer = service.http.post(f"/v1/runs/{run_id}/cancel").json()
    assert (answer["status"], answer["cancel_requested"]) == ("running", True)
    assert service.http.post(f"/v1/runs/{run_id}/cancel").status_code == 202


def test_a_frontier_is_sorted_by_the_first_objective(service: Service) -> None:
    run_id = service.finished()
    frontier = service.http.get(f"/v1/runs/{run_id}/frontier").json()
    assert (frontier["run"], frontier["status"]) == (run_id, "succeeded")
    assert frontier["objectives"][0] == {
        "name": "time_s",
        "unit": "s",
        "direction": "minimize",
        "title": "time",
        "description": "makespan of one execution of the graph",
        "expression": "time_ticks / 1e12",
    }
    assert [plan["cost"]["time_s"] for plan in frontier["plans"]] == [1e-3, 2e-3]
    plan = frontier["plans"][0]
    assert plan["id"] == f"{run_id}-{plan['plan']}"
    assert plan["cost"]["compute_flops"] == 2**60 + 1
    assert (plan["feasible"], plan["devices"], plan["move_count"]) == (True, "all", 2)
    assert plan["verified"]["memory"]["counted"] == plan["cost"]["peak_memory_bytes"]


def test_a_run_that_is_over_reports_its_history(service: Service) -> None:
    run = service.http.get(f"/v1/runs/{service.finished()}").json()
    assert [point["hypervolume"] for point in run["history"]] == [0.25, 0.5]
    assert run["rule_statistics"] == {"reshard": {"applied": 100, "improved": 3}}
    (refusal,) = run["refused_rules"]
    assert (refusal["rule"], refusal["reason"]) == ("cube", "its guard fails")
    assert refusal["hint"].startswith("its author should see the reason")
    assert (run["host"], run["versions"], run["timings"]) == (
        {"cores": 2},
        {"python": "3.11"},
        {"compile_s": 0.25},
    )


def test_a_run_that_is_over_reports_its_proven_bounds(service: Service) -> None:
    waiting = service.http.get(f"/v1/runs/{service.submit().json()['id']}").json()
    run = service.http.get(f"/v1/runs/{service.finished()}").json()
    scope = {
        "structures": 2,
        "views": ["gpu.0 x gpu.1 x gpu.2"],
        "schedule_orders": ["program"],
        "devices": ["all"],
        "micro_batches": [1],
    }
    gap = pytest.approx(0.2)
    assert run["bounds"] == {"time_s": {"bound": 8e-4, "best": 1e-3, "gap": gap, "scope": scope}}
    assert run["expected"] == {"time_s": 0.0025, "peak_memory_bytes": 0.0}
    assert (waiting["bounds"], waiting["expected"]) == ({}, {})


@pytest.mark.parametrize(
    "path", ["/v1/runs", "/healthz", "/v1/objectives", "/", "/v1/runs/0123456789ab", "/nowhere"]
)
def test_heads_are_those_of_the_answers(shared: Service, path: str) -> None:
    head, whole = shared.http.head(path), shared.http.get(path)
    own = ("x-request-id", "date")
    assert head.content == b"" and head.status_code == whole.status_code
    assert {k: v for k, v in head.headers.items() if k not in own} == {
        k: v for k, v in whole.headers.items() if k not in own
    }


def test_the_head_of_a_stream_ends(service: Service) -> None:
    run_id = service.submit().json()["id"]
    answer = service.http.head(f"/v1/runs/{run_id}/events", timeout=10)
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/event-stream")
    assert service.http.get("/healthz").status_code == 200


def test_a_run_says_whether_a_request_may_name_its_mesh(service: Service) -> None:
    def is_named(mesh: object, **options: object) -> object:
        answer = service.submit(mesh=mesh, fresh=True, **options)
        return service.http.get(answer.headers["location"]).json()["mesh_is_named"]

    own = mesh_to_document(load_mesh("dgx-h100"))
    half = own | {"axes": [own["axes"][0] | {"size": 4}]}
    assert [is_named(mesh) for mesh in ("dgx-h100", "2x-dgx-h100", own)] == [True, True, True]
    assert is_named("dgx-h100", robust=0.9)
    assert [is_named(mesh) for mesh in (half, own | {"name": "my own"}, own | {"name": "/etc/passwd"})] == [
        False
    ] * 3
