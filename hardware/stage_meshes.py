"""The meshes of the stages of a plan: parts of one mesh, whose devices may be of different kinds.

Imported by those who count or run plans.
"""

from __future__ import annotations

from dataclasses import dataclass

from tapestry.hardware.mesh import Mesh
from tapestry.teg.sharding.stages import StageLayout


@dataclass(frozen=True)
class StageMeshes:
    """The meshes of stages: `kinds`, and by stage which of them it has.

    `common` has the shape of each, and is in no figure better than any.
    """

    common: Mesh
    kinds: tuple[Mesh, ...]
    kind_of: tuple[int, ...]

    def of(self, stage: int) -> Mesh:
        """Return the mesh of a stage."""
        return self.kinds[self.kind_of[stage]]

    def between(self, source: int, target: int) -> Mesh:
        """Return the mesh whose figures hold for a copy from one stage to another: the slower ones of the two."""
        return self.of(source) if self.kind_of[source] == self.kind_of[target] else self.common


def meshes_of_stages(mesh: Mesh, layout: StageLayout | None) -> StageMeshes:
    """Return the meshes of the stages that lie so in a mesh; without stages, all of it is one.

    Raises:
        ValueError: the layout is of a mesh of another shape.
    """
    if layout is None:
        return StageMeshes(mesh, (mesh,), (0,))
    if mesh.axis_sizes != layout.mesh_shape.axes:
        raise ValueError(f"stages lie in a mesh of {layout.mesh_shape.axes}, not in one of {mesh.axis_sizes}")
    axes = layout.stage_mesh_shape.axes
    common = mesh.homogeneous.part(axes)
    if not mesh.nodes:
        return StageMeshes(common, (common,), (0,) * layout.count)
    size = axes[0][1]
    own = [mesh.part(axes, int(place[0]) * size) for place in layout.places]
    kinds = tuple(dict.fromkeys(own))
    return StageMeshes(common if len(kinds) > 1 else kinds[0], kinds, tuple(map(kinds.index, own)))
