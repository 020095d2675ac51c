"""A database as the first release made and filled it, written with nothing but the first step's tables."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Engine, MetaData, create_engine, text

from tapestry.service.store.migrations.upgrade import upgrade
from tapestry.service.store.schema import VERSIONS

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
MOVES = {
    1: [{"rule": "reshard", "place": "y", "choice": "(gpu.0, -)"}],
    2: [
        {"rule": "fuse_cells", "place": ["a", "b"], "choice": ""},
        {"rule": "set_option", "place": "devices", "choice": "gpu:4"},
    ],
    3: [],
}
PLACEMENTS = {"y": {"strategy": "(gpu.0, -)"}}
VERIFIED = {"sharding": {"ok": True, "issues": []}}
TRACE = {"traceEvents": [{"ts": 0}]}


def packed(value: Any) -> bytes:
    return gzip.compress(json.dumps(value).encode(), 6, mtime=0)


ROWS: dict[str, list[dict[str, Any]]] = {
    "schema_version": [{"version": 1}],
    "graphs": [
        {
            "id": name * 32,
            "name": f"graph {name}",
            "structural_hash": name * 64,
            "blocks": 3,
            "document": b"a document",
            "lacks_values": False,
            "is_given": is_given,
            "created_at": NOON,
        }
        for name, is_given in (("a", True), ("b", False))
    ],
    "runs": [
        {
            "id": run_id,
            "graph_id": "a" * 32,
            "mesh_name": "dgx-h100",
            "mesh": {"name": "dgx-h100"},
            "objectives": ["time_s", "compute_flops"],
            "constraints": ["peak_memory_bytes <= 1 GiB"],
            "rules": None,
            "pins": {"y": "[gpu.0, -]"},
            "compute_dtype": "bf16",
            "budget_seconds": 1.5,
            "budget_evaluations": None,
            "seed": 2**62,
            "islands": 2,
            "status": status,
            "stopped": stopped,
            "evaluations": 1234,
            "seconds": 1.5,
            "timings": {"compile_s": 0.25},
            "versions": {"python": "3.11"},
            "host": {"cores": 2},
            "created_at": NOON,
        }
        for run_id, status, stopped in (("run1", "succeeded", "budget"), ("run2", "cancelled", "interrupted"))
    ],
    "plans": [
        {
            "key": key,
            "run_id": run_id,
            "plan_id": plan_id,
            "graph_id": graph * 32,
            "feasible": True,
            "moves": packed(MOVES[key]),
            "placements": packed(PLACEMENTS),
            "verified": verified,
        }
        for key, run_id, plan_id, graph, verified in (
            (1, "run1", "p1", "a", VERIFIED),
            (2, "run1", "p2", "b", None),
            (3, "run2", "p1", "a", None),
        )
    ],
    "costs": [
        {"key": number, "plan_key": plan, "objective": name, "value": float(value), "whole": whole}
        for number, (plan, name, value, whole) in enumerate(
            [
                (1, "time_s", 0.1, None),
                (1, "compute_flops", 2**60 + 1, 2**60 + 1),
                (2, "time_s", 1e-300, None),
                (2, "compute_flops", 2.0**70, None),
                (3, "time_s", 1 / 3, None),
            ],
            start=1,
        )
    ],
    "frontier": [
        {"run_id": "run1", "position": 0, "plan_key": 2},
        {"run_id": "run1", "position": 1, "plan_key": 1},
    ],
    "rule_statistics": [{"run_id": "run1", "rule": "reshard", "applied": 2**40, "improved": 3}],
    "history": [
        {
            "run_id": "run1",
            "step": step,
            "seconds": 0.5,
            "evaluations": 600,
            "front": 1,
            "hypervolume": volume,
        }
        for step, volume in ((0, 0.25), (1, 0.5))
    ],
    "executions": [
        {
            "key": key,
            "plan_key": 1,
            "backend": backend,
            "seed": seed,
            "counts": {"time_s": 1e-3},
            "verified": VERIFIED,
            "trace": trace,
            "created_at": NOON,
        }
        for key, backend, seed, trace in ((1, "numpy", 7, packed(TRACE)), (300, "dry", None, None))
    ],
}


def make_first_release(url: str, rows: dict[str, list[dict[str, Any]]] | None = None) -> None:
    """Fill an empty database as that release would have left it."""
    engine = create_engine(url)
    with engine.begin() as connection:
        upgrade(connection, None, target="0001")
        VERSIONS.drop(connection)  # that release had its own way to say its version
    _fill(engine, ROWS if rows is None else rows)
    engine.dispose()


def _fill(engine: Engine, rows: dict[str, list[dict[str, Any]]]) -> None:
    metadata = MetaData()
    metadata.reflect(engine)
    with engine.begin() as connection:
        for table, values in rows.items():
            connection.execute(metadata.tables[table].insert(), values)
        if engine.dialect.name == "postgresql":  # as if the numbers had been given out by the database
            for table in ("plans", "costs", "executions"):
                connection.execute(
                    text(f"SELECT setval(pg_get_serial_sequence('{table}', 'key'), max(key)) FROM {table}")
                )
