"""The functions on elements that the array API standard has, or that follow from them, on arguments of one type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tapestry.teg.arrays.namespace import Array

ElementFunction = Callable[..., Array]

# Names of the standard; `exp2` and `fmod` are libraries' own, by one name.
SAME = (
    *(
        "abs",
        "acosh",
        "add",
        "asin",
        "asinh",
        "acos",
        "atan",
        "atan2",
        "atanh",
        "ceil",
        "conj",
        "cos",
        "cosh",
        "exp",
    ),
    *(
        "exp2",
        "expm1",
        "floor",
        "fmod",
        "imag",
        "log",
        "log1p",
        "log2",
        "logaddexp",
        "pow",
        "real",
        "reciprocal",
    ),
    *("round", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc", "where"),
)
NAMED: Mapping[str, str] = {
    "sub": "subtract",
    "mul": "multiply",
    "neg": "negative",
    "min": "minimum",
    "max": "maximum",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "and": "logical_and",
    "or": "logical_or",
    "xor": "logical_xor",
    "not": "logical_not",
    "bit_and": "bitwise_and",
    "bit_or": "bitwise_or",
    "bit_xor": "bitwise_xor",
    "bit_not": "bitwise_invert",
    "shift_left": "bitwise_left_shift",
    "shift_right": "bitwise_right_shift",
    "is_nan": "isnan",
    "is_inf": "isinf",
    "is_finite": "isfinite",
    "next_after": "nextafter",
}
# Functions that no library rounds once at the end for short floats.
ROUNDED_TWICE = frozenset(
    (
        *(
            "gelu",
            "gelu_tanh",
            "silu",
            "quick_gelu",
            "softplus",
            "sigmoid",
            "erf",
            "erf_inv",
            "lgamma",
            "digamma",
        ),
        *("bessel_i1e", "zeta", "polygamma", "cbrt", "pow", "atan2", "logaddexp", "round_away", "complex"),
    )
)


def standard_functions(xp: Any, own: Mapping[str, ElementFunction]) -> dict[str, ElementFunction]:
    """Return the functions of a library with the standard's names; `own` are those that it has in another way."""
    found = {name: getattr(xp, name) for name in SAME}
    found |= {name: getattr(xp, library_name) for name, library_name in NAMED.items()}

    def by_zero(divide: ElementFunction) -> ElementFunction:
        """Wrap a division so that integers divided by zero give zero, as in numpy."""

        def call(a: Array, b: Array) -> Array:
            if not xp.isdtype(a.dtype, "integral"):
                return divide(a, b)
            none = b == 0
            made = divide(a, xp.where(none, xp.ones_like(b), b))
            return xp.where(none, xp.zeros_like(made), made)

        return call

    def round_away(a: Array) -> Array:
        whole = xp.trunc(a)
        return xp.where(xp.abs(a - whole) >= 0.5, whole + xp.sign(a), whole)

    def polygamma(n: Array, x: Array) -> Array:
        """Compute the n-th derivative of digamma (Abramowitz and Stegun 6.4.10)."""
        ones = xp.ones_like(x)
        sign = xp.where(n % 2 == 0, -ones, ones)
        series = sign * xp.exp(own["lgamma"](n + 1)) * own["zeta"](n + 1, x)
        return xp.where(n == 0, own["digamma"](x), series)

    found |= {
        "identity": lambda a: a,
        "mod": by_zero(xp.remainder),
        "fmod": by_zero(xp.fmod),
        "floor_div": by_zero(xp.floor_divide),
        "round_away": round_away,
        "polygamma": polygamma,
    }
    divide = own["div"]
    return {**found, **own, "div": by_zero(divide)}
