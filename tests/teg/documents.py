"""Documents for tests: what a tool with one kind of number leaves of JSON, and changes at a path."""

from collections.abc import Callable
from typing import Any

from tapestry.teg.graph import Graph

Document = dict[str, Any]
Change = Callable[[Document], None]


def rounded(value: Any) -> Any:
    """Return JSON as left by a tool that knows one kind of number: whole floats lose their point."""
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [rounded(v) for v in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**53:
        return int(float(value))
    return int(value) if isinstance(value, float) and value.is_integer() else value


def change(*path: Any, to: Any) -> Change:
    def apply(document: Document) -> None:
        *steps, last = path
        target: Any = document
        for step in steps:
            target = target[step]
        target[last] = to

    return apply


def drop(*path: Any) -> Change:
    def apply(document: Document) -> None:
        *steps, last = path
        target: Any = document
        for step in steps:
            target = target[step]
        del target[last]

    return apply


def assert_same(found: Graph, graph: Graph) -> None:
    assert found == graph
    assert all(a is b for a, b in zip(found.blocks, graph.blocks, strict=True))
    assert all(found.tensors[site] is t for site, t in graph.tensors.items())
