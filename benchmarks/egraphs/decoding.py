"""Decoding of an extracted program to a graph: the original's sources and sinks, the chosen blocks between them."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.egraphs.extraction import Chosen
from benchmarks.egraphs.kinds import Kinds
from benchmarks.egraphs.saturation import RESULT, ROOT
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Block, Graph, Tensor
from tapestry.teg.validate import check


def decoded(original: Graph, kinds: Kinds, chosen: Chosen) -> Graph:
    """Build the graph of the chosen program.

    Raises:
        InvalidGraph: it breaks a rule of the language.
    """
    read = {kinds[n].site for n in chosen.kinds} - {""}
    builder = GraphBuilder(original.name)
    for block in original.sources:
        if block.definition["role"] != "constant" or block.site in read:
            (t,) = block.outputs
            builder.blocks.append(block)
            builder.tensors[t] = original.tensors[t]
            if t in original.data:
                builder.data[t] = original.data[t]
    results: list[tuple[str, ...]] = []
    for number, operands in zip(chosen.kinds, chosen.operands, strict=True):
        kind = kinds[number]
        inputs = tuple(results[o][0] for o in operands)
        if kind.site:
            results.append(original.by_site[kind.site].outputs)
        elif kind.definition is ROOT:
            _sinks(original, builder, inputs)
            results.append(())
        elif kind.definition.operator == RESULT:
            results.append((results[operands[0]][kind.definition["place"]],))
        else:
            results.append(_block(builder, kinds, number, inputs))
    graph = builder.build()
    check(graph)
    return graph


def _block(builder: GraphBuilder, kinds: Kinds, number: int, inputs: Sequence[str]) -> tuple[str, ...]:
    kind = kinds[number]
    site = builder.free_site(f"{kind.definition.operator}~{len(builder.blocks)}")
    outputs = (site, *(f"{site}#{k}" for k in range(1, len(kind.outputs))))
    for t, of in zip(outputs, kind.outputs, strict=True):
        builder.tensors[t] = Tensor(t, *of)
    builder.blocks.append(Block(site, kind.definition, tuple(inputs), outputs))
    return outputs


def _sinks(original: Graph, builder: GraphBuilder, tensors: Sequence[str]) -> None:
    """Add the sinks, each with its tensor, in the order of the original."""
    given = dict(zip(sorted(s.site for s in original.sinks), tensors, strict=True))
    for sink in original.sinks:
        builder.blocks.append(Block(sink.site, sink.definition, (given[sink.site],), ()))
