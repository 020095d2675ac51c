"""The functions on elements that make up expressions: names, numpy semantics, flops."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from tapestry.teg.dtypes import EXTENDED
from tapestry.teg.operators.error_function import erf
from tapestry.teg.operators.randomness import random_bits, random_uniform


class CellFunction(NamedTuple):
    """A function on elements: numpy callable, number of arguments, flops per element."""

    call: Callable[..., Any]
    arity: int
    flops: float


def _divide(a: Any, b: Any) -> Any:
    """Divide integers towards zero (ONNX Div), everything else truly."""
    kind = np.result_type(a, b).kind
    if kind not in "iu":
        return np.divide(a, b)
    # fmod keeps the sign of `a`, so what is left divides without rest.
    return np.floor_divide(a, b) if kind == "u" else np.floor_divide(np.subtract(a, np.fmod(a, b)), b)


def _power(a: Any, b: Any) -> Any:
    """Compute `a ** b`; small constant exponents are products, which is what compilers make of them."""
    if isinstance(b, (int, float)) and isinstance(a, np.ndarray) and b in (1, 2, 3):
        return a if b == 1 else a * a if b == 2 else a * a * a
    return np.power(a, b)


def _unsigned(a: Any) -> np.ndarray:
    """View the bits of integers as numbers without sign."""
    array = np.asarray(a)
    return array.view(f"u{array.dtype.name}") if array.dtype.kind == "i" else array


def _shift_right_logical(a: Any, b: Any) -> Any:
    """Shift the bits of integers right; zeros come in from the left."""
    array = np.asarray(a)
    return np.right_shift(_unsigned(array), _unsigned(b)).astype(array.dtype)


def _popcount(a: Any) -> Any:
    return np.bitwise_count(_unsigned(a)).astype(np.asarray(a).dtype)


def _count_leading_zeros(a: Any) -> Any:
    """Count leading zeros: set all bits behind the first one, then count bits."""
    bits, width = _unsigned(a), np.asarray(a).dtype.itemsize * 8
    shift = 1
    while shift < width:
        bits = bits | (bits >> shift)
        shift *= 2
    return (width - np.bitwise_count(bits)).astype(np.asarray(a).dtype)


def _round_away(a: Any) -> Any:
    """Round to the nearest integer, halves away from zero."""
    whole = np.trunc(a)
    return np.where(np.abs(a - whole) >= 0.5, whole + np.sign(a), whole)


def _complex(a: Any, b: Any) -> Any:
    result = np.empty(np.broadcast_shapes(np.shape(a), np.shape(b)), np.result_type(a, b, np.complex64))
    result.real, result.imag = a, b
    return result


def _polygamma(n: Any, x: Any) -> Any:
    """Compute the n-th derivative of digamma (Abramowitz and Stegun 6.4.10), in the elements' own precision."""
    order = np.asarray(n)
    series = np.where(order % 2 == 0, -1, 1) * special.gamma(order + 1) * special.zeta(order + 1, x)
    return np.where(order == 0, special.digamma(x), series)


def _gelu(a: Any) -> Any:
    """Compute a Phi(a) with the normal distribution's Phi (Hendrycks and Gimpel, Gaussian Error Linear Units, 2016)."""
    return a * (0.5 * (1.0 + erf(a * math.sqrt(0.5))))


def _gelu_tanh(a: Any) -> Any:
    """Approximate GELU by a hyperbolic tangent (Hendrycks and Gimpel, section 2)."""
    return a * (0.5 * (1.0 + np.tanh((a + 0.044715 * a * a * a) * math.sqrt(2 / math.pi))))


def _silu(a: Any) -> Any:
    """Compute a sigmoid(a) (ibid.; Ramachandran, Zoph and Le, Searching for Activation Functions, 2017: swish)."""
    with np.errstate(over="ignore"):
        return a / (1.0 + np.exp(-a))


def _quick_gelu(a: Any) -> Any:
    """Approximate GELU by a logistic function, a sigmoid(1.702 a) (Hendrycks and Gimpel, section 2)."""
    with np.errstate(over="ignore"):
        return a / (1.0 + np.exp(-1.702 * a))


