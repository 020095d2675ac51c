"""Random plans with stages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tapestry.teg.graph import Graph
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.sharding.rounds import Rounds
from tapestry.teg.sharding.stages import Stages
from tests.teg.sharding.programs import random_placements


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
