"""Tests of plans: shown, expanded, exported, executed."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tapestry.costmodel.version import COST_MODEL_VERSION
from tapestry.hardware.timing import ClassTime, TimeEstimate
from tapestry.rewrites import RULES, Move, apply_move, find
from tapestry.service.api.plan_exports import EXPORTS, PlanExport
from tapestry.service.api.tasks import EXPLANATION
from tapestry.service.settings import Limits
from tapestry.service.store import NewExecution
from tapestry.teg.binding import bind_values
from tapestry.teg.document import from_document
from tapestry.teg.importers.shardings.files import read_shardings
from tapestry.teg.sharding.text import placements_from_document
from tests.service.api.conftest import Serve, Service, complaint
from tests.service.programs import NOON, finished_run, plan_by_hand, two_layers


def first_plan(service: Service) -> str:
    """Return the id of the fastest plan of a new finished run; it was executed once."""
    return str(service.http.get(f"/v1/runs/{service.finished()}/frontier").json()["plans"][0]["id"])


def test_a_plan_shows_its_decisions_and_history(service: Service) -> None:
    plan_id = first_plan(service)
    plan = service.http.get(f"/v1/plans/{plan_id}").json()
    run_id, _, short = plan_id.partition("-")
    assert (plan["id"], plan["plan"], plan["run"]) == (plan_id, short, run_id)
    assert (plan["mesh"], plan["on_frontier"], plan["move_count"]) == ("dgx-h100", True, 2)
    assert plan["objectives"] == ["time_s", "peak_memory_bytes"]
    assert plan["moves"][0] == {"rule": "reshard", "place": "y", "choice": "(gpu.0, -, -)"}
    assert service.http.get(plan["links"]["moves"]).json() == {"moves": plan["moves"]}
    assert str(placements_from_document(plan["placements"]).blocks["y"].strategy) == "(gpu.0, -, -)"
    assert [execution["status"] for execution in plan["executions"]] == ["succeeded"]


def test_a_short_id_is_the_plan_of_the_newest_run(service: Service) -> None:
    first, second = first_plan(service), first_plan(service)
    short = first.partition("-")[2]
    assert first != second
    assert service.http.get(f"/v1/plans/{short}").json()["id"] in (first, second)
    assert service.http.get(f"/v1/plans/{short}").json()["plan"] == short


@pytest.mark.slow
def test_a_history_is_costed_once_and_kept(shared: Service) -> None:
    plan_id = first_plan(shared)
    reported = shared.http.get(f"/v1/plans/{plan_id}/explanation", timeout=120).json()
    plan = shared.http.get(f"/v1/plans/{plan_id}").json()
    assert (reported["plan"], reported["objectives"]) == (plan_id, plan["objectives"])
    assert [move for step in reported["steps"] for move in step["moves"]] == plan["moves"]
    assert reported["steps"][-1]["cost"] == reported["cost"]
    assert reported["as_stored"] is False, "the costs of this plan were made up"
    assert reported["blocks"]["hidden"]["origins"] == ["hidden"]
    assert reported["events"][0] == {"move": 1, **plan["moves"][0], "effect": "placed", "site": "y"}
    kept = shared.store.plans.artifact(shared.store.plans.get(plan_id).key, EXPLANATION)
    assert kept is not None and json.loads(gzip.decompress(kept)) == reported


def test_a_plan_of_an_older_cost_model_says_so_wherever_its_costs_are(shared: Service) -> None:
    run = finished_run(two_layers())
    older = replace(run.result.frontier[0], cost_model=1)
    run_id = shared.store.runs.save_finished(replace(run, result=replace(run.result, frontier=(older,))))
    path = f"/v1/plans/{run_id}-{older.id}"
    (shown,) = shared.http.get(f"/v1/runs/{run_id}/frontier").json()["plans"]
    reported = shared.http.get(f"{path}/explanation", timeout=120).json()
    note = f"costed by an older model (1; this is {COST_MODEL_VERSION})"
    for document in (shown, shared.http.get(path).json()):
        assert (document["cost_model"], document["cost_model_note"]) == (1, note)
    assert (reported["cost_model"], reported["cost_model_note"]) == (COST_MODEL_VERSION, note)


def test_times_have_intervals_and_leads_without_any_check(shared: Service) -> None:
    """Check a fast plan, one that copies more and one whose class is known less; the latter may be the fastest."""
    run = finished_run(two_layers())
    product = ClassTime(1e-3, 0.1)
    times = (
        TimeEstimate({"matrix_product.bf16": product, "all_gather on gpu": ClassTime(1e-3, 0.05)}),
        TimeEstimate({"matrix_product.bf16": product, "all_gather on gpu": ClassTime(2e-3, 0.05)}),
        TimeEstimate({"matrix_product.bf16": product, "scan.bf16": ClassTime(1.2e-3, 0.5)}),
    )
    plans = [replace(plan_by_hand(two_layers(), t.seconds, k), time=t) for k, t in enumerate(times)]
    result = replace(run.result, frontier=tuple(plans))
    run_id = shared.store.runs.save_finished(replace(run, result=result, verified={}, executions={}))
    shown = {plan["plan"]: plan for plan in shared.http.get(f"/v1/runs/{run_id}/frontier").json()["plans"]}
    fast, copying, uncertain = (shown[plan.id] for plan in plans)
    for document, time in zip((fast, copying, uncertain), times, strict=True):
        assert document["verified"] is None and document["time"] == time.to_json()
        assert shared.http.get(f"/v1/plans/{document['id']}").json()["lead"] == document["lead"]
    assert fast["lead"] == {"other": uncertain["id"], **times[0].difference(times[2]).to_json()}
    assert (copying["lead"]["other"], uncertain["lead"]["other"]) == (fast["id"], fast["id"])
    assert copying["lead"]["seconds"] == pytest.approx(-1e-3)
    assert copying["lead"]["error_s"] == pytest.approx(5e-5), (
        "the error of the products is common and cancels out"
    )
    assert (copying["lead"]["within_error"], copying["lead"]["rests_on"]) == (False, "all_gather on gpu")
    assert (uncertain["lead"]["within_error"], uncertain["lead"]["rests_on"]) == (True, "scan.bf16")


def test_a_plan_stored_without_its_time_has_none(service: Service) -> None:
    plan = service.http.get(f"/v1/plans/{first_plan(service)}").json()
    assert (plan["time"], plan["lead"]) == (None, None)


def test_a_history_whose_rule_is_gone_is_refused_with_a_hint(shared: Service) -> None:
    graph = two_layers()
    run = finished_run(graph)
    stale = replace(run.result.frontier[0], moves=(Move("gone", "y"), *run.result.frontier[0].moves))
    run_id = shared.store.runs.save_finished(
        replace(run, result=replace(run.result, frontier=(stale,)), verified={}, executions={})
    )
    path = f"/v1/plans/{run_id}-{stale.id}"
    compared = complaint(shared.http.get(f"{path}/changes"), 422, "stale_history")["detail"]
    assert "there is no rule 'gone'" in compared
    message = complaint(shared.http.get(f"{path}/explanation", timeout=120), 422, "stale_history")["detail"]
    assert "there is no rule 'gone'" in message and "install the plug-in" in message
    assert shared.http.get(path).status_code == 200


def weighted_plan(service: Service) -> str:
    """Return the id of a plan of a program that brings values along."""
    run = service.store.runs.save_finished(finished_run(two_layers(with_weights=True)))
    return str(service.http.get(f"/v1/runs/{run}/frontier").json()["plans"][0]["id"])


def test_an_explicit_graph_is_sent_packed_or_plain_and_not_kept(shared: Service) -> None:
    plan_id = first_plan(shared)
    answer = shared.http.get(f"/v1/plans/{plan_id}/graph", headers={"Accept-Encoding": "gzip"})
    assert (answer.status_code, answer.headers["content-encoding"]) == (200, "gzip")
    graph = from_document(answer.json())
    shards = {block.device: block.index for block in graph.blocks if block.site.startswith("y@")}
    rows = [(shards[device].start[0], shards[device].end[0]) for device in range(8)]
    assert rows == [(0, 32)] * 4 + [(32, 64)] * 4  # gpu.0 is the first of three halvings of eight devices
    plain = shared.http.get(f"/v1/plans/{plan_id}/graph", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers and "content-length" not in plain.headers
    assert plain.content == answer.content
    assert plain.headers["etag"] != answer.headers["etag"]
    again = {"Accept-Encoding": "identity", "If-None-Match": plain.headers["etag"]}
    assert shared.http.get(f"/v1/plans/{plan_id}/graph", headers=again).status_code == 304
    part = shared.http.get(f"/v1/plans/{plan_id}/graph?device=0", headers=again)
    assert (part.status_code, part.headers["etag"]) != (304, plain.headers["etag"])


def test_weights_are_named_by_content_and_found_in_the_rewritten_graph(shared: Service) -> None:
    plan_id = weighted_plan(shared)
    explicit = from_document(shared.http.get(f"/v1/plans/{plan_id}/graph").json())
    assert (set(explicit.data), len(explicit.external)) == (set(), 8)
    assert {named.tensor for named in explicit.external.values()} == {"up"}
    rewritten = from_document(shared.http.get(f"/v1/plans/{plan_id}/export?to=rewritten").json())
    assert rewritten == two_layers(with_weights=True)
    assert len(bind_values(explicit, rewritten.data).data) == 8


def test_a_part_of_an_explicit_graph_is_of_devices_layers_and_blocks(shared: Service) -> None:
    plan_id = first_plan(shared)
    query = {"device": [1, 6], "block": "y"}
    answer = shared.http.get(f"/v1/plans/{plan_id}/graph", params=query)
    assert answer.headers["content-disposition"] == f'attachment; filename="{plan_id}.part.teg.json"'
    blocks = from_document(answer.json()).blocks
    assert [b.site for b in blocks if b.operator == "contract"] == ["y@1", "y@6"]
    assert {b.site for b in blocks if b.operator == "source"} == {
        *("active@1.received", "active@6.received", "down@1", "down@6")
    }
    exported = shared.http.get(f"/v1/plans/{plan_id}/export", params={"to": "teg", **query})
    assert exported.content == answer.content


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("device=8", "there is no device 8; the plan uses 0 to 7"),
        ("layer=3", "there is no layer '3'; there are none"),
        ("block=hiden", "no block is called 'hiden'; did you mean hidden?"),
    ],
)
def test_a_part_that_does_not_exist_is_refused_by_its_parameter(
    shared: Service, query: str, message: str
) -> None:
    found = complaint(shared.http.get(f"/v1/plans/{first_plan(shared)}/graph?{query}"), 422, "invalid")
    assert [(e["pointer"], e["detail"]) for e in found["errors"]] == [
        (f"#query/{query.partition('=')[0]}", message)
    ]


@pytest.mark.parametrize("query", ["device=-1", "device=x", "layer=", "block=%00", "layer=" + "0" * 201])
def test_malformed_parts_are_refused(shared: Service, query: str) -> None:
    complaint(shared.http.get(f"/v1/plans/{first_plan(shared)}/graph?{query}"), 422, "invalid")


def test_other_formats_have_no_parts(shared: Service) -> None:
    path = f"/v1/plans/{first_plan(shared)}/export"
    found = complaint(shared.http.get(f"{path}?to=csv&device=1"), 422, "invalid")
    assert found["detail"] == "'csv' is exported whole; leave device, layer and block out"


@pytest.mark.parametrize("limits", [Limits(explicit_nodes=20), Limits(explicit_bytes=2000)])
def test_an_explicit_graph_beyond_a_limit_is_refused_with_size_and_limit(
    serve: Serve, limits: Limits
) -> None:
    service = serve(limits=limits)
    path = f"/v1/plans/{first_plan(service)}/graph"
    found = complaint(service.http.get(path), 422, "too_large_to_unfold")
    assert found["limit"] == {"nodes": limits.explicit_nodes, "size_bytes": limits.explicit_bytes}
    assert found["size"]["nodes"] == 72 and 15_000 < found["size"]["size_bytes"] < 30_000
    assert "about 72 nodes" in found["detail"] and "by device, layer or block" in found["detail"]
    assert f"at most {limits.explicit_nodes:,} nodes" in found["detail"]
    assert service.http.get(f"{path}?device=0&block=x").status_code == 200


def test_a_plan_is_exported_to_what_others_read(shared: Service) -> None:
    plan_id = first_plan(shared)

    def export(to: str) -> tuple[str, str]:
        answer = shared.http.get(f"/v1/plans/{plan_id}/export", params={"to": to})
        assert answer.status_code == 200, answer.text
        return answer.headers["content-type"], answer.text

    assert export("teg")[1] == shared.http.get(f"/v1/plans/{plan_id}/graph").text
    plan = shared.http.get(f"/v1/plans/{plan_id}").json()
    assert shared.http.get(f"/v1/plans/{plan_id}/export?to=placements").json() == plan["placements"]
    kind, text = export("csv")
    assert kind.startswith("text/csv")
    assert text.splitlines() == [
        "objective,predicted,counted",
        "time_s,0.001,",
        "peak_memory_bytes,1048576,1048576",
        "compute_flops,1152921504606846977,",
        f"cost_model,{COST_MODEL_VERSION},",
    ]
    kind, text = export("dot")
    assert kind.startswith("text/vnd.graphviz")
    assert text.startswith('digraph "two_layers" {')


@pytest.mark.parametrize("export", EXPORTS, ids=lambda export: export.name)
def test_every_export_is_described_and_of_its_media_type(shared: Service, export: PlanExport) -> None:
    path = "/v1/plans/{plan_id}/export"
    endpoint = shared.http.get("/openapi.json").json()["paths"][path]["get"]
    (to,) = (p for p in endpoint["parameters"] if p["name"] == "to")
    assert export.name in to["schema"]["enum"] and f"{export.name}: {export.description}" in to["description"]
    assert export.media_type in endpoint["responses"]["200"]["content"]
    answer = shared.http.get(path.format(plan_id=first_plan(shared)), params={"to": export.name})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].partition(";")[0] == export.media_type
    assert answer.content


@pytest.mark.parametrize("query", ["to=pdf", "to=", "", "to=../x"])
def test_other_forms_are_refused_by_what_there_is(shared: Service, query: str) -> None:
    faults = complaint(shared.http.get(f"/v1/plans/{first_plan(shared)}/export?{query}"), 422, "invalid")[
        "errors"
    ]
    assert [fault["pointer"] for fault in faults] == ["#query/to"]
    if query:
        assert faults[0]["allowed"] == [export.name for export in EXPORTS]


# `two_layers` as JAX lowers it: arguments have the names of the caller, results those of their paths.
MODULE = """
module @two_layers {
  func.func public @main(%arg0: tensor<64x64xf32> loc("x"), %arg1: tensor<64x256xf32> loc("up"),
      %arg2: tensor<256x64xf32> loc("down")) -> (tensor<64x64xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0]
        : (tensor<64x64xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
    %1 = stablehlo.tanh %0 : tensor<64x256xf32>
    %2 = stablehlo.dot_general %1, %arg2, contracting_dims = [1] x [0]
        : (tensor<64x256xf32>, tensor<256x64xf32>) -> tensor<64x64xf32>
    return %2 : tensor<64x64xf32>
  }
}
"""


def test_the_table_of_a_plan_is_written_into_a_program_that_is_sent_along(
    shared: Service, tmp_path: Path
) -> None:
    pytest.importorskip("jaxlib")
    plan_id = first_plan(shared)
    path = f"/v1/plans/{plan_id}/export"
    answer = shared.http.post(path, params={"to": "shardy"}, files={"file": ("step.mlir", MODULE.encode())})
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, "text/plain")
    assert f"{plan_id}.shardy.mlir" in answer.headers["content-disposition"]

    # The program states of its tensors what the table does.
    file = tmp_path / "sharded.mlir"
    file.write_text(answer.text)
    table = shared.http.get(path, params={"to": "table"}).json()
    shardings = read_shardings(file)
    assert [(a.name, a.size) for a in shardings.axes] == [
        (axis["name"], axis["size"]) for axis in table["mesh"]["axes"]
    ]
    stated = {tensor.name: [split.axes for split in tensor.dims] for tensor in shardings.tensors}
    tensors = {t["name"]: [tuple(dim["axes"]) for dim in t["dims"]] for t in table["tensors"]}
    assert stated == {name: tensors[name] for name in ("x", "up", "down", "result")}


def test_another_program_than_the_one_that_was_searched_is_refused(shared: Service) -> None:
    pytest.importorskip("jaxlib")
    path = f"/v1/plans/{first_plan(shared)}/export"
    other = MODULE.replace("64x256", "64x128").replace("256x64", "128x64").encode()
    for content, reason in ((other, "has shape"), (b"module {", "is not a StableHLO module"), (b"", "")):
        answer = shared.http.post(path, params={"to": "shardy"}, files={"file": ("step.mlir", content)})
        (fault,) = complaint(answer, 422, "invalid")["errors"]
        assert fault["pointer"] == "/file" and reason in fault["detail"]
        assert "tapestry-upload" not in answer.text
    wrong = shared.http.post(path, params={"to": "dtensor"}, files={"file": ("step.mlir", MODULE.encode())})
    assert complaint(wrong, 422, "invalid")["errors"][0]["allowed"] == ["shardy"]
    refused = complaint(shared.http.get(path, params={"to": "shardy"}), 422, "invalid")
    assert "POST its file here" in refused["detail"]


def test_an_execution_is_accepted_and_waits_for_a_worker(service: Service) -> None:
    plan_id = first_plan(service)
    answer = service.http.post(
        f"/v1/plans/{plan_id}/executions", json={"backend": "numpy", "values": False, "seed": 5}
    )
    assert answer.status_code == 202
    accepted = answer.json()
    assert answer.headers["location"] == f"/v1/executions/{accepted['id']}"
    execution = service.http.get(answer.headers["location"]).json()
    assert (execution["status"], execution["plan"], execution["run"]) == (
        "queued",
        plan_id,
        plan_id.partition("-")[0],
    )
    assert (execution["backend"], execution["values"], execution["seed"]) == ("numpy", False, 5)
    assert (execution["counts"], execution["problem"], "trace" in execution["links"]) == (None, None, False)
    complaint(service.http.get(f"/v1/executions/{accepted['id']}/trace"), 409, "no_trace")


def test_an_execution_that_is_over_has_counts_and_a_trace(service: Service) -> None:
    plan_id = first_plan(service)
    path = service.http.post(f"/v1/plans/{plan_id}/executions", json={}).headers["location"]
    job = service.store.jobs.claim("ada", datetime.now(UTC), 15.0)
    assert job is not None
    trace = {"traceEvents": [{"name": "y", "ts": 1.5}]}
    done = NewExecution(
        "numpy", 0, {"time_s": {"predicted": 1.0, "counted": 1.0}}, {"sharding": {}}, NOON, trace
    )
    service.store.jobs.end_execution(job, datetime.now(UTC), "finished", execution=done)
    execution = service.http.get(path).json()
    assert (execution["status"], execution["counts"]) == ("succeeded", dict(done.counts))
    answer = service.http.get(execution["links"]["trace"])
    assert answer.json() == trace
    assert answer.headers["content-disposition"] == f'attachment; filename="{execution["id"]}.trace.json"'


def test_executions_need_a_place_in_the_queue(serve: Serve) -> None:
    service = serve(limits=Limits(queued_jobs=1))
    path = f"/v1/plans/{first_plan(service)}/executions"
    assert service.http.post(path, json={}).status_code == 202
    complaint(service.http.post(path, json={}), 429, "queue_full")


@pytest.mark.parametrize("wrong", ["0" * 12, f"{'0' * 12}-{'0' * 12}", "x", "-", "%00", "a-b-c", "0" * 3000])
@pytest.mark.parametrize(
    "path", ["", "/moves", "/explanation", "/sharding", "/graph", "/export?to=teg", "/export?to=dot"]
)
def test_unknown_plans_are_not_found(shared: Service, wrong: str, path: str) -> None:
    complaint(shared.http.get(f"/v1/plans/{wrong}{path}"), 404, "unknown_id")


@pytest.mark.parametrize("wrong", ["0" * 12, "x", "%00", "0" * 13])
def test_unknown_executions_are_not_found(shared: Service, wrong: str) -> None:
    for path in (f"/v1/executions/{wrong}", f"/v1/executions/{wrong}/trace"):
        complaint(shared.http.get(path), 404, "unknown_id")
    complaint(shared.http.post(f"/v1/plans/{wrong}/executions", json={}), 404, "unknown_id")


def test_a_plan_is_compared_with_the_program_of_its_run(shared: Service) -> None:
    graph = two_layers()
    run = finished_run(graph)
    fused = next(move for move in find(graph, RULES) if move.rule.startswith("fuse"))
    plan = replace(run.result.frontier[0], graph=apply_move(graph, fused), moves=(fused,))
    run_id = shared.store.runs.save_finished(
        replace(run, result=replace(run.result, frontier=(plan,)), verified={}, executions={})
    )
    shown = shared.http.get(f"/v1/plans/{run_id}-{plan.id}").json()
    changes = shared.http.get(shown["links"]["changes"]).json()
    assert changes["rules"] == [fused.rule] and changes["moves"] == 1
    assert changes["before"]["blocks"]["site"] == [b.site for b in graph.blocks]
    assert len(changes["after"]["blocks"]["site"]) == len(plan.graph.blocks) < len(graph.blocks)
