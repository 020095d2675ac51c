"""The kinds of nodes of the whitepaper: what each may depend on, what may depend on it, and how many of each.

A `Graph` cannot break these rules: a tensor node is a `Tensor`, its one dependency its producer; signatures belong to
definitions; sources, sinks, selectors and sequence points are blocks whose operator says so; an index node is a tensor
of coordinates. The table serves cases that describe nodes one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tapestry.teg.issues import Issue

BLOCKS = ("BlockOp", "Source", "Sink")
VALUES = ("Tensor", "Index")
MAKERS = ("Source", "Selector", "BlockOp")


@dataclass(frozen=True)
class NodeKind:
    """A kind of node, with the restrictions on its dependencies and consumers; None where there is no restriction.

    It states the kinds that it may depend on, how many of `counted` it needs (`least` to `most`), how many tensors
    it makes, and the kinds that may depend on it.
    """

    name: str
    meaning: str
    depends_on: tuple[str, ...] = ()
    counted: tuple[str, ...] = ()
    least: int = 0
    most: int | None = None
    makes: int | None = None
    consumers: tuple[str, ...] | None = None


NODE_KINDS: tuple[NodeKind, ...] = (
    NodeKind(
        "Tensor",
        "has exactly one dependency: the source, selector or block operator that makes it",
        depends_on=MAKERS,
        counted=MAKERS,
        least=1,
        most=1,
    ),
    NodeKind(
        "Index",
        "has exactly one dependency: an index selector",
        depends_on=("IndexSelector",),
        counted=("IndexSelector",),
        least=1,
        most=1,
        consumers=("Selector", "IndexSelector", "BlockOp", "Sink"),
    ),
    NodeKind(
        "Selector",
        "reads tensors and makes one tensor",
        depends_on=VALUES,
        makes=1,
        consumers=("Tensor",),
    ),
    NodeKind(
        "IndexSelector",
        "reads tensors or indices and makes one index",
        depends_on=VALUES,
        makes=1,
        consumers=("Index",),
    ),
    NodeKind(
        "BlockOp",
        "reads tensors, comes after sequence points, and has at most one signature",
        depends_on=(*VALUES, "Signature", "SequencePoint"),
        counted=("Signature",),
        most=1,
        consumers=("Tensor", "SequencePoint"),
    ),
    NodeKind(
        "Source",
        "has no dependencies and makes one tensor",
        most=0,
        makes=1,
        consumers=("Tensor", "SequencePoint"),
    ),
    NodeKind(
        "Sink",
        "reads exactly one tensor, and only sequence points depend on it",
        depends_on=(*VALUES, "Signature", "SequencePoint"),
        counted=VALUES,
        least=1,
        most=1,
        makes=0,
        consumers=("SequencePoint",),
    ),
    NodeKind("Signature", "has no dependencies; blocks depend on it", consumers=BLOCKS),
    NodeKind(
        "SequencePoint",
        "depends on block operators only, and orders others",
        depends_on=BLOCKS,
        makes=0,
        consumers=BLOCKS,
    ),
)
_BY_NAME = {kind.name: kind for kind in NODE_KINDS}


def node_issues(
    name: str,
    dependencies: Sequence[str] | None = None,
    consumers: Sequence[str] = (),
    makes: int | None = None,
    path: str = "$",
) -> Iterator[Issue]:
    """Yield the issues of a node of the kind `name`; None: its dependencies, or the number it makes, are not
    specified.

    Raises:
        ValueError: there is no kind of this name.
    """
    if name not in _BY_NAME:
        raise ValueError(f"there is no kind of node {name!r}; known are {', '.join(_BY_NAME)}")
    kind = _BY_NAME[name]
    hint = f"a {kind.name} {kind.meaning}"
    for k, dependency in enumerate(dependencies or ()):
        if dependency not in kind.depends_on:
            yield Issue("dependency", f"{path}.dependencies[{k}]", f"depends on a {dependency}", hint)
    if dependencies is not None and kind.counted:
        count = sum(d in kind.counted for d in dependencies)
        if count < kind.least or (kind.most is not None and count > kind.most):
            what = " or ".join(kind.counted)
            yield Issue("arity", f"{path}.dependencies", f"{count} dependencies on a {what}", hint)
    if makes is not None and kind.makes not in (None, makes):
        yield Issue("arity", f"{path}.outputs", f"makes {makes} tensors", hint)
    for k, consumer in enumerate(consumers):
        if kind.consumers is not None and consumer not in kind.consumers:
            yield Issue("consumer", f"{path}.consumers[{k}]", f"a {consumer} depends on it", hint)
