"""The functions on elements in numpy: the reference of what they mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import special

from tapestry.teg.arrays.error_function import erf
from tapestry.teg.arrays.namespace import is_weak
from tapestry.teg.arrays.randomness import random_bits, random_uniform
from tapestry.teg.dtypes import EXTENDED


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


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "identity": lambda a: a,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _divide,
    "mod": np.mod,
    "fmod": np.fmod,
    "pow": _power,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "square": np.square,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: np.reciprocal(np.sqrt(a)),
    "reciprocal": np.reciprocal,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "erf": erf,
    "sigmoid": lambda a: np.reciprocal(np.add(np.exp(np.negative(a)), 1)),
    "relu": lambda a: np.maximum(a, 0),
    "gelu": _in_single(_gelu),
    "gelu_tanh": _in_single(_gelu_tanh),
    "silu": _in_single(_silu),
    "quick_gelu": _in_single(_quick_gelu),
    "softplus": _in_single(lambda a: np.logaddexp(a, 0.0)),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "min": np.minimum,
    "max": np.maximum,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "not": np.logical_not,
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
    "bit_not": np.bitwise_not,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
    "where": np.where,
    "is_nan": np.isnan,
    "is_inf": np.isinf,
    "is_finite": np.isfinite,
    "acosh": np.arccosh,
    "asinh": np.arcsinh,
    "atanh": np.arctanh,
    "atan2": np.arctan2,
    "cbrt": np.cbrt,
    "exp2": np.exp2,
    "log2": np.log2,
    "erf_inv": _in_single(special.erfinv),
    "lgamma": _in_single(special.gammaln),
    "digamma": _in_single(special.digamma),
    "bessel_i1e": _in_single(special.i1e),
    "zeta": _in_single(special.zeta),
    "polygamma": _in_single(_polygamma),
    "floor_div": np.floor_divide,
    "round_away": _round_away,
    "next_after": np.nextafter,
    "real": np.real,
    "imag": np.imag,
    "conj": np.conjugate,
    "complex": _complex,
    "shift_right_logical": _shift_right_logical,
    "popcount": _popcount,
    "count_leading_zeros": _count_leading_zeros,
    "random_bits": random_bits,
    "random_uniform": random_uniform,
    # The monoid of logsumexp; no cell function.
    "logaddexp": _in_single(np.logaddexp),
}


def apply_function(name: str, arguments: list[Any]) -> Any:
    """Apply one function; of Python numbers alone the result is a Python number again."""
    free = 1 if name == "where" else 0
    typed = {a.dtype for a in arguments[free:] if not is_weak(a)}
    if len(typed) == 1 and (dtype := next(iter(typed))).name in EXTENDED:
        # numpy does not know that Python scalars are weak next to these types.
        arguments[free:] = [np.asarray(a, dtype) if is_weak(a) else a for a in arguments[free:]]
    result = np.asarray(FUNCTIONS[name](*arguments))
    return result.item() if all(map(is_weak, arguments)) else result
