"""Groups of blocks that drawings fold into one node: the layers of a model, and parts that repeat."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tapestry.teg.drawn_graph import BlockLike, GraphLike
from tapestry.teg.model_layers import model_layers
from tapestry.teg.svg import repetition

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


def groups_of(graph: GraphLike) -> DrawnGroups:
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


def _group_by_layers(graph: GraphLike, groups: DrawnGroups) -> None:
    """Make a series of layers whose names differ in their last number, if at least two of them compute anything."""
    layers = model_layers(graph)
    members: dict[str, dict[str, list[BlockLike]]] = defaultdict(lambda: defaultdict(list))
    for block in graph.blocks:
        if block.site in layers and block.operator not in FREE:
            layer = layers[block.site]
            members[layer.rstrip("0123456789").rstrip("./")][layer].append(block)
    for series, found in members.items():
        if sum(len(blocks) >= LEAST_PERIOD for blocks in found.values()) > 1:
            parent = groups.add(series)
            for layer, blocks in found.items():
                groups.of_block |= dict.fromkeys((b.site for b in blocks), groups.add(layer, parent))


def _group_by_structure(blocks: Sequence[BlockLike], groups: DrawnGroups) -> None:
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
