"""Translation of elementwise operations to cells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapestry.teg.dtypes import is_float, numpy_dtype
from tapestry.teg.importers.program import Value
from tapestry.teg.importers.stablehlo.emitter import Emitter, Expr, X, Y, Z, cast, const
from tapestry.teg.importers.stablehlo.module import Operation
from tapestry.teg.importers.stablehlo.unrolling import HloTranslator

FUNCTIONS: dict[str, str] = {
    "abs": "abs",
    "add": "add",
    "atan2": "atan2",
    "cbrt": "cbrt",
    "ceil": "ceil",
    "cosine": "cos",
    "count_leading_zeros": "count_leading_zeros",
    "divide": "div",
    "exponential": "exp",
    "exponential_minus_one": "expm1",
    "floor": "floor",
    "imag": "imag",
    "log": "log",
    "log_plus_one": "log1p",
    "logistic": "sigmoid",
    "maximum": "max",
    "minimum": "min",
    "multiply": "mul",
    "negate": "neg",
    "popcnt": "popcount",
    "power": "pow",
    "real": "real",
    "remainder": "fmod",
    "round_nearest_afz": "round_away",
    "round_nearest_even": "round",
    "rsqrt": "rsqrt",
    "shift_left": "shift_left",
    "shift_right_arithmetic": "shift_right",
    "sign": "sign",
    "sine": "sin",
    "sqrt": "sqrt",
    "subtract": "sub",
    "tan": "tan",
    "tanh": "tanh",
    "complex": "complex",
}
# On bool these have a meaning of their own.
LOGICAL: dict[str, tuple[str, str]] = {
    "and": ("and", "bit_and"),
    "or": ("or", "bit_or"),
    "xor": ("xor", "bit_xor"),
    "not": ("not", "bit_not"),
}
ON_BOOL: dict[str, str] = {"add": "or", "maximum": "or", "minimum": "and", "multiply": "and"}
DIRECTIONS = {"EQ": "eq", "NE": "ne", "LT": "lt", "LE": "le", "GT": "gt", "GE": "ge"}
CHLO: dict[str, Expr] = {
    "acos": ("acos", X),
    "acosh": ("acosh", X),
    "bessel_i1e": ("bessel_i1e", X),
    "asin": ("asin", X),
    "asinh": ("asinh", X),
    "atan": ("atan", X),
    "atanh": ("atanh", X),
    "conj": ("conj", X),
    "cosh": ("cosh", X),
    "digamma": ("digamma", X),
    "erf": ("erf", X),
    "erf_inv": ("erf_inv", X),
    "erfc": ("sub", const(1.0), ("erf", X)),
    "is_inf": ("is_inf", X),
    "is_pos_inf": ("eq", X, const(float("inf"))),
    "is_neg_inf": ("eq", X, const(float("-inf"))),
    "lgamma": ("lgamma", X),
    "next_after": ("next_after", X, Y),
    "polygamma": ("polygamma", X, Y),
    "sinh": ("sinh", X),
    "square": ("mul", X, X),
    "tan": ("tan", X),
    "zeta": ("zeta", X, Y),
}
# Exponent and mantissa bits of the element types that numbers can be rounded to.
PRECISIONS = {(8, 23): "float32", (5, 10): "float16", (8, 7): "bfloat16", (11, 52): "float64"}


def _function(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    name, dtype = operation.short, operation.types[0].dtype
    if operands[0].dtype == "bool" and name in ON_BOOL:
        return e.cell((ON_BOOL[name], X, Y), *operands, dtype=dtype)
    if name == "abs" and operands[0].dtype.startswith("complex"):
        return e.cell(cast(dtype, ("abs", X)), *operands, dtype=dtype)
    arguments = [("input", k) for k in range(len(operands))]
    if name in ("divide", "remainder") and numpy_dtype(dtype).kind in "iu":
        return _whole_division(e, name, operands)
    if name == "real" and not operands[0].dtype.startswith("complex"):
        return operands[0]
    return e.cell((FUNCTIONS[name], *arguments), *operands, dtype=dtype)


def _whole_division(e: Emitter, name: str, operands: Sequence[Value]) -> Value:
    """Divide integers; as in XLA, division by 0 gives all ones as the quotient, and the dividend as the remainder."""
    divisor = e.translation.literal(operands[1].name)
    if divisor is not None and np.all(divisor.array != 0):
        return e.cell((FUNCTIONS[name], X, Y), *operands)
    limits = np.iinfo(numpy_dtype(operands[0].dtype))
    by_zero, nothing = X, ("eq", Y, const(0))
    if name == "divide":
        by_zero = const(-1 if limits.min < 0 else int(limits.max))
    found: Expr = (FUNCTIONS[name], X, ("where", nothing, const(1), Y))
    return e.cell(("where", nothing, by_zero, found), *operands)


def _logical(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    name = LOGICAL[operation.short][0 if operands[0].dtype == "bool" else 1]
    return e.cell((name, *(("input", k) for k in range(len(operands)))), *operands)


def _shift_right_logical(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    """Shift right, filling with zeros from the left: shifted as an unsigned number of the same width."""
    dtype = operands[0].dtype
    unsigned = dtype if dtype.startswith("u") else f"u{dtype}"
    shifted = ("shift_right", cast(unsigned, X), cast(unsigned, Y))
    return e.cell(cast(dtype, shifted), *operands)


def _compare(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    name = DIRECTIONS[operation.get("comparison_direction")]
    if operation.get("compare_type") == "TOTALORDER" and is_float(operands[0].dtype):
        return e.cell((name, *(ordered(o.dtype, k) for k, o in enumerate(operands))), *operands, dtype="bool")
    return e.cell((name, X, Y), *operands, dtype="bool")


def ordered(dtype: str, position: int) -> Expr:
    """Build an integer that orders floats by the IEEE 754 total order: -NaN, -inf, ..., -0, +0, ..., inf, NaN."""
    bits = numpy_dtype(dtype).itemsize * 8
    integer = f"int{bits}"
    pattern = as_bits(integer, dtype, ("input", position))
    largest = const(int(np.iinfo(integer).max))
    return ("where", ("lt", pattern, const(0)), ("bit_xor", pattern, largest), pattern)


def _select(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    return e.cell(("where", X, Y, Z), *operands, dtype=operands[1].dtype)


def _clamp(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    low, value, high = operands
    return e.cell(("min", ("max", Y, X), Z), low, value, high, dtype=value.dtype)


def _convert(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    given, wanted = operands[0].dtype, operation.types[0].dtype
    if wanted == "bool":
        return e.cell(("ne", X, const(0)), *operands, dtype="bool") if given != "bool" else operands[0]
    if given.startswith("complex") and not wanted.startswith("complex"):
        return e.cell(cast(wanted, ("real", X)), *operands, dtype=wanted)
    if is_float(given) and numpy_dtype(wanted).kind in "iu":
        return e.cell(_to_integer(wanted), *operands, dtype=wanted)
    return e.cast(operands[0], wanted)


def _to_integer(dtype: str) -> Expr:
    """Convert floats as XLA does: too large values become the largest, too small ones the smallest, NaN becomes 0."""
    limits, wide = np.iinfo(numpy_dtype(dtype)), cast("float64", X)
    low, high = int(limits.min), int(limits.max)
    if limits.bits < 64:
        inside = cast(dtype, ("min", ("max", wide, const(float(low))), const(float(high))))
    else:  # the largest integer is no float64: 2 ** 63 is beyond it
        below = float(np.nextafter(float(high), 0))
        inside = cast(dtype, ("min", ("max", wide, const(float(low))), const(below)))
        inside = ("where", ("ge", wide, const(float(high))), const(high), inside)
    return ("where", ("is_nan", wide), const(0), inside)


def _bitcast(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    """Reinterpret the bits as another type; a change of width adds or removes a last dimension (low parts first)."""
    wanted = operation.types[0]
    given_bits, wanted_bits = (numpy_dtype(d).itemsize * 8 for d in (operands[0].dtype, wanted.dtype))
    if given_bits == wanted_bits:
        return e.cell(as_bits(wanted.dtype, operands[0].dtype, X), *operands, dtype=wanted.dtype)
    if given_bits > wanted_bits:
        return _narrowed(e, operands[0], given_bits, wanted_bits, wanted.dtype)
    return _widened(e, operands[0], given_bits, wanted_bits, wanted.dtype)


def _narrowed(e: Emitter, value: Value, given: int, wanted: int, dtype: str) -> Value:
    wide, narrow = f"uint{given}", f"uint{wanted}"
    opened = e.reshape(value, (*value.shape, 1))
    places = e.line((*(1,) * len(value.shape), given // wanted), len(value.shape), wide)
    shifted = ("shift_right", as_bits(wide, value.dtype, X), ("mul", Y, const(wanted)))
    return e.cell(as_bits(dtype, narrow, shifted), opened, places, dtype=dtype)


def _widened(e: Emitter, value: Value, given: int, wanted: int, dtype: str) -> Value:
    wide, narrow = f"uint{wanted}", f"uint{given}"
    last = len(value.shape) - 1
    places = e.line((*(1,) * last, wanted // given), last, wide)
    part = ("shift_left", cast(wide, as_bits(narrow, value.dtype, X)), ("mul", Y, const(given)))
    parts = e.cell(part, value, places, dtype=wide)
    return e.cell(as_bits(dtype, wide, X), e.reduce(parts, [last], "sum"), dtype=dtype)


def as_bits(dtype: str, given: str, expr: Expr) -> Expr:
    """Reinterpret the bits of an expression of type `given` as another type; the cast gives constants their bits."""
    return ("bitcast", dtype, cast(given, expr))


def _is_finite(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    return e.cell(("not", ("or", ("is_nan", X), ("is_inf", X))), *operands, dtype="bool")


def _chlo(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    return e.cell(CHLO[operation.short], *operands, dtype=operation.types[0].dtype)


def _high_product(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    """Compute the upper half of the product of two integers of up to 32 bits in 64 bits."""
    dtype = operands[0].dtype
    width = numpy_dtype(dtype).itemsize * 8
    if width > 32:
        raise e.refuse(f"of {dtype} is unsupported; integers of up to 32 bits are")
    wide = "uint64" if dtype.startswith("u") else "int64"
    high: Expr = ("shift_right", ("mul", cast(wide, X), cast(wide, Y)), const(width))
    return e.cell(cast(dtype, high), *operands)


def _chlo_constant(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    found = e.constant(np.asarray(operation.get("value")))
    return e.relabel(found, (), ("",) * len(operands[0].shape), operands[0].shape)


def _reduce_precision(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    """Round the value to another type and back."""
    bits = int(operation.get("exponent_bits")), int(operation.get("mantissa_bits"))
    if bits not in PRECISIONS:
        raise e.refuse(
            f"to {bits[0]} exponent and {bits[1]} mantissa bits is unsupported; known are {PRECISIONS}"
        )
    dtype = operands[0].dtype
    return e.cell(cast(dtype, cast(PRECISIONS[bits], X)), *operands)


ELEMENTWISE: tuple[HloTranslator, ...] = (
    HloTranslator(tuple(f"stablehlo.{name}" for name in FUNCTIONS), _function),
    HloTranslator(tuple(f"stablehlo.{name}" for name in LOGICAL), _logical),
    HloTranslator(("stablehlo.shift_right_logical",), _shift_right_logical),
    HloTranslator(("stablehlo.compare",), _compare),
    HloTranslator(("stablehlo.select",), _select),
    HloTranslator(("stablehlo.clamp",), _clamp),
    HloTranslator(("stablehlo.convert",), _convert),
    HloTranslator(("stablehlo.bitcast_convert",), _bitcast),
    HloTranslator(("stablehlo.is_finite",), _is_finite),
    HloTranslator(("stablehlo.reduce_precision",), _reduce_precision),
    HloTranslator(tuple(f"chlo.{name}" for name in CHLO), _chlo),
    HloTranslator(("chlo.constant_like",), _chlo_constant),
    HloTranslator(("chlo.mulhi",), _high_product),
)
