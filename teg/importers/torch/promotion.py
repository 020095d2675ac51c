"""Type promotion: the element type in which torch computes with operands of different types.

Rule: https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tapestry.teg.dtypes import is_float, numpy_dtype
from tapestry.teg.importers.program import Value

DEFAULTS = ("bool", "int64", "float32", "complex64")


def category(dtype: str) -> int:
    """Return the category of an element type: 0 for bool, 1 for integers, 2 for floats, 3 for complex numbers."""
    return 2 if is_float(dtype) else {"b": 0, "i": 1, "u": 1, "c": 3}[numpy_dtype(dtype).kind]


def promoted(operands: Sequence[Value | float]) -> str:
    """Return the promoted element type of the operands.

    Tensors with dimensions decide, unless one without dimensions, or a number, is of a higher category.
    """
    groups = (
        [o.dtype for o in operands if isinstance(o, Value) and o.shape],
        [o.dtype for o in operands if isinstance(o, Value) and not o.shape],
        [DEFAULTS[_number_category(o)] for o in operands if not isinstance(o, Value)],
    )
    result = ""
    for group in groups:
        found = _join(group)
        if found and (not result or category(found) > category(result)):
            result = found
    return result


def _number_category(number: object) -> int:
    return (
        0
        if isinstance(number, bool)
        else 1
        if isinstance(number, int)
        else 2
        if isinstance(number, float)
        else 3
    )


def _join(dtypes: Iterable[str]) -> str:
    result = ""
    for dtype in dtypes:
        result = dtype if not result else _pair(result, dtype)
    return result


def _pair(a: str, b: str) -> str:
    """Promote two element types: torch keeps the float where numpy would widen int64 with float32 to float64."""
    if a == b:
        return a
    high, low = (a, b) if category(a) >= category(b) else (b, a)
    if category(high) > category(low):
        return high
    if "bfloat16" in (a, b) and numpy_dtype(a).itemsize == numpy_dtype(b).itemsize == 2:
        return "float32"
    if "bfloat16" in (a, b):
        other = a if b == "bfloat16" else b
        return other if numpy_dtype(other).itemsize > 2 else "bfloat16"
    return np.result_type(numpy_dtype(a), numpy_dtype(b)).name
