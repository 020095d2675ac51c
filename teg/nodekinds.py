"""The kinds of nodes of the whitepaper, what each may depend on and who may depend on it.

In a `Graph` most kinds are attributes of others: a tensor node is a `Tensor`, its one dependency its producer;
signatures belong to definitions; sources, sinks, selectors and sequence points are blocks whose operator says
so. The table is the law both for such graphs (`teg.validate`) and for nodes described one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from teg.issues import Issue

BLOCKS = ("BlockOp", "Source", "Sink")
VALUES = ("Tensor", "Index")


class NodeKind(NamedTuple):
    """One kind: the kinds it may depend on, how many of `counted` it needs, the kinds that may depend on it."""

    name: str
    depends_on: tuple[str, ...]
    counted: tuple[str, ...] = ()
    least: int = 0
    most: int | None = None
    consumers: tuple[str, ...] | None = None
    meaning: str = ""


NODE_KINDS: tuple[NodeKind, ...] = (
    NodeKind(
        "Tensor",
        ("Source", "Selector", "BlockOp"),
        ("Source", "Selector", "BlockOp"),
        1,
        1,
        meaning="has exactly one dependency: the source, selector or block operator that makes it",
    ),
    NodeKind(
        "Index",
        ("IndexSelector",),
        ("IndexSelector",),
        1,
        1,
        ("Selector", "IndexSelector", "BlockOp", "Sink"),
        "has exactly one dependency: an index selector",
    ),
    NodeKind("Selector", VALUES, consumers=("Tensor",), meaning="reads tensors and makes one tensor"),
    NodeKind("IndexSelector", VALUES, consumers=("Index",), meaning="reads tensors or indices"),
    NodeKind(
        "BlockOp",
        (*VALUES, "Signature", "SequencePoint"),
        ("Signature",),
        0,
        1,
        ("Tensor", "SequencePoint"),
        "reads tensors and sequence points, and has at most one signature",
    ),
    NodeKind("Source", (), (), 0, 0, ("Tensor", "SequencePoint"), "has no dependencies and makes one tensor"),
    NodeKind(
        "Sink",
        (*VALUES, "Signature", "SequencePoint"),
        VALUES,
        1,
        1,
        ("SequencePoint",),
        "reads exactly one tensor, and only sequence points depend on it",
    ),
    NodeKind(
        "Signature", (), (), 0, 0, ("BlockOp", "Sink", "Source"), "has no dependencies; blocks depend on it"
    ),
    NodeKind(
        "SequencePoint",
        BLOCKS,
        consumers=BLOCKS,
        meaning="depends on block operators only, and orders others",
    ),
)
_BY_NAME = {kind.name: kind for kind in NODE_KINDS}


def node_issues(
    name: str,
    dependencies: Sequence[str] | None = None,
    consumers: Sequence[str] = (),
    path: str = "$",
) -> Iterator[Issue]:
    """What is wrong with a node of the kind `name` that depends on nodes of these kinds (None: not told).

    Raises:
        ValueError: there is no kind of this name.
    """
    if name not in _BY_NAME:
        raise ValueError(f"there is no kind of node {name!r}; known are {', '.join(_BY_NAME)}")
    kind = _BY_NAME[name]
    cure = f"a {kind.name} {kind.meaning}"
    for k, dependency in enumerate(dependencies or ()):
        if dependency not in kind.depends_on:
            yield Issue("dependency", f"{path}.dependencies[{k}]", f"depends on a {dependency}", cure)
    if dependencies is not None and kind.counted:
        count = sum(d in kind.counted for d in dependencies)
        if count < kind.least or (kind.most is not None and count > kind.most):
            what = " or ".join(kind.counted)
            yield Issue("arity", f"{path}.dependencies", f"{count} dependencies on a {what}", cure)
    for k, consumer in enumerate(consumers):
        if kind.consumers is not None and consumer not in kind.consumers:
            yield Issue("consumer", f"{path}.consumers[{k}]", f"a {consumer} depends on it", cure)
