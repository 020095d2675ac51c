"""Tensors with a name between executions: where they lie on the simulated mesh, and the cost of moving them to where
the next program wants them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from tapestry.hardware import Mesh
from tapestry.hardware.simulator.resharding import SentParts, Sharding, distribute, reshard
from tapestry.hardware.timing import seconds
from tapestry.optimizer import Plan
from tapestry.service.store import StoredPlan, TenantStore, TensorPlace, mesh_of, mesh_to_document
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.graph import Block, Graph
from tapestry.teg.loading import LoadCost, load_of
from tapestry.teg.sharding.boundary import boundary_spec, with_boundary
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import WHOLE, Spec, boxes, volumes
from tapestry.teg.sharding.stages import check_one_stage
from tapestry.teg.sharding.text import parse_spec


class HeldTensor(NamedTuple):
    """The tensor that an input takes: its name, where it lies on a mesh, and what loading it costs otherwise.

    An input that is no stored tensor has no name; the program states what loading it costs.
    """

    name: str
    place: TensorPlace | None
    load: LoadCost | None = None


@dataclass(frozen=True)
class TensorMove:
    """The move of the stored tensor `name` to the input of a plan; `held` and `wanted` are its shardings.

    `kind`: `none` (it lay where the plan wants it), `reshard` (a copy on the mesh, charged), or `load` (it lay on no
    mesh, another one or another part of it, and is brought there from outside: `loaded_bytes` over all devices, for
    which the time is charged that its `LoadCost` states; where that names the device that gets it, `held`, its parts go
    to the others from there). `name` is empty for an input that is no stored tensor.
    """

    input: str
    name: str
    kind: str
    held: str
    wanted: str
    traffic_bytes: int = 0
    time_s: float = 0.0
    loaded_bytes: int = 0


def places_of(plan: Plan, mesh: Mesh, sites: Iterable[str]) -> dict[str, TensorPlace]:
    """Return the places in which a plan has sources or sinks, by their sites.

    Raises:
        ValueError: the plan has stages; a place does not say on which a tensor is.
    """
    wanted = list(sites)
    if wanted:
        check_one_stage(plan.placements.stages, "the place of a stored tensor")
    return _places(plan, mesh, wanted)


def _places(plan: Plan, mesh: Mesh, sites: Iterable[str]) -> dict[str, TensorPlace]:
    graph = plan.graph
    placements = with_boundary(graph, plan.placements)
    digest = _digest(mesh)
    places = {}
    for site in sites:
        block = graph.by_site[site]
        spec, layout = boundary_spec(graph, placements, block)
        shape = graph.tensors[_tensor(block)].shape
        devices = plan.placements.devices
        places[site] = TensorPlace(mesh.name, digest, devices, shape, str(spec), layout)
    return places


def moves_to(
    plan: Plan, mesh: Mesh, program: Graph, named: Mapping[str, HeldTensor]
) -> tuple[TensorMove, ...]:
    """Count what brings tensors to a plan's sources: stored ones, `named` by the source's site, and those for which the
    program states what loading them costs.

    A source that the plan does not read any more needs nothing.

    Raises:
        ValueError: a device that holds one is not on the mesh. Or the plan has stages, and a tensor is a stored one, or
            a device loads it for the others.
    """
    loads = {source.site: load_of(dict(source.definition.attributes)) for source in program.sources}
    stated = {site: HeldTensor("", None, load) for site, load in loads.items() if load is not None}
    held = {**stated, **named}
    known = {source.site for source in plan.graph.sources}
    wanted = _places(plan, mesh, [site for site in held if site in known])
    moves = []
    for site, place in wanted.items():
        dtype = plan.graph.tensors[_tensor(plan.graph.by_site[site])].dtype
        try:
            if held[site].name or (held[site].load or LoadCost()).device:
                check_one_stage(plan.placements.stages, "moving stored tensors")
            moves.append(_move(site, dtype, held[site], place, mesh))
        except ValueError as error:
            raise ValueError(f"input {site!r}: {error}") from error
    return tuple(moves)


def loading_document(store: TenantStore, plan: StoredPlan) -> dict[str, Any] | None:
    """Return what a stored plan pays once, before its first step: for inputs of which the program states what loading
    takes. None if it states this of none, or of one that a device loads for the others of a plan with stages. It is no
    part of the plan's costs, which are those of every step.

    Raises:
        ValueError: a device that loads one is not on the mesh.
    """
    request = store.runs.request(plan.run_id)
    summary = store.graphs.get(request.graph_id).summary
    if summary is not None and not any(source.get("load") for source in summary["sources"]):
        return None
    program = store.graphs.load(request.graph_id)
    loads = [load for source in program.sources if (load := load_of(dict(source.definition.attributes)))]
    if not loads or (plan.stages is not None and any(load.device for load in loads)):
        return None
    return moves_document(moves_to(store.plans.load(plan.key), mesh_of(request.mesh), program, {}))


def moves_document(moves: Iterable[TensorMove]) -> dict[str, Any]:
    """Convert moves to JSON, with their sums: one tensor is moved after the other."""
    listed = [asdict(move) for move in moves]
    return {
        **{what: sum(move[what] for move in listed) for what in ("traffic_bytes", "time_s", "loaded_bytes")},
        "tensors": listed,
    }


def with_moves(counts: Mapping[str, Any], moves: Iterable[TensorMove]) -> dict[str, Any]:
    """Return the counts of an execution with those of the moves before it, and the sums of both."""
    document = moves_document(moves)
    total = {
        what: counts[what]["counted"] + document[what]
        for what in ("traffic_bytes", "time_s")  # of the program as predicted, and of what came before
    }
    return {**counts, "moves": document, "with_moves": total}


def _move(site: str, dtype: str, tensor: HeldTensor, wanted: TensorPlace, mesh: Mesh) -> TensorMove:
    held, name = tensor.place, tensor.name
    if held is None or (held.mesh_digest, held.devices) != (wanted.mesh_digest, wanted.devices):
        return _load(site, dtype, tensor, wanted, mesh)
    if held == wanted:
        return TensorMove(site, name, "none", _shown(held), _shown(wanted))
    to = Sharding(parse_spec(wanted.spec), wanted.layout)
    if (
        held.shape != wanted.shape
    ):  # the programs divide its dimensions in other ways: it is gathered, then cut
        to = Sharding(Spec((WHOLE,) * len(held.shape)))
    source = Sharding(parse_spec(held.spec), held.layout)
    run = reshard(held.shape, dtype, source, to, mesh, held.devices)
    time_s = float(seconds(run.makespan_ticks))
    return TensorMove(site, name, "reshard", _shown(held), _shown(wanted), run.traffic_bytes, time_s)


def _load(site: str, dtype: str, tensor: HeldTensor, wanted: TensorPlace, mesh: Mesh) -> TensorMove:
    """Count what brings a tensor from outside: to each device its part, or to one that sends the others theirs."""
    cost = tensor.load or LoadCost()
    held = "" if tensor.place is None else _shown(tensor.place)
    if not cost.device:
        loaded_bytes, sent = _bytes(wanted, dtype, mesh), SentParts(0, 0)
    else:
        held, loaded_bytes = cost.device, math.prod(wanted.shape) * item_bytes(dtype)
        to = Sharding(parse_spec(wanted.spec), wanted.layout)
        sent = distribute(wanted.shape, dtype, cost.device, to, mesh, wanted.devices)
    time_s = cost.time_s(loaded_bytes) + float(seconds(sent.ticks))
    move = TensorMove(site, tensor.name, "load", held, _shown(wanted), sent.traffic_bytes, time_s)
    return replace(move, loaded_bytes=loaded_bytes)


def _bytes(place: TensorPlace, dtype: str, mesh: Mesh) -> int:
    """Count the bytes of a tensor's parts over all devices."""
    part = MeshShape(mesh.axis_sizes).part(place.devices)
    return int(volumes(boxes(parse_spec(place.spec), place.shape, part)).sum()) * item_bytes(dtype)


def _tensor(block: Block) -> str:
    """Return the tensor of a source or a sink."""
    return block.outputs[0] if block.operator == "source" else block.inputs[0]


def _shown(place: TensorPlace) -> str:
    return f"{place.spec}{f' in {place.layout}' if place.layout else ''}"


def _digest(mesh: Mesh) -> str:
    """Return a hash of all that a mesh is: two of one name may differ."""
    text = json.dumps(mesh_to_document(mesh), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
