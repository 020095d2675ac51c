"""Probes of every endpoint by a tenant with the ids of another one: what is answered, and in what time.

Every operation of the OpenAPI document that has an id in its path, its query or its body is requested by one tenant
with an id that another tenant has, and with one that nobody has, in turns. The answers must be equal but for the id,
and their times must come from one distribution (Mann-Whitney's test over the pairs of each operation).

    python -m benchmarks.tenant_probes --probes 1000
"""

from __future__ import annotations

import argparse
import json
import re
import secrets
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from scipy.stats import mannwhitneyu

from tapestry.service.api.examples import GRAPH_ID
from tapestry.service.serving import ServiceServer
from tapestry.service.settings import Rates, ServiceSettings
from tapestry.service.store import ImportRequest, Store, TensorValue
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Graph

LEVEL = 0.01
METHODS = ("get", "post", "put", "patch", "delete")
MADE = re.compile(
    r"\b[0-9a-f]{12}\b|[0-9-]{10}T[0-9:.+]{14,}"
)  # ids and moments of what was made for the answer
JOBS = ("execution_id", "batch_id", "import_id", "measurement_id")
COMMON = {"dtype": "bf16", "member": "bf16"}  # parameters of paths that are no ids: the same for every tenant
HOW = ImportRequest(False, "probe", ".mlir", {}, (), 2**20, 100, {})
MODULE = b"func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }"
NAMING = ("post /v1/runs", "post /v1/batches")  # operations that name a program in their body


@dataclass(frozen=True)
class TenantProbe:
    """An operation with the ids of another tenant, or with unknown ones of the same form."""

    name: str
    method: str
    path: str
    names: tuple[str, ...]
    body: Any = None
    query: Mapping[str, str] = field(default_factory=dict)


def program(width: int = 64) -> Graph:
    """Build `x @ w`."""
    b = GraphBuilder("probe")
    x = b.source("x", (width, width), "float32")
    w = b.source("w", (width, width), "float32", "parameter")
    (y,) = b.apply("contract", (x, w), site="y", labels=(("m", "k"), ("k", "n")), output=("m", "n"))
    b.sink(y, site="result")
    return b.build()


def probes(document: Mapping[str, Any]) -> Iterator[TenantProbe]:
    """Yield every operation that takes an id of a tenant's."""
    for path, operations in document["paths"].items():
        names = tuple(part[1:-1] for part in path.split("/") if part.startswith("{"))
        for method in METHODS:
            name = f"{method} {path}"
            is_named = any(part.endswith("_id") or part == "name" for part in names)
            if method in operations and (is_named or name in NAMING):
                if name == "put /v1/tensors/{name}":
                    yield TenantProbe(
                        f"{name}?copy_of", method, "/v1/tensors/copied", (), None, {"copy_of": "TENSOR"}
                    )
                else:
                    yield TenantProbe(
                        name, method, path, names, body_of(operations[method]), query_of(operations[method])
                    )
    yield TenantProbe("get /v1/runs?graph_id", "get", "/v1/runs", (), None, {"graph_id": "GRAPH"})
    start = {"graph_id": "MINE", "mesh": "dgx-h100", "start_from": "RUN"}
    yield TenantProbe("post /v1/runs start_from", "post", "/v1/runs", (), start)


def body_of(operation: Mapping[str, Any]) -> Any:
    """Return the example of an operation's JSON body, with a name in place of a program's id; None without a body."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    return json.loads(json.dumps(content.get("example")).replace(GRAPH_ID, "GRAPH"))


def query_of(operation: Mapping[str, Any]) -> dict[str, str]:
    """Return a value for every parameter of an operation's query that must be stated."""
    found = {}
    for parameter in operation.get("parameters", ()):
        schema = parameter["schema"]
        if parameter["in"] == "query" and parameter.get("required"):
            (found[parameter["name"]], *_) = schema.get("enum") or schema["examples"]
    return found


def fill(value: Any, ids: Mapping[str, str]) -> Any:
    """Replace the names of ids in a value by ids."""
    if isinstance(value, str):
        return ids.get(value, value)
    if isinstance(value, Mapping):
        return {key: fill(member, ids) for key, member in value.items()}
    return [fill(member, ids) for member in value] if isinstance(value, list) else value


