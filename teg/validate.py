"""Validation of graphs: every invariant of the model is checked and every violation is reported.

Issues carry paths into the graph's document (`teg.document`), so that they can be found in a file. Validation does
not stop at the first error; what merely follows from another violation (the type of a tensor without producer)
is left out where that can be determined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tapestry.teg.block_checks import arity_issues, index_issues, inference_issues, range_issues, type_text
from tapestry.teg.encoding import MalformedError, encode_value
from tapestry.teg.graph import ROLES, ROOTS, Block, Definition, Graph, TensorType
from tapestry.teg.issues import Issue, key_path, listing
from tapestry.teg.operators import catalog, operator_named
from tapestry.teg.record_checks import cost_issues, dimension_name_issues, name_issues, tensor_issues
from tapestry.teg.zspace import ZRange

# Blocks of a cycle that its message names.
SHOWN = 8

__all__ = ["InvalidGraphError", "Issue", "check", "validate"]


class InvalidGraphError(ValueError):
    """Error raised when a graph violates the model; `issues` holds all violations, the text the first ten."""

    def __init__(self, issues: Sequence[Issue], name: str = "") -> None:
        super().__init__(listing(f"graph {name!r} is not valid", issues))
        self.issues = tuple(issues)


def check(graph: Graph) -> None:
    """Check that a graph is valid; do nothing if it is.

    Raises:
        InvalidGraphError: with all issues.
    """
    issues = validate(graph)
    if issues:
        raise InvalidGraphError(issues, graph.name)


def validate(graph: Graph) -> list[Issue]:
    """Return all issues of a graph; an empty list for a valid one."""
    context = _context(graph)
    return [issue for examine in CHECKS for issue in examine(context)]


class _GraphIndex(NamedTuple):
    """A graph with the positions of its parts in the document."""

    graph: Graph
    definitions: dict[Definition, int]
    places: dict[str, int]  # of blocks by site
    producers: dict[str, list[tuple[int, int]]]  # per tensor its (block, output position)s
    sound: dict[str, TensorType]  # types of the tensors whose own record is in order


def _context(graph: Graph) -> _GraphIndex:
    places: dict[str, int] = {}
    producers: dict[str, list[tuple[int, int]]] = {}
    for k, b in enumerate(graph.blocks):
        places.setdefault(b.site, k)
        for j, t in enumerate(b.outputs):
            producers.setdefault(t, []).append((k, j))
    definitions = {d: k for k, d in enumerate(dict.fromkeys(b.definition for b in graph.blocks))}
    sound = {site: t.type for site, t in graph.tensors.items() if not any(tensor_issues(site, t, ""))}
    return _GraphIndex(graph, definitions, places, producers, sound)


def _tensors(context: _GraphIndex) -> Iterator[Issue]:
    """Yield issues of tensor records that are malformed, and of tensors without a producer."""
    read = {t for b in context.graph.blocks for t in b.inputs}
    for k, (site, tensor) in enumerate(context.graph.tensors.items()):
        yield from tensor_issues(site, tensor, f"$.tensors[{k}]")
        yield from dimension_name_issues(tensor, f"$.tensors[{k}]")
        if site not in context.producers and site not in read:
            yield Issue(
                "producer", f"$.tensors[{k}]", f"no block produces {site!r}", "add its source or drop it"
            )


def _sites(context: _GraphIndex) -> Iterator[Issue]:
    """Yield an issue for each block whose name is not unique or whose device cannot exist."""
    for k, b in enumerate(context.graph.blocks):
        yield from name_issues(b.site, f"$.blocks[{k}].site")
        first = context.places[b.site]
        if first != k:
            yield Issue(
                "site", f"$.blocks[{k}].site", f"{b.site!r} is $.blocks[{first}] already", "rename one"
            )
        if b.operator == "source" and b.after:
            hint = "a source has no dependencies; order the blocks that read it"
            yield Issue("after", f"$.blocks[{k}].after", f"source {b.site!r} depends on {b.after[0]!r}", hint)
        if b.device is not None and (type(b.device) is not int or b.device < 0):
            yield Issue("device", f"$.blocks[{k}].device", f"device {b.device!r}", "devices count from 0")


def _wiring(context: _GraphIndex) -> Iterator[Issue]:
    """Yield issues of inputs and outputs that name unknown tensors, and of tensors with several producers."""
    for k, b in enumerate(context.graph.blocks):
        for j, t in enumerate(b.inputs):
            path = f"$.blocks[{k}].inputs[{j}]"
            if t not in context.producers:
                yield Issue(
                    "producer", path, f"no block produces {t!r}", "add its source or read another tensor"
                )
        for j, t in enumerate(b.outputs):
            path = f"$.blocks[{k}].outputs[{j}]"
            if t not in context.graph.tensors:
                yield Issue("tensor", path, f"{t!r} is not among the tensors", "add it with shape and dtype")
            first = context.producers[t][0]
            if first != (k, j):
                other = f"$.blocks[{first[0]}].outputs[{first[1]}]"
                yield Issue(
                    "producer", path, f"{t!r} is made by {other} already", "a tensor has one producer"
                )


def _order(context: _GraphIndex) -> Iterator[Issue]:
    """Yield issues where a block precedes a producer or a block in `after`; show a cycle if no order exists."""
    blocks = context.graph.blocks
    earlier: list[list[int]] = [[] for _ in blocks]
    late = []
    for k, b in enumerate(blocks):
        needs = [
            (f"inputs[{j}]", context.producers[t][0][0])
            for j, t in enumerate(b.inputs)
            if t in context.producers
        ]
        for j, site in enumerate(b.after):
            if site in context.places:
                needs.append((f"after[{j}]", context.places[site]))
            else:
                hint = "name a block of this graph"
                yield Issue("after", f"$.blocks[{k}].after[{j}]", f"there is no block {site!r}", hint)
        earlier[k] = [m for _, m in needs]
        late += [(k, key, m) for key, m in needs if m >= k]
    cycle = _cycle(earlier) if late else []
    if cycle:
        shown = [repr(blocks[k].site) for k in cycle[:SHOWN]]
        text = " needs ".join([*shown, *(["..."] if len(cycle) > SHOWN else []), shown[0]])
        yield Issue("cycle", f"$.blocks[{cycle[0]}]", f"a cycle: {text}", "cut it: a program is acyclic")
    inside = set(cycle)
    for k, key, m in late:
        if not (k in inside and m in inside):
            message = f"needs block {blocks[m].site!r}, which stands at $.blocks[{m}]"
            yield Issue("order", f"$.blocks[{k}].{key}", message, "move it before this block")


def _cycle(earlier: Sequence[Sequence[int]]) -> list[int]:
    """Return the nodes of one cycle, each followed by a node it needs; empty if there is none."""
    waiting = [len(set(needs)) for needs in earlier]
    users: list[list[int]] = [[] for _ in earlier]
    for k, needs in enumerate(earlier):
        for m in set(needs):
            users[m].append(k)
    ready = [k for k, count in enumerate(waiting) if count == 0]
    while ready:
        for k in users[ready.pop()]:
            waiting[k] -= 1
            if waiting[k] == 0:
                ready.append(k)
    node = next((k for k, count in enumerate(waiting) if count), None)
    path: dict[int, None] = {}
    while node is not None and node not in path:
        path[node] = None
        node = next(m for m in earlier[node] if waiting[m])
    passed = list(path)
    return passed[passed.index(node) :] if node is not None else []


def _definitions(context: _GraphIndex) -> Iterator[Issue]:
    """Yield issues of unknown operators, and of attributes not canonical or not storable in a document."""
    for definition, k in context.definitions.items():
        path = f"$.definitions[{k}]"
        try:
            operator_named(definition.operator)
        except ValueError as error:
            yield Issue("operator", f"{path}.operator", str(error), "use a known one, or install its plug-in")
        names = [name for name, _ in definition.attributes]
        if names != sorted(set(names)):
            message = f"{names} are not sorted or not unique"
            yield Issue("attribute", f"{path}.attributes", message, "make them with teg.graph.attributes")
        for name, value in definition.attributes:
            try:
                encode_value(value, key_path(f"{path}.attributes", name))
            except MalformedError as problem:
                yield problem.issue
        yield from cost_issues(definition, f"{path}.costs")
        role = definition.get("role")
        if definition.operator == "source" and role not in ROLES:
            hint = f"known are {', '.join(ROLES)}"
            yield Issue("role", f"{path}.attributes.role", f"unknown role {role!r}", hint)


def _meaning(context: _GraphIndex) -> Iterator[Issue]:
    """Yield issues of blocks that disagree with their operator or tensors; equal layers are checked once."""
    agreed: set[tuple[Definition, tuple[TensorType, ...], tuple[TensorType, ...], ZRange | None]] = set()
    for k, b in enumerate(context.graph.blocks):
        path = f"$.blocks[{k}]"
        if not all(t in context.sound for t in (*b.inputs, *b.outputs)):
            yield from arity_issues(b, path)
            yield from index_issues(b, path)
            continue
        inputs, outputs = (tuple(context.sound[t] for t in sites) for sites in (b.inputs, b.outputs))
        application = (b.definition, inputs, outputs, b.index)
        if application not in agreed:
            issues = list(_application(context, b, inputs, outputs, path))
            yield from issues
            if not issues:
                agreed.add(application)


def _application(
    context: _GraphIndex, block: Block, inputs: Sequence[TensorType], outputs: Sequence[TensorType], path: str
) -> Iterator[Issue]:
    misfits = [*arity_issues(block, path), *index_issues(block, path)]
    yield from misfits
    definition = block.definition
    if misfits or definition.operator not in catalog():
        return
    operator = operator_named(definition.operator)
    yield from range_issues(block, inputs, outputs, operator, path)
    if _is_part(block) or (block.operator == "source" and definition.get("role") not in ROLES):
        return
    try:
        inferred = operator.infer(definition.attributes, inputs)
    except Exception as error:  # an operator, perhaps a plug-in's, that stumbles over what it did not foresee
        hint = f"repair the inputs or $.definitions[{context.definitions[definition]}].attributes"
        reason = str(error) if isinstance(error, ValueError) else repr(error)
        yield Issue("operator", path, f"{block.site!r} is no {block.operator!r}: {reason}", hint)
    else:
        yield from inference_issues(block, inferred, outputs, path)


def _is_part(block: Block) -> bool:
    """Return whether a block is a shard: its operator cannot infer from parts. A fixed block is always whole."""
    return block.index is not None and block.signature is not None


def _ends(context: _GraphIndex) -> Iterator[Issue]:
    """Yield issues unless a block is observed and carried state goes from a sink to one source of the same type."""
    blocks = context.graph.blocks
    if not any(b.operator in ROOTS for b in blocks):
        message = "there is no sink and no sequence point"
        yield Issue("unobserved", "$.blocks", message, "add a sink for each tensor to be computed")
    carried: dict[str, int] = {}
    unfolded = {b.site.rpartition("@")[0] for b in blocks if b.operator == "source" and b.index is not None}
    for k, b in enumerate(blocks):
        site = b.definition.get("carries") if b.operator == "sink" else None
        if site is None or (b.index is not None and site in unfolded):
            continue  # shards keep the name of the abstract source
        path = f"$.definitions[{context.definitions[b.definition]}].attributes.carries"
        source = blocks[context.places[site]] if site in context.places else None
        if source is None or source.operator != "source":
            yield Issue("carries", path, f"{site!r} (of $.blocks[{k}]) is no source", "name a source block")
            continue
        if carried.setdefault(site, k) != k:
            message = f"{site!r} is carried by $.blocks[{carried[site]}] already"
            yield Issue("carries", path, message, f"one sink carries a source; change $.blocks[{k}]")
        here, there = ([context.sound.get(t) for t in ts] for ts in (b.inputs, source.outputs))
        if here != there and None not in (*here, *there):
            now, then = (", ".join(type_text(t) for t in ts if t) for ts in (here, there))
            yield Issue("carries", f"$.blocks[{k}].inputs[0]", f"{now} carries on {then}", "use one type")


def _data(context: _GraphIndex) -> Iterator[Issue]:
    """Yield issues of values that do not belong to a source or do not have its type."""
    for site, array in context.graph.data.items():
        path = key_path("$.data", site)
        made = context.producers.get(site)
        if not made or context.graph.blocks[made[0][0]].operator != "source":
            yield Issue("data", path, f"{site!r} is no output of a source", "drop it, or make it a source")
        elif site in context.sound:
            kind = TensorType(tuple(array.shape), np.dtype(array.dtype).name)
            if kind != context.sound[site]:
                yield Issue(
                    "data", path, type_text(kind), f"the source makes {type_text(context.sound[site])}"
                )
    for site, named in context.graph.external.items():
        path = key_path("$.data", site)
        made = context.producers.get(site)
        kind = TensorType(named.box.shape, named.dtype)
        if not made or context.graph.blocks[made[0][0]].operator != "source":
            yield Issue("data", path, f"{site!r} is no output of a source", "drop it, or make it a source")
        elif not ZRange.of_shape(named.shape).contains(named.box):
            yield Issue(
                "data", path, f"{named.box} of shape {list(named.shape)}", "name a box inside the tensor"
            )
        elif site in context.sound and kind != context.sound[site]:
            yield Issue("data", path, type_text(kind), f"the source makes {type_text(context.sound[site])}")


CHECKS: tuple[Callable[[_GraphIndex], Iterator[Issue]], ...] = (
    _tensors,
    _sites,
    _wiring,
    _order,
    _definitions,
    _meaning,
    _ends,
    _data,
)
