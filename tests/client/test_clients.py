"""Tests of both clients against a service that listens: programs, runs, events, plans and refusals."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from tapestry.client import (
    AsyncClient,
    Client,
    EventRecord,
    Frontier,
    NoPlanError,
    ProblemError,
    RunFailedError,
    UnreachableError,
    WaitTimeoutError,
)
from tapestry.client import records as records_module
from tapestry.client.operation import operation
from tapestry.client.operations import Operations
from tapestry.service.api import models, plan_models, run_models
from tapestry.teg.document import dumps, save
from tapestry.teg.faults import ArgumentError
from tests.client.conftest import BOUND, OBJECTIVES, QUICK, work
from tests.service.api.conftest import Service, serving
from tests.service.api.test_plans import MODULE
from tests.service.processes import free_port
from tests.service.programs import two_layers
from tests.teg.importers.models import GRAPHS, ROOT

MODEL = GRAPHS / "tiny_taso_bert_8layer_s64.winputs.onnx"
MLIR = """module @add {
  func.func public @main(%arg0: tensor<8xf32>, %arg1: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.add %arg0, %arg1 : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
"""


def in_background(do: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=do, daemon=True)
    thread.start()
    return thread


def submitted(client: Client, **options: object) -> str:
    graph = client.upload(dumps(two_layers()).encode())
    return client.submit(graph, "dgx-h100", **{"objectives": OBJECTIVES, **options}).id  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_program_is_a_file_its_content_or_a_document(client: Client, tmp_path: Path) -> None:
    save(two_layers(), tmp_path / "two.json.gz")
    (tmp_path / "add.mlir").write_text(MLIR)
    by_path = client.upload(tmp_path / "two.json.gz")
    assert (by_path.name, by_path.blocks) == ("two_layers", 7)
    assert client.upload(dumps(two_layers())).id == by_path.id
    assert client.graph(by_path) == by_path
    assert client.upload(MLIR, name="add").id == client.upload(tmp_path / "add.mlir").id
    onnx = client.upload(str(MODEL))
    assert client.upload(MODEL.read_bytes(), name=MODEL.stem).id == onnx.id
    with pytest.raises(ArgumentError, match=r"program: there is no file '.*missing.onnx'"):
        client.upload(tmp_path / "missing.onnx")


def test_a_refusal_has_all_faults(client: Client) -> None:
    with pytest.raises(ProblemError, match="The request cannot be carried out") as refused:
        submitted(client, seed=-1, constraints=["time_s<=1parsec"])
    assert (refused.value.status, refused.value.code) == (422, "invalid")
    assert {fault.pointer for fault in refused.value.faults} == {"/seed", "/constraints/0"}
    with pytest.raises(ArgumentError, match="no option 'sed'; did you mean seed"):
        submitted(client, sed=1)
    with pytest.raises(ProblemError, match="there is no run 'abcdefabcdef'"):
        client.run("abcdefabcdef")


def test_options_arrive_as_they_were_given(client: Client) -> None:
    run = client.run(
        submitted(client, evaluations=50, seed=3, pins={"y": "[-, -]"}, verify="dry", epsilon=0.01)
    )
    options = run.options
    assert (options.evaluations, options.seconds, options.seed) == (50, None, 3)
    assert (options.pins, options.verify, options.epsilon) == ({"y": "[-, -]"}, "dry", 0.01)
    assert (options.objectives, run.status, run.has_ended) == (OBJECTIVES, "queued", False)


def test_a_mesh_may_be_a_file_or_its_fields(client: Client, tmp_path: Path) -> None:
    text = (ROOT / "hardware" / "meshes" / "dgx-h100.toml").read_text()
    (tmp_path / "mine.toml").write_text(text.replace('name = "dgx-h100"', 'name = "mine"', 1))
    graph = client.upload(dumps(two_layers()))
    assert client.run(client.submit(graph, tmp_path / "mine.toml")).mesh == "mine"
    fields = tomllib.loads((tmp_path / "mine.toml").read_text())
    assert client.run(client.submit(graph, {**fields, "name": "other"})).mesh == "other"
    with pytest.raises(ArgumentError, match=r"mesh: 'nothing.toml' cannot be read"):
        client.submit(graph, "nothing.toml")


def test_a_run_is_followed_to_its_end(client: Client, service: Service) -> None:
    run_id, seen = submitted(client), list[EventRecord]()
    worker = in_background(lambda: (time.sleep(0.2), work(service)))
    run = client.wait(run_id, seen.append, timeout_seconds=60)
    worker.join()
    assert (run.status, run.front, run.options.islands) == ("succeeded", 2, 2)
    assert [event.number for event in seen] == list(range(1, len(seen) + 1))
    assert {"status", "progress", "frontier", "verified"} <= {event.kind for event in seen}
    assert [event for event in seen if event.ends_run] == [seen[-1]]
    assert list(client.events(run_id)) == seen
    assert list(client.events(run_id, after=seen[-2].number)) == seen[-1:]
    assert list(client.events(run_id, after=seen[-1].number)) == []


def test_a_run_has_its_proven_bounds_once_its_search_is_over(client: Client, service: Service) -> None:
    run_id = submitted(client)
    assert client.run(run_id).bounds == {}
    work(service)
    run = client.wait(run_id, timeout_seconds=60)
    bound, scope = run.bounds["time_s"], run.bounds["time_s"].scope
    assert (bound.bound, bound.best, bound.gap) == (8e-4, 1e-3, BOUND.gap)
    assert run.expected == {"time_s": 0.0025}
    assert (scope.structures, scope.views, scope.devices) == (2, ("gpu.0 x gpu.1",), ("all", "gpu:4"))
    assert run.options.objectives == OBJECTIVES and run.document["options"][0]["title"]


@pytest.mark.slow
def test_a_failed_run_raises_and_a_cancelled_one_returns(client: Client, service: Service) -> None:
    failing = submitted(client)
    work(service, "failed", "error")
    with pytest.raises(
        RunFailedError, match=f"run {failing} has failed: No feasible plan: none fits"
    ) as failed:
        client.wait(failing, timeout_seconds=60)
    assert failed.value.problem["detail"] == "none fits"
    cancelled = submitted(client, seed=1)
    assert client.cancel(cancelled).status == "cancelled"
    assert client.wait(cancelled, timeout_seconds=60).status == "cancelled"
    assert client.cancel(cancelled).status == "cancelled"


def test_of_waiting_runs_the_one_of_the_highest_priority_goes_first(client: Client, service: Service) -> None:
    usual, urgent = submitted(client), submitted(client, priority=2)
    batch = client.submit_batch([client.run(usual).graph_id], ["dgx-h100"], seeds=[7], priority=-3)
    assert [client.run(run).priority for run in (usual, urgent, batch["entries"][0]["run"])] == [0, 2, -3]
    assert client.set_priority(usual, 9).priority == 9
    first, second = client.run(usual).queue, client.run(urgent).queue
    assert first is not None and second is not None
    assert (first.position, second.position, first.expected_start, first.guess) == (1, 2, None, True)
    client.cancel(urgent)
    assert (client.run(urgent).priority, client.run(urgent).queue) == (None, None)


@pytest.mark.slow
def test_what_is_done_with_is_deleted(client: Client, service: Service) -> None:
    run_id = submitted(client)
    graph = client.run(run_id).graph_id
    with pytest.raises(ProblemError, match="cancel it first") as refused:
        client.delete_run(run_id)
    assert refused.value.code == "in_use"
    client.cancel(run_id)
    client.delete_run(run_id)
    batch = client.submit_batch([graph], ["dgx-h100"], seeds=[0, 1])["id"]
    with pytest.raises(ProblemError, match="is needed by"):
        client.delete_graph(graph)
    service.http.post(f"/v1/batches/{batch}/cancel")
    client.delete_batch(batch, runs=True)
    client.delete_graph(graph)
    with pytest.raises(ProblemError, match="there is no graph"):
        client.delete_graph(graph)


@pytest.mark.slow
def test_a_wait_may_have_a_limit_and_the_run_goes_on(client: Client, service: Service) -> None:
    run_id = submitted(client)
    seen: list[EventRecord] = []
    with pytest.raises(WaitTimeoutError, match=f"run {run_id} has not ended within 0.2 s") as refused:
        client.wait(run_id, on_event=seen.append, timeout_seconds=0.2)
    assert isinstance(refused.value, TimeoutError)
    assert [event.kind for event in seen] == ["status"]

    async def wait() -> None:
        async with AsyncClient(service.address, retries=QUICK) as other:
            with pytest.raises(WaitTimeoutError, match=r"within 0\.1 s"):
                await other.wait(run_id, timeout_seconds=0.1)

    asyncio.run(wait())
    assert client.run(run_id).status == "queued"
    work(service)
    assert client.wait(run_id, timeout_seconds=60).status == "succeeded"


def test_a_plan_is_chosen_by_objective_and_bounds(client: Client, service: Service) -> None:
    submitted(client)
    frontier = client.frontier(work(service))
    assert repr(frontier) == f"Frontier(run {frontier.run}, succeeded, 2 plans)"
    assert frontier.plans[0].document["cost"] == frontier.plans[0].cost
    assert [plan.cost["time_s"] for plan in frontier.plans] == [1e-3, 2e-3]
    assert frontier.fastest() == frontier.plans[0]
    assert frontier.fastest(under={"peak_memory_bytes": "40MiB"}) == frontier.plans[1]
    assert frontier.least("peak_memory_bytes", under={"time_s": "2ms"}) == frontier.plans[1]
    with pytest.raises(
        NoPlanError, match=r"has peak_memory_bytes <= 1KiB; the least .* peak_memory_bytes 1.04858e\+06"
    ):
        frontier.fastest(under={"peak_memory_bytes": "1KiB"})
    with pytest.raises(ArgumentError, match="no objective 'time'; did you mean time_s"):
        frontier.least("time")
    with pytest.raises(ArgumentError, match=r"under\['time_s'\]: .*known are s, ms, us, ns.*, not '1GiB'"):
        frontier.fastest(under={"time_s": "1GiB"})


@pytest.mark.slow
def test_plans_whose_checks_failed_are_not_chosen(client: Client, service: Service) -> None:
    submitted(client)
    run_id = work(service)
    first = service.store.runs.frontier(run_id)[0]
    wrong = {**(first.verified or {}), "values": {"executed": True, "ok": False, "max_error": {}}}
    documents = service.http.get(f"/v1/runs/{run_id}/frontier").json()
    documents["plans"][0] |= {"verified": wrong, "verdict": "failed"}
    frontier = Frontier.from_json(documents)
    assert frontier.fastest() == frontier.plans[1]
    documents["plans"] = documents["plans"][:1]
    with pytest.raises(NoPlanError, match="has no plan to choose from: all failed their checks"):
        Frontier.from_json(documents).fastest()


@pytest.mark.slow
def test_a_plan_is_exported(client: Client, service: Service) -> None:
    submitted(client)
    plan = client.frontier(work(service)).fastest()
    detail = client.plan(plan)
    assert (detail.id, detail.cost, len(detail.moves)) == (plan.id, plan.cost, plan.move_count)
    assert client.placements(plan) == detail.placements
    assert client.export(plan, "csv").startswith(b"objective,predicted,counted")
    assert len(client.explicit_graph(plan)["blocks"]) > 7
    one, two = (client.export(plan, "teg", {"device": devices}) for devices in (["0"], ["0", "1"]))
    assert 0 < len(json.loads(one)["blocks"]) < len(json.loads(two)["blocks"])
    assert b"sdy.mesh" in client.export(plan, "shardy", program=MODULE)
    with pytest.raises(ArgumentError, match="a TEG document is no file that shardings are written into"):
        client.export(plan, "shardy", program=dumps(two_layers()).encode())
    with pytest.raises(ProblemError) as refused:
        client.export(plan, "punch_cards")
    assert refused.value.faults[0].pointer == "#query/to"
    assert "placements" in refused.value.faults[0].allowed


@pytest.mark.slow
def test_equal_requests_share_a_run_and_then_its_result(client: Client, service: Service) -> None:
    first = submitted(client)
    assert submitted(client) == first  # it waits: both follow one run
    work(service)
    found = client.optimize(dumps(two_layers()), "dgx-h100", objectives=OBJECTIVES)
    assert (found.run.id, found.reused, len(found.frontier.plans)) == (first, True, 2)
    assert submitted(client, fresh=True) != first
    assert submitted(client, idempotency_key="mine") == first  # reused by content, not by key


@pytest.mark.slow
def test_a_request_after_a_failed_or_cancelled_run_is_a_new_run(client: Client, service: Service) -> None:
    first = submitted(client)
    client.cancel(first)
    second = submitted(client)
    assert second != first
    work(service, "failed", "error")
    assert submitted(client) not in (first, second)


def test_the_key_is_sent(tmp_path: Path) -> None:
    key = "correct horse battery staple"
    with serving(tmp_path, api_key=key) as locked:
        with Client(locked.address, api_key=key) as client:
            assert client.upload(dumps(two_layers())).name == "two_layers"
        with Client(locked.address) as stranger, pytest.raises(ProblemError, match="this service has a key"):
            stranger.upload(dumps(two_layers()))


def test_the_asynchronous_client_does_the_same(service: Service) -> None:
    async def search() -> tuple[str, list[str], int]:
        async with AsyncClient(service.address, retries=QUICK) as client:
            graph = await client.upload(MODEL)
            assert await client.upload(MODEL.read_bytes(), name=MODEL.stem) == graph
            run = await client.submit(graph, "dgx-h100", objectives=OBJECTIVES)
            worker = asyncio.get_running_loop().run_in_executor(None, work, service)
            kinds = [event.kind async for event in client.events(run)]
            ended = await client.wait(run, timeout_seconds=60)
            frontier = await client.frontier(run)
            with pytest.raises(ProblemError):
                await client.plan("0" * 12)
            again = await client.optimize(MODEL, "dgx-h100", objectives=OBJECTIVES)
            assert (again.run, again.frontier, again.reused) == (ended, frontier, True)
            return await worker, kinds, len(frontier.plans)

    run_id, kinds, plans = asyncio.run(search())
    assert (run_id in {run.id for run in service.store.runs.page()}, plans) == (True, 2)
    assert (kinds[0], kinds[-1]) == ("status", "status")


def test_a_service_that_is_not_there_is_reported() -> None:
    with Client(f"http://127.0.0.1:{free_port()}", retries=QUICK) as client:
        with pytest.raises(UnreachableError, match=r"does not answer at /v1/runs/x: .*refused"):
            client.run("x")
        with pytest.raises(UnreachableError, match="/v1/runs/x/events"):
            list(client.events("x"))
    with pytest.raises(
        ArgumentError, match=r"address: expected one such as http://127\.0\.0\.1:8000, not 'localhost'"
    ):
        Client("localhost")


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ImportError, match=r"httpx, which is not installed: pip install 'tapestry\[client\]'"):
        Client()


def test_both_clients_have_the_same_methods() -> None:
    assert {name for name in dir(Client) if not name.startswith("_")} == {
        name for name in dir(AsyncClient) if not name.startswith("_")
    }
    documented = [
        value for name in dir(Operations) if isinstance(value := getattr(Operations, name), operation)
    ]
    assert len(documented) >= 11 and all(one.__doc__ for one in documented)
    assert Client.wait.__doc__ == AsyncClient.wait.__doc__


@pytest.mark.parametrize(
    ("record", "model"),
    [
        ("ObjectiveRecord", "ObjectiveAnswer"),
        ("GraphRecord", "GraphAnswer"),
        ("SubmittedRun", "SubmittedRunAnswer"),
        ("RunRecord", "RunAnswer"),
        ("RunDetail", "RunDetailAnswer"),
        ("BoundRecord", "BoundAnswer"),
        ("BoundScopeRecord", "BoundScopeAnswer"),
        ("ClassTimeRecord", "ClassTimeAnswer"),
        ("TimeRecord", "TimeAnswer"),
        ("LeadRecord", "LeadAnswer"),
        ("MeasurementRecord", "MeasurementAnswer"),
        ("PlanRecord", "PlanAnswer"),
        ("PlanDetail", "PlanDetailAnswer"),
        ("Frontier", "FrontierAnswer"),
    ],
)
def test_records_have_the_members_of_the_answers(record: str, model: str) -> None:
    answers = vars(models) | vars(run_models) | vars(plan_models)
    members = set(answers[model].model_fields)
    if record in ("RunRecord", "RunDetail"):
        options = {option.path[0] for option in records_module.OPTIONS}
        assert options <= members
        members = members - options | {"options"}
    assert {field.name for field in fields(getattr(records_module, record))} - {"document"} == members


def test_the_client_loads_nothing_heavy() -> None:
    heavy = ("numpy", "pydantic", "fastapi", "sqlalchemy", "numba", "httpx", "tapestry.service")
    code = f"import sys, tapestry.client; print([name for name in {heavy!r} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
