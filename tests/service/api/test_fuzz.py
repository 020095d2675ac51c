"""Tests of the whole API under generated requests, right and wrong ones: no server error, no undescribed answer.

Half of the requests are about things that exist, so that they get further than "not found".
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tapestry.service.store import ImportRequest, TensorValue
from tests.service.api.conftest import Service
from tests.service.api.test_catalogs import MEMBERS
from tests.service.api.test_openapi import DESIGNED
from tests.service.api.test_plans import first_plan
from tests.service.programs import NOON

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EACH = 24


@pytest.mark.slow
def test_no_request_brings_the_service_out_of_its_form(shared: Service) -> None:
    known = things_that_exist(shared)
    schema = schemathesis.openapi.from_url(f"{shared.address}/openapi.json")
    answered: Counter[int] = Counter()
    operations = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        operations += 1
        for mode in GenerationMode:
            try:
                send_all(operation.as_strategy(generation_mode=mode), known, shared, answered)
            except Unsatisfiable:  # where any text will do, there are no wrong ones
                assert mode is GenerationMode.NEGATIVE
    print(f"{sum(answered.values())} requests to {operations} operations: {dict(sorted(answered.items()))}")
    assert operations == sum(map(len, DESIGNED.values()))
    assert sum(answered.values()) >= 500
    assert {200, 202, 400, 404, 409, 422} <= set(answered)
    assert shared.http.get("/readyz").status_code == 200


def things_that_exist(service: Service) -> dict[str, str]:
    """Return ids of what runs leave, from the run to a batch with it; a layout, a precision and a stored tensor."""
    service.store.tensors.put({"known": TensorValue.of(np.zeros((64, 64), np.float32))}, NOON)
    plan = first_plan(service)
    run = plan.partition("-")[0]
    document = service.http.get(f"/v1/plans/{plan}").json()
    batch = {"graphs": [document["graph_id"]], "meshes": ["dgx-h100"], "budget": {"evaluations": 1}}
    how = ImportRequest(True, "", "", {}, (), 2**20, 100, {})
    imports = service.store.imports
    return {
        "import_id": imports.submit(imports.begin("0" * 64, "", how, NOON), NOON),
        "batch_id": service.http.post("/v1/batches", json=batch).json()["id"],
        "run_id": run,
        "plan_id": plan,
        "graph_id": document["graph_id"],
        "execution_id": document["executions"][0]["id"],
        "name": "known",
        "dtype": "bf16",
        "text": "ptr[16b] o (4,(2,3)):(2,(1,8))",
    }


def send_all(strategy: Any, known: dict[str, str], service: Service, answered: Counter[int]) -> None:
    """Send requests of one kind to one operation."""
    numbers = itertools.count()

    @settings(
        max_examples=EACH,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy)
    def send(case: Case) -> None:
        if next(numbers) % 2:
            about(case, known)
        response = case.call_and_validate(base_url=service.address, checks=CHECKS, timeout=60)
        answered[response.status_code] += 1

    send()


def about(case: Case, known: dict[str, str]) -> None:
    """Change a request to refer to things that exist."""
    for name in case.path_parameters:
        catalog = case.operation.path.split("/")[2]
        case.path_parameters[name] = MEMBERS[catalog][0] if name == "member" else known[name]
    if isinstance(case.body, dict) and "graph_id" in case.body:
        case.body["graph_id"] = known["graph_id"]
    if isinstance(case.body, dict) and "graphs" in case.body:
        case.body["graphs"] = [known["graph_id"]]
    if isinstance(case.body, dict) and "text" in case.body:
        case.body["text"] = known["text"]
