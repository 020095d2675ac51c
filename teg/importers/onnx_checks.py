"""Checks of an ONNX model before it is imported, so that no file takes unbounded time or memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import onnx

from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.printable import is_printable

# About a minute of import; the largest public models have some ten thousand.
LARGEST_NODE_COUNT = 250_000
# Bytes that a protobuf message may have.
LARGEST_FILE_BYTES = 2**31 - 1

STANDARD_DOMAINS = ("", "ai.onnx")

FunctionKey = tuple[str, str, str]


def check_model(proto: Any, label: str) -> None:
    """Check that a model has a graph that can be read; arbitrary bytes may happen to parse as an empty message.

    Raises:
        ImportFailure: it is no model, it has too many nodes, functions call themselves (directly or through
            others), a value has no producer or two, or a node reads a value that is produced later.
    """
    if not proto.opset_import or not proto.HasField("graph") or not proto.graph.output:
        raise ImportFailure(
            f"{label} is not an ONNX model (it has no graph, outputs or opset), or it is truncated"
        )
    _check_names(proto, label)
    count = _node_count(proto, label)
    if count > LARGEST_NODE_COUNT:
        raise ImportFailure(
            f"{label} has {count:,} nodes, functions unfolded; at most {LARGEST_NODE_COUNT:,} are imported: "
            "import it in parts"
        )
    _check_values(proto.graph, label)


def _check_names(proto: Any, label: str) -> None:
    """Check that names are printable text: they name sites and appear in messages."""
    graph = proto.graph
    named = (*graph.input, *graph.output, *graph.value_info, *graph.initializer, *proto.functions)
    names = [m.name for m in named] + [t.values.name for t in graph.sparse_initializer]
    for nodes in (graph.node, *(f.node for f in proto.functions)):
        for node in all_nodes(nodes):
            names += (node.name, node.op_type, node.domain, *node.input, *node.output)
            names += (a.name for a in node.attribute)
    for name in names:
        if not isinstance(name, str) or not is_printable(name):  # bytes where the file holds no UTF-8
            raise ImportFailure(
                f"{label}: {name!r} is no name: names are printable text; the file may be damaged"
            )


def _check_values(graph: Any, label: str) -> None:
    """Check that every value has one producer and is produced before it is read."""
    known: set[str] = {""}
    given = [("input", i.name) for i in graph.input]
    initializers = [t.name for t in graph.initializer] + [t.values.name for t in graph.sparse_initializer]
    for what, names in (("input", [n for _, n in given]), ("initializer", initializers)):
        doubled = _first_repeated(names)
        if doubled is not None:
            raise ImportFailure(f"{label}: there are two {what}s {doubled!r}; rename one")
        known.update(names)
    made = {o for node in graph.node for o in node.output}
    for node in graph.node:
        called = node.name or node.op_type
        for name in node.input:
            if name not in known:
                raise ImportFailure(f"{label}: node {called!r} reads {name!r}, which {_missing(name, made)}")
        for name in node.output:
            if name and name in known:
                raise ImportFailure(
                    f"{label}: node {called!r} makes {name!r}, which is there already: each value has one maker"
                )
            known.add(name)
    doubled = _first_repeated([o.name for o in graph.output])
    if doubled is not None:
        raise ImportFailure(f"{label}: output {doubled!r} stands there twice; name it once")
    unmade = [o.name for o in graph.output if o.name not in known]
    if unmade:
        raise ImportFailure(f"{label}: nothing makes output {unmade[0]!r}; the file may be truncated")


def _missing(name: str, made: set[str]) -> str:
    if name in made:
        return "is made only later: nodes must stand in the order of execution, and there may be a cycle"
    return "nothing makes; the file may be truncated"


def _first_repeated(names: Sequence[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _node_count(proto: Any, label: str) -> int:
    """Count the nodes of the graph with all functions inlined, including those of nested graphs."""
    functions = {(f.domain, f.name, f.overload): f for f in proto.functions}
    if len(functions) != len(proto.functions):
        doubled = _first_repeated([f"{f.domain}.{f.name}" for f in proto.functions])
        raise ImportFailure(f"{label}: function {doubled!r} is defined twice")
    counts: dict[FunctionKey, int] = {}
    for key in _callees_first(functions, label):
        counts[key] = _unfolded(functions[key].node, counts)
    return _unfolded(proto.graph.node, counts)


def _unfolded(nodes: Any, counts: Mapping[FunctionKey, int]) -> int:
    return sum(counts.get((n.domain, n.op_type, n.overload), 1) for n in all_nodes(nodes))


def _callees_first(functions: Mapping[FunctionKey, Any], label: str) -> Iterator[FunctionKey]:
    """Yield the functions in an order in which each follows those that it calls."""
    done: set[FunctionKey] = set()
    for first in functions:
        path: list[FunctionKey] = [first]
        inside: set[FunctionKey] = set()
        while path:
            key = path[-1]
            if key in done:
                path.pop()
                continue
            calls = {(n.domain, n.op_type, n.overload) for n in all_nodes(functions[key].node)}
            waiting = [c for c in calls if c in functions and c not in done]
            if (key in inside and waiting) or key in calls:
                raise ImportFailure(
                    f"{label}: function {'.'.join(key[:2])!r} calls itself, directly or through others"
                )
            inside.add(key)
            if not waiting:
                done.add(key)
                path.pop()
                yield key
            path.extend(waiting)


def all_nodes(nodes: Any) -> Iterator[Any]:
    """Yield the nodes of a graph and of all graphs nested in it."""
    waiting = [nodes]
    while waiting:
        for node in waiting.pop():
            yield node
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    waiting.append(attribute.g.node)
                waiting.extend(g.node for g in attribute.graphs)


class _Takes(NamedTuple):
    """The signature of an operator: kinds of attributes by name, numbers of inputs and outputs."""

    kinds: Mapping[str, int]
    inputs: range
    outputs: range


@cache
def _takes(op: str, version: int, domain: str) -> _Takes | None:
    """Return the signature of an operator; None for operators that ONNX does not define."""
    domain = "" if domain in STANDARD_DOMAINS else domain
    if not onnx.defs.has(op, version, domain):
        return None
    schema = onnx.defs.get_schema(op, version, domain)
    kinds = {name: int(a.type.value) for name, a in schema.attributes.items()}
    inputs, outputs = ((schema.min_input, schema.max_input), (schema.min_output, schema.max_output))
    return _Takes(kinds, range(inputs[0], inputs[1] + 1), range(outputs[0], outputs[1] + 1))


def check_node(node: Any, where: str, version: int) -> None:
    """Check that a node's attribute kinds and its numbers of inputs and outputs are those of its operator.

    Raises:
        ImportFailure: they differ.
    """
    takes = _takes(node.op_type, version, node.domain)
    if takes is None:
        return
    for a in node.attribute:
        if takes.kinds.get(a.name, a.type) != a.type:
            raise ImportFailure(f"{where} has attribute {a.name!r} of another kind than the operator takes")
    for what, names, counts in (
        ("inputs", node.input, takes.inputs),
        ("outputs", node.output, takes.outputs),
    ):
        given = max((k + 1 for k, name in enumerate(names) if name), default=0)
        if given not in counts and (given > 0 or counts.start > 0):
            wanted = f"{counts.start}" if len(counts) == 1 else f"{counts.start} to {counts.stop - 1}"
            raise ImportFailure(f"{where} has {given} {what}; the operator takes {wanted}")
