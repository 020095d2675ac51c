"""Tests of the API reference: everything is described, with examples that are true, sent and answered."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import numpy as np
import pytest

from tapestry.hardware import load_mesh, mesh_names
from tapestry.service.api import examples
from tapestry.service.api.graphs import EXAMPLE
from tapestry.service.api.mesh_schemas import MESH_SCHEMA
from tapestry.service.api.problems import MEDIA_TYPE
from tapestry.service.settings import Limits
from tapestry.service.store import mesh_to_document
from tapestry.service.store.codec import graph_values
from tapestry.teg.document import from_document
from tests.service.api.conftest import Serve, Service
from tests.service.api.test_plans import first_plan

DESIGNED = {
    "/v1/graphs": {"get", "post"},
    "/v1/graphs/import": {"get", "post"},
    "/v1/graphs/{graph_id}": {"get", "delete"},
    "/v1/graphs/{graph_id}/document": {"get"},
    "/v1/graphs/{graph_id}/drawing": {"get"},
    "/v1/graphs/{graph_id}/changes": {"get"},
    "/v1/graphs/{graph_id}/rewrites": {"get", "post"},
    "/v1/graphs/{graph_id}/precisions/{dtype}": {"post"},
    "/v1/graphs/{graph_id}/history": {"get"},
    "/v1/imports": {"get"},
    "/v1/imports/{import_id}": {"get", "delete"},
    "/v1/imports/{import_id}/cancel": {"post"},
    "/v1/runs": {"get", "post"},
    "/v1/runs/labels": {"get"},
    "/v1/runs/{run_id}": {"get", "patch", "delete"},
    "/v1/runs/{run_id}/mesh": {"get"},
    "/v1/runs/{run_id}/mesh/curves": {"get"},
    "/v1/runs/{run_id}/cancel": {"post"},
    "/v1/runs/{run_id}/frontier": {"get"},
    "/v1/runs/{run_id}/events": {"get"},
    "/v1/plans/{plan_id}": {"get"},
    "/v1/plans/{plan_id}/graph": {"get"},
    "/v1/plans/{plan_id}/moves": {"get"},
    "/v1/plans/{plan_id}/explanation": {"get"},
    "/v1/plans/{plan_id}/drawing": {"get"},
    "/v1/plans/{plan_id}/changes": {"get"},
    "/v1/plans/{plan_id}/sharding": {"get"},
    "/v1/plans/{plan_id}/schedule": {"get"},
    "/v1/plans/{plan_id}/memory": {"get"},
    "/v1/plans/{plan_id}/alternatives": {"get"},
    "/v1/plans/{plan_id}/export": {"get", "post"},
    "/v1/plans/{plan_id}/executions": {"post"},
    "/v1/plans/{plan_id}/measurements": {"post"},
    "/v1/plans/{plan_id}/measurements/{measurement_id}": {"delete"},
    "/v1/executions/{execution_id}": {"get", "delete"},
    "/v1/executions/{execution_id}/trace": {"get"},
    "/v1/executions/{execution_id}/outputs": {"get"},
    "/v1/tensors": {"get"},
    "/v1/tensors/{name}": {"get", "put", "delete"},
    "/v1/tensors/{name}/content": {"get"},
    **{f"/v1/comparisons/{what}": {"get"} for what in ("runs", "plans")},
    "/v1/batches": {"get", "post"},
    "/v1/batches/{batch_id}": {"get", "delete"},
    "/v1/batches/{batch_id}/cancel": {"post"},
    "/v1/audit": {"get"},
    "/v1/quota": {"get"},
    "/v1/learned": {"get"},
    "/v1/rules/{member}/drawing": {"get"},
    "/v1/devices/{member}/curves": {"get"},
    "/v1/meshes/{member}/curves": {"get"},
    "/v1/rules/{member}/runs": {"get"},
    "/v1/layouts/describe": {"post"},
    "/v1/layouts/draw": {"post"},
    "/v1/layouts/map": {"post"},
    **{f"/v1/{name}": {"get"} for name in ("meshes", "devices", "rules", "operators", "objectives")},
    "/v1/plugins": {"get"},
    **{
        f"/v1/{name}/{{member}}": {"get"}
        for name in ("meshes", "devices", "rules", "operators", "objectives")
    },
    **{f"/{name}": {"get"} for name in ("healthz", "readyz", "metrics")},
}


@pytest.fixture(scope="module")
def document(shared: Service) -> dict[str, Any]:
    found: dict[str, Any] = shared.http.get("/openapi.json").json()
    return found


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def contents(operation: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield every body that is described: status or `request`, media type, its description."""
    answers = {"request": operation.get("requestBody", {}), **operation["responses"]}
    for status, answer in answers.items():
        for kind, message in answer.get("content", {}).items():
            yield status, kind, message


