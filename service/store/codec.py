"""Between values and rows: graphs as compressed documents, machines as their file's fields, costs as rows."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from hardware import Mesh, mesh_from_dict
from optimizer import Plan
from rewrites import Move
from service.store.records import GraphSummary, RunSummary, StoredPlan
from service.store.tables import CostRow, GraphRow, PlanRow, RunRow
from teg.document import dumps, loads
from teg.graph import Graph
from teg.sharding.text import placements_from_document

LARGEST_DATA_BYTES = 256 * 2**20
EXACT = 2**63


def graph_values(graph: Graph) -> dict[str, Any]:
    """The columns of a graph's row that follow from the graph; the id is a hash of all that it holds.

    Data beyond 256 MiB is left out of the document; the id still tells such graphs apart.
    """
    lacks_values = sum(array.nbytes for array in graph.data.values()) > LARGEST_DATA_BYTES
    document = dumps(replace(graph, data={}) if lacks_values else graph).encode()
    digest = hashlib.sha256(graph.structural_hash.encode() + hashlib.sha256(document).digest())
    return {
        "id": digest.hexdigest()[:32],
        "name": graph.name,
        "structural_hash": graph.structural_hash,
        "blocks": len(graph.blocks),
        "document": gzip.compress(document, 6, mtime=0),
        "lacks_values": lacks_values,
    }


def graph_of(row: GraphRow) -> Graph:
    """The graph of a row read with its document."""
    return loads(gzip.decompress(row.document))


def graph_summary(row: GraphRow) -> GraphSummary:
    """A graph's row as a value, its document left out."""
    return GraphSummary(row.id, row.name, row.blocks, row.lacks_values, row.created_at)


def mesh_to_document(mesh: Mesh) -> dict[str, Any]:
    """The fields of a mesh's TOML file, its device written out in place; `mesh_of` reads them back."""
    document = asdict(mesh)
    device = document["device"]
    axes = [_known(axis) for axis in document["axes"]]
    known = json.loads(json.dumps({"name": mesh.name, "device": _known(device), "axes": axes}))
    assert isinstance(known, dict)
    return known


def mesh_of(document: Mapping[str, Any]) -> Mesh:
    """The mesh that `mesh_to_document` wrote."""
    return mesh_from_dict(document, "stored mesh")


def _known(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is not known: a file leaves that out."""
    return {name: value for name, value in fields.items() if value is not None and value not in ((), {})}


def cost_rows(plan: Plan) -> list[CostRow]:
    """A plan's costs; whole numbers are kept exactly, also where a float would round them."""
    return [
        CostRow(
            objective=name,
            value=float(value),
            whole=value if isinstance(value, int) and abs(value) < EXACT else None,
        )
        for name, value in plan.cost.items()
    ]


def stored_plan(row: PlanRow) -> StoredPlan:
    """A plan's row, read with its costs, as a value."""
    cost = {c.objective: c.value if c.whole is None else c.whole for c in row.costs}
    return StoredPlan(
        row.key, row.plan_id, row.run_id, row.graph_id, row.feasible, cost, row.moves, row.verified
    )


def plan_of(row: PlanRow, graph: Graph) -> Plan:
    """A plan as the search made it, from its row read with placements and costs, and its rewritten graph."""
    moves = tuple(Move.from_json(move) for move in row.moves)
    cost = stored_plan(row).cost
    return Plan(graph, placements_from_document(row.placements), moves, cost, row.feasible)


def run_summary(row: RunRow) -> RunSummary:
    """A run's row, read with its graph, as a value."""
    return RunSummary(
        id=row.id,
        graph_id=row.graph_id,
        graph_name=row.graph.name,
        mesh_name=row.mesh_name,
        objectives=tuple(row.objectives),
        constraints=tuple(row.constraints),
        budget_seconds=row.budget_seconds,
        budget_evaluations=row.budget_evaluations,
        seed=row.seed,
        islands=row.islands,
        compute_dtype=row.compute_dtype,
        status=row.status,
        stopped=row.stopped,
        evaluations=row.evaluations,
        seconds=row.seconds,
        created_at=row.created_at,
    )
