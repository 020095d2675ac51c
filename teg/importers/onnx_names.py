"""Renaming of ONNX values such that names derived from them (`y.scores` for a part of `y`) are new."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def renamings(proto: Any) -> dict[str, str]:
    """Choose new names for the node outputs whose name another name of the model continues with a dot."""
    graph = proto.graph
    names = sorted(
        {
            *(i.name for i in graph.input),
            *(t.name for t in graph.initializer),
            *(t.values.name for t in graph.sparse_initializer),
            *(o for n in graph.node for o in n.output),
        }
    )
    found: dict[str, str] = {}
    for node in graph.node:
        for name in node.output:
            if name and _continued(name, names):
                found[name] = _fresh(name, names)
    return found


def rename_values(proto: Any, new: Mapping[str, str]) -> None:
    """Rename values wherever nodes and declarations of types use them; outputs of the graph are renamed too."""
    graph = proto.graph
    for info in (*graph.output, *graph.value_info):
        info.name = new.get(info.name, info.name)
    _rename_in(graph.node, new)


def reads_of(node: Any) -> set[str]:
    """Return the values that a node reads, including those that its bodies capture from enclosing graphs."""
    found = set(node.input)
    for attribute in node.attribute:
        for body in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
            own = {i.name for i in (*body.input, *body.initializer)} | {
                o for n in body.node for o in n.output
            }
            found |= {o.name for o in body.output}.union(*map(reads_of, body.node)) - own
    return found - {""}


def free_node_name(name: str, values: Sequence[str]) -> str:
    """Return a name for a node such that no value (in ascending order) continues it with a dot."""
    return _fresh(name, values) if _continued(name, values) else name


def _rename_in(nodes: Iterable[Any], new: Mapping[str, str]) -> None:
    for node in nodes:
        for names in (node.input, node.output):
            for k, name in enumerate(names):
                if name in new:
                    names[k] = new[name]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename_in(attribute.g.node, new)
            for inner in attribute.graphs:
                _rename_in(inner.node, new)


def _continued(name: str, names: Sequence[str]) -> bool:
    prefix = name + "."
    k = bisect_left(names, prefix)
    return k < len(names) and names[k].startswith(prefix)


def _fresh(name: str, names: Sequence[str]) -> str:
    """Append primes to the name until it is new and no other name continues it."""
    while True:
        name += "'"
        k = bisect_left(names, name)
        if not (k < len(names) and names[k] == name) and not _continued(name, names):
            return name
