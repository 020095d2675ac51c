"""Programs of one operator and the gradients that they have by its rule."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.evaluate import evaluate
from tapestry.teg.graph import Graph
from tapestry.teg.training.gradients import differentiate, has_gradients


def own_gradients(
    graph: Graph, inputs: Mapping[str, np.ndarray], seeds: Mapping[str, np.ndarray], wanted: list[str]
) -> dict[str, np.ndarray]:
    """Return the gradients of `wanted` tensors, computed by the blocks that the rules write."""
    builder = GraphBuilder.of(graph, (b for b in graph.blocks if b.operator != "sink"))
    forward = list(builder.blocks)
    given = {}
    for tensor, value in seeds.items():
        kind = graph.tensors[tensor].type
        given[tensor] = builder.source(builder.free_site(f"seed.{tensor}"), kind.shape, kind.dtype)
        inputs = {**inputs, given[tensor]: value}
    found = differentiate(builder, forward, given, wanted)
    for tensor, gradient in found.items():
        kinds = builder.tensors[tensor].type, builder.tensors[gradient].type
        assert kinds[0] == kinds[1], (tensor, kinds)
        builder.sink(gradient, site=f"{tensor}.result")
    if not found:
        return {}
    made = builder.build()
    read = {t for block in made.blocks for t in block.outputs}
    results = evaluate(made, {site: value for site, value in inputs.items() if site in read})
    return {tensor: results[f"{tensor}.result"] for tensor in found}


def seeds_of(graph: Graph, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Draw gradients of the tensors that the sinks of a program read."""
    found = {}
    for sink in graph.sinks:
        kind = graph.tensors[sink.inputs[0]].type
        if has_gradients(kind.dtype):
            found[sink.inputs[0]] = drawn(rng, kind.shape, kind.dtype)
    return found


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Draw normal numbers."""
    value = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        return (value + 1j * rng.standard_normal(shape)).astype(dtype)
    return value.astype(dtype)
