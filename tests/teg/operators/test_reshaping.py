import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapestry.teg.builder import define
from tapestry.teg.evaluate import run_block
from tapestry.teg.graph import TensorType, attributes
from tapestry.teg.operators.reshaping import DimensionGroup, groups
from tapestry.teg.zspace import ZRange

SIZES = st.lists(st.integers(1, 6), max_size=4)


def reshaped(shape, wanted):
    return define("reshape", attributes(shape=wanted), (TensorType(shape, "int64"),))


@pytest.mark.parametrize(
    ("shape", "wanted", "sizes"),
    [
        ((2, 320, 64, 64), (2, 32, 40960), [2, 32]),  # a group normalization of 32 groups
        ((2048, 27, 27), (2048, 729), [2048, 27]),
        ((24,), (2, 3, 4), [2]),
        ((4, 6), (6, 4), [2]),
        ((4, 6), (3, 8), []),
        ((1, 4, 1, 6), (4, 6, 1), [4, 6]),
        ((0, 3), (5, 0), []),
    ],
)
def test_common_outer_runs_are_index_dimensions(shape, wanted, sizes):
    definition, _ = reshaped(shape, wanted)

    assert [d.size for d in definition.signature.dims] == sizes


@given(SIZES, SIZES, st.data())
def test_groups_partition_both_shapes_and_hold_the_same_elements(outer, inner, data):
    # Given the same number of elements in two shapes
    shape = (*outer, *inner)
    wanted = (*data.draw(st.permutations(outer)), *data.draw(st.permutations(inner)))

    found = list(groups(shape, wanted))

    assert [k for g in found for k in range(*g.inputs)] == list(range(len(shape)))
    assert [k for g in found for k in range(*g.outputs)] == list(range(len(wanted)))
    assert all(math.prod(shape[slice(*g.inputs)]) == math.prod(wanted[slice(*g.outputs)]) for g in found)


def test_neighbors_of_size_one_make_no_group_of_their_own_at_the_end():
    assert list(groups((6,), (2, 3, 1))) == [DimensionGroup((0, 1), (0, 3))]


def test_a_part_is_the_reshape_of_the_part_it_reads():
    x = np.arange(2 * 12 * 3).reshape(2, 12, 3)
    definition, outputs = reshaped(x.shape, (2, 4, 9))

    (part,) = run_block(definition, ZRange((1, 2), (2, 4)), [x], outputs)

    np.testing.assert_array_equal(part, x.reshape(2, 4, 9)[1:2, 2:4])


def test_another_number_of_elements_is_refused():
    with pytest.raises(ValueError, match="has 24 elements, \\(5, 5\\) has 25"):
        reshaped((4, 6), (5, 5))
