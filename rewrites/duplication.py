"""Checks that rules do not recompute shared values: the cost of a move if others read the matched values."""

from __future__ import annotations

import numpy as np

from tapestry.rewrites.apply import apply_move
from tapestry.rewrites.finding import find
from tapestry.rewrites.match import alternatives
from tapestry.rewrites.rule import Rule
from tapestry.rewrites.tracked_graph import TrackedGraph
from tapestry.teg.builder import define
from tapestry.teg.graph import Block, Graph, attributes
from tapestry.teg.operators import operator_named
from tapestry.teg.operators.operator import flops_of


def duplicated(rule: Rule, graph: Graph) -> str:
    """Describe the first move that adds work if all inner values are read by others too; empty: none.

    The matched blocks stay there, so a move adds all that it recomputes.
    """
    observed = _observed(rule, graph)
    if observed is None:
        return ""
    before = _flops(observed)
    for move in find(observed, [rule]):
        after = _flops(apply_move(observed, move, {rule.name: rule}))
        if after > before:
            return f"{move}: {after:,} flops instead of {before:,}"
    return ""


def _observed(rule: Rule, graph: Graph) -> Graph | None:
    """Add to the graph a sink for every inner value that the rule matches; None if it matches single blocks."""
    tracked = TrackedGraph(graph)
    matches = (match for b in graph.blocks for _, match in alternatives(tracked, rule, b.site))
    inner = {t: None for m in matches for b in m.blocks if b not in m.roots for t in b.outputs}
    sinks = []
    for k, tensor in enumerate(inner):
        definition, _ = define("sink", attributes(), [graph.tensors[tensor].type])
        sinks.append(Block(f"observed~{k}", definition, (tensor,), ()))
    return graph.replace((*graph.blocks, *sinks)) if sinks else None


def _flops(graph: Graph) -> int:
    total = 0
    for block in graph.blocks:
        definition = block.definition
        if definition.signature is not None and block.operator not in ("source", "view"):
            sizes = np.array(definition.signature.index_range.shape, dtype=np.int64)
            types = graph.input_types(block), graph.output_types(block)
            work = operator_named(block.operator).work(definition, *types)
            total += int(flops_of(work, [d.name for d in definition.signature.dims], sizes))
    return total