def request(http: httpx.Client, probe: TenantProbe, ids: Mapping[str, str]) -> tuple[httpx.Response, float]:
    """Send a probe; return the answer and its time in seconds."""
    path = probe.path
    for name in probe.names:
        path = path.replace(f"{{{name}}}", ids[name] if name in ids else COMMON[name])
    body = fill(probe.body, ids)
    began = time.perf_counter()
    answer = http.request(probe.method, path, json=body, params=fill(dict(probe.query), ids) or None)
    return answer, time.perf_counter() - began


def plain(answer: httpx.Response, ids: Mapping[str, str]) -> tuple[int, str, dict[str, str]]:
    """Return an answer without its ids and what differs between any two answers."""
    text = answer.text
    for name, value in sorted(ids.items(), key=lambda item: -len(item[1])):  # plans before their runs
        text = text.replace(value, name) if name != "MINE" else text
    text = MADE.sub("made", text)
    own = ("date", "x-request-id", "content-length", "etag", "ratelimit", "location")
    return answer.status_code, text, {name: v for name, v in answer.headers.items() if name not in own}


@dataclass
class ProbedOperation:
    """The answers to the probes of one operation: statuses, differing answers, and times in seconds."""

    name: str
    statuses: set[int] = field(default_factory=set)
    differing: int = 0
    foreign_s: list[float] = field(default_factory=list)
    unknown_s: list[float] = field(default_factory=list)

    @property
    def p(self) -> float:
        """The probability of such a difference of times if there is none."""
        return float(mannwhitneyu(self.foreign_s, self.unknown_s).pvalue)


def unknown_like(ids: Mapping[str, str]) -> dict[str, str]:
    """Return ids of the same form that nobody has."""
    run, plan, *jobs = (secrets.token_hex(6) for _ in range(2 + len(JOBS)))
    graph, tensor = secrets.token_hex(16), secrets.token_hex(3)
    return _ids(graph, run, f"{run}-{plan}", tensor, *jobs) | {"MINE": ids["MINE"]}


def _ids(graph: str, run: str, plan: str, tensor: str, *jobs: str) -> dict[str, str]:
    named = {"graph_id": graph, "run_id": run, "plan_id": plan, **dict(zip(JOBS, jobs, strict=True))}
    return named | {"name": tensor, "GRAPH": graph, "RUN": run, "TENSOR": tensor}


def other_tenant(http: httpx.Client, store: Store, tenant: str, graph: Graph) -> dict[str, str]:
    """Let a tenant have a program, a finished run, an execution, a batch, an import and a tensor; return their ids."""
    mine = store.of(tenant)
    graph_id = mine.graphs.save(graph, datetime.now(UTC)).id
    run = {"graph_id": graph_id, "mesh": "dgx-h100", "budget": {"seconds": 2}}
    run_id = http.post("/v1/runs", json=run).raise_for_status().json()["id"]
    while http.get(f"/v1/runs/{run_id}").json()["status"] in ("queued", "running"):
        time.sleep(0.5)
    plan_id = http.get(f"/v1/runs/{run_id}/frontier").json()["plans"][0]["id"]
    http.get(f"/v1/runs/{run_id}")  # kept from now on
    wanted = {"values": False}
    execution = http.post(f"/v1/plans/{plan_id}/executions", json=wanted).raise_for_status().json()["id"]
    batch = {"graphs": [graph_id], "meshes": ["dgx-h100"], "name": "other"}
    batch_id = http.post("/v1/batches", json=batch).raise_for_status().json()["id"]
    import_id = mine.imports.begin(secrets.token_hex(32), "probe", HOW, datetime.now(UTC))
    mine.imports.append(import_id, 0, 0, MODULE)
    mine.imports.submit(import_id, datetime.now(UTC))
    http.get(f"/v1/imports/{import_id}").raise_for_status()
    tensor = secrets.token_hex(3)
    mine.tensors.put({tensor: TensorValue.of(np.ones(9, np.float32))}, datetime.now(UTC))
    measured = {"seconds": 1.0, "measured_on": "elsewhere"}
    answer = http.post(f"/v1/plans/{plan_id}/measurements", json=measured).raise_for_status()
    return _ids(graph_id, run_id, plan_id, tensor, execution, batch_id, import_id, answer.json()["id"])


