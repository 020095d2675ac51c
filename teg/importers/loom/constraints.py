"""Validation of Loom graphs: all constraints of the dialect of operations and shards, all violations at once.

Kinds of issues: `schema` (form), `reference` (a node that is missing, or of another kind), `validation`,
`cycle`. Where the original program errs, the rule itself holds: ranges project per coefficient, and shards are
disjoint when no two of them overlap, not when their sizes add up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import networkx as nx

from tapestry.teg.dtypes import NAMES
from tapestry.teg.importers.loom.model import (
    ApplicationBody,
    IpfSignature,
    LoomGraph,
    LoomNode,
    OperationBody,
    Selection,
    Selections,
    TensorBody,
)
from tapestry.teg.issues import Issue
from tapestry.teg.sharding.tiling import overlap
from tapestry.teg.zspace import ZRange

SIDES = ("inputs", "outputs")


def constraint_issues(graph: LoomGraph) -> list[Issue]:
    """Find the violations of constraints among nodes that are well formed."""
    context = _context(graph)
    return [issue for constraint in CONSTRAINTS for issue in constraint(context)]


class _GraphIndex(NamedTuple):
    graph: LoomGraph
    tensors: dict[str, tuple[LoomNode, TensorBody]]
    operations: dict[str, tuple[LoomNode, OperationBody]]
    applications: tuple[tuple[LoomNode, ApplicationBody], ...]
    shards: dict[str, list[tuple[LoomNode, ApplicationBody]]]  # by operation


def _context(graph: LoomGraph) -> _GraphIndex:
    tensors = {n.id: (n, n.body) for n in graph.nodes if isinstance(n.body, TensorBody)}
    operations = {n.id: (n, n.body) for n in graph.nodes if isinstance(n.body, OperationBody)}
    applications = tuple((n, n.body) for n in graph.nodes if isinstance(n.body, ApplicationBody))
    shards: dict[str, list[tuple[LoomNode, ApplicationBody]]] = {name: [] for name in operations}
    for node, body in applications:
        shards.setdefault(body.operation, []).append((node, body))
    return _GraphIndex(graph, tensors, operations, applications, shards)


def _ids_are_unique(context: _GraphIndex) -> Iterator[Issue]:
    first: dict[str, str] = {}
    for node in context.graph.nodes:
        if first.setdefault(node.id, node.path) != node.path:
            message = f"{node.id!r} is {first[node.id]} already"
            yield Issue("validation", f"{node.path}.id", message, "give every node an id of its own")


def _dtypes_are_known(context: _GraphIndex) -> Iterator[Issue]:
    for node, body in context.tensors.values():
        if body.dtype not in NAMES:
            message = f"tensor dtype {body.dtype!r} is not a recognized type"
            yield Issue("validation", f"{node.path}.body.dtype", message, f"known are {', '.join(NAMES)}")


def _selections_lie_in_tensors(context: _GraphIndex) -> Iterator[Issue]:
    """Yield issues unless the tensors of an operation exist and contain its selections."""
    for node, body in context.operations.values():
        for path, selection in _selected(body, f"{node.path}.body"):
            known = context.tensors.get(selection.tensor)
            if known is None:
                yield _reference(context, f"{path}.tensorId", selection.tensor, "Tensor")
            elif not _holds(known[1].range, selection.range):
                message = f"selects {selection.range} of a tensor of {known[1].range}"
                yield Issue("validation", f"{path}.range", message, "stay inside the tensor")


def _operations_are_acyclic(context: _GraphIndex) -> Iterator[Issue]:
    links = nx.DiGraph()
    for name, (_, body) in context.operations.items():
        links.add_edges_from((s.tensor, name) for _, s in _side(body.inputs, ""))
        links.add_edges_from((name, s.tensor) for _, s in _side(body.outputs, ""))
    for group in nx.strongly_connected_components(links):
        if len(group) > 1:
            cycle = [a for a, _ in nx.find_cycle(links.subgraph(group))]
            at = next(context.operations[n][0].path for n in cycle if n in context.operations)
            text = " feeds ".join(repr(n) for n in (*cycle, cycle[0]))
            yield Issue("cycle", at, f"a cycle: {text}", "cut it: a graph is acyclic")


def _operations_agree_with_signatures(context: _GraphIndex) -> Iterator[Issue]:
    """Yield issues unless each signature has an index and projects it to exactly the operation's selections."""
    for node, body in context.operations.values():
        if node.signature is not None and node.index is None:
            hint = "tag the operation with its IPFIndex, too"
            yield Issue("validation", f"{node.path}.tags", "an IPFSignature without IPFIndex", hint)
        elif node.signature is not None and node.index is not None:
            yield from _projections(node, node.signature, node.index, body)


