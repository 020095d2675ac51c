"""Requests to a disturbed service: runs, and beside them imports and executions, each until it is acknowledged."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import httpx

from tapestry.service.store import Store
from tapestry.teg.document import dumps
from tests.service.processes import eventually
from tests.service.programs import two_layers
from tests.soak.watching import ENDED, OBJECTIVES, Watcher

RUN_S, LONG_RUN_S = 1.0, 20.0
LONG_RUNS = 2
IMPORT_EVERY = EXECUTION_EVERY = 5  # runs
FULL = (503, 507)  # the answers of a service that takes nothing for now
PATIENCE_S = 240.0  # for something that must happen in the end


class Submitter:
    """A thread that requests everything, as a careful client does, and knows what was acknowledged, by its number."""

    def __init__(self, address: str, watcher: Watcher, runs: int, seconds: float) -> None:
        self._address, self._watcher = address, watcher
        self._count, self._seconds = runs, seconds
        self.runs: dict[int, str] = {}
        self.imports: dict[int, str] = {}
        self.programs: dict[int, str] = {}  # of imports that ended before they were acknowledged
        self.executions: dict[int, str] = {}
        self.fault = ""
        self._thread = threading.Thread(target=self._submit_all)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Wait until everything is acknowledged; raises AssertionError if something is not."""
        self._thread.join(PATIENCE_S)
        assert not self.fault, self.fault
        assert not self._thread.is_alive(), "not all runs are acknowledged"

    def job_statuses(self, store: Store) -> dict[str, str]:
        """Return the status of every acknowledged import and execution, by its name."""
        found = {f"import {name}": store.imports.get(name).status for name in self.imports.values()}
        executions = self.executions.values()
        return found | {f"execution {name}": store.executions.get(name).status for name in executions}

    def lost_programs(self, store: Store) -> list[str]:
        """Return the acknowledged programs that are not stored."""
        return sorted(set(self.programs.values()) - {graph.id for graph in store.graphs.page(limit=1000)})

    def jobs_have_ended(self, store: Store) -> bool:
        return all(status in ENDED for status in self.job_statuses(store).values())

    def _submit_all(self) -> None:
        try:
            with httpx.Client(base_url=self._address, timeout=20, trust_env=False) as http:
                graph = self._posted(http, "/v1/graphs", "graph", json.loads(dumps(two_layers())))["id"]
                began_s, pause_s = time.monotonic(), self._seconds / self._count
                for number in range(self._count):
                    time.sleep(max(began_s + number * pause_s - time.monotonic(), 0.0))
                    self._submit_run(http, graph, number)
                    if number % IMPORT_EVERY == 1:
                        self._submit_import(http, number)
                    if number % EXECUTION_EVERY == 3:
                        self._submit_execution(http, number)
        except AssertionError as error:
            self.fault = str(error)

    def _submit_run(self, http: httpx.Client, graph: str, number: int) -> None:
        body = {
            "graph_id": graph,
            "mesh": "dgx-h100",
            "objectives": list(OBJECTIVES),
            "budget": {"seconds": LONG_RUN_S if number < LONG_RUNS else RUN_S},
            "priority": 10 if number < LONG_RUNS else number % 3,
            "seed": number,
            "verify": "dry",
        }
        self.runs[number] = self._posted(http, "/v1/runs", f"run-{number}", body)["id"]
        self._watcher.watch(self.runs[number])

    def _submit_import(self, http: httpx.Client, number: int) -> None:
        """Upload a program that no other import has, for a worker to read."""
        program = json.loads(dumps(two_layers(width=256 + number)))
        answer = self._posted(http, "/v1/graphs", f"import-{number}", program, {"Prefer": "respond-async"})
        # Where the acknowledgment was lost and the import has ended meanwhile, the answer is the program itself.
        (self.imports if "status" in answer else self.programs)[number] = answer["id"]

    def _submit_execution(self, http: httpx.Client, number: int) -> None:
        """Request the execution of a plan that can be seen; nothing while none can."""
        shown = next((plans for plans in list(self._watcher.plans.values()) if plans), None)
        if shown is not None:
            plan = next(iter(shown))
            path, key = f"/v1/plans/{plan}/executions", f"execution-{number}"
            self.executions[number] = self._posted(http, path, key, {"seed": number})["id"]

    def _posted(
        self, http: httpx.Client, path: str, key: str, body: Any, headers: dict[str, str] | None = None
    ) -> Any:
        def post() -> Any:
            try:
                response = http.post(path, json=body, headers={"Idempotency-Key": key, **(headers or {})})
            except httpx.TransportError:
                return None
            if response.status_code not in FULL:
                assert response.status_code in (200, 201, 202), f"POST {path}: {response.text}"
            return response.json() if response.is_success else None

        return eventually(post, PATIENCE_S, f"POST {path} is acknowledged")
