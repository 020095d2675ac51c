"""A small training step that can run in rounds, and random plans of it that do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tapestry.rewrites import Move, apply_move
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.sharding.rounds import Rounds
from tests.teg.sharding.programs import random_placements

BATCH = 24


def training(batch: int = BATCH, dtype: str = "float64", *, state: bool = False) -> Graph:
    """Build two layers with gradients and updated weights, and outputs that need a sum over the whole batch.

    The loss is read after a first loop, and by a second one. With `state`, the next step begins with the new weights.
    """
    b = GraphBuilder("training")
    x = b.source("x", (batch, 6), dtype)
    wanted = b.source("wanted", (batch, 3), dtype)
    w1 = b.source("w1", (6, 4), dtype, "parameter")
    w2 = b.source("w2", (4, 3), dtype, "parameter")

    def contract(site: str, a: str, c: str, labels: tuple[str, str], output: str) -> str:
        (made,) = b.apply(
            "contract", [a, c], site=site, labels=tuple(map(tuple, labels)), output=tuple(output)
        )
        return made

    def cell(site: str, expr: tuple[object, ...], inputs: list[str], labels: list[str], **sizes: int) -> str:
        (made,) = b.apply(
            "cell", inputs, site=site, expr=expr, labels=tuple(map(tuple, labels)), dims=tuple(sizes.items()),
            dtype=dtype,
        )  # fmt: skip
        return made

    first, second = ("input", 0), ("input", 1)
    hidden = contract("hidden", x, w1, ("bi", "ij"), "bj")
    active = cell("active", ("max", first, ("const", 0.0)), [hidden], ["bj"], b=batch, j=4)
    found = contract("found", active, w2, ("bj", "jk"), "bk")
    error = cell("error", ("sub", first, second), [found, wanted], ["bk", "bk"], b=batch, k=3)
    squares = contract("squares", error, error, ("bk", "bk"), "k")
    steps = {"w2": contract("step.w2", active, error, ("bj", "bk"), "jk")}
    back = contract("back", error, w2, ("bk", "jk"), "bj")
    gated = cell("gated", ("mul", first, second), [back, active], ["bj", "bj"], b=batch, j=4)
    steps["w1"] = contract("step.w1", x, gated, ("bi", "bj"), "ij")
    scaled = cell("scaled", ("mul", first, second), [found, squares], ["bk", "k"], b=batch, k=3)
    for name, shape, weight in (("w1", {"i": 6, "j": 4}, w1), ("w2", {"j": 4, "k": 3}, w2)):
        label = "".join(shape)
        after = ("sub", first, ("mul", second, ("const", 0.01)))
        new = cell(f"new.{name}", after, [weight, steps[name]], [label, label], **shape)
        b.sink(new, site=f"updated.{name}", carries=weight if state else None)
    b.sink(squares, site="loss")
    b.sink(scaled, site="outputs")
    return b.build()


def training_by_parts(count: int, batch: int = BATCH, dtype: str = "float64") -> Graph:
    """Build the step with gradients that are made in `count` parts of the batch, which are then added.

    In as many rounds each adds a part of its own.
    """
    graph = training(batch, dtype)
    for name in ("step.w1", "step.w2"):
        graph = apply_move(graph, Move("split_contraction", name, f"b:{count}"))
    return graph


def training_by_terms(batch: int = BATCH, dtype: str = "float64", *, state: bool = False) -> Graph:
    """Build the step with a waypoint behind each gradient, at which the terms of rounds are added."""
    graph = training(batch, dtype, state=state)
    for name in ("step.w1", "step.w2"):
        graph = apply_move(graph, Move("waypoint", name))
    return graph


def in_rounds(count: int, source: str = "x") -> Rounds:
    """Return rounds over the batch."""
    return Rounds(count, source, 0)


def random_looped(
    rng: np.random.Generator, graph: Graph, mesh_shape: MeshShape, rounds: Rounds
) -> Placements:
    """Draw a plan in rounds."""
    return replace(random_placements(rng, graph, mesh_shape), rounds=rounds)
