"""Integers by device: plain where all agree, formulas of a position where they grow evenly, else tables."""

import numpy as np
import pytest

from tapestry.teg.exporters.spmd.per_rank import NumberTexts
from tapestry.teg.sharding.mesh_shape import MeshShape

MESH = MeshShape.of(node=2, gpu=2)
EVERYWHERE = np.ones(4, bool)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([7, 7, 7, 7], "7"),
        ([0, 5, 0, 5], "5 * GPU"),
        ([3, 3, 11, 11], "8 * NODE + 3"),
        ([0, 1, 2, 3], "NODE_GPU"),
        ([4, 3, 4, 3], "4 - GPU"),
        ([9, 7, 5, 3], "9 - 2 * NODE_GPU"),
    ],
)
def test_even_numbers_are_formulas_of_the_position_that_decides_them(values: list[int], text: str) -> None:
    assert NumberTexts(MESH).text(np.array(values), EVERYWHERE) == text


def test_uneven_numbers_are_looked_up_in_one_table() -> None:
    numbers = NumberTexts(MESH)
    assert numbers.text(np.array([8, 8, 8, 2]), EVERYWHERE) == "PART_0"
    assert numbers.text(np.array([8, 8, 8, 2]), EVERYWHERE) == "PART_0"
    assert numbers.tables == {"(8, 8, 8, 2)[NODE_GPU]": "PART_0"}


def test_devices_that_never_read_a_number_do_not_matter() -> None:
    active = np.array([True, True, True, False])
    assert NumberTexts(MESH).text(np.array([6, 6, 6, 0]), active) == "6"
    assert NumberTexts(MESH).text(np.array([0, 6, 12, 99]), active) == "6 * NODE_GPU"
