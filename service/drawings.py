"""Drawings of programs as columns: blocks, edges and groups, which the dashboard places and draws.

Positions are computed where the drawing is shown, because they change whenever a group is opened.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tapestry.teg.drawn_groups import NO_GROUP, DrawnGroups, groups_of
from tapestry.teg.flops import flops_by_block
from tapestry.teg.graph import Block, Graph
from tapestry.teg.svg import label_of

FREE = ("source", "sink")


def drawing_document(graph: Graph, groups: DrawnGroups | None = None) -> dict[str, Any]:
    """Convert a program to the columns of its drawing.

    `operators` and `types` are tables; `operator` and `type` of a block are numbers of their rows. An edge goes from
    the block that makes a tensor to one that reads it, `bytes` are those of all tensors between the two. `groups` are
    its own, where they are known.
    """
    numbers = {block.site: k for k, block in enumerate(graph.blocks)}
    groups = groups_of(graph) if groups is None else groups
    operators, types = _Table(), _Table()
    edges: dict[tuple[int, int], int] = defaultdict(int)
    for k, block in enumerate(graph.blocks):
        for tensor in block.inputs:
            edges[numbers[graph.producers[tensor].site], k] += graph.tensors[tensor].type.size_bytes
        for site in block.after:
            edges[numbers[site], k] += 0
    return {
        "name": graph.name,
        "operators": operators.rows,
        "types": types.rows,
        "blocks": {
            "site": [block.site for block in graph.blocks],
            "operator": [operators.number(label_of(block)) for block in graph.blocks],
            "kind": [_kind(block) for block in graph.blocks],
            "type": [types.number(_type(graph, block)) for block in graph.blocks],
            "flops": flops_by_block(graph),
            "bytes": [_moved_bytes(graph, block) for block in graph.blocks],
            "group": [groups.of_block.get(block.site, NO_GROUP) for block in graph.blocks],
        },
        "edges": {
            "from": [a for a, _ in edges],
            "to": [b for _, b in edges],
            "bytes": list(edges.values()),
        },
        "groups": {"name": groups.names, "parent": groups.parents},
    }


class _Table:
    """Texts by number, each once."""

    def __init__(self) -> None:
        self.rows: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        if text not in self._numbers:
            self._numbers[text] = len(self.rows)
            self.rows.append(text)
        return self._numbers[text]


def _kind(block: Block) -> str:
    """Return the role of a source, or what else a block is: `view`, `sink` or `block`."""
    if block.operator == "source":
        return str(block.definition.get("role"))
    return block.operator if block.operator in ("view", "sink", "sequence_point") else "block"


def _type(graph: Graph, block: Block) -> str:
    """Return the types of what a block makes, or of what a sink reads."""
    tensors = block.outputs or block.inputs
    return ", ".join(f"{graph.tensors[t].dtype}[{graph.tensors[t].dims_text}]" for t in tensors)


def _moved_bytes(graph: Graph, block: Block) -> int:
    """Return the bytes that a block reads and writes; a view and what only begins or ends a tensor move none."""
    if block.operator in FREE or block.definition.is_view:
        return 0
    return sum(graph.tensors[t].type.size_bytes for t in (*block.inputs, *block.outputs))
