"""Degrees of parallelism that all plans of a space have: parts of the batch, and of every product beside it.

Imported by plan spaces, and by the search, which chooses views in which there are such plans.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import NamedTuple

from tapestry.costmodel.view import LOGICAL_AXES, View, default_view, groupings
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.strategy import Strategy
from tapestry.teg.signature import PARALLEL, Signature


@dataclass(frozen=True)
class FixedDegrees:
    """The numbers of parts into which the batch, and every product along its other dimensions, is split; None: any.

    Data parallelism, and tensor parallelism. A block whose dimensions are too small has the next smaller number.
    """

    data: int | None = None
    tensor: int | None = None

    def __bool__(self) -> bool:
        return self.data is not None or self.tensor is not None

    def kept(self, strategies: Sequence[Strategy], block: BatchedBlock, mesh_shape: MeshShape) -> list[int]:
        """Return the numbers of the strategies of a block that have these degrees."""
        kept, (signature, batch, is_apart) = list(range(len(strategies))), block
        if signature is None:
            return kept
        parts = [[mesh_shape.size_of(split.axes) for split in strategy.splits] for strategy in strategies]
        if self.data is not None and batch is not None:
            kept = _nearest(kept, [each[batch] for each in parts], self.data)
        if self.tensor is not None and not is_apart and is_product(signature):
            beside = [prod(n for k, n in enumerate(each) if k != batch) for each in parts]
            kept = _nearest(kept, beside, self.tensor)
        return kept


class BatchedBlock(NamedTuple):
    """A block with its index dimension along the batch, None for none; `is_apart`: it has none, but other blocks do."""

    signature: Signature | None
    batch: int | None
    is_apart: bool


NO_DEGREES = FixedDegrees()


def _nearest(kept: Sequence[int], found: Sequence[int], wanted: int) -> list[int]:
    """Return those of `kept` that have the greatest number of parts up to the wanted one."""
    best = max((found[k] for k in kept if found[k] <= wanted), default=1)
    return [k for k in kept if found[k] == best]


def is_product(signature: Signature) -> bool:
    """Return whether a block is a matrix product: two inputs share a sum, and one has a dimension of its own."""
    reads = [
        {k for k in range(len(signature.dims)) if any(row[k] for row in p.start.matrix)}
        for p in signature.inputs
    ]
    sums = {k for k, dim in enumerate(signature.dims) if dim.kind == "sum"}
    own = {k for k, dim in enumerate(signature.dims) if dim.kind == PARALLEL}
    return any(a & b & sums and (a ^ b) & own for a, b in combinations(reads, 2))


def view_with_degrees(mesh_shape: MeshShape, degrees: FixedDegrees) -> View | None:
    """Return a view in which the axes can be divided so: products along the last ones if possible; None: there is none.

    It is the default one unless another is better.
    """
    finest = default_view(mesh_shape)
    counts = range(min(LOGICAL_AXES, len(mesh_shape.sub_axes)), 0, -1)
    others = (view for count in counts for view in groupings(mesh_shape, count))
    found = [(place, k, view) for k, view in enumerate((finest, *others)) for place in _places(view, degrees)]
    return min(found, key=lambda each: each[:2])[2] if found else None


def view_of(mesh_shape: MeshShape, degrees: FixedDegrees) -> View:
    """Return the view with which a search begins on a mesh that can be divided by these degrees."""
    return (view_with_degrees(mesh_shape, degrees) if degrees else None) or default_view(mesh_shape)


def _places(view: View, degrees: FixedDegrees) -> Iterator[int]:
    """Yield how far from the end of a view the axes of products are, for each way to have these degrees."""
    axes = range(len(view.axes))
    ways = [group for count in range(len(view.axes) + 1) for group in combinations(axes, count)]
    for beside in ways:
        for batch in ways:
            sizes = (prod(view.size(a) for a in batch), prod(view.size(a) for a in beside))
            are_alike = all(
                n is None or n == size for n, size in zip((degrees.data, degrees.tensor), sizes, strict=True)
            )
            if not set(beside) & set(batch) and are_alike:
                yield sum(a not in beside for a in range(min(beside), len(view.axes))) if beside else 0


def degrees_fault(degrees: FixedDegrees, mesh_shape: MeshShape) -> str:
    """Return why no plan on these devices has the degrees; empty: one has."""
    if not degrees or view_with_degrees(mesh_shape, degrees) is not None:
        return ""
    wanted = " and ".join(
        f"{word} {count}"
        for word, count in (("data", degrees.data), ("tensor", degrees.tensor))
        if count is not None
    )
    axes = ", ".join(f"{name}:{size}" for name, size in mesh_shape.axes)
    factors = ", ".join(str(mesh_shape.size_of((sub.name,))) for sub in mesh_shape.sub_axes)
    return (
        f"the axes {axes} cannot be divided for {wanted}: degrees are products of different ones of {factors}"
    )
