import math
from statistics import NormalDist

import ml_dtypes
import numpy as np
import pytest

from tapestry.teg.arrays.error_function import erf
from tapestry.teg.builder import define
from tapestry.teg.evaluate import run_block
from tapestry.teg.graph import TensorType, attributes
from tapestry.teg.operators.cells import CELL_FUNCTIONS, cell_flops, inputs_of, separate_work, substitute
from tapestry.teg.zspace import ZRange

X, Y, C = ("input", 0), ("input", 1), ("input", 2)


def hurwitz_zeta(s: float, q: float) -> float:
    """Compute sums of powers, the rest by Euler and Maclaurin (Abramowitz and Stegun 23.1.30)."""
    n = q + 30
    terms = sum((q + k) ** -s for k in range(30))
    rest = n ** (1 - s) / (s - 1) + n**-s / 2
    rest += s * n ** (-s - 1) / 12 - s * (s + 1) * (s + 2) * n ** (-s - 3) / 720
    return terms + rest + s * (s + 1) * (s + 2) * (s + 3) * (s + 4) * n ** (-s - 5) / 30240


def digamma(x: float) -> float:
    """Compute the asymptotic series far out (Abramowitz and Stegun 6.3.18), reached by the recurrence."""
    steps = [x + k for k in range(30)]
    y = x + 30
    series = sum(b / y**n for n, b in ((2, 1 / 12), (4, -1 / 120), (6, 1 / 252), (8, -1 / 240)))
    return math.log(y) - 0.5 / y - series - sum(1 / s for s in steps)


def splitmix(seed: int, counter: int) -> int:
    """Compute 64 bits by the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), on unbounded integers."""
    word, golden = 2**64 - 1, 0x9E3779B97F4A7C15

    def mixed(z: int) -> int:
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & word
        z = (z ^ z >> 27) * 0x94D049BB133111EB & word
        return z ^ z >> 31

    random_state = mixed(seed + golden & word)
    return mixed(mixed(counter * golden + random_state & word) ^ random_state)


# What each function means, on Python numbers.
MEANINGS = {
    "identity": lambda a: a,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "mod": lambda a, b: a % b,
    "fmod": math.fmod,
    "pow": math.pow,
    "neg": lambda a: -a,
    "abs": abs,
    "sign": lambda a: (a > 0) - (a < 0),
    "square": lambda a: a * a,
    "sqrt": math.sqrt,
    "rsqrt": lambda a: 1 / math.sqrt(a),
    "reciprocal": lambda a: 1 / a,
    "exp": math.exp,
    "expm1": math.expm1,
    "log": math.log,
    "log1p": math.log1p,
    "erf": math.erf,
    "sigmoid": lambda a: 1 / (1 + math.exp(-a)),
    "relu": lambda a: max(a, 0.0),
    "gelu": lambda a: a * NormalDist().cdf(a),
    "gelu_tanh": lambda a: a / (1 + math.exp(-2 * math.sqrt(2 / math.pi) * (a + 0.044715 * a**3))),
    "silu": lambda a: a / (1 + math.exp(-a)),
    "quick_gelu": lambda a: a / (1 + math.exp(-1.702 * a)),
    "softplus": lambda a: math.log1p(math.exp(a)),
    **{
        name: getattr(math, name)
        for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")
    },
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "trunc": math.trunc,
    "min": min,
    "max": max,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "and": lambda a, b: bool(a) and bool(b),
    "or": lambda a, b: bool(a) or bool(b),
    "xor": lambda a, b: bool(a) != bool(b),
    "not": lambda a: not a,
    "bit_and": lambda a, b: a & b,
    "bit_or": lambda a, b: a | b,
    "bit_xor": lambda a, b: a ^ b,
    "bit_not": lambda a: ~a,
    "shift_left": lambda a, b: a << b,
    "shift_right": lambda a, b: a >> b,
    "where": lambda c, a, b: a if c else b,
    "is_nan": math.isnan,
    "is_inf": math.isinf,
    "is_finite": math.isfinite,
    **{name: getattr(math, name) for name in ("acosh", "asinh", "atanh", "atan2", "cbrt", "exp2", "log2")},
    "erf_inv": lambda a: NormalDist().inv_cdf((1 + a) / 2) / math.sqrt(2),
    "lgamma": math.lgamma,
    "digamma": digamma,
    "bessel_i1e": lambda a: (
        math.exp(-a)
        * sum((a / 2) ** (2 * k + 1) / (math.factorial(k) * math.factorial(k + 1)) for k in range(20))
    ),
    "zeta": hurwitz_zeta,
    "random_bits": splitmix,
    "random_uniform": lambda seed, counter: (splitmix(seed, counter) >> 11) / 2**53,
    "polygamma": lambda n, x: math.gamma(n + 1) * hurwitz_zeta(n + 1, x),
    "floor_div": lambda a, b: a // b,
    "round_away": lambda a: math.floor(a + 0.5),
    "next_after": math.nextafter,
    "real": lambda a: a,
    "imag": lambda a: 0.0,
    "conj": lambda a: a,
    "complex": lambda a, b: a,
    "shift_right_logical": lambda a, b: a >> b,
    "popcount": int.bit_count,
    "count_leading_zeros": lambda a: 64 - a.bit_length(),
}
ON_INTEGERS = ("bit_", "shift_", "popcount", "count_", "random_")


