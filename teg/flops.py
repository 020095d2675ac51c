"""Floating-point operations of programs: of one block, of a whole program."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapestry.teg.graph import Block, Graph, index_sizes
from tapestry.teg.operators import operator_named
from tapestry.teg.operators.operator import flops_of, own_work


def block_flops(graph: Graph, block: Block) -> int:
    """Compute the flops of one block, or of the part that it is: the program's own figure, else the operator's."""
    costs = block.definition.costs
    sizes = index_sizes(block)
    if costs is not None and costs.named("flops") is not None:
        return round(costs.price(sizes)["flops"])
    work = own_work(
        operator_named(block.operator), block.definition, graph.input_types(block), graph.output_types(block)
    )
    return int(flops_of(work, list(sizes), np.array(list(sizes.values()), dtype=np.int64)))


def graph_flops(graph: Graph) -> int:
    """Compute the flops of one execution, unsharded."""
    return sum(flops_by_block(graph))


def flops_by_block(graph: Graph) -> list[int]:
    """Compute the flops of all blocks, in their order, of equal ones on equal tensors once."""
    known: dict[Any, int] = {}
    found = []
    for block in graph.blocks:
        types = tuple(
            (graph.tensors[t].shape, graph.tensors[t].dtype) for t in (*block.inputs, *block.outputs)
        )
        key = (block.definition, block.index, types)
        if key not in known:
            known[key] = block_flops(graph, block)
        found.append(known[key])
    return found
