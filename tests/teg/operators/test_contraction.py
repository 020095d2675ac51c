from itertools import product

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapestry.teg.arrays.numpy_contraction import contract_pair
from tapestry.teg.builder import define
from tapestry.teg.evaluate import run_block
from tapestry.teg.graph import TensorType, attributes
from tapestry.teg.operators import operator_named

SIZES = {"a": 2, "b": 3, "c": 4, "d": 1, "e": 2}
NAMES = st.lists(st.sampled_from(sorted(SIZES)), unique=True, max_size=4).map(tuple)


def contracted(labels, output, *inputs):
    definition, outputs = define(
        "contract",
        attributes(labels=labels, output=output),
        [TensorType(a.shape, a.dtype.name) for a in inputs],
    )
    return run_block(definition, None, inputs, outputs)[0]


def naive(labels, output, *inputs):
    """Compute the sum over all names, point by point."""
    sizes = {
        n: s for names, a in zip(labels, inputs, strict=True) for n, s in zip(names, a.shape, strict=True)
    }
    result = np.zeros([sizes[n] for n in output])
    for point in product(*(range(s) for s in sizes.values())):
        at = dict(zip(sizes, point, strict=True))
        term = 1.0
        for names, a in zip(labels, inputs, strict=True):
            term *= a[tuple(at[n] for n in names)]
        result[tuple(at[n] for n in output)] += term
    return result


@given(st.data())
def test_any_contraction_is_the_sum_over_its_names(data):
    labels = tuple(data.draw(st.lists(NAMES, min_size=1, max_size=3)))
    known = sorted({n for names in labels for n in names})
    output = tuple(data.draw(st.lists(st.sampled_from(known), unique=True))) if known else ()
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    inputs = [rng.standard_normal([SIZES[n] for n in names]) for names in labels]

    got = contracted(labels, output, *inputs)

    np.testing.assert_allclose(got, naive(labels, output, *inputs), rtol=1e-12, atol=1e-12)


def test_strided_operands_give_equal_results(rng):
    a, b = rng.standard_normal((6, 8, 10)), rng.standard_normal((10, 8, 14))
    views = a[::2, ::-1, 1::3], b[1::3, ::-1, ::2]

    got = contract_pair(views[0], ("i", "j", "k"), views[1], ("k", "j", "n"), ("n", "i"))

    np.testing.assert_allclose(got, np.einsum("ijk,kjn->ni", *views), rtol=1e-12)


def test_half_types_are_accumulated_in_float32():
    ones = np.ones((1, 4096), ml_dtypes.bfloat16)

    got = contracted((("i", "k"), ("j", "k")), ("i", "j"), ones, ones)

    assert got.dtype == ml_dtypes.bfloat16
    assert float(got[0, 0]) == 4096


def test_integers_are_exact(rng):
    a, b = rng.integers(-(2**40), 2**40, (3, 5)), rng.integers(-(2**20), 2**20, (5, 2))

    np.testing.assert_array_equal(contracted((("m", "k"), ("k", "n")), ("m", "n"), a, b), a @ b)


def test_index_dimensions_are_the_output_then_the_sums_with_their_roles():
    attrs = attributes(labels=(("b", "s", "h", "d"), ("b", "t", "h", "d")), output=("b", "h", "s", "t"))
    types = (TensorType((2, 5, 3, 7), "float32"), TensorType((2, 6, 3, 7), "float32"))

    definition, outputs = define("contract", attrs, types)
    work = operator_named("contract").work(definition, types, outputs)

    assert [(d.name, d.size, d.kind) for d in definition.signature.dims] == [
        ("b", 2, "parallel"),
        ("h", 3, "parallel"),
        ("s", 5, "parallel"),
        ("t", 6, "parallel"),
        ("d", 7, "sum"),
    ]
    assert work.roles == {"b": "batch", "h": "batch", "s": "m", "t": "n", "d": "k"}
    assert (work.kind, work.flops) == ("contraction", 2.0)


@pytest.mark.parametrize(
    ("labels", "output", "dtype", "message"),
    [
        ((("m", "k"), ("i", "n")), ("z",), "float32", "names among \\['m', 'k', 'i', 'n'\\]"),
        ((("m", "k"), ("m", "k")), ("m",), "float32", "'k' has size 3 before and 4 in input 1"),
        ((("m", "m"), ("k", "n")), ("m",), "float32", "a different name per dimension"),
        ((("m", "k"),), ("m",), "float32", "one tuple for each of 2 inputs"),
        ((("m", "k"), ("i", "n")), ("m",), "bool", "does not take bool; cast first"),
    ],
)
def test_a_contraction_says_what_is_wrong(labels, output, dtype, message):
    types = (TensorType((2, 3), dtype), TensorType((2, 4), dtype))

    with pytest.raises(ValueError, match=message):
        define("contract", attributes(labels=labels, output=output), types)
