"""Tests of the forms of values and arrays in documents: they keep type and bits."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapestry.teg.dtypes import NAMES
from tapestry.teg.encoding import decode_array, decode_value, encode_array, encode_value
from tapestry.teg.graph import TensorType
from tests.teg.documents import rounded
from tests.teg.graphs import values_of

attribute_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)


@given(attribute_values)
def test_attribute_values_keep_type_and_bits(value: Any) -> None:
    for form in (encode_value(value, "$"), rounded(encode_value(value, "$"))):
        assert repr(decode_value(json.loads(json.dumps(form, allow_nan=False)), "$")) == repr(value)


def test_numbers_that_json_tools_confuse_are_tagged() -> None:
    values = (1, 1.0, True, 0.5, -0.0, math.nan, -math.inf, 2**53, 1e300)
    assert encode_value(values, "$") == [
        *(1, {"float": 1.0}, True, 0.5, {"float": "-0.0"}, {"float": "nan"}, {"float": "-inf"}),
        *({"int": "9007199254740992"}, {"float": 1e300}),
    ]


@pytest.mark.parametrize("dtype", NAMES)
def test_arrays_of_every_element_type_come_back_bit_by_bit(dtype: str) -> None:
    array = values_of(TensorType((3, 4), dtype), 0)
    form = encode_array(array, "$")
    found = decode_array(form["dtype"], tuple(form["shape"]), form["base64"], "$")
    assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert not found.flags.writeable


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=">f4").reshape(3, 4),
        np.arange(12, dtype=np.int16).reshape(3, 4).T,
        np.arange(12)[::-2],
        np.float64(-0.0),
        np.empty((0, 3), np.float32),
        np.array([math.nan, -math.nan, math.inf]),
    ],
)
def test_arrays_of_any_layout_are_stored_little_endian_and_dense(array: np.ndarray) -> None:
    array = np.asarray(array)
    form = encode_array(array, "$")
    found = decode_array(form["dtype"], tuple(form["shape"]), form["base64"], "$")
    assert found.shape == array.shape
    assert found.tobytes() == np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
