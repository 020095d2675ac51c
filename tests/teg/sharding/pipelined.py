"""Random plans with stages, and a chain of layers whose pipeline theory knows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tapestry.hardware import load_mesh
from tapestry.hardware.mesh import Mesh
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.costs import CostTable, ResourceCost
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements, whole_strategy
from tapestry.teg.sharding.rounds import Rounds
from tapestry.teg.sharding.stages import SCHEDULES, Stages
from tapestry.teg.sharding.turns import ScheduleError
from tests.teg.sharding.looped import in_rounds, training
from tests.teg.sharding.programs import random_placements

# A mesh, the devices of a stage, how many stages there are.
PLACES = (
    ("dgx-h100", "gpu:2", 4),
    ("2x-dgx-h100", "node:1,gpu:4", 4),
    ("2x-dgx-h100", "node:2,gpu:2", 3),
    ("t3000", "y:1,x:4", 2),
    ("tpu-v4-2x2x2", "x:1,y:2,z:2", 2),
)


def random_pipelined(
    rng: np.random.Generator,
    graph: Graph,
    mesh_shape: MeshShape,
    devices: str,
    stages: Stages,
    rounds: Rounds | None = None,
) -> Placements:
    """Draw a plan in which every block is in some part of a pipeline, in no order at all."""
    placed = random_placements(rng, graph, mesh_shape.part(devices))
    parts = stages.count * (2 if stages.schedule == "interleaved" else 1)
    blocks = {site: replace(p, part=int(rng.integers(parts))) for site, p in placed.blocks.items()}
    return replace(placed, blocks=blocks, devices=devices, stages=stages, rounds=rounds)


@dataclass(frozen=True)
class Pipelined:
    """A plan with stages, and what it makes of its graph on a mesh."""

    graph: Graph
    mesh: Mesh
    placements: Placements
    program: ExplicitGraph


def drawn(seed: int, state: bool = False) -> Pipelined:
    """Draw a plan of a training step that has a schedule: places, schedules and rounds differ from seed to seed."""
    rng, graph = np.random.default_rng(seed), training(24, "float32", state=state)
    name, devices, count = PLACES[seed % 5]
    mesh = load_mesh(name)
    stages = Stages(count, SCHEDULES[seed // 5 % len(SCHEDULES)])
    rounds = (None, in_rounds(2), in_rounds(4))[seed // 2 % 3]
    while True:
        shape = MeshShape(mesh.axis_sizes)
        placements = random_pipelined(rng, graph, shape, devices, stages, rounds)
        try:
            return Pipelined(graph, mesh, placements, expand(graph, placements, shape))
        except ScheduleError:
            continue


def chain(layers: int, batch: int, width: int = 64) -> Graph:
    """Build layers with gradients: `f0, f1, ...`, then back from the last one its gradient, and that of its input.

    Forward a layer takes 1 us per row, and twice as long back: `d3` and `b3`. Gradients are observed by `s3` and `out`.
    """
    b, took = GraphBuilder("chain"), CostTable((ResourceCost("seconds", 0.0, (("b", 1e-6),)),))
    held = b.source("x", (batch, width), "float32")
    weights = [b.source(f"w{k}", (width, width), "float32", "parameter") for k in range(layers)]
    layer: dict[str, Any] = {"labels": (("b", "i"), ("i", "j")), "output": ("b", "j")}
    back: dict[str, Any] = {"labels": (("b", "j"), ("i", "j")), "output": ("b", "i")}
    step: dict[str, Any] = {"labels": (("b", "i"), ("b", "j")), "output": ("i", "j")}
    product: dict[str, Any] = {
        "expr": ("mul", ("input", 0), ("input", 1)), "labels": (("b", "j"), ("b", "j")),
        "dims": (("b", batch), ("j", width)), "dtype": "float32",
    }  # fmt: skip
    made = []
    for k, weight in enumerate(weights):
        (held,) = b.apply("contract", [held, weight], site=f"f{k}", costs=took, **layer)
        made.append(held)
    steps = {}
    for k in reversed(range(layers)):
        (steps[k],) = b.apply("contract", [held, made[k]], site=f"d{k}", costs=took, **step)
        (held,) = b.apply("contract", [held, weights[k]], site=f"b{k}", costs=took, **back)
        free = CostTable((ResourceCost("seconds", 0.0, (("b", 0.0),)),))
        (held,) = b.apply("cell", [held, made[k]], site=f"c{k}", costs=free, **product)
    b.sink(held, site="out")
    for k, tensor in steps.items():
        b.sink(tensor, site=f"s{k}")
    return b.build()


def in_parts(
    graph: Graph, cut: dict[int, int], stages: Stages, rounds: int, devices: str = "gpu:1"
) -> Placements:
    """Return a plan of a chain with whole blocks: layers in the parts of `cut`, what begins and ends in part 0."""
    sites = {block: block.site for block in graph.blocks if not block.is_view}
    parts = {block: cut[int(site[1:])] if site[1:].isdecimal() else 0 for block, site in sites.items()}
    return Placements(
        {block.site: Placement(whole_strategy(block), part=part) for block, part in parts.items()},
        devices=devices,
        stages=stages,
        rounds=in_rounds(rounds) if rounds > 1 else None,
    )


def one_layer_each(graph: Graph, stages: Stages, rounds: int, devices: str = "gpu:1") -> Placements:
    """Return a plan of a chain that has a part for each layer."""
    layers = sum(block.site[0] == "f" for block in graph.blocks)
    return in_parts(graph, {k: k for k in range(layers)}, stages, rounds, devices)


def free_copies(mesh: Mesh) -> Mesh:
    """Return a mesh between whose devices copies take one tick."""
    return replace(
        mesh,
        axes=tuple(
            replace(
                axis, latency_s=0.0, bandwidth_bytes_per_s=1e30, collectives=(), ramp_s=0.0, inner=None,
                in_switch=False, small_message_bytes_per_s=None, efficiency=1.0,
            )
            for axis in mesh.axes
        ),
    )  # fmt: skip
