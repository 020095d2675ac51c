"""Tests of all pages by axe-core: nothing serious or moderate, in the light and in the dark, wide and on a phone."""

from __future__ import annotations

import json
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.service.dashboard.conftest import Open
from tests.service.dashboard.test_pages import posted_graph, posted_run
from tests.service.processes import Service

pytestmark = pytest.mark.slow

GRAVE = ("moderate", "serious", "critical")


@pytest.fixture(scope="module")
def paths(service: Service) -> list[str]:
    """Return the addresses of all pages, most of an ended run and its plans."""
    graph = posted_graph(service)
    run, other = (posted_run(service, graph, seed=seed) for seed in (0, 1))
    batch = {"graphs": [graph], "meshes": ["dgx-h100"], "seeds": [0], "budget": {"evaluations": 2000}}
    made = service.post(
        "/v1/batches", content=json.dumps(batch), headers={"Content-Type": "application/json"}
    )
    assert {service.wait_for_run(each)["status"] for each in (run, other)} == {"succeeded"}
    plans = [plan["id"] for plan in service.get(f"/v1/runs/{run}/frontier")["plans"]]
    return [
        *("/", f"/runs/{run}", f"/plans/{plans[0]}", f"/graphs/{graph}", f"/batches/{made['id']}"),
        *(f"/compare?plans={plans[0]},{plans[-1]}", f"/compare?runs={run},{other}"),
        *(
            f"/runs/{run}?tour=1",
            "/tour",
            "/batches",
            "/rules",
            "/devices",
            "/devices?device=h200-sxm-141gb",
            "/layouts",
            "/runs/new",
            "/login",
            "/nowhere",
            "/runs/nowhere",
        ),
    ]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1400), ("dark", 390)])
def test_nothing_grave_is_found_on_any_page(
    service: Service, paths: list[str], visit: Open, scheme: Literal["light", "dark"], width: int
) -> None:
    found = []
    for path in paths:
        page = visit(service, path, scheme=scheme, width=width, expected=("status of 404",))
        page.wait_for_load_state("networkidle")
        violations = Axe().run(page).response["violations"]
        grave = [each for each in violations if each["impact"] in GRAVE]
        found += [f"{path}: {each['id']}: {each['nodes'][0]['html'][:200]}" for each in grave]
    assert not found, "\n".join(found)
