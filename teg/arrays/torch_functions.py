"""The functions on elements in torch, on arguments of one element type; see `promotion`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn import functional

from tapestry.teg.arrays.randomness import FIRST_FACTOR, GOLDEN, SECOND_FACTOR

TorchArray = Any

# Functions that torch has, by its names for them.
PLAIN: Mapping[str, str] = {
    **{name: name for name in ("add", "sub", "mul", "fmod", "pow", "neg", "abs", "square", "sqrt", "rsqrt")},
    **{name: name for name in ("reciprocal", "exp", "expm1", "log", "log1p", "erf", "sigmoid", "sin", "cos")},
    **{name: name for name in ("tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "floor", "ceil")},
    **{name: name for name in ("round", "trunc", "eq", "ne", "lt", "le", "gt", "ge", "where", "acosh")},
    **{name: name for name in ("asinh", "atanh", "atan2", "exp2", "log2", "lgamma", "digamma", "logaddexp")},
    "relu": "relu",
    "min": "minimum",
    "max": "maximum",
    "and": "logical_and",
    "or": "logical_or",
    "xor": "logical_xor",
    "not": "logical_not",
    "bit_and": "bitwise_and",
    "bit_or": "bitwise_or",
    "bit_xor": "bitwise_xor",
    "bit_not": "bitwise_not",
    "shift_left": "bitwise_left_shift",
    "shift_right": "bitwise_right_shift",
    "is_nan": "isnan",
    "is_inf": "isinf",
    "is_finite": "isfinite",
    "erf_inv": "erfinv",
    "next_after": "nextafter",
    "real": "real",
    "complex": "complex",
}


def _by_zero(
    divide: Callable[[TorchArray, TorchArray], TorchArray],
) -> Callable[[TorchArray, TorchArray], TorchArray]:
    """Wrap a division so that integers divided by zero give zero, as in numpy."""

    def call(a: TorchArray, b: TorchArray) -> TorchArray:
        if a.dtype.is_floating_point or a.dtype.is_complex:
            return divide(a, b)
        none = b == 0
        return torch.where(none, 0, divide(a, torch.where(none, 1, b)))

    return call


def _divide(a: TorchArray, b: TorchArray) -> TorchArray:
    exact = a.dtype.is_floating_point or a.dtype.is_complex
    return torch.div(a, b) if exact else torch.div(a, b, rounding_mode="trunc")


def _logical_shift(a: TorchArray, b: TorchArray) -> TorchArray:
    """Shift bits right; zeros come in from the left."""
    if not a.dtype.is_signed:
        return a >> b
    ones = (torch.full_like(a, torch.iinfo(a.dtype).min) >> b) << 1
    return (a >> b) & ~ones


def _bits(a: TorchArray) -> TorchArray:
    """Return the bits of integers in int64, with zeros in front."""
    width = torch.iinfo(a.dtype).bits
    return a.to(torch.int64) if width == 64 else a.to(torch.int64) & ((1 << width) - 1)


def _popcount(a: TorchArray) -> TorchArray:
    """Count ones by adding up neighboring groups of bits (Warren, Hacker's Delight, 2nd edition, section 5-1)."""
    x = _bits(a)
    x = x - ((x >> 1) & 0x5555555555555555)
    x = (x & 0x3333333333333333) + ((x >> 2) & 0x3333333333333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0F
    return (x * 0x0101010101010101) >> 56


def _leading_zeros(a: TorchArray) -> TorchArray:
    width, x = torch.iinfo(a.dtype).bits, _bits(a)
    for shift in (1, 2, 4, 8, 16, 32):
        x = x | _logical_shift(x, torch.full_like(x, shift))
    return width - _popcount(x)


def _round_away(a: TorchArray) -> TorchArray:
    whole = torch.trunc(a)
    return torch.where(torch.abs(a - whole) >= 0.5, whole + torch.sgn(a), whole)


def _polygamma(n: TorchArray, x: TorchArray) -> TorchArray:
    """Compute the n-th derivative of digamma (Abramowitz and Stegun 6.4.10)."""
    sign = torch.where(torch.remainder(n, 2) == 0, -1.0, 1.0).to(x.dtype)
    series = sign * torch.exp(torch.lgamma(n + 1)) * torch.special.zeta(n + 1, x)
    return torch.where(n == 0, torch.digamma(x), series)


def _mixed(x: TorchArray) -> TorchArray:
    """Mix bits as `randomness` does, on int64, which wraps around in the same way."""
    for shift, factor in ((30, FIRST_FACTOR), (27, SECOND_FACTOR)):
        x = (x ^ _logical_shift(x, torch.full_like(x, shift))) * _signed(factor)
    return x ^ _logical_shift(x, torch.full_like(x, 31))


def _signed(word: int) -> int:
    """Return 64 bits as a number with sign."""
    return word - (1 << 64) if word >> 63 else word


def random_words(seed: TorchArray, counter: TorchArray) -> TorchArray:
    """Compute 64 random bits for each counter, as int64, from int64."""
    stream = _mixed(seed + _signed(GOLDEN))
    return _mixed(_mixed(counter * _signed(GOLDEN) + stream) ^ stream)


def _random_uniform(seed: TorchArray, counter: TorchArray) -> TorchArray:
    bits = random_words(seed, counter)
    return _logical_shift(bits, torch.full_like(bits, 11)).to(torch.float64) * 2.0**-53


FUNCTIONS: Mapping[str, Callable[..., TorchArray]] = {
    **{name: getattr(torch, library_name) for name, library_name in PLAIN.items()},
    "identity": lambda a: a,
    "sign": lambda a: torch.where(torch.isnan(a), a, torch.sgn(a)),
    "div": _by_zero(_divide),
    "mod": _by_zero(torch.remainder),
    "fmod": _by_zero(torch.fmod),
    "floor_div": _by_zero(lambda a, b: torch.div(a, b, rounding_mode="floor")),
    "gelu": functional.gelu,
    "gelu_tanh": lambda a: functional.gelu(a, approximate="tanh"),
    "silu": functional.silu,
    "quick_gelu": lambda a: a * torch.sigmoid(1.702 * a),
    "softplus": lambda a: torch.logaddexp(a, torch.zeros_like(a)),
    "cbrt": lambda a: torch.sgn(a) * torch.pow(torch.abs(a), 1 / 3),
    "bessel_i1e": torch.special.i1e,
    "zeta": torch.special.zeta,
    "polygamma": _polygamma,
    "round_away": _round_away,
    "imag": lambda a: torch.imag(a) if a.dtype.is_complex else torch.zeros_like(a),
    "conj": lambda a: torch.conj(a).resolve_conj(),
    "shift_right_logical": _logical_shift,
    "popcount": _popcount,
    "count_leading_zeros": _leading_zeros,
    "random_bits": lambda s, c: random_words(s, c).view(torch.uint64),
    "random_uniform": _random_uniform,
}

# Functions of short floats that torch does not round once at the end, or does not have.
IN_SINGLE = frozenset(
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
        *("bessel_i1e", "zeta", "polygamma", "cbrt", "pow", "mod", "fmod", "floor_div", "atan2", "logaddexp"),
        *("round_away", "complex"),
    )
)
