"""Conversion of values to and from rows: graphs as compressed documents, meshes as file fields, plans as moves."""

from __future__ import annotations

import gzip
import hashlib
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import groupby
from typing import Any

from sqlalchemy import Row

from tapestry.hardware import Mesh, MeshAxis, mesh_from_dict
from tapestry.hardware.device_files import known_fields
from tapestry.hardware.timing import TimeEstimate
from tapestry.optimizer import Plan, canonicalize
from tapestry.optimizer.archive.origin import PlanOrigin
from tapestry.optimizer.run.options import OptionError, RunOptions
from tapestry.rewrites import Move, RuleError, StaleMove, is_structural, replay_all
from tapestry.service.store.database import StoreError
from tapestry.service.store.records import RunSummary, StoredPlan
from tapestry.service.store.sessions import Unreadable
from tapestry.service.store.tenancy import DEFAULT
from tapestry.teg.document import dumps, loads
from tapestry.teg.family import family_of
from tapestry.teg.graph import Graph
from tapestry.teg.operators import catalog, plug_ins
from tapestry.teg.sharding.text import placements_from_document, placements_to_document
from tapestry.teg.stored_state import with_stored_state

LARGEST_DATA_BYTES = 256 * 2**20

LACKING = "`tapestry plugins` lists the plug-ins that are there, the run's versions those that took part"


def graph_values(graph: Graph, tenant: str = DEFAULT) -> dict[str, Any]:
    """Compute the columns of a graph's row that follow from the graph; the id is a hash of its whole content.

    That is salted with the tenant, so that ids tell nothing of what others have. Data beyond 256 MiB is left out
    of the document; the id still distinguishes such graphs.
    """
    lacks_values = sum(array.nbytes for array in graph.data.values()) > LARGEST_DATA_BYTES
    document = dumps(replace(graph, data={}) if lacks_values else graph).encode()
    salt = "" if tenant == DEFAULT else f"{tenant}\0"
    digest = hashlib.sha256(f"{salt}{graph.structural_hash}".encode() + hashlib.sha256(document).digest())
    return {
        "id": digest.hexdigest()[:32],
        "name": graph.name,
        "structural_hash": graph.structural_hash,
        "family": family_of(graph),
        "blocks": len(graph.blocks),
        "document": gzip.compress(document, 6, mtime=0),
        "lacks_values": lacks_values,
    }


def graph_of(document: bytes) -> Graph:
    """Load the graph of a stored document.

    Raises:
        Unreadable: it has operators that are missing here, such as those of a plug-in that was removed.
    """
    graph = loads(gzip.decompress(document), max_bytes=sys.maxsize)
    for name in {block.operator for block in graph.blocks} - catalog().keys():
        reported = plug_ins().left_out(name) or "there is none of that name"
        raise Unreadable(f"the stored program needs operator {name!r}: {reported}; {LACKING}")
    return with_stored_state(graph)


def mesh_to_document(mesh: Mesh) -> dict[str, Any]:
    """Convert a mesh to the fields of its TOML file, its device written out in place; `mesh_of` reads them back."""
    if mesh.nodes:
        runs = [(node, len(list(run))) for node, run in groupby(mesh.nodes)]
        nodes = [{"count": count, **mesh_to_document(node)} for node, count in runs]
        links = _axis_fields(mesh.axes[0], is_network=True)
        return known_fields({"name": mesh.name, "nodes": nodes, "network": links, "systems": mesh.systems})
    axes = [_axis_fields(axis) for axis in mesh.axes]
    fields = {"name": mesh.name, "device": asdict(mesh.device), "axes": axes, "systems": mesh.systems}
    if mesh.network is not None:
        fields["network"] = _axis_fields(mesh.network, is_network=True)
    return known_fields(fields)


def _axis_fields(axis: MeshAxis, is_network: bool = False) -> dict[str, Any]:
    """Return the fields of an axis in a mesh file; name and size of a network are not stated."""
    derived = ("part_of", "inner", *(("name", "size") if is_network else ()))
    return {k: v for k, v in asdict(replace(axis, part_of=None, inner=None)).items() if k not in derived}


def mesh_of(document: Mapping[str, Any]) -> Mesh:
    """Load the mesh that `mesh_to_document` wrote, whatever its figures: it was accepted when it was stored."""
    return mesh_from_dict(document, "stored mesh", plausible=False)


