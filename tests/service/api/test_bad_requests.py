"""Tests of every field of a run's request, wrong in every way: refused with a pointer and the allowed values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tapestry.costmodel.objectives import NAMES
from tapestry.hardware import load_mesh, mesh_names
from tapestry.hardware.mesh import TOPOLOGIES
from tapestry.optimizer.run.options import OPTIONS
from tapestry.rewrites import catalog
from tapestry.service.api.bodies import RunBody
from tapestry.service.store import mesh_to_document
from tests.service.api.conftest import Service, complaint

MESH = mesh_to_document(load_mesh("dgx-h100"))
AXIS = MESH["axes"][0]
DTYPES = sorted({*MESH["device"]["peak_flops_per_s"], *MESH["device"]["compute_dtype_default"]})
NO_TEXT = (5, 1.5, True, None, [], {})
NO_WHOLE = ("5", 1.5, True, [], {})
TOO_LONG = "a" * 1001
UNPRINTABLE = ("a\u0000b", "\ud800", "\u001b[31m")


def mesh(**changes: Any) -> dict[str, Any]:
    return {**MESH, **changes}


def device(**changes: Any) -> dict[str, Any]:
    return mesh(device={**MESH["device"], **changes})


def axis(**changes: Any) -> dict[str, Any]:
    return mesh(axes=[{**AXIS, **changes}])


WRONG: tuple[tuple[str, Any, str, Any], ...] = (  # field, value, pointer, allowed values where they are few
    *[
        ("graph_id", value, "/graph_id", None)
        for value in (*NO_TEXT, "", "x", "A" * 32, "0" * 33, "0" * 31 + "\n")
    ],
    *[("mesh", value, "/mesh", None) for value in (5, 1.5, True, None, [], TOO_LONG, *UNPRINTABLE)],
    *[
        ("mesh", value, "/mesh", list(mesh_names()))
        for value in ("", "dgx-h10", "DGX-H100", "../../x.toml", "/etc/passwd", "x.toml", "a\\b", "dgx-h100 ")
    ],
    *[("mesh", f"dgx-h100+{name}", "/mesh", list(mesh_names())) for name in ("", "x.toml", "2x-/etc/x.toml")],
    ("mesh", "dgx-h100+t3000", "/mesh", None),
    *[
        ("mesh", {"name": "a", "nodes": ["dgx-h100", name]}, "/mesh/nodes/1", list(mesh_names()))
        for name in ("x.toml", "/etc/passwd", "2x-x.toml")
    ],
    ("mesh", {"name": "a", "nodes": [mesh(device="/etc/x.toml")]}, "/mesh/nodes/0/device", ...),
    ("mesh", {"name": "a", "nodes": ["dgx-h100", "t3000"]}, "/mesh/network", None),
    ("mesh", {"name": "a", "nodes": 5}, "/mesh/nodes", None),
    ("mesh", mesh(device=5), "/mesh/device", None),
    *[
        ("mesh", mesh(device=v), "/mesh/device", ...)
        for v in ("h10", "/etc/passwd", "../h100.toml", "h100.toml", "")
    ],
    ("mesh", mesh(name=5), "/mesh/name", None),
    ("mesh", mesh(name=""), "/mesh/name", None),
    ("mesh", mesh(name="a\u0000"), "/mesh/name", None),
    ("mesh", mesh(name=TOO_LONG), "/mesh/name", None),
    ("mesh", mesh(axes=[]), "/mesh/axes", None),
    ("mesh", mesh(axes={}), "/mesh/axes", None),
    ("mesh", mesh(axes=[5]), "/mesh/axes/0", None),
    ("mesh", mesh(axes=[AXIS, AXIS]), "/mesh/axes", None),
    ("mesh", mesh(axes=[{**AXIS, "size": 10**7}]), "/mesh/axes", None),
    ("mesh", mesh(axis=[AXIS]), "/mesh/axis", None),
    ("mesh", axis(name="a b"), "/mesh/axes/0/name", None),
    ("mesh", axis(size=0), "/mesh/axes/0/size", None),
    ("mesh", axis(size=True), "/mesh/axes/0/size", None),
    ("mesh", axis(size=10**400), "/mesh/axes/0/size", None),
    ("mesh", axis(topology="star"), "/mesh/axes/0/topology", list(TOPOLOGIES)),
    ("mesh", axis(latency_s=-1), "/mesh/axes/0/latency_s", None),
    ("mesh", axis(bandwidth_bytes_per_s="fast"), "/mesh/axes/0/bandwidth_bytes_per_s", None),
    ("mesh", axis(bandwidth_bytes_per_s=1e300), "/mesh/axes/0/bandwidth_bytes_per_s", None),
    ("mesh", axis(file="/etc/passwd"), "/mesh/axes/0/file", None),
    ("mesh", device(memory_bytes=-1), "/mesh/device/memory_bytes", None),
    ("mesh", device(memory_bytes=None), "/mesh/device/memory_bytes", None),
    ("mesh", device(tiles=[]), "/mesh/device/tiles", None),
    ("mesh", device(tiles=[{"m": 0, "n": 1, "k": 1}]), "/mesh/device/tiles/0/m", None),
    ("mesh", device(peak_flops_per_s={"fp32": "x"}), "/mesh/device/peak_flops_per_s/fp32", None),
    ("mesh", device(peak_flops_per_s={"fp61": 1e14}), "/mesh/device/peak_flops_per_s/fp61", None),
    ("mesh", device(include="x.toml"), "/mesh/device/include", None),
    *[("objectives", value, "/objectives", None) for value in (5, "time_s", True, None, {})],
    ("objectives", [], "/objectives", list(NAMES)),
    ("objectives", ["time"], "/objectives/0", list(NAMES)),
    ("objectives", ["time_s", "time_s"], "/objectives/1", None),
    ("objectives", ["time_s", 5], "/objectives/1", None),
    ("objectives", ["time_s"] * 101, "/objectives", None),
    *[("constraints", value, "/constraints", None) for value in (5, "time_s<=1", None, {})],
    *[
        ("constraints", ["time_s<=1", value], "/constraints/1", None)
        for value in (
            "",
            "time_s",
            "time_s>=5",
            "tim_s<=5",
            "time_s<=5GiB",
            "time_s<=1e999",
            "time_s<=.",
            TOO_LONG,
            5,
        )
    ],
    ("constraints", ["time_s<=1"] * 33, "/constraints", None),
    *[("budget", value, "/budget", None) for value in (5, "10s", None, [])],
    *[
        ("budget", {"seconds": v}, "/budget/seconds", None)
        for v in ("5", True, [], 0, -1, 3601, 1e300, 10**400)
    ],
    *[
        ("budget", {"evaluations": value}, "/budget/evaluations", None)
        for value in (*NO_WHOLE, 0, -1, 10**9 + 1, 10**400)
    ],
    ("budget", {"minutes": 5}, "/budget/minutes", ["seconds", "evaluations", "deadline_seconds"]),
    *[("fresh", value, "/fresh", None) for value in (5, "yes", None, [])],
    *[("seed", value, "/seed", None) for value in (*NO_WHOLE, None, -1, 2**63, 10**400)],
    *[("islands", value, "/islands", None) for value in (*NO_WHOLE, 0, -1, 65, 10**400)],
    *[("rules", value, "/rules", None) for value in (5, "fuse_cells", {})],
    ("rules", ["fuse_cell"], "/rules/0", list(catalog())),
    ("rules", [5], "/rules/0", None),
    *[("pins", value, "/pins", None) for value in (5, "y=[-]", [], None)],
    ("pins", {"y": 5}, "/pins/y", None),
    *[
        ("pins", {"a/b~c": v}, "/pins/a~1b~0c", None)
        for v in ("", "gpu", "[", "[gpu.0, -] sum(", "[-/0]", TOO_LONG)
    ],
    *[("worth", value, "/worth", None) for value in (5, "time_s=1usd/s", [], None)],
    ("worth", {"time_s": 5}, "/worth/time_s", None),
    *[("priority", value, "/priority", None) for value in (*NO_WHOLE, -11, 11, 10**400)],
    *[
        ("worth", {"time_s": value}, "/worth/time_s", None)
        for value in ("", "120", "0usd/s", "-1usd/s", "nanusd/s", "1usd/B", TOO_LONG)
    ],
    ("worth", {"tim_s": "1usd/s"}, "/worth/tim_s", None),
    *[("gap", value, "/gap", None) for value in ("half", "", "101%", "-1%", "nan%", "1e-1%", "1.5", "0.5%%")],
    *[
        ("start_from", value, "/start_from", None)
        for value in (5, True, [], "", "x", "0123456789ab", "a\u0000", "../x")
    ],
    *[("prior", value, "/prior", None) for value in (5, True, [], TOO_LONG)],
    *[("prior", value, "/prior", ["latest", "none"]) for value in ("", "newest", "0", "-1", "1.5", "007")],
    *[("prior", value, "/prior", None) for value in ("999999", "9" * 30)],
    *[("compute_dtype", value, "/compute_dtype", None) for value in (5, [], TOO_LONG)],
    ("compute_dtype", "float7", "/compute_dtype", DTYPES),
    ("dtype", 5, "/dtype", None),
    *[("dtype", value, "/dtype", ["bf16", "fp16", "fp8"]) for value in ("", "half", "fp61")],
    ("launch", ["eager"], "/launch", None),
    ("launch", "later", "/launch", ["captured", "eager", "unfused"]),
    *[("devices", value, "/devices", None) for value in NO_TEXT],
    ("devices", "some", "/devices", ["any", "all"]),
    ("inputs", "sharded", "/inputs", ["chosen", "replicated"]),
    ("outputs", "", "/outputs", ["sharded", "gathered"]),
    ("layouts", "tiled", "/layouts", ["chosen", "native"]),
    *[("micro_batches", value, "/micro_batches", None) for value in (*NO_WHOLE, 0, -1, 4097, 10**400)],
    *[("stages", value, "/stages", None) for value in (*NO_WHOLE, 0, -1, 3, 4097, 10**400)],
    *[("data_parallel", value, "/data_parallel", None) for value in (*NO_WHOLE, 0, -1, 3, 16, 10**400)],
    *[("tensor_parallel", value, "/tensor_parallel", None) for value in (*NO_WHOLE, 0, -1, 3, 16, 10**400)],
    ("verify", "yes", "/verify", ["auto", "none", "dry", "execute"]),
    *[
        (option.name, value, option.pointer, None)
        for option in OPTIONS
        if option.kind in ("integer", "number") and option.path == (option.name,)
        for value in ("5", [], {}, True, 10**400)
    ],
    ("color", "red", "/color", list(RunBody.model_fields)),
)


@pytest.mark.parametrize(("field", "value", "pointer", "allowed"), WRONG)
def test_a_wrong_field_is_pointed_at(
    shared: Service, field: str, value: Any, pointer: str, allowed: Any
) -> None:
    requested = {"graph_id": shared.graph(), "mesh": "dgx-h100", field: value}
    answer = shared.http.post(
        "/v1/runs", content=json.dumps(requested), headers={"Content-Type": "application/json"}
    )
    faults = complaint(answer, 422, "invalid")["errors"]
    assert {fault["pointer"] for fault in faults} == {pointer}
    if allowed is ...:
        assert "h100" in faults[0]["allowed"]
    elif allowed is not None:
        assert faults[0]["allowed"] == allowed


def test_all_fields_are_tried() -> None:
    assert {field for field, *_ in WRONG} == {*RunBody.model_fields, "color"}


def test_figures_that_json_has_not_are_refused(shared: Service) -> None:
    for text in ("NaN", "Infinity", "-Infinity", "1e999"):
        content = f'{{"graph_id": "{shared.graph()}", "mesh": "dgx-h100", "budget": {{"seconds": {text}}}}}'
        answer = shared.http.post("/v1/runs", content=content, headers={"Content-Type": "application/json"})
        assert complaint(answer, 422, "invalid")["errors"][0]["pointer"] == "/budget/seconds"


def test_all_faults_are_reported_at_once(shared: Service) -> None:
    requested = shared.request(mesh="dgx-h10", seed=-1, verify="no", rules=["x"], start_from="y")
    faults = complaint(shared.http.post("/v1/runs", json=requested), 422, "invalid")["errors"]
    pointers = sorted(fault["pointer"] for fault in faults)
    assert pointers == ["/mesh", "/rules/0", "/seed", "/start_from", "/verify"]


def test_the_faults_of_a_mesh_are_reported_with_that_of_its_device(shared: Service) -> None:
    wrong = mesh(device="h10", axes=[{**AXIS, "sise": 8, "topology": "swich"}])
    faults = complaint(shared.submit(mesh=wrong), 422, "invalid")["errors"]
    assert sorted(fault["pointer"] for fault in faults) == [
        "/mesh/axes/0/sise",
        "/mesh/axes/0/topology",
        "/mesh/device",
    ]


def test_a_whole_number_may_be_written_with_a_point(shared: Service) -> None:
    assert shared.submit(seed=7.0, islands=1.0, priority=0.0, budget={"evaluations": 5.0}).status_code == 202
    for changes in ({"seed": 7.5}, {"seed": 1e300}, {"priority": 11.0}):
        (fault,) = complaint(shared.submit(**changes), 422, "invalid")["errors"]
        assert fault["pointer"] == f"/{next(iter(changes))}"


def test_options_of_a_batch_with_which_no_entry_can_be_carried_out_are_refused(shared: Service) -> None:
    batch = {"graphs": [shared.graph()], "meshes": ["dgx-h100", "2x-dgx-h100"], "budget": {"evaluations": 1}}
    for changes, pointer in (
        ({"execution_seconds": -1}, "/execution_seconds"),
        ({"prior": "newest"}, "/prior"),
        ({"meshes": ["dgx-h10"], "epsilon": 5}, "/epsilon"),
    ):
        answer = shared.http.post("/v1/batches", json=batch | changes)
        assert [fault["pointer"] for fault in complaint(answer, 422, "invalid")["errors"]] == [pointer]
    made = shared.http.post("/v1/batches", json=batch | {"meshes": ["dgx-h10", "dgx-h100"]})
    assert made.status_code == 202
    assert [entry["status"] for entry in made.json()["entries"]] == ["failed", "queued"]
    made = shared.http.post("/v1/batches", json=batch | {"stages": 16})  # of sixteen devices, not of eight
    assert [entry["status"] for entry in made.json()["entries"]] == ["failed", "queued"]


def test_near_names_are_offered(shared: Service) -> None:
    fault = complaint(shared.submit(mesh="dgx-h10"), 422, "invalid")["errors"][0]
    assert fault["detail"].startswith("there is no mesh 'dgx-h10'; did you mean dgx-h100")


def test_an_objective_needs_what_the_device_does_not_state(shared: Service) -> None:
    silent = {k: v for k, v in MESH["device"].items() if k != "price_usd_per_hour"}
    fault = complaint(shared.submit(mesh=mesh(device=silent), objectives=["price_usd"]), 422, "invalid")[
        "errors"
    ][0]
    assert fault["pointer"] == "/objectives/0"
    assert "has no price_usd_per_hour" in fault["detail"]


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("backend", "cuda", ["numpy", "torch"]),
        ("backend", 5, ["numpy", "torch"]),
        ("values", "yes", None),
        ("values", 1, None),
        ("seed", -1, None),
        ("seed", 2**63, None),
        ("seed", "0", None),
        ("trace", True, ["backend", "values", "seed", "tensors", "save", "outputs"]),
    ],
)
def test_a_wrong_field_of_an_execution_is_pointed_at(
    shared: Service, field: str, value: Any, allowed: list[str] | None
) -> None:
    plan = shared.http.get(f"/v1/runs/{shared.finished()}/frontier").json()["plans"][0]["id"]
    answer = shared.http.post(f"/v1/plans/{plan}/executions", json={field: value})
    faults = complaint(answer, 422, "invalid")["errors"]
    assert [fault["pointer"] for fault in faults] == [f"/{field}"]
    assert faults[0].get("allowed") == allowed


def test_all_faults_of_a_mesh_are_reported_in_one_answer(shared: Service) -> None:
    requested = {
        "graph_id": shared.graph(),
        "mesh": mesh(axes=[{**AXIS, "latency_s": 4, "efficiency": 80}], name=""),
    }
    faults = complaint(shared.http.post("/v1/runs", json=requested), 422, "invalid")["errors"]
    assert [fault["pointer"] for fault in faults] == [
        "/mesh/name",
        "/mesh/axes/0/latency_s",
        "/mesh/axes/0/efficiency",
    ]
    empty = complaint(shared.http.post("/v1/runs", json=requested | {"mesh": {}}), 422, "invalid")["errors"]
    assert [fault["pointer"] for fault in empty] == ["/mesh/name", "/mesh/device", "/mesh/axes"]


def test_faults_of_form_and_of_meaning_come_in_one_answer(shared: Service) -> None:
    body = shared.request() | {
        "seed": "1",
        "mesh": "dgx-h10",
        "objectives": ["tim_s"],
        "colr": 1,
        "rules": ["fuse_cell"],
    }
    message = complaint(shared.http.post("/v1/runs", json=body), 422, "invalid")
    found = {fault["pointer"]: fault["detail"] for fault in message["errors"]}
    assert found.keys() == {"/seed", "/mesh", "/objectives/0", "/colr", "/rules/0"}
    assert found["/seed"] == "expected a whole number, not '1'"
    assert "did you mean dgx-h100" in found["/mesh"]