def _in_single(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function that does not support short float types to compute them in float32."""

    def call(*given: Any) -> Any:
        dtype = next((a.dtype for a in given if hasattr(a, "dtype")), None)
        if dtype is not None and (dtype.name in EXTENDED or dtype == np.float16):
            return function(*(np.asarray(a, np.float32) for a in given)).astype(dtype)
        return function(*given)

    return call


# Flops by McMahon's weights (The Livermore Fortran Kernels, 1986): add, subtract, multiply and compare 1,
# divide and square root 4, exponential and its kin 8.
CELL_FUNCTIONS: Mapping[str, CellFunction] = {
    "identity": CellFunction(lambda a: a, 1, 0),
    "add": CellFunction(np.add, 2, 1),
    "sub": CellFunction(np.subtract, 2, 1),
    "mul": CellFunction(np.multiply, 2, 1),
    "div": CellFunction(_divide, 2, 4),
    "mod": CellFunction(np.mod, 2, 4),
    "fmod": CellFunction(np.fmod, 2, 4),
    "pow": CellFunction(_power, 2, 8),
    "neg": CellFunction(np.negative, 1, 1),
    "abs": CellFunction(np.abs, 1, 1),
    "sign": CellFunction(np.sign, 1, 1),
    "square": CellFunction(np.square, 1, 1),
    "sqrt": CellFunction(np.sqrt, 1, 4),
    "rsqrt": CellFunction(lambda a: np.reciprocal(np.sqrt(a)), 1, 8),
    "reciprocal": CellFunction(np.reciprocal, 1, 4),
    "exp": CellFunction(np.exp, 1, 8),
    "expm1": CellFunction(np.expm1, 1, 8),
    "log": CellFunction(np.log, 1, 8),
    "log1p": CellFunction(np.log1p, 1, 8),
    "erf": CellFunction(erf, 1, 8),
    "sigmoid": CellFunction(lambda a: np.reciprocal(np.add(np.exp(np.negative(a)), 1)), 1, 13),
    "relu": CellFunction(lambda a: np.maximum(a, 0), 1, 1),
    # The units below cost what they cost spelled out.
    "gelu": CellFunction(_in_single(_gelu), 1, 12),
    "gelu_tanh": CellFunction(_in_single(_gelu_tanh), 1, 16),
    "silu": CellFunction(_in_single(_silu), 1, 14),
    "quick_gelu": CellFunction(_in_single(_quick_gelu), 1, 14),
    "softplus": CellFunction(_in_single(lambda a: np.logaddexp(a, 0.0)), 1, 16),
    "sin": CellFunction(np.sin, 1, 8),
    "cos": CellFunction(np.cos, 1, 8),
    "tan": CellFunction(np.tan, 1, 8),
    "asin": CellFunction(np.arcsin, 1, 8),
    "acos": CellFunction(np.arccos, 1, 8),
    "atan": CellFunction(np.arctan, 1, 8),
    "sinh": CellFunction(np.sinh, 1, 8),
    "cosh": CellFunction(np.cosh, 1, 8),
    "tanh": CellFunction(np.tanh, 1, 8),
    "floor": CellFunction(np.floor, 1, 1),
    "ceil": CellFunction(np.ceil, 1, 1),
    "round": CellFunction(np.rint, 1, 1),
    "trunc": CellFunction(np.trunc, 1, 1),
    "min": CellFunction(np.minimum, 2, 1),
    "max": CellFunction(np.maximum, 2, 1),
    "eq": CellFunction(np.equal, 2, 1),
    "ne": CellFunction(np.not_equal, 2, 1),
    "lt": CellFunction(np.less, 2, 1),
    "le": CellFunction(np.less_equal, 2, 1),
    "gt": CellFunction(np.greater, 2, 1),
    "ge": CellFunction(np.greater_equal, 2, 1),
    "and": CellFunction(np.logical_and, 2, 1),
    "or": CellFunction(np.logical_or, 2, 1),
    "xor": CellFunction(np.logical_xor, 2, 1),
    "not": CellFunction(np.logical_not, 1, 1),
    "bit_and": CellFunction(np.bitwise_and, 2, 1),
    "bit_or": CellFunction(np.bitwise_or, 2, 1),
    "bit_xor": CellFunction(np.bitwise_xor, 2, 1),
    "bit_not": CellFunction(np.bitwise_not, 1, 1),
    "shift_left": CellFunction(np.left_shift, 2, 1),
    "shift_right": CellFunction(np.right_shift, 2, 1),
    "where": CellFunction(np.where, 3, 1),
    "is_nan": CellFunction(np.isnan, 1, 1),
    "is_inf": CellFunction(np.isinf, 1, 1),
    "is_finite": CellFunction(np.isfinite, 1, 1),
    "acosh": CellFunction(np.arccosh, 1, 8),
    "asinh": CellFunction(np.arcsinh, 1, 8),
    "atanh": CellFunction(np.arctanh, 1, 8),
    "atan2": CellFunction(np.arctan2, 2, 8),
    "cbrt": CellFunction(np.cbrt, 1, 8),
    "exp2": CellFunction(np.exp2, 1, 8),
    "log2": CellFunction(np.log2, 1, 8),
    "erf_inv": CellFunction(_in_single(special.erfinv), 1, 8),
    "lgamma": CellFunction(_in_single(special.gammaln), 1, 8),
    "digamma": CellFunction(_in_single(special.digamma), 1, 8),
    "bessel_i1e": CellFunction(_in_single(special.i1e), 1, 8),
    "zeta": CellFunction(_in_single(special.zeta), 2, 8),
    "polygamma": CellFunction(_in_single(_polygamma), 2, 8),
    "floor_div": CellFunction(np.floor_divide, 2, 4),
    "round_away": CellFunction(_round_away, 1, 1),
    "next_after": CellFunction(np.nextafter, 2, 1),
    "real": CellFunction(np.real, 1, 0),
    "imag": CellFunction(np.imag, 1, 0),
    "conj": CellFunction(np.conjugate, 1, 1),
    "complex": CellFunction(_complex, 2, 0),
    "shift_right_logical": CellFunction(_shift_right_logical, 2, 1),
    "popcount": CellFunction(_popcount, 1, 1),
    "count_leading_zeros": CellFunction(_count_leading_zeros, 1, 1),
    "random_bits": CellFunction(random_bits, 2, 12),
    "random_uniform": CellFunction(random_uniform, 2, 14),
}
