"""Alignment of tensor dimensions: labels of operators, and classes of dimensions by unification."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tapestry.teg.graph import Definition
from tapestry.teg.views import parse

Labels = tuple[str, ...]
DimensionPlace = tuple[str, int]


class Labeled(NamedTuple):
    """A block's own dimension names: per operand, of the result ("": none), and those it needs whole."""

    reads: tuple[Labels, ...]
    written: Labels
    whole: Labels = ()


def labeled(definition: Definition, ranks: Sequence[int]) -> Labeled | None:
    """Infer the labels of a block with operands of these ranks; None for operators that have none."""
    name = definition.operator
    if name == "contract":
        return Labeled(definition["labels"], definition["output"])
    if name == "cell":
        return Labeled(definition["labels"], tuple(n for n, _ in definition["dims"]))
    if name == "reduce":
        return Labeled((definition["labels"],), _kept(definition["output"], definition.get("keep", ())))
    if name in ("softmax", "log_softmax", "layer_norm"):
        own = tuple(f"d{k}" for k in range(ranks[0]))
        whole = tuple(own[a % ranks[0]] for a in definition["axes"])
        return Labeled((own, *[whole] * (len(ranks) - 1)), own, whole)
    if name == "view":
        return _permutation(definition)
    return None


def _kept(output: Labels, keep: Sequence[int]) -> Labels:
    """Return the labels of a reduction's result, empty where a dimension of size 1 is kept."""
    names = iter(output)
    return tuple("" if k in keep else next(names) for k in range(len(output) + len(keep)))


def _permutation(definition: Definition) -> Labeled | None:
    view = parse(definition["map"], definition["shape"])
    own = tuple(f"d{k}" for k in range(len(view.shape)))
    if any(d.dim < 0 or (d.stride, d.offset) != (1, 0) for d in view.dims) or len(view.dims) != len(own):
        return None
    return Labeled((tuple(own[d.dim] for d in view.dims),), own)


class Classes:
    """A union-find structure of places (tensor, dimension): all that run along the same index are one class."""

    def __init__(self) -> None:
        self._parent: dict[DimensionPlace, DimensionPlace] = {}

    def find(self, place: DimensionPlace) -> DimensionPlace:
        """Return the place that represents the class of a place."""
        path = []
        while self._parent.get(place, place) != place:
            path.append(place)
            place = self._parent[place]
        for p in path:
            self._parent[p] = place
        return place

    def join(self, places: Iterable[DimensionPlace]) -> None:
        """Merge the classes of these places into one."""
        first, *others = [self.find(p) for p in places]
        for other in others:
            if other != first:
                self._parent[other] = first


class Reading(NamedTuple):
    """A block as a pattern matches it: operands and result by tensor name, with their labels."""

    operands: tuple[str, ...]
    result: str
    labels: Labeled


def unified(blocks: Sequence[Reading]) -> Classes:
    """Compute the classes of all dimensions that the blocks' labels unify."""
    classes = Classes()
    for block in blocks:
        places: dict[str, list[DimensionPlace]] = {}
        for tensor, labels in (*zip(block.operands, block.labels.reads, strict=True), _result(block)):
            for k, label in enumerate(labels):
                if label:
                    places.setdefault(label, []).append((tensor, k))
        for tied in places.values():
            classes.join(tied)
    return classes


def _result(block: Reading) -> tuple[str, Labels]:
    return block.result, block.labels.written


def occurrences(
    blocks: Sequence[Reading], classes: Classes
) -> dict[DimensionPlace, frozenset[tuple[int, int]]]:
    """Map each class to where it occurs: (block, operand), (block, -1) for the result, (block, -2) if whole.

    Classes with equal occurrences behave alike everywhere: they are one variable of a law.
    """
    found: dict[DimensionPlace, set[tuple[int, int]]] = {}
    for n, block in enumerate(blocks):
        reads = (*zip(block.operands, block.labels.reads, strict=True), _result(block))
        for k, (tensor, labels) in enumerate(reads):
            for position, label in enumerate(labels):
                if not label:
                    continue
                seen = found.setdefault(classes.find((tensor, position)), set())
                seen.add((n, k if k < len(block.operands) else -1))
                if label in block.labels.whole:
                    seen.add((n, -2))
    return {place: frozenset(seen) for place, seen in found.items()}
