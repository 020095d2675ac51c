"""Sizes of elements by their names, CuTe's and ours."""

import re

from tapestry.hardware.layouts.layout import LayoutError

NAMED_BITS = (
    ("float_e4m3_t", 8),
    ("float_e5m2_t", 8),
    ("bfloat16_t", 16),
    ("tfloat32_t", 32),
    ("half_t", 16),
    ("double", 64),
    ("float", 32),
    ("short", 16),
    ("bool", 8),
    ("pred", 8),
    ("char", 8),
    ("long", 64),
    ("int", 32),
)
"""Bits of elements whose C++ names do not say them."""


def bits_of(dtype: str) -> int:
    """Return the bits of an element by its name: `f16`, `bfloat16`, `int4_t`, `half_t`, `float`."""
    named = dict(NAMED_BITS).get(dtype)
    digits = re.search(r"\d+", dtype)
    if named is None and (digits is None or not 1 <= int(digits.group()[:4]) <= 128):
        raise LayoutError(f"expected an element type like f16, not {dtype!r}")
    return named if named is not None else int(digits.group())  # type: ignore[union-attr]
