"""Tests of the order among kinds of exchanges on every axis of the catalog, and of its one exception."""

from __future__ import annotations

import numpy as np
import pytest

from tapestry.hardware import MeshAxis, load_mesh, mesh_names
from tapestry.hardware.timing import step_ticks
from tapestry.hardware.timing.collectives import is_measured

SIZES = np.unique((2.0 ** np.arange(0, 34, 0.5)).astype(np.int64))  # bytes received
AXES = [
    pytest.param(axis, id=f"{name}-{axis.name}") for name in mesh_names() for axis in load_mesh(name).axes
]


def groups(axis: MeshAxis) -> list[int]:
    return sorted({2, axis.size // 2, axis.size} - {0, 1})


@pytest.mark.parametrize("axis", AXES)
def test_half_an_all_reduce_takes_no_longer_than_the_whole(axis: MeshAxis) -> None:
    for members in groups(axis):
        whole = step_ticks(axis, "all_reduce", members, 2 * SIZES)
        for half in ("all_gather", "reduce_scatter"):
            assert (step_ticks(axis, half, members, SIZES) <= whole).all()


@pytest.mark.parametrize("axis", AXES)
def test_pieces_take_no_less_than_an_all_gather_unless_they_are_measured(axis: MeshAxis) -> None:
    for members in groups(axis):
        gathered = step_ticks(axis, "all_gather", members, SIZES)
        assert (step_ticks(axis, "fetch", members, SIZES) >= gathered).all()
        if not is_measured(axis, "all_to_all"):
            assert (step_ticks(axis, "all_to_all", members, SIZES) >= gathered).all()


def test_a_measured_all_to_all_may_take_less_than_a_measured_all_gather() -> None:
    # Published for two chips of a board, 4 KiB and 1 MiB: 4.46 and 7.09 us, 87.3 and 89.2 us.
    (axis,) = load_mesh("n300").axes
    shares = [
        step_ticks(axis, "all_to_all", 2, n // 2) / step_ticks(axis, "all_gather", 2, n // 2)
        for n in (4096, 2**20)
    ]
    assert shares == pytest.approx([4.46 / 7.09, 87.27 / 89.16], abs=0.01)


def test_the_order_is_broken_on_the_meshes_that_the_page_names() -> None:
    broken = {
        name
        for name in mesh_names()
        for axis in load_mesh(name).axes
        for members in groups(axis)
        if (
            step_ticks(axis, "all_to_all", members, SIZES) < step_ticks(axis, "all_gather", members, SIZES)
        ).any()
    }
    assert broken == {"n300", "t3000-ring"}  # docs/meshes.md names them
