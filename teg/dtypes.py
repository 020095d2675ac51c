"""Element types by name: NumPy's, and the short floats and integers of `ml_dtypes`.

Types of less than a byte take a whole byte here, in arrays, memory and traffic alike: nothing is packed.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

EXTENDED = {
    name: getattr(ml_dtypes, name)
    for name in (
        *("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
        *("float4_e2m1fn", "int4", "uint4", "int2", "uint2"),
    )
}
NAMES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
    *EXTENDED,
)
# The element type of the real and imaginary parts of a complex one, and back.
REAL_DTYPES = {"complex64": "float32", "complex128": "float64"}
COMPLEX_DTYPES = {real: name for name, real in REAL_DTYPES.items()}


@cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the NumPy dtype called `name`.

    Raises:
        ValueError: the name is none of `NAMES`.
    """
    if name not in NAMES:
        raise ValueError(f"unknown element type {name!r}; known are {', '.join(NAMES)}")
    dtype: np.dtype[Any] = np.dtype(EXTENDED.get(name, name))
    return dtype


def accumulation(name: str) -> str:
    """Return the element type in which sums over `name` are accumulated."""
    if name in EXTENDED or name in HALF:
        return "float32" if is_float(name) else "int32"
    return name


@cache
def item_bytes(name: str) -> int:
    """Return the bytes of one element."""
    return int(numpy_dtype(name).itemsize)


def is_float(name: str) -> bool:
    """Return whether the element type called `name` is a real floating-point type."""
    return name.startswith(("float", "bfloat"))


def is_integer(name: str) -> bool:
    """Return whether the element type called `name` is an integer type, signed or not."""
    return name.startswith(("int", "uint"))


# Element types whose sums are accumulated in float32.
HALF = ("float16", *(name for name in EXTENDED if is_float(name)))


@cache
def bounds(name: str) -> tuple[float, float]:
    """Return the smallest and the largest finite number of a real type, as Python numbers."""
    dtype = numpy_dtype(name)
    limits: Any = (ml_dtypes.iinfo if is_integer(name) else ml_dtypes.finfo)(dtype)
    number = int if is_integer(name) else float
    return number(limits.min), number(limits.max)
