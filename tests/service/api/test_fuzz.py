"""Tests of the whole API under requests that are generated from its OpenAPI document, single ones and chains.

No server error, no undescribed answer, nothing refused that has the described form, nothing accepted that has another.
"""

from __future__ import annotations

import numpy as np
import pytest

from tapestry.service.store import ImportRequest, TensorValue
from tests.service.api.conftest import Service
from tests.service.api.exploring import (
    BEYOND_SCHEMAS,
    LONG_LISTS,
    Exploration,
    explore,
    explore_chains,
    is_beyond_schemas,
)
from tests.service.api.test_openapi import DESIGNED
from tests.service.api.test_plans import first_plan
from tests.service.programs import NOON

# The form of a whole program takes half of the time of the coverage phase; the longer exploration has it.
UNCOVERED = (LONG_LISTS, "POST /v1/graphs")


@pytest.fixture(scope="module")
def explored(shared: Service) -> Exploration:
    leave_things(shared)
    found = explore(
        shared.address, examples=5, uncovered=UNCOVERED, phases=("examples", "coverage", "fuzzing")
    )
    found |= explore_chains(shared.address, requests=150)
    print(found)
    return found


@pytest.mark.slow
def test_the_document_says_what_is_accepted_and_answered(explored: Exploration, shared: Service) -> None:
    assert not explored.failures, "\n\n".join(f"{title}\n{text}" for title, text in explored.failures.items())
    assert shared.http.get("/readyz").status_code == 200


@pytest.mark.slow
def test_requests_get_further_than_the_refusal_of_unknown_names(explored: Exploration) -> None:
    assert {200, 201, 202, 204, 400, 404, 405, 409, 415, 422} <= set(explored.answered)
    assert explored.sent["stateful"] >= 100
    assert explored.sent.total() >= 1500
    operations = {f"{method.upper()} {path}" for path, methods in DESIGNED.items() for method in methods}
    assert len(missed := operations - explored.succeeded) <= 0.2 * len(operations), sorted(missed)


def test_what_no_schema_says_is_known_and_nothing_else() -> None:
    """Check that a fault of form is none of those that are let through, and that these are let through."""
    unknown = {"pointer": "/graph_id", "detail": "there is no graph '0'; submit it first"}
    longer = {"pointer": "/mesh", "detail": "the text is longer than 1000 characters"}
    assert is_beyond_schemas("POST /v1/runs", {"errors": [unknown]})
    assert not is_beyond_schemas("POST /v1/runs", {"errors": [longer]})
    assert not is_beyond_schemas("POST /v1/runs", {"errors": [unknown, longer]})
    assert not is_beyond_schemas("GET /v1/runs", {"errors": [unknown]})
    assert all(each.reason for each in BEYOND_SCHEMAS)


def leave_things(service: Service) -> None:
    """Leave what requests can be about: runs and their plans, a batch, an execution, an import and stored tensors."""
    for k in range(3):
        service.store.tensors.put({f"known_{k}": TensorValue.of(np.zeros((64, 64), np.float32))}, NOON)
        service.finished()
        how = ImportRequest(True, "", "", {}, (), 2**20, 100, {})
        imports = service.store.imports
        imports.submit(imports.begin(f"{k:064}", "", how, NOON), NOON)
    document = service.http.get(f"/v1/plans/{first_plan(service)}").json()
    batch = {"graphs": [document["graph_id"]], "meshes": ["dgx-h100"], "budget": {"evaluations": 1}}
    assert service.http.post("/v1/batches", json=batch).status_code == 202
