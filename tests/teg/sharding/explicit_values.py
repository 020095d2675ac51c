"""Evaluation of the explicit graph by the reference evaluator: the values of a program from its shards."""

from collections.abc import Mapping

import numpy as np

from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.evaluate import evaluate
from tapestry.teg.graph import Block
from tapestry.teg.sharding.materialize import MaterializedGraph, origin_of
from tapestry.teg.zspace import ZRange


def evaluate_explicit(
    materialized: MaterializedGraph, inputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Compute the values of all sinks of the abstract graph, by site, from the nodes of its expansion.

    `inputs` gives whole values by the abstract sources' sites; each shard takes its box.

    Raises:
        ValueError: an input is missing, unknown, or of another shape or element type.
    """
    graph = materialized.graph
    parts = {}
    for block in graph.sources:
        value = inputs.get(origin_of(block.site))
        if value is not None:
            box = materialized.boxes[block.outputs[0]]
            parts[block.site] = _part(value, block, box)
    unknown = set(inputs) - {origin_of(block.site) for block in graph.sources}
    if unknown:
        raise ValueError(f"the program has no sources {sorted(unknown)}")
    values = evaluate(graph, parts)
    results: dict[str, np.ndarray] = {}
    shapes: dict[str, ZRange] = {}
    for sink in graph.sinks:
        site, box = origin_of(sink.site), materialized.boxes[sink.inputs[0]]
        shapes[site] = shapes.get(site, box).bounding(box)
    for sink in graph.sinks:
        site, box = origin_of(sink.site), materialized.boxes[sink.inputs[0]]
        value = values[sink.site]
        whole = results.setdefault(site, np.zeros(shapes[site].end, value.dtype))
        whole[tuple(map(slice, box.start, box.end))] = value
    return results


def _part(value: np.ndarray, block: Block, box: ZRange) -> np.ndarray:
    shape, dtype = block.definition["shape"], block.definition["dtype"]
    if (value.shape, value.dtype) != (tuple(shape), numpy_dtype(dtype)):
        site = origin_of(block.site)
        raise ValueError(
            f"source {site!r} needs shape {shape} and type {dtype}, not {value.shape} and {value.dtype}"
        )
    return np.asarray(value[tuple(map(slice, box.start, box.end))])