def _shards_belong_to_operations(context: _GraphIndex) -> Iterator[Issue]:
    """Yield issues unless every shard has its operation, with the same names of inputs and outputs."""
    for node, body in context.applications:
        known = context.operations.get(body.operation)
        if known is None:
            yield _reference(context, f"{node.path}.body.operationId", body.operation, "Operation")
            continue
        for side in SIDES:
            path = f"{node.path}.body.{side}"
            mine: Selections = getattr(body, side) or {}
            whole: Selections = getattr(known[1], side) or {}
            if mine.keys() != whole.keys():
                expected = f"its operation has {sorted(whole)}"
                yield Issue("validation", path, f"the names {sorted(mine)}", expected)
            for name in mine.keys() & whole.keys():
                yield from _shard_ports(f"{path}.{name}", mine[name], whole[name])


def _shard_ports(path: str, mine: Sequence[Selection], whole: Sequence[Selection]) -> Iterator[Issue]:
    if len(mine) != len(whole):
        expected = f"its operation selects {len(whole)}"
        yield Issue("validation", path, f"{len(mine)} selections", expected)
        return
    for k, (part, all_of_it) in enumerate(zip(mine, whole, strict=True)):
        if part.tensor != all_of_it.tensor:
            expected = f"its operation selects {all_of_it.tensor!r} here"
            yield Issue("validation", f"{path}[{k}].tensorId", f"selects tensor {part.tensor!r}", expected)
        elif not _holds(all_of_it.range, part.range):
            message = f"selects {part.range} of the operation's {all_of_it.range}"
            yield Issue("validation", f"{path}[{k}].range", message, "stay inside the operation's range")


def _operations_have_shards(context: _GraphIndex) -> Iterator[Issue]:
    """Yield issues unless each operation has shards, which together extend over all of its selections."""
    for name, (node, body) in context.operations.items():
        shards = context.shards[name]
        if not shards:
            hint = "add an Application of all of it"
            yield Issue("validation", node.path, "the operation has no shards", hint)
            continue
        for side in SIDES:
            for port, k, whole in _ports(getattr(body, side)):
                parts = _parts(shards, side, port, k, whole)
                if parts is not None and ZRange.around(parts) != whole.range:
                    message = f"shards reach over {ZRange.around(parts)}"
                    at = f"{node.path}.body.{side}.{port}[{k}].range"
                    yield Issue("validation", at, message, f"the operation selects {whole.range}")


def _shards_agree_with_signatures(context: _GraphIndex) -> Iterator[Issue]:
    """Yield issues unless each shard of an operation with a signature has an index and selects its projection
    exactly.
    """
    for node, body in context.applications:
        known = context.operations.get(body.operation)
        if known is None or known[0].signature is None:
            continue
        if node.index is None:
            hint = "tag the application with its IPFIndex: its operation has an IPFSignature"
            yield Issue("validation", f"{node.path}.tags", "no IPFIndex", hint)
            continue
        whole = known[0].index
        if whole is not None and (whole.rank != node.index.rank or not whole.contains(node.index)):
            message = f"index {node.index}"
            yield Issue("validation", f"{node.path}.tags", message, f"the operation's index is {whole}")
        yield from _projections(node, known[0].signature, node.index, body)