def probe_all(
    http: httpx.Client, found: Sequence[TenantProbe], ids: Mapping[str, str], count: int
) -> list[ProbedOperation]:
    """Send about `count` probes with foreign ids, over all operations, each beside one with unknown ids."""
    rows = [ProbedOperation(probe.name) for probe in found]
    order = np.random.default_rng(0)
    for number in range(-2, -(-count // len(found))):  # the first ones warm up
        for row, probe in zip(rows, found, strict=True):
            unknown, answers = unknown_like(ids), {}
            for kind in order.permutation(["foreign", "unknown"]):
                of = ids if kind == "foreign" else unknown
                answer, seconds = request(http, probe, of)
                answers[kind] = plain(answer, of)
                if number >= 0:
                    (row.foreign_s if kind == "foreign" else row.unknown_s).append(seconds)
            row.statuses |= {answers["foreign"][0]}
            row.differing += answers["foreign"] != answers["unknown"]
    return rows


def main() -> int:
    """Start a service with two tenants and probe it; print what differs, and return 1 if anything does."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--probes", type=int, default=1000)
    parser.add_argument("--database-url")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = arguments.database_url or f"sqlite:///{folder}/probes.db"
        store = Store(url)
        keys = {t: store.keys.add(t, "admin", datetime.now(UTC), tenant=t)[0] for t in ("ada", "bob")}
        settings = ServiceSettings(url, port=0, rates=Rates(0, 0))
        with (
            ServiceServer(settings, worker=True, islands=1, log_level="error") as server,
            server.in_background(),
        ):
            clients = {
                tenant: httpx.Client(
                    base_url=server.address, timeout=120, headers={"Authorization": f"Bearer {key}"}
                )
                for tenant, key in keys.items()
            }
            mine = store.of("bob").graphs.save(program(96), datetime.now(UTC)).id
            ids = other_tenant(clients["ada"], store, "ada", program()) | {"MINE": mine}
            found = list(probes(clients["bob"].get("/openapi.json").json()))
            rows = probe_all(clients["bob"], found, ids, arguments.probes)
            for client in clients.values():
                client.close()
        store.close()
    summary = report(rows, arguments.json)
    return 1 if summary["differing"] or summary["significant"] or summary["p"] < LEVEL else 0


def report(rows: Sequence[ProbedOperation], path: Path | None) -> dict[str, Any]:
    """Print a line for each operation; return the figures of all, with what differs after Bonferroni's correction."""
    documents = []
    for row in rows:
        medians = [1e3 * float(np.median(times)) for times in (row.foreign_s, row.unknown_s)]
        documents.append(
            {
                "operation": row.name,
                "probes": len(row.foreign_s),
                "statuses": sorted(row.statuses),
                "differing": row.differing,
                "foreign_ms": round(medians[0], 3),
                "unknown_ms": round(medians[1], 3),
                "p": round(row.p, 4),
            }
        )
        print(json.dumps(documents[-1]))
    everything = mannwhitneyu(
        np.concatenate([np.array(row.foreign_s) / np.median(row.unknown_s) for row in rows]),
        np.concatenate([np.array(row.unknown_s) / np.median(row.unknown_s) for row in rows]),
    )
    summary = {
        "probes": sum(len(row.foreign_s) for row in rows),
        "operations": len(rows),
        "differing": sum(row.differing for row in rows),
        "p": round(float(everything.pvalue), 4),
        "least_p": min(round(row.p, 4) for row in rows),
        "significant": [row.name for row in rows if row.p < LEVEL / len(rows)],
    }
    print(json.dumps(summary))
    if path is not None:
        path.write_text(json.dumps({"summary": summary, "operations": documents}, indent=1) + "\n")
    return summary


if __name__ == "__main__":
    raise SystemExit(main())
