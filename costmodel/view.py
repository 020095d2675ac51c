"""Views: each regroups a mesh's sub-axes into at most three logical axes, over which strategies are enumerated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, combinations, pairwise
from math import prod

from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.strategy import Strategy

LOGICAL_AXES = 3


@dataclass(frozen=True)
class View:
    """Logical axes, slowest first; each is an ordered tuple of sub-axes that always split together."""

    mesh_shape: MeshShape
    axes: tuple[tuple[str, ...], ...]

    def size(self, axis: int) -> int:
        return self.mesh_shape.size_of(self.axes[axis])

    @property
    def cuts(self) -> frozenset[int]:
        """The numbers of the sub-axes, in mesh order, that begin a logical axis after the first."""
        ends = accumulate(len(group) for group in self.axes)
        return frozenset(ends) - {len(self.mesh_shape.sub_axes)}

    def has(self, strategy: Strategy) -> bool:
        """Return whether every split of a strategy is along whole logical axes."""
        first = {group[0]: group for group in self.axes}
        for split in strategy.splits:
            axes = split.axes
            while axes:
                group = first.get(axes[0], ())
                if not group or axes[: len(group)] != group:
                    return False
                axes = axes[len(group) :]
        return True


def default_view(mesh_shape: MeshShape) -> View:
    """Build the finest view: neighboring sub-axes are joined, within a mesh axis first, until three are left."""
    groups: list[tuple[str, ...]] = [(s.name,) for s in mesh_shape.sub_axes]
    owner = {s.name: s.axis for s in mesh_shape.sub_axes}
    while len(groups) > LOGICAL_AXES:
        pairs = range(len(groups) - 1)

        def key(k: int) -> tuple[bool, int, int]:
            joined = (*groups[k], *groups[k + 1])
            return len({owner[a] for a in joined}) > 1, prod(mesh_shape.size_of((a,)) for a in joined), -k

        k = min(pairs, key=key)
        groups[k : k + 2] = [(*groups[k], *groups[k + 1])]
    return View(mesh_shape, tuple(groups))


def groupings(mesh_shape: MeshShape, axes: int) -> Iterator[View]:
    """Yield every view that joins neighboring sub-axes into so many logical axes, or into as many as there are."""
    names = [sub.name for sub in mesh_shape.sub_axes]
    for cuts in combinations(range(1, len(names)), min(axes, len(names)) - 1):
        yield view_with(mesh_shape, cuts)


def view_with(mesh_shape: MeshShape, cuts: Iterable[int]) -> View:
    """Build the view whose logical axes after the first begin with the sub-axes that `cuts` numbers."""
    names = [sub.name for sub in mesh_shape.sub_axes]
    ends = pairwise((0, *sorted(cuts), len(names)))
    return View(mesh_shape, tuple(tuple(names[first:last]) for first, last in ends if first < last))
