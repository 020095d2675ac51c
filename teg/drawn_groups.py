"""Groups of blocks that drawings fold into one node: updates of parameters, layers of a model, parts that repeat."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from tapestry.teg.drawn_graph import BlockLike, GraphLike
from tapestry.teg.model_layers import model_layers
from tapestry.teg.svg import label_of, repetition

NO_GROUP = -1
LEAST_PERIOD = 4  # blocks, for a group to be worth it
MOST_INPUTS = 16  # that stand beside groups; of more, most are parameters without their role
MOST_SERIES = 24  # of a likeness
MOST_COMPARED = 10**9  # pairs of blocks of a likeness, about two seconds
FREE = ("source", "sink")
ELEMENTWISE = ("cell", "fused")  # what an update is made of
MOST_LED_IN = (
    4  # blocks before an update that are not in it: sums of gradients of a parameter that is used twice
)
UPDATE = "update"
UPDATED = "updated parameters"
BRANCH = "branch"
REPEATED = "repeated part"
LEAST_BRANCHES = 8  # of one block, for a series of them to be worth it


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
    """Group the blocks of a program: updates of parameters, then by the layers that its names tell, and else by equal
    branches that lead to one block, and by parts that repeat.

    A source, unless it is one of a few inputs, is in the group that all its readers are in, whatever its name is.
    """
    groups = DrawnGroups()
    _group_updates(graph, groups)
    updates = {group for group, parent in enumerate(groups.parents) if parent != NO_GROUP}
    _group_by_layers(graph, groups)
    _group_branches(graph, groups)
    _group_repeated(graph, groups)
    _place_sources(graph, groups, updates)
    return groups


def _place_sources(graph: GraphLike, groups: DrawnGroups, updates: set[int]) -> None:
    """Put each source where its readers are; one that is updated where the others are, or else beside its like."""
    readers: dict[str, list[int]] = defaultdict(list)
    for block in graph.blocks:
        for tensor in block.inputs:
            readers[graph.producers[tensor].site].append(groups.of_block.get(block.site, NO_GROUP))
    inputs = {
        b.site for b in graph.blocks if b.operator == "source" and b.definition.get("role") == "activation"
    }
    outside = inputs if len(inputs) <= MOST_INPUTS else set[str]()
    together = NO_GROUP
    for block in graph.blocks:
        if block.operator != "source" or block.site in outside:
            continue
        found = readers[block.site]
        place = groups.common(found)
        if place == NO_GROUP and updates.intersection(found):
            place = groups.common([group for group in found if group not in updates])
            if place == NO_GROUP:
                together = groups.add(UPDATED) if together == NO_GROUP else together
                place = together
        groups.of_block[block.site] = place


def _group_updates(graph: GraphLike, groups: DrawnGroups) -> None:
    """Make a series of the updates of a training step that are equal but for sizes: of each parameter and its state.

    An update is what leads, element by element, to the next values of a parameter and its state and to nothing else.
    """
    classes: dict[object, list[list[BlockLike]]] = defaultdict(list)
    for update in _updates(graph):
        classes[_structure(graph, update)].append(update)
    for key in sorted(classes, key=lambda key: len(classes[key])):
        for update in list(classes[key]):
            for k in range(1, min(MOST_LED_IN + 1, len(update) - 1)):
                other = _structure(graph, update[k:])
                if len(classes.get(other, ())) > len(classes[key]):
                    classes[key].remove(update)
                    classes[other].append(update[k:])
                    break
    roles = {b.site: b.definition.get("role") for b in graph.blocks if b.operator == "source"}
    for updates in classes.values():
        if len(updates) < 2:
            continue
        parent = groups.add(UPDATE)
        for update in updates:
            group = groups.add(f"{UPDATE} of {_updated(roles, update)}", parent)
            groups.of_block |= dict.fromkeys((b.site for b in update), group)


def _updates(graph: GraphLike) -> list[list[BlockLike]]:
    """Return the blocks of every update, in the order of the program. O(blocks and edges)."""
    parts: dict[str, str] = {}  # sites to others of their part
    shapes: dict[str, str] = {}

    def first(site: str) -> str:
        while parts[site] != site:
            parts[site] = site = parts[parts[site]]
        return site

    readers: dict[str, list[str]] = defaultdict(list)
    for block in reversed(graph.blocks):
        shape = {graph.tensors[t].dims_text for t in block.outputs or block.inputs}
        found = [reader for tensor in block.outputs for reader in readers[tensor]]
        if (block.operator == "sink" and block.definition.get("carries")) or (
            block.operator in ELEMENTWISE
            and found
            and all(reader in parts and {shapes[reader]} == shape for reader in found)
        ):
            parts[block.site] = block.site
            shapes[block.site] = min(shape)
            for reader in found:
                parts[first(reader)] = block.site
        for tensor in block.inputs:
            readers[tensor].append(block.site)
    members: dict[str, list[BlockLike]] = defaultdict(list)
    for block in graph.blocks:
        if block.site in parts:
            members[first(block.site)].append(block)
    return [update for update in members.values() if any(b.operator != "sink" for b in update)]


def _structure(graph: GraphLike, blocks: Sequence[BlockLike]) -> object:
    """Return what is equal for parts of equal operators that read one another equally, whatever their sizes."""
    numbers = {block.site: k for k, block in enumerate(blocks)}

    def read(tensor: str) -> object:
        producer = graph.producers[tensor]
        return numbers.get(producer.site, producer.definition.get("role") or "")

    return tuple((label_of(block), *map(read, block.inputs)) for block in blocks)


def _updated(roles: Mapping[str, object], update: Sequence[BlockLike]) -> str:
    """Return the parameter that an update is of; of one of state alone, the state."""
    carried = [str(block.definition.get("carries")) for block in update if block.operator == "sink"]
    return next((site for site in carried if roles.get(site) == "parameter"), carried[0])


def _group_by_layers(graph: GraphLike, groups: DrawnGroups) -> None:
    """Make a series of layers whose names differ in their last number, if at least two of them compute anything.

    Parameters are named after layers; what only blocks are named after, such as `conv.3`, may be an operator.
    """
    layers = model_layers(graph)
    named = {
        layers[b.site] for b in graph.blocks if b.definition.get("role") == "parameter" and b.site in layers
    }
    members: dict[str, dict[str, list[BlockLike]]] = defaultdict(lambda: defaultdict(list))
    for block in graph.blocks:
        if (
            layers.get(block.site) in named
            and block.operator not in FREE
            and block.site not in groups.of_block
        ):
            layer = layers[block.site]
            members[layer.rstrip("0123456789").rstrip("./")][layer].append(block)
    for series, found in members.items():
        if sum(len(blocks) >= LEAST_PERIOD for blocks in found.values()) > 1:
            parent = groups.add(series)
            for layer, blocks in found.items():
                groups.of_block |= dict.fromkeys((b.site for b in blocks), groups.add(layer, parent))


def _group_branches(graph: GraphLike, groups: DrawnGroups) -> None:
    """Make a series of the branches that one block reads and that are equal but for sizes: lookups in tables, experts.

    A branch is what leads to the block, and to it alone. O(blocks and edges).
    """
    for block, branches in _branches(graph, groups):
        classes: dict[object, list[list[BlockLike]]] = defaultdict(list)
        for branch in branches:
            classes[_structure(graph, branch)].append(branch)
        for equal in classes.values():
            if len(equal) < LEAST_BRANCHES:
                continue
            parent = groups.add(f"{BRANCH} to {block.site}")
            for branch in equal:
                group = groups.add(f"{BRANCH} of {branch[-1].site}", parent)
                groups.of_block |= dict.fromkeys((b.site for b in branch), group)


def _branches(graph: GraphLike, groups: DrawnGroups) -> Iterator[tuple[BlockLike, list[list[BlockLike]]]]:
    """Yield the blocks that read enough branches, with the blocks of each in the order of the program.

    Of branches inside of a longer one, as of a chain of additions, those of the last reader count.
    """
    readers: dict[str, set[str]] = defaultdict(set)
    for block in graph.blocks:
        for tensor in block.inputs:
            readers[graph.producers[tensor].site].add(block.site)

    def is_free(block: BlockLike) -> bool:
        return block.operator not in FREE and block.site not in groups.of_block

    ends: dict[str, str] = {}  # sites to the last one of their branch
    wide = set[str]()
    for block in reversed(graph.blocks):
        sources = {graph.producers[tensor].site for tensor in block.inputs}
        own = [site for site in sources if len(readers[site]) == 1]
        if block.site not in ends and len(own) >= LEAST_BRANCHES:
            wide.add(block.site)
            ends |= {site: site for site in own}
        elif block.site in ends:
            ends |= dict.fromkeys(own, ends[block.site])
    members: dict[str, list[BlockLike]] = defaultdict(list)
    for block in graph.blocks:
        if block.site in ends and is_free(block):
            members[ends[block.site]].append(block)
    for block in graph.blocks:
        if block.site in wide:
            found = dict.fromkeys(graph.producers[tensor].site for tensor in block.inputs)
            yield block, [members[site] for site in found if members[site]]


def _group_repeated(graph: GraphLike, groups: DrawnGroups) -> None:
    """Make series of what is left and repeats: with tensors of equal sizes where that is found, and else of any."""
    computing = [b for b in graph.blocks if b.operator not in FREE]
    positions = {block.site: k for k, block in enumerate(computing)}
    taken, found = set(groups.of_block), list[list[Sequence[BlockLike]]]()
    for likeness in (_definition, _kind):
        found += _repeated(_runs(computing, taken), likeness)
        taken.update(block.site for series in found for part in series for block in part)
    found.sort(key=lambda series: positions[series[0][0].site])
    for number, series in enumerate(found, start=1):
        parent = groups.add(f"{REPEATED} {number}")
        for k, part in enumerate(series):
            group = groups.add(f"{REPEATED} {number}.{k}", parent)
            groups.of_block |= dict.fromkeys((b.site for b in part), group)


def _definition(block: BlockLike) -> object:
    """Return what is equal for blocks that do the same to tensors of the same sizes."""
    return block.definition, block.index, block.device


def _kind(block: BlockLike) -> object:
    """Return what is equal for blocks that do the same, to other elements or tensors of other sizes too."""
    return label_of(block), len(block.inputs)


def _runs(blocks: Sequence[BlockLike], taken: Collection[str]) -> list[Sequence[BlockLike]]:
    """Return the blocks that follow one another with none in between that is taken."""
    runs = groupby(blocks, lambda block: block.site in taken)
    return [list(run) for is_taken, run in runs if not is_taken]


def _repeated(
    left: list[Sequence[BlockLike]], likeness: Callable[[BlockLike], object]
) -> Iterator[list[Sequence[BlockLike]]]:
    """Yield the parts of each series, which follow one another in a run and consist of blocks that are alike."""
    series = compared = 0
    while series < MOST_SERIES and compared < MOST_COMPARED:
        left.sort(key=len)
        if not left or len(left[-1]) < 2 * LEAST_PERIOD:
            return
        longest = left.pop()
        compared += len(longest) ** 2 // 2
        found = repetition([likeness(b) for b in longest])
        if found is None:
            continue
        start, period, count = found
        times = -(-LEAST_PERIOD // period)
        period, count = period * times, count // times
        if count < 2:
            continue
        series += 1
        yield [longest[start + k * period : start + (k + 1) * period] for k in range(count)]
        left += [longest[:start], longest[start + count * period :]]
