"""The length of exported modules: what layers have in common is written once, however their placements differ."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import numpy as np
import pytest

from tapestry.hardware.catalog import load_mesh
from tapestry.optimizer.api import optimize
from tapestry.optimizer.placement.propagation import propagate_placements
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.evaluate import random_inputs
from tapestry.teg.exporters.spmd import to_jax, to_torch
from tapestry.teg.graph import Graph
from tapestry.teg.importers.files import read_program
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy
from tests.teg.exporters.spmd.group import ProcessGroup
from tests.teg.exporters.spmd.test_execution import run

Write = Callable[[ExplicitGraph], str]
LINE = MeshShape.of(gpu=4)
AXES = tuple(s.name for s in LINE.sub_axes)


def following(graph: Graph, placements: Placements, mesh_shape: MeshShape) -> ExplicitGraph:
    """Let all blocks follow those that are placed, and expand the plan."""
    sites = [b.site for b in graph.blocks if not b.is_view]
    return expand(graph, propagate_placements(graph, placements, sites, mesh_shape), mesh_shape)


def residual_network(layers: int) -> Graph:
    """Build layers of two products with a function between them, added to what they read."""
    build = GraphBuilder("residual_network")
    x = build.source("x", (8, 16), "float32")
    dims, plane = (("row", 8), ("column", 16)), ("row", "column")
    labels = (("row", "k"), ("k", "column"))
    for k in range(layers):
        names = (f"h.{k}.{part}" for part in ("up", "bias", "down"))
        shapes = ((16, 16), (16,), (16, 16))
        up, bias, down = (
            build.source(name, shape, "float32", role="parameter")
            for name, shape in zip(names, shapes, strict=True)
        )
        (wide,) = build.apply("contract", [x, up], site=f"wide.{k}", labels=labels, output=plane)
        expression = ("tanh", ("add", ("input", 0), ("input", 1)))
        (act,) = build.apply(
            "cell",
            [wide, bias],
            site=f"act.{k}",
            expr=expression,
            labels=(plane, ("column",)),
            dims=dims,
            dtype="float32",
        )
        (soft,) = build.apply("softmax", [act], site=f"soft.{k}", axes=(1,))
        (narrow,) = build.apply("contract", [soft, down], site=f"narrow.{k}", labels=labels, output=plane)
        expression = ("add", ("input", 0), ("input", 1))
        (x,) = build.apply(
            "cell",
            [narrow, x],
            site=f"sum.{k}",
            expr=expression,
            labels=(plane, plane),
            dims=dims,
            dtype="float32",
        )
    build.sink(x, site="y")
    return build.build()


def reference(arrays: Mapping[str, np.ndarray], layers: int) -> np.ndarray:
    x = arrays["x"]
    for k in range(layers):
        e = np.exp(np.tanh(x @ arrays[f"h.{k}.up"] + arrays[f"h.{k}.bias"]))
        x = e / e.sum(axis=1, keepdims=True) @ arrays[f"h.{k}.down"] + x
    return x


def mixed(layers: int, by_rows: Collection[int]) -> ExplicitGraph:
    """Split the last weights of layers by columns, of some by rows: their products are partial sums."""
    blocks = {}
    for k in range(layers):
        dims = (Split(AXES), WHOLE) if k in by_rows else (WHOLE, Split(AXES))
        blocks[f"h.{k}.down"] = Placement(Strategy(dims))
    return following(residual_network(layers), Placements(blocks), LINE)


def count(text: str) -> int:
    return len(text.splitlines())


@pytest.mark.parametrize("write", [to_torch, to_jax])
def test_layers_that_differ_cost_few_lines(write: Write) -> None:
    alike, unlike = write(mixed(12, ())), write(mixed(12, (3, 4, 7, 10)))
    assert "for i in range(12):" in alike
    assert "_scattered" not in alike and "_scattered" in unlike
    assert count(unlike) <= count(alike) + 80


@pytest.mark.parametrize("write", [to_torch, to_jax])
def test_eighty_layers_of_two_kinds_are_hardly_longer_than_a_few(write: Write) -> None:
    few, many = (write(mixed(layers, range(layers // 2))) for layers in (4, 80))
    assert count(many) <= 1.3 * count(few)


@pytest.mark.slow
def test_functions_that_layers_share_compute_what_each_of_them_did(
    processes: ProcessGroup, tmp_path: Path
) -> None:
    explicit = mixed(12, (3, 4, 7, 10))
    assert "def block" in to_torch(explicit)
    arrays = random_inputs(explicit.abstract, np.random.default_rng(0))
    found = run(processes, explicit, arrays, tmp_path)
    np.testing.assert_allclose(found["y"], reference(arrays, 12), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("write", [to_torch, to_jax])
def test_the_module_of_gpt2_is_short_and_in_the_documentation(write: Write, root: Path) -> None:
    graph = read_program(root / "examples" / "models" / "gpt2_small_b1_s1024.onnx")
    mesh_shape = MeshShape.of(gpu=8)
    tokens = Placement(Strategy((Split(tuple(s.name for s in mesh_shape.sub_axes)),)))
    text = write(following(graph, Placements({"input_ids": tokens}), mesh_shape))
    assert count(text) <= 400
    if write is to_torch:
        excerpts = (root / "docs" / "programs.md").read_text().split("```python\n")[1:]
        (shown,) = (each.partition("```")[0] for each in excerpts if "of 12." in each)
        assert count(shown) >= 60
        assert shown in text


@pytest.mark.slow
@pytest.mark.reach
def test_the_modules_of_gpt2_are_short_for_all_plans_that_a_search_finds(root: Path) -> None:
    graph = read_program(root / "examples" / "models" / "gpt2_small_b1_s1024.onnx")
    mesh = load_mesh("dgx-h100").part((("gpu", 8),))
    found = optimize(graph, mesh, ("time_s", "peak_memory_bytes"), evaluations=1500, islands=1, seed=0)
    plans = sorted(found.frontier, key=lambda plan: plan.cost["time_s"])
    lines = [count(to_torch(expand(plan.graph, plan.placements, MeshShape.of(gpu=8)))) for plan in plans]
    assert len(plans) > 3
    # Those with the least memory gather all weights in every layer.
    assert max(lines[: len(plans) // 2]) <= 400 and max(lines) <= 450