def test_what_was_designed_is_there_and_nothing_else(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1.")
    assert {path: set(methods) for path, methods in document["paths"].items()} == DESIGNED


def test_everything_is_described(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        assert operation["summary"] and operation["description"], name
        for parameter in operation.get("parameters", ()):
            assert parameter.get("description"), (name, parameter["name"])
        for status, answer in operation["responses"].items():
            assert answer["description"], (name, status)
    ids = [operation["operationId"] for _, operation in operations(document)]
    assert len(ids) == len(set(ids))


def test_every_error_has_the_one_form(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        errors = {status: answer for status, answer in operation["responses"].items() if status[0] in "45"}
        assert set(errors) >= {"400", "401", "403", "421", "500", "503"}, name
        for status, answer in errors.items():
            assert set(answer["content"]) == {MEDIA_TYPE}, (name, status)
            assert answer["content"][MEDIA_TYPE]["example"]["status"] == int(status)


def test_links_lead_to_operations_that_take_what_they_pass(document: dict[str, Any]) -> None:
    targets = {operation["operationId"]: operation for _, operation in operations(document)}
    linked = set()
    for name, operation in operations(document):
        for answer in operation["responses"].values():
            for link in answer.get("links", {}).values():
                taken = {parameter["name"] for parameter in targets[link["operationId"]]["parameters"]}
                assert link["parameters"].keys() <= taken, (name, link)
                linked.add(link["operationId"])
    in_path = {operation["operationId"] for name, operation in operations(document) if "{" in name}
    assert linked == in_path


def test_bounds_are_those_of_the_service_to_the_last_digit(document: dict[str, Any], serve: Serve) -> None:
    def bounds(found: dict[str, Any]) -> tuple[int, ...]:
        schemas = found["components"]["schemas"]
        run, budget = schemas["RunBody"]["properties"], schemas["BudgetBody"]["properties"]
        return (run["seed"]["maximum"], run["islands"]["maximum"], budget["evaluations"]["maximum"])

    assert bounds(document) == (2**63 - 1, 64, 10**9)
    small = serve(limits=Limits(run_islands=2, run_evaluations=5)).http.get("/openapi.json").json()
    assert bounds(small) == (2**63 - 1, 2, 5)


@pytest.mark.parametrize("name", mesh_names())
def test_every_mesh_of_the_catalog_has_the_form_of_a_mesh_in_a_request(
    document: dict[str, Any], name: str
) -> None:
    schema = {"$ref": MESH_SCHEMA, "components": document["components"]}
    mesh = json.loads(json.dumps(mesh_to_document(load_mesh(name))))
    jsonschema.Draft202012Validator(schema).validate(mesh)
    nodes = {"name": "two", "nodes": [mesh, name], "network": mesh.get("network", {})}
    jsonschema.Draft202012Validator(schema).validate(nodes)


def test_no_parameter_and_no_field_of_a_form_may_be_null(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        for parameter in operation.get("parameters", ()):
            assert {"type": "null"} not in parameter["schema"].get("anyOf", ()), (name, parameter["name"])


def test_every_example_has_the_form_that_is_described(document: dict[str, Any]) -> None:
    checked = 0
    for name, operation in operations(document):
        for status, kind, message in contents(operation):
            if kind == "multipart/form-data":
                continue
            assert "example" in message, (name, status, kind)
            schema = {**message["schema"], "components": document["components"]}
            jsonschema.Draft202012Validator(schema).validate(message["example"])
            checked += 1
    assert checked > 150


@pytest.mark.slow
def test_examples_are_sent_and_answered(service: Service, document: dict[str, Any]) -> None:
    """Check the examples in the order of a client: the id in the example of a run is that of the example's graph."""
    bodies = {
        name: operation["requestBody"]["content"]["application/json"]["example"]
        for name, operation in operations(document)
        if "application/json" in operation.get("requestBody", {}).get("content", {})
    }
    assert set(bodies) == {
        "POST /v1/graphs",
        "POST /v1/graphs/{graph_id}/rewrites",
        "POST /v1/runs",
        "PATCH /v1/runs/{run_id}",
        "POST /v1/batches",
        "POST /v1/plans/{plan_id}/executions",
        "POST /v1/plans/{plan_id}/measurements",
        "POST /v1/layouts/describe",
        "POST /v1/layouts/draw",
        "POST /v1/layouts/map",
    }
    graph = service.http.post("/v1/graphs", json=bodies["POST /v1/graphs"])
    assert (graph.status_code, graph.json()["id"]) == (201, examples.GRAPH_ID)
    rewrites = f"/v1/graphs/{examples.GRAPH_ID}/rewrites"
    made = service.http.post(rewrites, json=bodies["POST /v1/graphs/{graph_id}/rewrites"])
    assert made.status_code == 201
    run = service.http.post("/v1/runs", json=bodies["POST /v1/runs"])
    assert run.status_code == 202
    plan = first_plan(service)
    execution = service.http.post(
        f"/v1/plans/{plan}/executions", json=bodies["POST /v1/plans/{plan_id}/executions"]
    )
    assert execution.status_code == 202
    measurement = service.http.post(
        f"/v1/plans/{plan}/measurements", json=bodies["POST /v1/plans/{plan_id}/measurements"]
    )
    assert measurement.status_code == 201
    tensor = service.http.put(
        "/v1/tensors/logits_7", content=tensor_file(), headers={"Content-Type": "application/octet-stream"}
    )
    answers = {
        "TensorAnswer": tensor,
        "TensorsAnswer": service.http.get("/v1/tensors"),
        "ExecutionAcceptedAnswer": execution,
        "MeasurementAnswer": measurement,
        "GraphAnswer": graph,
        "CandidateMovesAnswer": service.http.get(rewrites),
        "RewriteAnswer": made,
        "PrecisionAnswer": service.http.post(f"/v1/graphs/{examples.GRAPH_ID}/precisions/bf16"),
        "GraphHistoryAnswer": service.http.get(f"{made.headers['location']}/history"),
        "SubmittedRunAnswer": run,
        "RunDetailAnswer": service.http.get(run.headers["location"]),
        "RunsAnswer": service.http.get("/v1/runs"),
        "GraphsAnswer": service.http.get("/v1/graphs"),
        "FrontierAnswer": service.http.get(f"/v1/runs/{plan.partition('-')[0]}/frontier"),
        "PlanDetailAnswer": service.http.get(f"/v1/plans/{plan}"),
        "ExplanationAnswer": service.http.get(f"/v1/plans/{plan}/explanation"),
        "MovesAnswer": service.http.get(f"/v1/plans/{plan}/moves"),
        "ExecutionAnswer": service.http.get(execution.headers["location"]),
        "BatchDetailAnswer": service.http.post("/v1/batches", json=bodies["POST /v1/batches"]),
        "BatchesAnswer": service.http.get("/v1/batches"),
        "LearnedAnswer": service.http.get("/v1/learned"),
        "RuleRunsAnswer": service.http.get("/v1/rules/fuse_cells/runs"),
        "LayoutAnswer": service.http.post("/v1/layouts/describe", json=bodies["POST /v1/layouts/describe"]),
        "CatalogAnswer": service.http.get("/v1/objectives"),
        "ReadyAnswer": service.http.get("/readyz"),
        "RunAnswer": service.http.post(f"{run.headers['location']}/cancel"),
    }
    for name, answer in answers.items():
        check(document, name, answer)
        assert set(answer.json()) == set(examples.EXAMPLES[name]), name
    assert answers["LayoutAnswer"].json() == examples.EXAMPLES["LayoutAnswer"]
    diagram = service.http.post("/v1/layouts/draw", json=bodies["POST /v1/layouts/draw"])
    assert (diagram.status_code, diagram.headers["content-type"]) == (200, "image/svg+xml")


def tensor_file() -> bytes:
    """Return a file with one tensor of the type and shape in the example."""
    file = io.BytesIO()
    np.save(file, np.zeros((64, 64), np.float32))
    return file.getvalue()


def check(document: dict[str, Any], name: str, answer: httpx.Response) -> None:
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    jsonschema.Draft202012Validator(schema).validate(answer.json())


def test_the_example_of_a_graph_is_the_one_whose_id_is_used() -> None:
    assert graph_values(from_document(EXAMPLE))["id"] == examples.GRAPH_ID
    path = Path(examples.__file__).parent / "example.teg.json"
    assert json.loads(path.read_text()) == EXAMPLE


def test_the_key_is_described_where_there_is_one(serve: Serve, document: dict[str, Any]) -> None:
    assert "security" not in document
    key = "correct horse battery staple"
    locked = serve(api_key=key).http.get("/openapi.json", headers={"Authorization": f"Bearer {key}"}).json()
    assert locked["security"] == [{"key": []}]
    assert locked["components"]["securitySchemes"]["key"] == {"type": "http", "scheme": "bearer"}
