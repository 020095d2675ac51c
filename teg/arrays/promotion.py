"""Element types of functions on elements, by numpy's promotion, for libraries that promote by rules of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tapestry.teg.arrays.namespace import Array, is_weak
from tapestry.teg.arrays.numpy_functions import apply_function
from tapestry.teg.dtypes import EXTENDED, REAL_DTYPES, numpy_dtype

# Functions whose first argument is a condition.
CONDITIONAL = ("where",)

MOVING = frozenset(("identity", "where", "eq", "ne"))
ORDERING = frozenset(("min", "max", "lt", "le", "gt", "ge"))
LOGIC = frozenset(("and", "or", "xor", "not", "bit_and", "bit_or", "bit_xor", "bit_not"))
ARITHMETIC = frozenset(("add", "sub", "mul", "div", "square", "neg", "abs"))
WITHOUT_SIGN = MOVING | ORDERING | LOGIC | {"add", "sub", "mul", "div", "shift_left", "shift_right"}
COMPLEX = MOVING | ARITHMETIC | {"sqrt", "reciprocal", "exp", "log", "sin", "cos", "real", "imag", "conj"}
# Floats that libraries compute in float32.
SHORT = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64")


class FunctionTypes(NamedTuple):
    """The element type in which given arguments meet, that in which they are computed, and that of the result."""

    given: str
    computed: str
    result: str


def function_types(
    function: str, arguments: Sequence[Any], dtype_of: Callable[[Array], str]
) -> FunctionTypes:
    """Return the types of a function on arrays and Python numbers, at least one of them an array."""
    return _types(function, tuple(type(a) if is_weak(a) else dtype_of(a) for a in arguments))


def is_common(function: str, dtype: str) -> bool:
    """Return whether libraries mean what numpy means by a function on a type; otherwise numpy computes it for them."""
    if function.startswith("random"):
        return dtype in (*INTEGERS, "uint64")
    if dtype in FLOATS or dtype in SHORT:
        return function != "next_after" or dtype in ("float32", "float64")
    if dtype in INTEGERS:
        return True
    if dtype == "bool":
        return function in MOVING | LOGIC | ORDERING | {"add", "mul"}
    if dtype.startswith("complex"):
        return function in COMPLEX
    return function in WITHOUT_SIGN and dtype.removeprefix("uint") in ("8", "16", "32", "64")


@lru_cache(maxsize=1 << 12)
def _types(function: str, given: tuple[Any, ...]) -> FunctionTypes:
    ones = [np.ones(1, numpy_dtype(t)) if isinstance(t, str) else t(1) for t in given]
    with np.errstate(all="ignore"):
        result = str(apply_function(function, list(ones)).dtype.name)
    met = ones[1:] if function in CONDITIONAL else ones
    typed = {a.dtype for a in met if not is_weak(a)}
    common = next(iter(typed)) if len(typed) == 1 else np.result_type(*met)
    if common.name not in EXTENDED:
        common = np.result_type(*met)
    computed = str(common.name)
    if function == "complex":
        computed = REAL_DTYPES[result]
    elif common.kind in "biu" and numpy_dtype(result).kind == "f" and not function.startswith("random"):
        computed = result
    return FunctionTypes(str(common.name), computed, result)
