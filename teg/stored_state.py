"""Carried state that is stored: where the next value of a state is a view of another tensor, a block copies it.

A view has neither memory nor an order of elements of its own, and the next run begins with both. So no sink that
carries state reads a view: builder, documents and rewrites put a copy in between, which costs what a block costs. It
follows the convention "chosen boundaries" of `docs/sharding.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tapestry.teg.graph import Block, Definition, Graph, Tensor, attributes
from tapestry.teg.operators import operator_named


def with_stored_state(graph: Graph) -> Graph:
    """Return the graph with a copy before each sink that carries a view of another tensor; other graphs as they are.

    Shards, which are blocks of a device, stay as they are.
    """
    if not any(True for _ in carried_views(graph)):
        return graph
    blocks, tensors = list[Block](), dict(graph.tensors)
    viewed = {sink.site for sink in carried_views(graph)}
    for block in graph.blocks:
        if block.site not in viewed:
            blocks.append(block)
            continue
        site = free_site(f"{block.site}~stored", graph.by_site, tensors)
        copy, tensors[site] = stored_copy(site, tensors[block.inputs[0]])
        blocks += [copy, replace(block, inputs=(site,))]
    return replace(graph, blocks=tuple(blocks), tensors=tensors)


def carried_views(graph: Graph) -> Iterator[Block]:
    """Yield the sinks that carry state and read a view of another tensor."""
    for sink in graph.sinks:
        if sink.definition.carries and sink.device is None and graph.producers[sink.inputs[0]].is_view:
            yield sink


def check_state_is_stored(graph: Graph) -> None:
    """Check that no sink that carries state reads a view.

    Raises:
        ValueError: one does; the message names it.
    """
    for sink in carried_views(graph):
        raise ValueError(
            f"sink {sink.site!r} carries state, but {sink.inputs[0]!r} is a view of another tensor: copy it in a "
            "block, as teg.stored_state.with_stored_state does"
        )


def free_site(wanted: str, *taken: Mapping[str, object]) -> str:
    """Return `wanted`, or the first `wanted.N` that is in none of the maps."""
    site, k = wanted, 1
    while any(site in names for names in taken):
        site, k = f"{wanted}.{k}", k + 1
    return site


def stored_copy(site: str, viewed: Tensor) -> tuple[Block, Tensor]:
    """Build the block that copies a tensor, and its output, which has the block's site."""
    dims = tuple((f"d{k}", size) for k, size in enumerate(viewed.shape))
    labels = (tuple(name for name, _ in dims),)
    given = attributes(expr=("input", 0), labels=labels, dims=dims, dtype=viewed.dtype)
    definition = Definition("cell", given, operator_named("cell").infer(given, (viewed.type,)).signature)
    return Block(site, definition, (viewed.site,), (site,)), Tensor(
        site, viewed.shape, viewed.dtype, viewed.names
    )
