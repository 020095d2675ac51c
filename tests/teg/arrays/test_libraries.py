"""Tests of the choice of an array library, and of what only libraries other than numpy can get wrong."""

import numpy as np
import pytest

from tapestry.teg.arrays import NUMPY, arrays_named, arrays_of
from tapestry.teg.arrays.randomness import random_bits, random_uniform
from tapestry.teg.dtypes import NAMES, numpy_dtype

TORCH_LACKS = ("float4_e2m1fn", "int4", "uint4", "int2", "uint2")


@pytest.fixture
def torch_arrays():
    pytest.importorskip("torch")
    return arrays_named("torch")


@pytest.fixture
def jax_arrays():
    pytest.importorskip("jax")
    return arrays_named("jax")


def test_a_library_is_named_or_found_by_an_array(torch_arrays):
    assert arrays_named("numpy") is NUMPY is arrays_of(np.zeros(3))
    assert arrays_of(torch_arrays.full((2,), 0, "int8")) is torch_arrays
    with pytest.raises(ValueError, match=r"array library 'torhc'.*torch"):
        arrays_named("torhc")


@pytest.mark.parametrize("name", NAMES)
def test_torch_keeps_every_element_type_it_has(torch_arrays, name, rng):
    given = rng.integers(0, 2, (3, 4)).astype(numpy_dtype(name)).T
    if name in TORCH_LACKS:
        with pytest.raises(ValueError, match=f"torch has no element type {name}"):
            torch_arrays.from_numpy(given)
        return
    held = torch_arrays.from_numpy(given)
    back = torch_arrays.to_numpy(held)
    assert torch_arrays.dtype_of(held) == name
    assert back.dtype == given.dtype
    assert back.tobytes() == given.tobytes()


def test_jax_keeps_64_bits_and_leaves_its_configuration_alone(jax_arrays):
    import jax

    given = np.array([2**40, -1])
    with jax_arrays.computing():
        found = jax_arrays.elementwise("add", jax_arrays.from_numpy(given), 1)
    np.testing.assert_array_equal(jax_arrays.to_numpy(found), given + 1)
    assert not jax.config.jax_enable_x64


@pytest.mark.parametrize("library", ["torch_arrays", "jax_arrays"])
def test_random_numbers_are_the_same_everywhere(library, request):
    xp = request.getfixturevalue(library)
    counter = np.array([0, 1, 2**40, -7])
    with xp.computing():
        held = xp.from_numpy(counter)
        for seed in (3, -1, 2**63 + 5):
            bits, uniform = (xp.elementwise(f"random_{kind}", seed, held) for kind in ("bits", "uniform"))
            np.testing.assert_array_equal(xp.to_numpy(bits), random_bits(seed, counter))
            np.testing.assert_array_equal(xp.to_numpy(uniform), random_uniform(seed, counter))


@pytest.mark.parametrize("library", ["torch_arrays", "jax_arrays"])
def test_of_several_rows_for_a_place_the_last_one_stays(library, request):
    xp = request.getfixturevalue(library)
    base, values = np.zeros((3, 1)), np.arange(1.0, 6.0)[:, None]
    positions = np.array([2, 0, 2, -1, 3])
    with xp.computing():
        made = xp.replace_rows(*map(xp.from_numpy, (base, values, positions)))
    assert xp.to_numpy(made)[:, 0].tolist() == [2, 0, 3]


@pytest.mark.parametrize("library", ["torch_arrays", "jax_arrays"])
def test_integers_divided_by_zero_are_zero_and_nan_has_no_sign(library, request):
    xp = request.getfixturevalue(library)
    a = np.array([7, -7, 3], np.int32)
    b = np.array([2, 2, 0], np.int32)
    with xp.computing():
        given = [xp.from_numpy(x) for x in (a, b)]
        for function in ("div", "mod", "fmod", "floor_div"):
            with NUMPY.computing():
                wanted = NUMPY.elementwise(function, a, b)
            np.testing.assert_array_equal(xp.to_numpy(xp.elementwise(function, *given)), wanted, function)
        sign = xp.elementwise("sign", xp.from_numpy(np.array([np.nan, -2.0])))
    np.testing.assert_array_equal(xp.to_numpy(sign), [np.nan, -1])


@pytest.mark.parametrize("library", ["torch_arrays", "jax_arrays"])
def test_positions_outside_are_refused(library, request):
    xp = request.getfixturevalue(library)
    with pytest.raises(ValueError, match=r"indices must lie in \[-3, 3\), not in \[-1, 3\]"):
        xp.checked(xp.from_numpy(np.array([3, -1])), -3, 3)
