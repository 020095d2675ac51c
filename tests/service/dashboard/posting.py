"""Programs and runs for the tests of pages, posted to the API."""

from __future__ import annotations

import json
from dataclasses import replace

from tapestry.teg.document import dumps
from tests.service.processes import Service
from tests.service.programs import two_layers


def posted_graph(service: Service, name: str = "two layers", site: str = "hidden") -> str:
    document = dumps(replace(two_layers(), name=name)).replace('"hidden"', json.dumps(site))
    answer = service.post("/v1/graphs", content=document, headers={"Content-Type": "application/json"})
    return str(answer["id"])


def posted_run(service: Service, graph_id: str, **more: object) -> str:
    body = {"graph_id": graph_id, "mesh": "dgx-h100", "budget": {"evaluations": 2000}, **more}
    return str(service.post("/v1/runs", json=body)["id"])
