"""Cancels of the import of a long program, and in every phase of a run of it: the seconds until that has ended.

python -m benchmarks.cancelling --blocks 60000
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from benchmarks.hostile_cases import chain, small
from tapestry.service.serving import ServiceServer
from tapestry.service.settings import Rates, ServiceSettings
from tapestry.service.store import Store
from tapestry.teg.document import from_document

PHASES = ("compiling", "seeding", "searching", "verifying")
ALLOWED_S = 2.0
LOOK_S = 0.02
RESULTS = Path(__file__).parent / "results" / "cancelling.json"


def ended(http: httpx.Client, run_id: str) -> bool:
    """Return whether a run has ended."""
    return http.get(f"/v1/runs/{run_id}").json()["status"] not in ("queued", "running")


def cancel_in(http: httpx.Client, graph_id: str, phase: str, patience_s: float) -> dict[str, Any]:
    """Cancel a run in a phase; return the seconds until it had ended."""
    budget = {"seconds": 1.0 if phase == "verifying" else 600.0}
    body = {"graph_id": graph_id, "mesh": "dgx-h100", "budget": budget, "fresh": True, "islands": 1}
    run_id = http.post("/v1/runs", json=body).raise_for_status().json()["id"]
    until = time.monotonic() + patience_s
    while (run := http.get(f"/v1/runs/{run_id}").json())["phase"] != phase or run["status"] != "running":
        if time.monotonic() > until or run["status"] not in ("queued", "running"):
            http.post(f"/v1/runs/{run_id}/cancel")
            return {"phase": phase, "reached": False, "status": run["status"], "at": run["phase"]}
        time.sleep(LOOK_S)
    began_s = time.monotonic()
    http.post(f"/v1/runs/{run_id}/cancel").raise_for_status()
    while not ended(http, run_id):
        time.sleep(LOOK_S)
    cancelled_s = time.monotonic() - began_s
    status = http.get(f"/v1/runs/{run_id}").json()["status"]
    return {"phase": phase, "reached": True, "status": status, "seconds": round(cancelled_s, 2)}


def cancel_import(http: httpx.Client, document: dict[str, Any]) -> dict[str, Any]:
    """Cancel the import of a program while a worker reads it; return the seconds until it had ended."""
    answer = http.post("/v1/graphs", json=document, headers={"prefer": "respond-async"}).raise_for_status()
    place = answer.headers["location"]
    while http.get(place).json()["status"] != "running":
        time.sleep(LOOK_S)
    began_s = time.monotonic()
    http.post(f"{place}/cancel").raise_for_status()
    while (status := http.get(place).json()["status"]) == "running":
        time.sleep(LOOK_S)
    seconds = round(time.monotonic() - began_s, 2)
    return {"phase": "reading", "reached": True, "status": status, "seconds": seconds}


def main() -> int:
    """Run the benchmark and store its figures; return 1 if a cancel took too long, or a phase was not reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=60_000)
    parser.add_argument("--patience", type=float, default=300.0, help="seconds to wait for a phase")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tapestry-cancelling-") as folder:
        url = f"sqlite:///{folder}/cancelling.db"
        settings = ServiceSettings(url, port=0, rates=Rates(requests_per_s=1e6, submissions_per_s=1e6))
        server = ServiceServer(settings, worker=True, islands=1, log_level="error")
        with server, server.in_background(), httpx.Client(base_url=server.address, timeout=120) as http:
            store = Store(url)
            document = chain(arguments.blocks)
            graph = from_document(document)
            graph_id = store.graphs.save(graph, datetime.now(UTC)).id
            store.close()
            http.post("/v1/graphs", json=small()).raise_for_status()
            results = [cancel_import(http, {**document, "name": "to be cancelled"})]
            print(json.dumps(results[-1]), flush=True)
            for phase in PHASES:
                results.append(cancel_in(http, graph_id, phase, arguments.patience))
                print(json.dumps(results[-1]), flush=True)
    found = {"blocks": arguments.blocks, "allowed_s": ALLOWED_S, "cancels": results}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    return int(any(not one["reached"] or one["seconds"] > ALLOWED_S for one in results))


if __name__ == "__main__":
    sys.exit(main())
