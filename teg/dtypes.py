"""Element types by name: numpy's, plus bfloat16 and the 8-bit floats of `ml_dtypes`."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

EXTENDED = {
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}
NAMES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
    *EXTENDED,
)


@cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """The numpy dtype called `name`.

    Raises:
        ValueError: the name is none of `NAMES`.
    """
    if name not in NAMES:
        raise ValueError(f"unknown element type {name!r}; known are {', '.join(NAMES)}")
    dtype: np.dtype[Any] = np.dtype(EXTENDED.get(name, name))
    return dtype


@cache
def item_bytes(name: str) -> int:
    """Bytes of one element."""
    return int(numpy_dtype(name).itemsize)


def is_float(name: str) -> bool:
    """Whether the element type called `name` is a real floating-point type."""
    return name.startswith(("float", "bfloat"))
