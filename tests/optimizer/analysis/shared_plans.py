"""Plans of several kinds: random ones, in rounds, with waypoints, in stages, with values on the host and made again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tapestry.costmodel.plan_space import PlanSpace
from tapestry.hardware import load_mesh
from tapestry.hardware.mesh import Mesh
from tapestry.rewrites import Move, apply_all
from tapestry.rewrites.repeating import after_readers
from tapestry.rewrites.rules import catalog
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.placement import Placements
from tests.costmodel.offloaded import offloaded_training
from tests.costmodel.programs import GRAPHS, layers, random_genes
from tests.teg.sharding.looped import in_rounds, training, training_by_terms
from tests.teg.sharding.pipelined import drawn


@dataclass(frozen=True)
class PlanCase:
    """A plan: program, placements and mesh."""

    graph: Graph
    placements: Placements
    mesh: Mesh


def _random(graph: Graph, mesh: str, rounds: int = 1, seed: int = 5) -> PlanCase:
    several = load_mesh(mesh)
    space = PlanSpace(graph, several, rounds=in_rounds(rounds) if rounds > 1 else None)
    return PlanCase(graph, space.placements(random_genes(np.random.default_rng(seed), space)), several)


def _pipeline(seed: int) -> PlanCase:
    case = drawn(seed, state=seed % 2 == 1)
    return PlanCase(case.graph, case.placements, case.mesh)


def _made_again() -> PlanCase:
    moves = [Move("recompute", "active", after_readers(1)), Move("recompute", "hidden", after_readers(1))]
    return _random(apply_all(training(96, "float32"), moves, catalog()).graph, "dgx-h100", 4)


CASES: Mapping[str, Callable[[], PlanCase]] = {
    **{f"{name} on a node": (lambda make=make: _random(make(), "dgx-h100")) for name, make in GRAPHS.items()},
    **{f"{name} on two": (lambda make=make: _random(make(), "2x-dgx-h100")) for name, make in GRAPHS.items()},
    "layers on a torus": lambda: _random(layers(3), "tpu-v5e-4x4"),
    "a step": lambda: _random(training(96, "float32", state=True), "2x-dgx-h100"),
    "a step in rounds": lambda: _random(training(96, "float32"), "2x-dgx-h100", 4),
    "gradients at waypoints": lambda: _random(training_by_terms(96, "float32"), "dgx-h100", 4),
    "values on the host": lambda: _random(offloaded_training(96), "dgx-h100", 4),
    "values made again": _made_again,
    **{f"pipeline {seed}": (lambda seed=seed: _pipeline(seed)) for seed in range(6)},
}