def cell(expr, *inputs, dtype=None, index=None):
    """Evaluate the expression over inputs of one common shape with dimensions d0, d1, ..."""
    shape = inputs[0].shape
    names = tuple(f"d{k}" for k in range(len(shape)))
    attrs = attributes(
        expr=expr,
        labels=(names,) * len(inputs),
        dims=tuple(zip(names, shape, strict=True)),
        dtype=dtype or inputs[0].dtype.name,
    )
    definition, outputs = define("cell", attrs, [TensorType(a.shape, a.dtype.name) for a in inputs])
    return run_block(definition, index, inputs, outputs)[0]


def test_every_function_has_a_meaning_here():
    assert set(MEANINGS) == set(CELL_FUNCTIONS)


@pytest.mark.parametrize("name", CELL_FUNCTIONS)
def test_functions_mean_what_their_names_say(name, rng):
    arity = CELL_FUNCTIONS[name].arity
    if name.startswith(ON_INTEGERS):
        arrays = [rng.integers(0, 8, 20) for _ in range(arity)]
    else:
        arrays = [rng.uniform(0.1, 0.9, 20) + (name in ("acosh", "zeta")) for _ in range(arity)]
    expr = (name, *(("input", k) for k in range(arity)))

    got = cell(("real", expr) if name == "complex" else expr, *arrays, dtype="float64")

    wanted = [float(MEANINGS[name](*row)) for row in zip(*(a.tolist() for a in arrays), strict=True)]
    np.testing.assert_allclose(got, wanted, rtol=1e-13, atol=0)


def test_complex_numbers_have_parts():
    a, b = np.array([1.0, -2.0], np.float32), np.array([3.0, np.inf], np.float32)
    made = cell(("complex", ("input", 0), ("input", 1)), a, b, dtype="complex64")
    np.testing.assert_array_equal(cell(("real", X), made, dtype="float32"), a)
    np.testing.assert_array_equal(cell(("imag", ("conj", X)), made, dtype="float32"), -b)


def test_bits_of_negative_numbers():
    value = np.array([-1, -8, 1], np.int32)
    np.testing.assert_array_equal(cell(("popcount", X), value), [32, 29, 1])
    np.testing.assert_array_equal(cell(("count_leading_zeros", X), value), [0, 0, 31])
    np.testing.assert_array_equal(cell(("shift_right_logical", X, ("const", 28)), value), [15, 15, 0])
    as_float = cell(
        ("bitcast", "float32", ("add", X, ("const", 0x3F800000))),
        np.array([0, 1 << 23], np.int32),
        dtype="float32",
    )
    np.testing.assert_array_equal(as_float, np.array([1.0, 2.0], np.float32))


def test_integers_divide_towards_zero():
    a = np.array([7, -7, 7, -7, 0, 6])
    b = np.array([2, 2, -2, -2, 3, -3])

    np.testing.assert_array_equal(cell(("div", X, Y), a, b), [3, -3, -3, 3, 0, -2])


def test_inputs_are_broadcast_and_permuted_by_their_labels(rng):
    a, b = rng.standard_normal((4, 3)), rng.standard_normal((1, 4, 1))
    attrs = attributes(
        expr=("sub", X, Y),
        labels=(("j", "i"), ("", "j", "")),
        dims=(("b", 2), ("i", 3), ("j", 4)),
        dtype="float64",
    )
    types = (TensorType((4, 3), "float64"), TensorType((1, 4, 1), "float64"))

    definition, outputs = define("cell", attrs, types)
    got = run_block(definition, None, (a, b), outputs)[0]

    wanted = a.T - b[0, :, 0]
    np.testing.assert_array_equal(got, np.stack([wanted, wanted]))


def test_coordinates_are_global():
    attrs = attributes(
        expr=("ge", ("index", "row"), ("index", "column")),
        labels=(),
        dims=(("row", 6), ("column", 6)),
        dtype="bool",
    )
    definition, outputs = define("cell", attrs, ())

    part = run_block(definition, ZRange((2, 1), (5, 6)), (), outputs)[0]

    np.testing.assert_array_equal(part, np.tri(6, dtype=bool)[2:5, 1:6])


