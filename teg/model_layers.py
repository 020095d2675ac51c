"""The layers of a model, by the names of its parameters: blocks themselves are seldom named after their layer.

A name's layer is its start up to the first number that stands alone and has something behind it: `model.layers.3` of
`model.layers.3.mlp.weight`. A block whose name has none is in the layer of the parameters it reads. A block that reads
parameters of no layer, such as a head, is in none; one without parameters is in the last layer that its inputs are in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tapestry.teg.drawn_graph import BlockLike, GraphLike

LAYER = re.compile(r"(?:[^./]*[./])*?\d+(?=[./])")


def layer_of_name(site: str) -> str | None:
    """Return the layer that a site names; None if it names none."""
    found = LAYER.match(site)
    return None if found is None else found[0]


def model_layers(graph: GraphLike) -> Mapping[str, str]:
    """Return the layer of every block that is in one, by the block's site."""
    rank: dict[str, int] = {}
    found: dict[str, str] = {}
    for block in graph.blocks:
        layer = layer_of_name(block.site)
        if layer is None and block.operator != "source":
            layer = _layer_of_inputs(graph, block, found, rank)
        if layer is not None:
            found[block.site] = layer
            if block.operator != "source":
                rank.setdefault(layer, len(rank))
    return found


def _layer_of_inputs(
    graph: GraphLike, block: BlockLike, found: Mapping[str, str], rank: Mapping[str, int]
) -> str | None:
    producers = [graph.producers[t] for t in block.inputs]
    parameters = [p for p in producers if p.definition.get("role") == "parameter"]
    layers = [found[p.site] for p in parameters or producers if p.site in found]
    # Layers that no block was in yet come last.
    return max(layers, key=lambda layer: rank.get(layer, len(rank)), default=None)


def is_called(layer: str, name: str) -> bool:
    """Return whether `name` means this layer: all of it, or its end, such as `3` or `layers.3`."""
    return layer == name or layer.endswith((f".{name}", f"/{name}"))
