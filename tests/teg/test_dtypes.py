import numpy as np
import pytest

from tapestry.teg.arrays import NUMPY
from tapestry.teg.dtypes import EXTENDED, NAMES, bounds, is_float, is_integer, item_bytes, numpy_dtype
from tapestry.teg.operators.monoids import combine, identity, reduce_axes

ORDERED = [name for name in NAMES if is_float(name) or is_integer(name)]


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("int4", -8, 7),
        ("uint2", 0, 3),
        ("int64", -(2**63), 2**63 - 1),
        ("float8_e4m3fn", -448.0, 448.0),
        ("float8_e4m3fnuz", -240.0, 240.0),
        ("float4_e2m1fn", -6.0, 6.0),
        ("float16", -65504.0, 65504.0),
    ],
)
def test_bounds_are_the_outermost_numbers(name, low, high):
    assert bounds(name) == (low, high)
    assert type(bounds(name)[1]) is (int if is_integer(name) else float)


@pytest.mark.parametrize("name", ORDERED)
@pytest.mark.parametrize("monoid", ["max", "min"])
def test_the_identity_of_an_extremum_changes_no_element(name, monoid):
    values = np.array([1, 2], numpy_dtype(name)) if name != "int2" else np.array([-1, 1], numpy_dtype(name))
    neutral = np.array([identity(monoid, name)] * 2).astype(numpy_dtype(name))

    np.testing.assert_array_equal(combine(NUMPY, monoid, neutral, values).astype(float), values.astype(float))


def test_short_types_are_summed_in_wider_ones():
    assert float(reduce_axes(NUMPY, "sum", np.full(20, 1.0, EXTENDED["float8_e4m3fnuz"]), (0,))) == 20
    assert int(reduce_axes(NUMPY, "sum", np.full(20, 7, EXTENDED["int4"]), (0,))) == 140


def test_types_below_a_byte_take_a_byte():
    assert {item_bytes(n) for n in ("int4", "uint4", "int2", "uint2", "float4_e2m1fn")} == {1}
