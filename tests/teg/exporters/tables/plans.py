"""Random plans of small programs whose tensors are stored in factors of the dimensions that the user sees."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.exporters.tables.build import sharding_table
from tapestry.teg.exporters.tables.table import ShardingTable
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy
from tapestry.teg.stored_values import StoredValue

MESHES = (MeshShape.of(gpu=8), MeshShape.of(node=2, gpu=4), MeshShape.of(x=2, y=2, z=2), MeshShape.of(gpu=6))


@dataclass(frozen=True)
class RandomPlan:
    """A program of sources, a cell and a sum of each, and a placement of every block."""

    program: Graph
    placements: Placements
    mesh_shape: MeshShape

    @property
    def table(self) -> ShardingTable:
        return sharding_table(self.program, self.program, self.placements, self.mesh_shape, "random")


def random_plan(
    rng: np.random.Generator, tensors: int = 4, mesh_shape: MeshShape | None = None
) -> RandomPlan:
    """Build a random plan; dimensions have up to three factors, which it may split evenly or not."""
    mesh = mesh_shape or MESHES[rng.integers(len(MESHES))]
    builder = GraphBuilder("random")
    values: dict[str, StoredValue] = {}
    for k in range(tensors):
        factors = [
            [int(rng.choice([1, 2, 3, 4, 5, 8, 16])) for _ in range(rng.integers(1, 4))]
            for _ in range(rng.integers(1, 3))
        ]
        stored = tuple(n for own in factors for n in own)
        shape = tuple(prod(own) for own in factors)
        roles = ("activation", "parameter", "optimizer_state", "buffer")
        role = str(rng.choice(roles))
        attrs = {"shape": stored, "dtype": "float32", "role": role, "logical_shape": shape}
        (source,) = builder.apply("source", (), site=f"t{k}", **attrs)
        first, groups = 0, []
        for own in factors:
            groups.append(tuple(j for j in range(first, first + len(own)) if stored[j] != 1))
            first += len(own)
        labels = tuple(f"d{j}" for j in range(len(stored)))
        dims = tuple(zip(labels, stored, strict=True))
        expr = ("neg", ("input", 0))
        (cell,) = builder.apply(
            "cell", (source,), site=f"c{k}", expr=expr, labels=(labels,), dims=dims, dtype="float32"
        )
        values[f"value{k}"] = StoredValue(cell, shape, tuple(groups))
        (total,) = builder.apply(
            "reduce", (cell,), site=f"s{k}", labels=labels, output=labels[1:], monoid="sum"
        )
        values[f"total{k}"] = StoredValue(total, stored[1:], tuple((j,) for j in range(len(stored) - 1)))
        builder.apply("sink", (cell,), site=f"o{k}", logical_shape=shape)
        builder.apply("sink", (total,), site=f"p{k}")
    program = replace(builder.build(), values=values)
    placed = {b.site: Placement(random_strategy(rng, program, b.site, mesh)) for b in program.blocks}
    return RandomPlan(program, Placements(placed), mesh)


def random_strategy(rng: np.random.Generator, program: Graph, site: str, mesh_shape: MeshShape) -> Strategy:
    """Assign each sub-axis to an index dimension that is large enough, or to none; some chunks have a granule."""
    signature = program.by_site[site].signature
    assert signature is not None
    axes: list[list[str]] = [[] for _ in signature.dims]
    subs = list(mesh_shape.sub_axes)
    if rng.random() < 0.2:
        rng.shuffle(subs)  # type: ignore[arg-type]  # it swaps the members of any sequence
    for sub in subs:
        k = int(rng.integers(-1, len(axes))) if axes else -1
        if k >= 0 and mesh_shape.size_of([*axes[k], sub.name]) <= signature.dims[k].size:
            axes[k].append(sub.name)
    return Strategy(tuple(Split(tuple(own), int(rng.choice([1, 1, 1, 2]))) if own else WHOLE for own in axes))