def _outputs_are_made_once(context: _GraphIndex) -> Iterator[Issue]:
    """Yield issues unless the shards of an operation make each element of its outputs exactly once."""
    for name, (node, body) in context.operations.items():
        for port, k, whole in _ports(body.outputs):
            parts = _parts(context.shards[name], "outputs", port, k, whole)
            if parts is None:
                continue
            at = f"{node.path}.body.outputs.{port}[{k}]"
            meeting = overlap(parts)
            if meeting is not None:
                message = f"shards overlap: {meeting[0]} and {meeting[1]}"
                yield Issue("validation", at, message, "every element is made by one shard")
            elif sum(p.size for p in parts) != whole.range.size:
                message = f"shards make {sum(p.size for p in parts)} of {whole.range.size} elements"
                yield Issue("validation", at, message, "shards leave no gaps")


def _parts(
    shards: Sequence[tuple[LoomNode, ApplicationBody]], side: str, port: str, k: int, whole: Selection
) -> list[ZRange] | None:
    """Return the ranges of one selection over all shards; None where a shard has another form, or there is none."""
    parts = []
    for _, body in shards:
        selections = (getattr(body, side) or {}).get(port, ())
        if len(selections) <= k or selections[k].tensor != whole.tensor:
            return None
        if selections[k].range.rank != whole.range.rank:
            return None
        parts.append(selections[k].range)
    return parts or None


def _projections(
    node: LoomNode, signature: IpfSignature, index: ZRange, body: OperationBody | ApplicationBody
) -> Iterator[Issue]:
    for side in SIDES:
        specified: Selections = getattr(body, side) or {}
        ports = getattr(signature, side)
        path = f"{node.path}.body.{side}"
        if specified.keys() != ports.keys():
            message = f"the names {sorted(specified)}"
            yield Issue("validation", path, message, f"the signature has {sorted(ports)}")
        for name in specified.keys() & ports.keys():
            if len(specified[name]) != len(ports[name]):
                expected = f"the signature has {len(ports[name])} projections"
                yield Issue("validation", f"{path}.{name}", f"{len(specified[name])} selections", expected)
                continue
            for k, (selection, projection) in enumerate(zip(specified[name], ports[name], strict=True)):
                where = f"{path}.{name}[{k}].range"
                if any(len(row) != index.rank for row in projection.start.matrix):
                    message = f"the index {index} has rank {index.rank}"
                    yield Issue("validation", where, message, "rows have a coefficient per dimension of it")
                elif (found := projection.project(index)) != selection.range:
                    message = f"index {index} projects to {found}"
                    yield Issue("validation", where, message, f"the selection is {selection.range}")


def _holds(whole: ZRange, part: ZRange) -> bool:
    return whole.rank == part.rank and whole.contains(part)


def _selected(body: OperationBody, path: str) -> Iterator[tuple[str, Selection]]:
    for side in SIDES:
        yield from _side(getattr(body, side), f"{path}.{side}")


def _side(ports: Selections | None, path: str) -> Iterator[tuple[str, Selection]]:
    for name, k, selection in _ports(ports):
        yield f"{path}.{name}[{k}]", selection


def _ports(ports: Selections | None) -> Iterator[tuple[str, int, Selection]]:
    for name, listed in (ports or {}).items():
        for k, selection in enumerate(listed):
            yield name, k, selection


def _reference(context: _GraphIndex, path: str, name: str, kind: str) -> Issue:
    other = next((n for n in context.graph.nodes if n.id == name), None)
    message = f"there is no node {name!r}" if other is None else f"{name!r} is no {kind}"
    return Issue("reference", path, message, f"name a {kind} node of this graph")


CONSTRAINTS = (
    _ids_are_unique,
    _dtypes_are_known,
    _selections_lie_in_tensors,
    _operations_are_acyclic,
    _operations_agree_with_signatures,
    _shards_belong_to_operations,
    _operations_have_shards,
    _shards_agree_with_signatures,
    _outputs_are_made_once,
)