def plan_values(run_id: str, plan: Plan) -> dict[str, Any]:
    """Compute the columns of a plan's row that follow from the plan."""
    moves = [move.to_json() for move in plan.moves]
    return {
        "run_id": run_id,
        "plan_id": plan.id,
        "on_frontier": True,
        **cost_values(plan),
        "devices": plan.placements.devices or "all",
        "micro_batches": 1 if plan.placements.rounds is None else plan.placements.rounds.count,
        "recompute": plan.recompute,
        "offload": plan.offload,
        "stages": plan.stages,
        "origin": None if plan.origin is None else plan.origin.to_json(),
        "move_count": len(moves),
        "moves": moves,
        "placements": placements_to_document(plan.placements),
    }


def cost_values(plan: Plan) -> dict[str, Any]:
    """Compute the columns of a plan's row that the cost model decides."""
    return {
        "feasible": plan.feasible,
        "cost": _figures(plan),
        "cost_model": plan.cost_model,
        "time": None if plan.time is None else plan.time.to_json(),
    }


def _figures(plan: Plan) -> dict[str, float]:
    """Return a plan's costs, which JSON stores to the last digit; raise StoreError if one is not finite."""
    for objective, value in plan.cost.items():
        if not math.isfinite(value):
            raise StoreError(
                f"plan {plan.id}: its {objective} is {value}, not a number to compare; nothing was stored"
            )
    return dict(plan.cost)


def plans_of(graph: Graph, rows: Sequence[Row[Any]]) -> list[Plan]:
    """Rebuild plans of one program as the search made them, from their rows: structural moves rewrite `graph`.

    Plans of equal structural moves have the same graph object.

    Raises:
        Unreadable: a rule that made one is missing, or does something else by now.
    """
    histories = [tuple(Move.from_json(move) for move in row.moves) for row in rows]
    structural = [tuple(filter(is_structural, history)) for history in histories]
    try:
        rewritten = replay_all(canonicalize(graph), structural)
    except (StaleMove, RuleError) as error:
        raise Unreadable(f"the stored plan cannot be made again here: {error}; {LACKING}") from error
    return [
        Plan(
            rewritten[moves],
            placements_from_document(row.placements),
            history,
            dict(row.cost),
            row.feasible,
            row.cost_model,
            None if row.time is None else TimeEstimate.from_json(row.time),
            None if row.origin is None else PlanOrigin.from_json(row.origin),
        )
        for row, history, moves in zip(rows, histories, structural, strict=True)
    ]


def stored_plan(row: Row[Any]) -> StoredPlan:
    """Convert a plan's row, with or without moves and placements, to a record."""
    fields = row._mapping
    return StoredPlan(
        key=fields["key"],
        id=fields["plan_id"],
        run_id=fields["run_id"],
        feasible=fields["feasible"],
        on_frontier=fields["on_frontier"],
        cost=fields["cost"],
        cost_model=fields["cost_model"],
        time=fields["time"],
        devices=fields["devices"],
        micro_batches=fields["micro_batches"],
        recompute=fields["recompute"],
        offload=fields["offload"],
        stages=fields["stages"],
        origin=fields["origin"],
        move_count=fields["move_count"],
        verified=fields["verified"],
        moves=fields.get("moves", ()),
        placements=fields.get("placements"),
    )


def stored_options(document: Mapping[str, Any]) -> RunOptions:
    """Load the options of a stored run; one that is missing, since it is newer than the run, has its default.

    Raises:
        Unreadable: a newer release of this program stored options that are not known here.
    """
    try:
        return RunOptions.from_json(document)
    except OptionError as error:
        raise Unreadable(f"the stored run cannot be read: {error}") from error


def run_summary(row: Row[Any]) -> RunSummary:
    """Convert a run's row, read with its graph's name and whether its lease requests cancellation, to a record."""
    fields = dict(row._mapping)
    fields["options"] = stored_options(fields["options"])
    fields["cancel_requested"] = bool(fields["cancel_requested"])
    fields["tags"] = tuple(sorted(filter(None, (fields["tags"] or "").split(","))))
    fields["notes"] = fields["notes"] or ""
    fields["trend"] = tuple(tuple(point) for point in fields["trend"])
    return RunSummary(**fields)
