"""Tests that every public value says what it is in a short line, whatever its size and names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tapestry
from tapestry.hardware import device_names, load_device, load_mesh, mesh_names
from tapestry.optimizer import Snapshot, explain
from tapestry.optimizer.run.plan import Shortfall
from tapestry.rewrites import Move
from tapestry.service.examples import DEMO_MODEL, example_model
from tapestry.teg.costs import cost_table
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_onnx
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.external_graphs import verify_external
from tapestry.teg.sharding.mesh_shape import MeshShape
from tests.cases import first
from tests.costmodel.programs import GRAPHS

LONGEST = 200
COUNTS = {
    "attention": "16 blocks, 5 sources, 2 sinks",
    "gpt2_small_b1_s1024": "491 blocks, 149 sources, 1 sink",
}


def results(graph: Graph) -> dict[str, Any]:
    """Search a program for a moment; collect one value of every class that a user meets."""
    snapshots: list[Snapshot] = []
    found = tapestry.optimize(graph, "dgx-h100", evaluations=300, islands=1, on_checkpoint=snapshots.append)
    plan = max(found.frontier, key=lambda plan: len(plan.moves))
    checked = tapestry.verify(found, plan, execute=False)
    bound = tapestry.Constraint("peak_memory_bytes", 1.0, "B")
    with tapestry.program("layer") as program:
        x = program.input("x", batch=4, features=3)
        program.output("y", x.relu())
    checkpoint = snapshots[-1].checkpoint()
    explanation = explain(found.graph, plan.moves[:1], found.mesh)
    explicit = expand(plan.graph, plan.placements, MeshShape(found.mesh.axis_sizes))
    return {
        "result": found,
        "plan": plan,
        "placements": plan.placements,
        "moves": max(plan.moves, key=lambda move: len(repr(move.places))),
        "shortfall": Shortfall(bound, 2.0, plan),
        "progress": snapshots[-1].progress,
        "objective": found.objectives[0],
        "constraint": bound,
        "budget": tapestry.Budget(seconds=1),
        "snapshot": snapshots[-1],
        "checkpoint": checkpoint,
        "saved variant": checkpoint.variants[0],
        "verification": checked,
        "counted": checked.memory,
        "execution": checked.execution,
        "explanation": explanation,
        "explanation step": explanation.steps[0],
        "explicit graph": explicit,
        "external program": verify_external(program.graph),
        "graph": found.graph,
        "mesh": found.mesh,
        "program": program,
        "handle": x,
        "cost table": cost_table({f"resource {k}": k for k in range(50)}),
    }


@pytest.fixture(scope="module", params=first(1, ["attention", "GPT-2"]))
def values(request: pytest.FixtureRequest) -> dict[str, Any]:
    return results(
        GRAPHS["attention"]() if request.param == "attention" else from_onnx(example_model(DEMO_MODEL))
    )


@pytest.mark.slow
def test_public_values_are_short_and_name_their_class(values: dict[str, Any]) -> None:
    texts = {name: repr(value) for name, value in values.items()}
    assert {name: len(text) for name, text in texts.items() if len(text) > LONGEST} == {}
    named = {
        name: type(value).__name__ for name, value in values.items() if name not in ("program", "handle")
    }
    assert [name for name, kind in named.items() if not texts[name].startswith(f"{kind}(")] == []
    assert not [text for text in texts.values() if "\n" in text]


def test_a_result_names_what_was_searched_and_found(values: dict[str, Any]) -> None:
    result, plan = values["result"], values["plan"]
    name = result.graph.name
    assert repr(result).startswith(f"Result({name} on dgx-h100, {len(result.frontier)} plans over time_s")
    assert repr(plan).startswith(f"Plan({plan.id}, {name}, time_s=")
    assert repr(result.graph) == f"Graph({name!r}, {COUNTS[name]})"
    assert repr(result.mesh) == "Mesh('dgx-h100', gpu=8, 8 devices h100-sxm5-80gb)"


def test_everything_in_a_graph_is_short(values: dict[str, Any]) -> None:
    graph = values["graph"]
    for block in graph.blocks:
        for value in (block, block.definition, block.signature, *(graph.tensors[t] for t in block.outputs)):
            assert len(repr(value)) <= LONGEST


@pytest.mark.parametrize("name", [*mesh_names(), *device_names()])
def test_the_catalog_is_short(name: str) -> None:
    value = load_mesh(name) if name in mesh_names() else load_device(name)
    assert name in repr(value)
    assert all(len(repr(found)) <= LONGEST for found in (value, *getattr(value, "axes", ())))


def test_names_of_any_length_stay_short(values: dict[str, Any]) -> None:
    long = "n" * 10_000
    plan, mesh, graph = (values[name] for name in ("plan", "mesh", "graph"))
    renamed = replace(graph, name=long)
    block = replace(graph.blocks[-1], site=long, inputs=(long,) * 50)
    device = replace(mesh.device, name=long, vendor=long)
    changed = (
        renamed,
        block,
        replace(plan, graph=renamed),
        replace(values["result"], graph=renamed, mesh=replace(mesh, name=long)),
        device,
        replace(mesh, name=long, device=device, axes=(replace(mesh.axes[0], name=long),) * 9),
        Move(long, (long,) * 100, long),
        replace(values["execution"], outputs={long: np.zeros(10_000)}),
    )
    assert [len(repr(value)) <= LONGEST for value in changed] == [True] * len(changed)
