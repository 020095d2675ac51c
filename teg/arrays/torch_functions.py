"""The functions on elements in torch, on arguments of one element type; see `promotion`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import array_api_compat.torch
import torch
from torch.nn import functional

from tapestry.teg.arrays.randomness import FIRST_FACTOR, GOLDEN, SECOND_FACTOR
from tapestry.teg.arrays.standard_functions import ROUNDED_TWICE, standard_functions

TorchArray = Any


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


OWN: Mapping[str, Callable[..., TorchArray]] = {
    "div": _divide,
    "rsqrt": torch.rsqrt,
    "erf": torch.erf,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda a: functional.gelu(a, approximate="tanh"),
    "silu": functional.silu,
    "quick_gelu": lambda a: a * torch.sigmoid(1.702 * a),
    "softplus": lambda a: torch.logaddexp(a, torch.zeros_like(a)),
    "cbrt": lambda a: torch.sgn(a) * torch.pow(torch.abs(a), 1 / 3),
    "erf_inv": torch.erfinv,
    "lgamma": torch.lgamma,
    "digamma": torch.digamma,
    "bessel_i1e": torch.special.i1e,
    "zeta": torch.special.zeta,
    "complex": torch.complex,
    "imag": lambda a: torch.imag(a) if a.dtype.is_complex else torch.zeros_like(a),
    "conj": lambda a: torch.conj(a).resolve_conj(),
    "shift_right_logical": _logical_shift,
    "popcount": _popcount,
    "count_leading_zeros": _leading_zeros,
    "random_bits": lambda s, c: random_words(s, c).view(torch.uint64),
    "random_uniform": _random_uniform,
}
FUNCTIONS = standard_functions(array_api_compat.torch, OWN)
# Functions of short floats that torch does not round once at the end, or does not have.
IN_SINGLE = ROUNDED_TWICE | {"mod", "fmod", "floor_div"}