def test_large_blocks_are_computed_piece_by_piece_with_equal_results(rng):
    a = rng.standard_normal((3, 100, 700)).astype(np.float32)
    expr = ("add", ("mul", X, ("sigmoid", X)), ("cast", "float32", ("index", "d1")))

    got = cell(expr, a)

    wanted = a * np.reciprocal(np.exp(-a) + 1) + np.arange(100, dtype=np.float32)[:, None]
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_constants_do_not_widen_floats(dtype):
    a = np.array([[0.5, 1.0, -3.0]], dtype)
    expr = ("where", ("gt", X, ("const", 0.7)), ("mul", X, ("const", 0.1)), ("const", 2.5))

    got = cell(expr, a)

    assert got.dtype == dtype
    np.testing.assert_array_equal(got, np.where(a > dtype(0.7), a * dtype(0.1), dtype(2.5)))


def test_a_cast_inside_an_expression_rounds_there():
    a = np.array([1.9, -1.9], np.float32)

    np.testing.assert_array_equal(cell(("mul", ("cast", "int32", X), ("const", 0.5)), a), [0.5, -0.5])


def test_small_powers_are_products(rng):
    a = rng.standard_normal(50)

    for exponent in (1, 2, 3, 2.0, 0.5, -1):
        np.testing.assert_allclose(
            cell(("pow", ("abs", X), ("const", exponent)), a), np.abs(a) ** exponent, rtol=1e-14
        )


@pytest.mark.parametrize(("dtype", "units"), [(np.float64, 3), (np.float32, 3)])
def test_the_error_function_is_that_of_the_library(dtype, units):
    x = np.concatenate([np.linspace(-7, 7, 20001), np.geomspace(1e-30, 1, 100)]).astype(dtype)
    wanted = np.array([math.erf(v) for v in x.tolist()])

    assert np.all(np.abs(erf(x) - wanted) <= units * np.spacing(np.abs(wanted).astype(dtype)))
    assert [str(v) for v in erf(np.array([np.nan, np.inf, -np.inf], dtype))] == ["nan", "1.0", "-1.0"]
    assert erf(np.array([1])).dtype == np.float64


def test_flops_count_a_shared_sub_expression_once():
    silu = ("mul", X, ("sigmoid", X))

    assert cell_flops(silu) == 14
    assert cell_flops(("add", silu, silu)) == 15
    assert cell_flops(("cast", "int8", ("const", 1.5))) == 0


def test_functions_apart_read_and_write_each():
    silu = ("mul", X, ("sigmoid", X))
    normalized = ("mul", ("sub", X, Y), ("sqrt", ("add", Y, ("const", 1.0))))

    assert separate_work(silu, [True]) == (2, (1 + 1) + (2 + 1))
    assert separate_work(("relu", X), [True]) == (1, 2)
    assert separate_work(normalized, [True, True]) == (4, 3 + 2 + 2 + 3)
    # what one row decides moves nothing that counts
    assert separate_work(normalized, [True, False]) == (4, (1 + 1) + (1 + 1))


def test_substitution_fuses_expressions():
    outer = ("add", X, ("mul", Y, X))

    fused = substitute(outer, {0: ("exp", ("input", 5)), 1: ("const", 2.0)})

    assert fused == ("add", ("exp", ("input", 5)), ("mul", ("const", 2.0), ("exp", ("input", 5))))
    assert inputs_of(fused) == (5,)
    assert inputs_of(outer) == (0, 1)
    assert substitute(("cast", "int8", C), {}) == ("cast", "int8", C)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"expr": ("tahn", X)}, "there is no cell function 'tahn'; did you mean .*tanh"),
        ({"expr": ("add", X)}, "'add' takes 2 arguments, not 1"),
        ({"expr": ("input", 1)}, "reads input 1, but there are 1"),
        ({"expr": ("index", "z")}, "coordinate of 'z'; dimensions are \\['i', 'j'\\]"),
        ({"expr": ("cast", "int9", X)}, "is none of .*'cast' or 'bitcast', element type"),
        ({"expr": "relu"}, "a tuple that begins with a name, not 'relu'"),
        ({"expr": ("bit_and", X, X)}, "has no meaning on \\['float32'\\]"),
        ({"labels": (("i", "k"),)}, "has labels \\('i', 'k'\\); known"),
        ({"labels": (("i", "i"),)}, "each once at most"),
        ({"labels": (("i", ""),)}, "has no label for size 3; only size 1 is broadcast"),
        ({"labels": ()}, "one tuple for each of 1 inputs"),
        ({"dims": (("i", 2), ("i", 3))}, "\\(name, size\\) with different names"),
    ],
)
def test_a_cell_says_what_is_wrong(change, message):
    attrs = {"expr": X, "labels": (("i", "j"),), "dims": (("i", 2), ("j", 3)), "dtype": "float32"}

    with pytest.raises(ValueError, match=message):
        define("cell", attributes(**{**attrs, **change}), (TensorType((2, 3), "float32"),))
