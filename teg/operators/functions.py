"""The functions on elements that make up expressions: names, arguments, flops. What they mean, array libraries know.

See `teg.arrays`: numpy's table is the reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class CellFunction(NamedTuple):
    """A function on elements: number of arguments, flops per element."""

    arity: int
    flops: float


# Flops by McMahon's weights (The Livermore Fortran Kernels, 1986): add, subtract, multiply and compare 1,
# divide and square root 4, exponential and its kin 8.
CELL_FUNCTIONS: Mapping[str, CellFunction] = {
    "identity": CellFunction(1, 0),
    "add": CellFunction(2, 1),
    "sub": CellFunction(2, 1),
    "mul": CellFunction(2, 1),
    "div": CellFunction(2, 4),
    "mod": CellFunction(2, 4),
    "fmod": CellFunction(2, 4),
    "pow": CellFunction(2, 8),
    "neg": CellFunction(1, 1),
    "abs": CellFunction(1, 1),
    "sign": CellFunction(1, 1),
    "square": CellFunction(1, 1),
    "sqrt": CellFunction(1, 4),
    "rsqrt": CellFunction(1, 8),
    "reciprocal": CellFunction(1, 4),
    "exp": CellFunction(1, 8),
    "expm1": CellFunction(1, 8),
    "log": CellFunction(1, 8),
    "log1p": CellFunction(1, 8),
    "erf": CellFunction(1, 8),
    "sigmoid": CellFunction(1, 13),
    "relu": CellFunction(1, 1),
    # The units below cost what they cost spelled out.
    "gelu": CellFunction(1, 12),
    "gelu_tanh": CellFunction(1, 16),
    "silu": CellFunction(1, 14),
    "quick_gelu": CellFunction(1, 14),
    "softplus": CellFunction(1, 16),
    "sin": CellFunction(1, 8),
    "cos": CellFunction(1, 8),
    "tan": CellFunction(1, 8),
    "asin": CellFunction(1, 8),
    "acos": CellFunction(1, 8),
    "atan": CellFunction(1, 8),
    "sinh": CellFunction(1, 8),
    "cosh": CellFunction(1, 8),
    "tanh": CellFunction(1, 8),
    "floor": CellFunction(1, 1),
    "ceil": CellFunction(1, 1),
    "round": CellFunction(1, 1),
    "trunc": CellFunction(1, 1),
    "min": CellFunction(2, 1),
    "max": CellFunction(2, 1),
    "eq": CellFunction(2, 1),
    "ne": CellFunction(2, 1),
    "lt": CellFunction(2, 1),
    "le": CellFunction(2, 1),
    "gt": CellFunction(2, 1),
    "ge": CellFunction(2, 1),
    "and": CellFunction(2, 1),
    "or": CellFunction(2, 1),
    "xor": CellFunction(2, 1),
    "not": CellFunction(1, 1),
    "bit_and": CellFunction(2, 1),
    "bit_or": CellFunction(2, 1),
    "bit_xor": CellFunction(2, 1),
    "bit_not": CellFunction(1, 1),
    "shift_left": CellFunction(2, 1),
    "shift_right": CellFunction(2, 1),
    "where": CellFunction(3, 1),
    "is_nan": CellFunction(1, 1),
    "is_inf": CellFunction(1, 1),
    "is_finite": CellFunction(1, 1),
    "acosh": CellFunction(1, 8),
    "asinh": CellFunction(1, 8),
    "atanh": CellFunction(1, 8),
    "atan2": CellFunction(2, 8),
    "cbrt": CellFunction(1, 8),
    "exp2": CellFunction(1, 8),
    "log2": CellFunction(1, 8),
    "erf_inv": CellFunction(1, 8),
    "lgamma": CellFunction(1, 8),
    "digamma": CellFunction(1, 8),
    "bessel_i1e": CellFunction(1, 8),
    "zeta": CellFunction(2, 8),
    "polygamma": CellFunction(2, 8),
    "floor_div": CellFunction(2, 4),
    "round_away": CellFunction(1, 1),
    "next_after": CellFunction(2, 1),
    "real": CellFunction(1, 0),
    "imag": CellFunction(1, 0),
    "conj": CellFunction(1, 1),
    "complex": CellFunction(2, 0),
    "shift_right_logical": CellFunction(2, 1),
    "popcount": CellFunction(1, 1),
    "count_leading_zeros": CellFunction(1, 1),
    "random_bits": CellFunction(2, 12),
    "random_uniform": CellFunction(2, 14),
}
