"""Tests that any program that people write can be sharded."""

from __future__ import annotations

import numpy as np
import pytest

import tapestry
from tapestry.hardware.simulator import simulate
from tapestry.teg.evaluate import evaluate
from tapestry.teg.interface import pack_inputs
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.verify import verify
from tests.hardware.simulator.programs import MESHES, mesh_of, random_placements

X = np.random.default_rng(7).standard_normal((4, 6, 5)).astype(np.float32)


@pytest.mark.parametrize("seed", range(6))
def test_every_program_shards_without_changing_its_values(seed: int) -> None:
    """Check one program with most kinds of step, sharded at random."""
    rng = np.random.default_rng(seed)
    with tapestry.program() as p:
        x = p.input("x", batch=4, entry=6, width=5)
        w = p.parameter("w", width=5, head=2, depth=3)
        heads = (x @ w).softmax("entry").merge("head", "depth", into="features")
        padded = heads.pad(entry=(1, 2)) + heads.pad(entry=(2, 1), mode="edge")
        padded = padded * heads.pad(entry=(2, 1), mode=lambda position, size: (2 * position) % size)
        chosen = padded.gather(padded.sum("features").argmax("entry"), "entry")
        p.output("chosen", chosen)
        p.output("running", p.interleave([heads, heads.flip("entry")], "entry").cumsum("entry")[:, 1::3])
    graph = p.graph
    inputs = {"x": X, "w": rng.standard_normal((5, 2, 3)).astype(np.float32)}
    mesh_shape = MESHES[seed % len(MESHES)]
    placements = random_placements(rng, graph, mesh_shape)
    explicit = expand(graph, placements, mesh_shape)
    assert verify(graph, explicit) == []
    whole = evaluate(graph, pack_inputs(graph, inputs))
    parts = simulate(explicit, mesh_of(mesh_shape), pack_inputs(graph, inputs)).outputs
    for site, value in whole.items():
        np.testing.assert_allclose(parts[site], value, rtol=1e-4, atol=1e-5)
