"""Tests of mesh views: neighboring sub-axes are joined until at most three logical axes are left."""

import pytest

from tapestry.costmodel.view import LOGICAL_AXES, default_view, groupings, view_with
from tapestry.hardware import load_mesh, mesh_names
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.strategy import Strategy
from tapestry.teg.sharding.text import parse_strategy


@pytest.mark.parametrize(
    ("mesh_shape", "axes"),
    [
        (MeshShape.of(gpu=1), ()),
        (MeshShape.of(gpu=7), (("gpu.0",),)),
        (MeshShape.of(gpu=8), (("gpu.0",), ("gpu.1",), ("gpu.2",))),
        (MeshShape.of(gpu=16), (("gpu.0",), ("gpu.1",), ("gpu.2", "gpu.3"))),
        (MeshShape.of(node=2, gpu=8), (("node.0",), ("gpu.0",), ("gpu.1", "gpu.2"))),
        (MeshShape.of(x=4, y=4), (("x.0",), ("x.1",), ("y.0", "y.1"))),
        # different axes are joined only when nothing else is left to join
        (MeshShape.of(a=2, b=3, c=2, d=5), (("a.0",), ("b.0", "c.0"), ("d.0",))),
    ],
    ids=str,
)
def test_which_sub_axes_are_joined(mesh_shape: MeshShape, axes: tuple[tuple[str, ...], ...]) -> None:
    view = default_view(mesh_shape)
    assert view.axes == axes
    assert [view.size(k) for k in range(len(axes))] == [mesh_shape.size_of(a) for a in axes]


@pytest.mark.parametrize(
    "shape", [*(load_mesh(n).axis_sizes for n in mesh_names()), (("node", 32), ("gpu", 8))]
)
def test_a_view_covers_its_mesh_in_order(shape: tuple[tuple[str, int], ...]) -> None:
    mesh_shape = MeshShape(shape)
    view = default_view(mesh_shape)
    assert len(view.axes) <= LOGICAL_AXES == 3
    assert [a for group in view.axes for a in group] == [s.name for s in mesh_shape.sub_axes]


def test_groupings_are_all_ways_to_join_neighbors() -> None:
    mesh_shape = MeshShape.of(node=4, gpu=8)
    found = list(groupings(mesh_shape, 3))
    assert len(found) == len({view.axes for view in found}) == 6  # ways to cut five sub-axes twice
    assert default_view(mesh_shape) in found
    for view in found:
        assert [a for group in view.axes for a in group] == [s.name for s in mesh_shape.sub_axes]
        assert view == view_with(mesh_shape, view.cuts)
    assert [view.axes for view in groupings(MeshShape.of(gpu=4), 3)] == [(("gpu.0",), ("gpu.1",))]


def test_a_view_has_the_strategies_along_its_axes() -> None:
    view = view_with(MeshShape.of(node=4, gpu=8), (2, 3))
    for text, has in (
        ("(node.0*node.1, gpu.0, -)", True),
        ("(node.0*node.1*gpu.0, -, gpu.1*gpu.2)", True),
        ("(node.0, -, -)", False),
        ("(gpu.1, -, -)", False),
        ("(gpu.0*gpu.1*gpu.2, node.0*node.1, -)", True),
    ):
        assert view.has(parse_strategy(text)) == has, text
    assert view.has(Strategy())
