"""Plans as programs for real devices, for the API and the command line: texts, and the values they need besides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from textwrap import fill
from typing import IO
from zipfile import ZipFile

import numpy as np
from numpy.lib.format import write_array

from tapestry.hardware import Mesh
from tapestry.optimizer import Plan
from tapestry.teg.exporters.spmd import file_sources, to_jax, to_torch
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape

# Lines are no longer than this, and a history with more lines is cut; `tapestry explain` prints all of it.
MOST_MOVES = 16
WIDTH = 88


class ProgramRefusal(ValueError):
    """Error raised for a plan that has no program in the library that was asked for; the message lists why."""


PROGRAMS = {"torch": to_torch, "jax": to_jax}


def plan_program(plan: Plan, mesh: Mesh, library: str) -> str:
    """Write a plan as a module of a library of `PROGRAMS`, with its mesh, costs and history in the docstring.

    Raises:
        ProgramRefusal: operators or element types have no text there; all are listed.
    """
    try:
        explicit = expand(plan.graph, plan.placements, MeshShape(mesh.axis_sizes))
        return PROGRAMS[library](explicit, "\n".join(_about(plan, mesh)))
    except ValueError as error:
        raise ProgramRefusal(str(error)) from error


def program_values(plan: Plan) -> dict[str, np.ndarray]:
    """Return the values that a plan's graph holds and its program reads from files, by name, as its users know them."""
    graph = plan.graph
    found = {}
    for site in file_sources(graph):
        block = graph.by_site[site]
        (tensor,) = block.outputs
        if tensor in graph.data:
            shape = block.definition.get("logical_shape", graph.tensors[tensor].shape)
            found[site] = graph.data[tensor].reshape(shape)
    return found


def write_npz(file: IO[bytes], values: Mapping[str, np.ndarray]) -> None:
    """Write arrays as npz, whatever their names."""
    with ZipFile(file, "w") as archive:
        for name, value in values.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                write_array(entry, value, allow_pickle=False)


def _about(plan: Plan, mesh: Mesh) -> Iterator[str]:
    yield f"Plan {plan.id} for {mesh.name}, predicted by version {plan.cost_model} of the cost model:"
    costs = ", ".join(f"{name}={value:.6g}" for name, value in plan.cost.items())
    yield fill(costs, WIDTH, initial_indent="    ", subsequent_indent="    ")
    lines = list(_history(plan))
    if lines:
        yield "Its history:"
        yield from (f"    {line}" for line in lines[:MOST_MOVES])
    if len(lines) > MOST_MOVES:
        yield f"    and {len(lines) - MOST_MOVES} more moves, which `tapestry explain` prints"


def _history(plan: Plan) -> Iterator[str]:
    """Return a line for each move of the structure, and how many of each kind follow of placements."""
    placing = Counter(m.rule for m in plan.moves if m.rule.startswith("place"))
    for move in plan.moves:
        if move.rule not in placing:
            yield " ".join(str(move).split())[:100]
    for rule, count in placing.items():
        yield f"{rule} at {count} places"
