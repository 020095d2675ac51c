"""The boundary of a plan: sources and sinks are placed by the plan's options and by the state that they carry.

Imported by whatever turns placements into specs: expansion, the cost models, the search.
"""

from __future__ import annotations

from dataclasses import replace

from tapestry.teg.graph import Block, Graph
from tapestry.teg.sharding.placement import Placement, Placements, whole_strategy
from tapestry.teg.sharding.spec import Spec
from tapestry.teg.stored_state import check_state_is_stored


def with_boundary(graph: Graph, placements: Placements) -> Placements:
    """Place the boundary as convention *Chosen boundaries* states; all other blocks keep their placements.

    Where the options say so, inputs are replicated and outputs gathered. A sink that carries state takes strategy,
    layout and part of the pipeline from its source, so that the next run finds the state where it begins; only the time
    of its copy is its own.

    Raises:
        ValueError: a sink carries a view, which is stored nowhere.
    """
    check_state_is_stored(graph)
    placed: dict[str, Placement] = {}
    for block in (*graph.sources, *graph.sinks):
        own, source = placements.of(block), graph.carriers.get(block.site)
        if stays_whole(graph, block, placements.inputs, placements.outputs):
            own = replace(own, strategy=whole_strategy(block))
        elif source is not None:
            own = replace(own, strategy=placed[source.site].strategy)
        if source is not None:
            begun = placed[source.site]
            own = replace(own, read_layouts=begun.layouts, part=begun.part)
        placed[block.site] = own
    return replace(placements, blocks={**placements.blocks, **placed})


def stays_whole(graph: Graph, block: Block, inputs: str, outputs: str) -> bool:
    """Return whether the boundary leaves a source or sink no strategy but the whole one.

    State is carried between runs: it is no output that is gathered, and whole where its source or sink is fixed.
    """
    if block.site in graph.fixed_state:
        return True
    if block.operator == "source":
        return inputs == "replicated"
    return block.operator == "sink" and outputs == "gathered" and block.site not in graph.carriers


def boundary_spec(graph: Graph, placements: Placements, block: Block) -> tuple[Spec, str]:
    """Return the spec and the layout in which a source begins, or in which a sink leaves what it observes.

    `placements` are those of `with_boundary`.
    """
    placement = placements.of(block)
    spec = Spec(placement.strategy.splits)
    if block.operator == "source":
        return spec, placement.layout_of(0)
    is_view = graph.producers[block.inputs[0]].is_view
    return spec, "" if is_view else placement.read_layout_of(0)
