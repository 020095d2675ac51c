"""Drawings of programs as columns: blocks, edges and groups, which the dashboard places and draws.

Positions are computed where the drawing is shown, because they change whenever a group is opened.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tapestry.teg.flops import block_flops
from tapestry.teg.graph import Block, Graph
from tapestry.teg.model_layers import model_layers
from tapestry.teg.svg import label_of, repetition

NO_GROUP = -1
LEAST_PERIOD = 4  # blocks, for a group to be worth it
MOST_SERIES = 8  # found by their structure alone
FREE = ("source", "sink")


@dataclass
class DrawnGroups:
    """The groups of a drawing by number, each with the number of its parent, and the group of every block.

    A series, such as `layer` for `layer.0` and `layer.1`, is the parent of its members, which follow one another.
    """

    names: list[str] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    of_block: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, parent: int = NO_GROUP) -> int:
        self.names.append(name)
        self.parents.append(parent)
        return len(self.names) - 1

    def ancestors(self, group: int) -> list[int]:
        """Return a group and all that it is in, the innermost first."""
        found = []
        while group != NO_GROUP:
            found.append(group)
            group = self.parents[group]
        return found

    def common(self, groups: Iterable[int]) -> int:
        """Return the innermost group that all these are in; `NO_GROUP` if there is none."""
        chains = [self.ancestors(group) for group in groups]
        shared = set[int].intersection(*map(set, chains)) if chains else set[int]()
        return next((group for group in chains[0] if group in shared), NO_GROUP) if chains else NO_GROUP


def groups_of(graph: Graph) -> DrawnGroups:
    """Group the blocks of a program: by the layers that its names tell, and else by parts that repeat.

    A source, unless it is an input, is in the group that all its readers are in, whatever its name is.
    """
    groups = DrawnGroups()
    _group_by_layers(graph, groups)
    _group_by_structure(
        [b for b in graph.blocks if b.operator not in FREE and b.site not in groups.of_block], groups
    )
    readers: dict[str, list[int]] = defaultdict(list)
    for block in graph.blocks:
        for tensor in block.inputs:
            readers[graph.producers[tensor].site].append(groups.of_block.get(block.site, NO_GROUP))
    for block in graph.blocks:
        if block.operator == "source" and block.definition.get("role") != "activation":
            groups.of_block[block.site] = groups.common(readers[block.site])
    return groups


def drawing_document(graph: Graph) -> dict[str, Any]:
    """Convert a program to the columns of its drawing.

    `operators` and `types` are tables; `operator` and `type` of a block are numbers of their rows. An edge goes from
    the block that makes a tensor to one that reads it, `bytes` are those of all tensors between the two.
    """
    numbers = {block.site: k for k, block in enumerate(graph.blocks)}
    groups = groups_of(graph)
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
            "flops": _flops(graph),
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


def _group_by_layers(graph: Graph, groups: DrawnGroups) -> None:
    """Make a series of layers whose names differ in their last number, if at least two of them compute anything."""
    layers = model_layers(graph)
    members: dict[str, dict[str, list[Block]]] = defaultdict(lambda: defaultdict(list))
    for block in graph.blocks:
        if block.site in layers and block.operator not in FREE:
            layer = layers[block.site]
            members[layer.rstrip("0123456789").rstrip("./")][layer].append(block)
    for series, found in members.items():
        if sum(len(blocks) >= LEAST_PERIOD for blocks in found.values()) > 1:
            parent = groups.add(series)
            for layer, blocks in found.items():
                groups.of_block |= dict.fromkeys((b.site for b in blocks), groups.add(layer, parent))


def _group_by_structure(blocks: Sequence[Block], groups: DrawnGroups) -> None:
    """Make series of parts that follow one another and consist of equal blocks."""
    left = [blocks]
    for number in range(1, MOST_SERIES + 1):
        left.sort(key=len)
        if not left or len(left[-1]) < 2 * LEAST_PERIOD:
            return
        longest = left.pop()
        found = repetition([(b.definition, b.index, b.device) for b in longest])
        if found is None:
            continue
        start, period, count = found
        times = -(-LEAST_PERIOD // period)
        period, count = period * times, count // times
        if count < 2:
            continue
        parent = groups.add(f"repeated part {number}")
        for k in range(count):
            group = groups.add(f"repeated part {number}.{k}", parent)
            part = longest[start + k * period : start + (k + 1) * period]
            groups.of_block |= dict.fromkeys((b.site for b in part), group)
        left += [longest[:start], longest[start + count * period :]]


def _flops(graph: Graph) -> list[int]:
    """Compute the flops of all blocks, of equal ones on equal tensors once."""
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
