"""Training steps with values that wait on the host for their late readers."""

from __future__ import annotations

from dataclasses import replace

from tapestry.teg.builder import define
from tapestry.teg.graph import Block, Graph, attributes
from tests.teg.sharding.looped import training


def offloaded(graph: Graph, *places: tuple[str, int, str]) -> Graph:
    """Put waypoints on the host: of a block's result, for all readers but so many, before the block of a site."""
    for site, early, before in places:
        (made,) = graph.by_site[site].outputs
        readers = list(dict.fromkeys(reader.site for reader, _ in graph.readers[made]))
        tensor = graph.tensors[made]
        definition, _ = define("waypoint", attributes(memory="host"), [tensor.type])
        stored = f"{site}~host"
        waypoint = Block(stored, definition, (made,), (stored,))
        blocks: list[Block] = []
        for block in graph.blocks:
            if block.site == before:
                blocks.append(waypoint)
            late = block.site in readers[early:]
            blocks.append(
                replace(block, inputs=tuple(stored if t == made else t for t in block.inputs))
                if late
                else block
            )
        graph = graph.replace(tuple(blocks), [replace(tensor, site=stored)])
    return graph


def offloaded_training(rows: int, *, state: bool = False) -> Graph:
    """Build a training step of which the activation and the error wait on the host."""
    step = training(rows, "float32", state=state)
    return offloaded(step, ("active", 1, "squares"), ("error", 1, "step.w2"))
