"""Exported plans that compute values again: equal results, and a compiler that does not join repetitions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tapestry.costmodel.unsharded import UnshardedCosts
from tapestry.hardware.catalog import load_device
from tapestry.optimizer.structure.recomputation import recomputations
from tapestry.rewrites import apply_all, catalog
from tapestry.teg.exporters.spmd import to_jax
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements
from tests.cases import rotating
from tests.teg.exporters.jax_process import JaxProcess
from tests.teg.exporters.spmd.group import ProcessGroup
from tests.teg.exporters.spmd.models import MODELS, TinyModel
from tests.teg.exporters.spmd.test_execution import assert_close, run
from tests.teg.exporters.spmd.test_jax_execution import run as run_jax
from tests.teg.sharding.programs import random_placements

LINE, GRID = MeshShape.of(gpu=4), MeshShape.of(node=2, gpu=2)
CASES = [(name, seed) for name in MODELS if "train" in name for seed in range(2)]
LARGEST = "jax/flax_gpt_12x768_train_sgd"


def of_least_memory(graph: Graph) -> Graph:
    """Compute as much again as the way of least memory does."""
    ways = recomputations(graph, UnshardedCosts(load_device("a100-sxm4-80gb")))
    return apply_all(graph, ways[-1].moves, catalog()).graph if ways else graph


def recomputed(name: str, seed: int) -> tuple[TinyModel, ExplicitGraph]:
    """Return a model, and a random plan of it that computes values again."""
    model, mesh_shape = MODELS[name](), (LINE, GRID)[seed % 2]
    graph = of_least_memory(model.graph)
    return model, expand(graph, random_placements(np.random.default_rng(seed), graph, mesh_shape), mesh_shape)


@pytest.mark.parametrize(("name", "seed"), rotating(7, CASES))
def test_pytorch_gives_what_other_engines_gave(
    name: str, seed: int, processes: ProcessGroup, tmp_path: Path
) -> None:
    model, explicit = recomputed(name, seed)
    assert_close(run(processes, explicit, model.inputs, tmp_path, most=np.inf), model.outputs)


# JAX compiles the large one for minutes.
COMPILED = [case for case in CASES if case[0] != LARGEST]


@pytest.mark.parametrize(("name", "seed"), rotating(len(COMPILED), COMPILED))
def test_jax_gives_what_other_engines_gave(
    name: str, seed: int, jax_process: JaxProcess, tmp_path: Path
) -> None:
    model, explicit = recomputed(name, seed)
    assert_close(run_jax(jax_process, explicit, model.inputs, tmp_path), model.outputs)


def test_each_read_of_a_repetition_waits() -> None:
    """Check that JAX's program has as many barriers as repetitions read values: XLA would join the blocks."""
    graph = of_least_memory(MODELS["tiny_train_mlp_784_4x4096_b1024_sgd"]().graph)
    again = [block for block in graph.blocks if block.repetition and not block.is_view]
    assert again
    text = to_jax(expand(graph, Placements(), MeshShape.of(gpu=2)))
    assert text.count("after(") - 1 >= sum(len(set(block.inputs)) for block in again)
