"""Views: each regroups a mesh's sub-axes into at most three logical axes, over which strategies are enumerated."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tapestry.teg.sharding.mesh_shape import MeshShape

LOGICAL_AXES = 3


@dataclass(frozen=True)
class View:
    """Logical axes, slowest first; each is an ordered tuple of sub-axes that always split together."""

    mesh_shape: MeshShape
    axes: tuple[tuple[str, ...], ...]

    def size(self, axis: int) -> int:
        return self.mesh_shape.size_of(self.axes[axis])


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
