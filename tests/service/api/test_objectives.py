"""Tests of objectives that depend on the program: listed with the graph, checked in a request, reported at the end."""

from __future__ import annotations

import json

from tapestry.service.graphs import summarize
from tapestry.teg.costs import cost_table
from tapestry.teg.document import dumps
from tests.costmodel.test_resources import SEED, priced_chain
from tests.service.api.conftest import Service
from tests.service.programs import NOON


def priced(service: Service) -> str:
    graph = priced_chain(cost_table({"flops": 5}, SEED))
    return service.store.graphs.save(graph, NOON, summarize(graph).to_json()).id


def test_a_graph_lists_the_objectives_of_its_resources(service: Service) -> None:
    graph = service.http.get(f"/v1/graphs/{priced(service)}").json()
    assert [o["name"] for o in graph["objectives"]] == ["gpu", "peak_gpu", "ram", "peak_ram"]
    assert service.http.get(f"/v1/graphs/{service.graph()}").json()["objectives"] == []


def test_a_run_is_requested_with_resources_and_expressions(service: Service) -> None:
    requested = ["peak_gpu", "0.7*time_s+0.3*energy_j", "max(ram, 5)"]
    bounds = ["ram<=1000", "0.5*gpu<=10", "time_s<=110%"]
    answer = service.submit(graph_id=priced(service), objectives=requested, constraints=bounds)
    assert answer.status_code == 202, answer.text
    run = service.http.get(answer.headers["location"]).json()
    assert run["objectives"] == ["peak_gpu", "0.7*time_s + 0.3*energy_j", "max(ram, 5)"]
    assert run["constraints"] == bounds
    frontier = service.http.get(f"{answer.headers['location']}/frontier").json()
    assert [(o["name"], o["expression"], o["unit"]) for o in frontier["objectives"]] == [
        ("peak_gpu", '"peak of gpu"', ""),
        ("0.7*time_s + 0.3*energy_j", "0.7*time_s + 0.3*energy_j", ""),
        ("max(ram, 5)", "max(ram, 5)", ""),
    ]


def test_every_fault_is_reported_at_its_place(service: Service) -> None:
    requested = ["peak_gpus", "time_s", "time_s *", "2*(gpu", "1*time_s", "-gpu"]
    answer = service.submit(
        graph_id=priced(service), objectives=requested, constraints=["gpu<=5s", "ram<=50%"]
    )
    assert answer.status_code == 422
    message = {e["pointer"]: e["detail"] for e in answer.json()["errors"]}
    assert set(message) == {*(f"/objectives/{k}" for k in (0, 2, 3, 5)), "/constraints/0", "/constraints/1"}
    assert "did you mean peak_gpu" in message["/objectives/0"]
    assert "at character 9 expected a number" in message["/objectives/2"]
    assert "gpu has no unit; known units are %" in message["/constraints/0"]


def test_another_programs_resources_are_unknown(service: Service) -> None:
    answer = service.submit(objectives=["gpu"])
    assert [e["pointer"] for e in answer.json()["errors"]] == ["/objectives/0"]


def test_a_resource_that_is_named_like_an_objective_is_refused_with_the_graph(service: Service) -> None:
    document = json.loads(dumps(priced_chain(cost_table({"time_s": 5}))))
    answer = service.http.post("/v1/graphs", json=document)
    assert answer.status_code == 422
    (fault,) = answer.json()["errors"]
    assert fault["pointer"] == "/definitions"
    assert "block 'y0': its cost table names a resource 'time_s'" in fault["detail"]
