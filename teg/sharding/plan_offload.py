"""The tensors of a plan on the hosts: values that wait there for late readers, and state between steps."""

from __future__ import annotations

from typing import NamedTuple

from tapestry.teg.graph import Graph
from tapestry.teg.sharding.host import HOST, is_on_host
from tapestry.teg.sharding.placement import Placements


class PlanOffload(NamedTuple):
    """The tensors on the hosts: the number of values and of tensors of state, and the bytes of all, unsharded."""

    values: int
    states: int
    bytes: int


def plan_offload(graph: Graph, placements: Placements) -> PlanOffload | None:
    """Count what a plan has on the hosts; None where all is on the devices."""
    values = [block for block in graph.blocks if is_on_host(block)]
    states = [block for block in graph.sources if placements.of(block).layout_of(0) == HOST]
    if not values and not states:
        return None
    tensors = (graph.tensors[block.outputs[0]] for block in (*values, *states))
    return PlanOffload(len(values), len(states), sum(tensor.type.size_bytes for tensor in tensors))
