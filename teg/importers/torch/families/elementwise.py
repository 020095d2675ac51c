"""Arithmetic, comparisons and choices, element by element, in the element type that torch would use."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.operator import TorchOperator, aten
from tapestry.teg.importers.torch.promotion import category, promoted
from tapestry.teg.importers.torch.tracer import Tracer
from tapestry.teg.importers.translate.arithmetic import CellExpr, call, equal, where
from tapestry.teg.importers.translate.builder import ValueOrNumber

UNARY = {
    "abs": "abs",
    "acos": "acos",
    "acosh": "acosh",
    "asin": "asin",
    "asinh": "asinh",
    "atan": "atan",
    "atanh": "atanh",
    "bitwise_not": "bit_not",
    "ceil": "ceil",
    "cos": "cos",
    "cosh": "cosh",
    "digamma": "digamma",
    "erf": "erf",
    "erfinv": "erf_inv",
    "exp": "exp",
    "exp2": "exp2",
    "expm1": "expm1",
    "floor": "floor",
    "lgamma": "lgamma",
    "log": "log",
    "log1p": "log1p",
    "log2": "log2",
    "neg": "neg",
    "reciprocal": "reciprocal",
    "round": "round",
    "rsqrt": "rsqrt",
    "sgn": "sign",
    "sigmoid": "sigmoid",
    "sign": "sign",
    "sin": "sin",
    "sinh": "sinh",
    "special_erf": "erf",
    "special_expm1": "expm1",
    "special_log1p": "log1p",
    "sqrt": "sqrt",
    "square": "square",
    "tan": "tan",
    "tanh": "tanh",
    "trunc": "trunc",
}
# Functions that keep the operand's own element type and give a bool.
TESTS: dict[str, Callable[[CellExpr], CellExpr]] = {
    "isnan": lambda a: call("is_nan", a),
    "isinf": lambda a: call("is_inf", a),
    "isfinite": lambda a: call("not", call("or", call("is_nan", a), call("is_inf", a))),
    "isposinf": lambda a: equal(a, math.inf),
    "isneginf": lambda a: equal(a, -math.inf),
    "signbit": lambda a: a < 0,
    "logical_not": lambda a: call("not", a),
}
COMPARISONS = {
    "eq": "eq",
    "ge": "ge",
    "gt": "gt",
    "le": "le",
    "lt": "lt",
    "ne": "ne",
    "logical_and": "and",
    "logical_or": "or",
    "logical_xor": "xor",
}
BINARY = {
    "mul": "mul",
    "fmod": "fmod",
    "remainder": "mod",
    "maximum": "max",
    "minimum": "min",
    "bitwise_and": "bit_and",
    "bitwise_or": "bit_or",
    "bitwise_xor": "bit_xor",
    "bitwise_left_shift": "shift_left",
    "bitwise_right_shift": "shift_right",
    "__lshift__": "shift_left",
    "__rshift__": "shift_right",
    "__and__": "bit_and",
    "__or__": "bit_or",
    "__xor__": "bit_xor",
    "atan2": "atan2",
}


def _unary(name: str, t: Tracer, x: Value) -> Value:
    within = x.dtype if category(x.dtype) == 3 else t.dtype
    return t.cells(partial(call, name), x, dtype=t.dtype, within=within)


def _test(name: str, t: Tracer, x: Value) -> Value:
    return t.cells(TESTS[name], x, dtype="bool", within=x.dtype)


def _log10(t: Tracer, x: Value) -> Value:
    return t.cells(lambda a: call("log", a) * (1 / math.log(10)), x, dtype=t.dtype)


def _erfc(t: Tracer, x: Value) -> Value:
    return t.cells(lambda a: 1 - call("erf", a), x, dtype=t.dtype)


def _round_decimals(t: Tracer, x: Value, *, decimals: int) -> Value:
    scale = 10.0**decimals
    return t.cells(lambda a: call("round", a * scale) / scale, x, dtype=t.dtype)


def _binary(name: str, t: Tracer, x: ValueOrNumber, other: ValueOrNumber) -> Value:
    return t.cells(partial(call, name), x, other, dtype=t.dtype)


def _compare(name: str, t: Tracer, x: ValueOrNumber, other: ValueOrNumber) -> Value:
    return t.cells(partial(call, name), x, other, dtype="bool", within=promoted((x, other)))


def _add(t: Tracer, x: ValueOrNumber, other: ValueOrNumber, alpha: float = 1) -> Value:
    if alpha == 1:
        return t.cells(lambda a, b: call("add", a, b), x, other, dtype=t.dtype)
    return t.cells(lambda a, b: call("add", a, call("mul", b, alpha)), x, other, dtype=t.dtype)


def _sub(t: Tracer, x: ValueOrNumber, other: ValueOrNumber, alpha: float = 1) -> Value:
    if alpha == 1:
        return t.cells(lambda a, b: call("sub", a, b), x, other, dtype=t.dtype)
    return t.cells(lambda a, b: call("sub", a, call("mul", b, alpha)), x, other, dtype=t.dtype)


def _rsub(t: Tracer, x: ValueOrNumber, other: ValueOrNumber, alpha: float = 1) -> Value:
    return _sub(t, other, x, alpha)


def _div(t: Tracer, x: ValueOrNumber, other: ValueOrNumber, *, rounding_mode: str | None = None) -> Value:
    """Divide: true division, or rounded towards zero, or down; integers divide exactly."""
    if rounding_mode is None:
        return t.cells(lambda a, b: call("div", a, b), x, other, dtype=t.dtype)
    if category(t.dtype) == 1:
        if rounding_mode == "trunc":
            return t.cells(lambda a, b: call("div", a, b), x, other, dtype=t.dtype)
        return t.cells(
            lambda a, b: call("div", call("sub", a, call("mod", a, b)), b), x, other, dtype=t.dtype
        )
    rounded = "floor" if rounding_mode == "floor" else "trunc"
    return t.cells(lambda a, b: call(rounded, call("div", a, b)), x, other, dtype=t.dtype)


def _floor_divide(t: Tracer, x: ValueOrNumber, other: ValueOrNumber) -> Value:
    return _div(t, x, other, rounding_mode="floor")


def _pow(t: Tracer, x: ValueOrNumber, exponent: ValueOrNumber) -> Value:
    if not isinstance(exponent, Value) and exponent == 0.5:
        return t.cells(partial(call, "sqrt"), x, dtype=t.dtype)
    return t.cells(partial(call, "pow"), x, exponent, dtype=t.dtype)


def _where(t: Tracer, condition: Value, x: ValueOrNumber = 0, other: ValueOrNumber = 0) -> Value:
    """Select by a condition, which keeps its own type; the choices take that of the result."""
    if condition.dtype != "bool":
        condition = t.cast(condition, "bool")
    x, other = (t.cast(v, t.dtype) if isinstance(v, Value) else v for v in (x, other))
    return choose(t, condition, x, other, t.dtype)


def choose(t: Tracer, condition: Value, x: ValueOrNumber, other: ValueOrNumber, dtype: str) -> Value:
    """Select `x` where the condition holds, else `other`; numbers become `dtype`."""
    values = [condition, *(v for v in (x, other) if isinstance(v, Value))]
    places = iter(range(1, 3))
    parts = [
        CellExpr(("input", next(places))) if isinstance(v, Value) else CellExpr(("cast", dtype, ("const", v)))
        for v in (x, other)
    ]
    return t.elements(where(CellExpr(("input", 0)), *parts).tree, values, dtype)


def _masked_fill(t: Tracer, x: Value, mask: Value, value: ValueOrNumber) -> Value:
    return choose(
        t, t.cast(mask, "bool"), t.cast(value, t.dtype) if isinstance(value, Value) else value, x, t.dtype
    )


def _clamp(t: Tracer, x: Value, min: Any = None, max: Any = None) -> Value:
    """Clamp as torch does: the upper bound wins where the bounds cross; NaN stays NaN."""
    result: Value = x
    if min is not None:
        result = t.cells(partial(call, "max"), result, min, dtype=t.dtype)
    if max is not None:
        result = t.cells(partial(call, "min"), result, max, dtype=t.dtype)
    return t.cast(result, t.dtype)


def _clamp_min(t: Tracer, x: Value, min: ValueOrNumber) -> Value:
    return _clamp(t, x, min=min)


def _clamp_max(t: Tracer, x: Value, max: ValueOrNumber) -> Value:
    return _clamp(t, x, max=max)


def _convert(t: Tracer, x: Value, *_: Any, **__: Any) -> Value:
    """Copy a tensor, cast to the element type that is recorded."""
    return t.cast(x, t.dtype)


def _addcmul(t: Tracer, x: Value, tensor1: Value, tensor2: Value, *, value: float = 1) -> Value:
    return t.cells(lambda a, b, c: a + value * b * c, x, tensor1, tensor2, dtype=t.dtype)


def _addcdiv(t: Tracer, x: Value, tensor1: Value, tensor2: Value, *, value: float = 1) -> Value:
    return t.cells(lambda a, b, c: a + value * b / c, x, tensor1, tensor2, dtype=t.dtype)


def _lerp(t: Tracer, x: Value, end: Value, weight: ValueOrNumber) -> Value:
    if isinstance(weight, Value):
        return t.cells(lambda a, b, w: a + w * (b - a), x, end, weight, dtype=t.dtype)
    return t.cells(lambda a, b: a + weight * (b - a), x, end, dtype=t.dtype)


def _nan_to_num(t: Tracer, x: Value, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Value:
    limit = float(np.finfo(numpy_dtype(t.dtype)).max)
    high, low = limit if posinf is None else posinf, -limit if neginf is None else neginf
    return t.cells(
        lambda a: where(
            call("is_nan", a), nan or 0.0, where(equal(a, math.inf), high, where(equal(a, -math.inf), low, a))
        ),
        x,
        dtype=t.dtype,
    )


def _logit(t: Tracer, x: Value, eps: float | None = None) -> Value:
    def odds(a: CellExpr) -> CellExpr:
        kept = a if eps is None else call("min", call("max", a, eps), 1 - eps)
        return call("log", kept / (1 - kept))

    return t.cells(odds, x, dtype=t.dtype)


def _hypot(t: Tracer, x: Value, other: Value) -> Value:
    return t.cells(lambda a, b: call("sqrt", a * a + b * b), x, other, dtype=t.dtype)


def _copysign(t: Tracer, x: Value, other: ValueOrNumber) -> Value:
    return t.cells(
        lambda a, b: where(call("lt", b, 0), -call("abs", a), call("abs", a)), x, other, dtype=t.dtype
    )


def _xlogy(t: Tracer, x: ValueOrNumber, other: ValueOrNumber) -> Value:
    return t.cells(
        lambda a, b: where(call("eq", a, 0), 0.0, call("mul", a, call("log", b))), x, other, dtype=t.dtype
    )


def _logaddexp(t: Tracer, x: Value, other: Value) -> Value:
    def stable(a: CellExpr, b: CellExpr) -> CellExpr:
        return call("max", a, b) + call("log1p", call("exp", -call("abs", a - b)))

    return t.cells(stable, x, other, dtype=t.dtype)


def _forms(name: str, *overloads: str) -> tuple[str, ...]:
    return aten(*(f"{name}.{o}" for o in overloads))


def _overloads(name: str) -> tuple[str, ...]:
    """Return the overloads that an operator of two operands has."""
    if name in ("maximum", "minimum", "atan2", "logical_and", "logical_or", "logical_xor"):
        return ("default",)
    if name in ("mul", "fmod") or name in COMPARISONS or name.startswith("__"):
        return ("Tensor", "Scalar")
    if name.endswith("_shift"):
        return ("Tensor", "Tensor_Scalar", "Scalar_Tensor")
    return ("Tensor", "Scalar", "Scalar_Tensor")


ELEMENTWISE: tuple[TorchOperator, ...] = (
    *(TorchOperator(aten(name), partial(_unary, fn)) for name, fn in UNARY.items()),
    *(TorchOperator(aten(name), partial(_test, name)) for name in TESTS),
    *(TorchOperator(_forms(name, *_overloads(name)), partial(_binary, fn)) for name, fn in BINARY.items()),
    *(
        TorchOperator(_forms(name, *_overloads(name)), partial(_compare, fn))
        for name, fn in COMPARISONS.items()
    ),
    TorchOperator(aten("log10"), _log10),
    TorchOperator(aten("erfc", "special_erfc"), _erfc),
    TorchOperator(aten("round.decimals"), _round_decimals),
    TorchOperator(aten("add.Tensor", "add.Scalar"), _add),
    TorchOperator(aten("sub.Tensor", "sub.Scalar", "subtract.Tensor"), _sub),
    TorchOperator(aten("rsub.Tensor", "rsub.Scalar"), _rsub),
    TorchOperator(
        aten("div.Tensor", "div.Scalar", "div.Tensor_mode", "div.Scalar_mode", "true_divide.Tensor"), _div
    ),
    TorchOperator(aten("floor_divide", "floor_divide.Scalar"), _floor_divide),
    TorchOperator(aten("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar"), _pow),
    TorchOperator(aten("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar"), _where),
    TorchOperator(aten("masked_fill.Scalar", "masked_fill.Tensor"), _masked_fill),
    TorchOperator(aten("clamp", "clamp.Tensor", "clip", "clip.Tensor"), _clamp),
    TorchOperator(aten("clamp_min", "clamp_min.Tensor"), _clamp_min),
    TorchOperator(aten("clamp_max", "clamp_max.Tensor"), _clamp_max),
    TorchOperator(
        (
            *aten(
                "_to_copy", "clone", "alias", "detach", "contiguous", "lift_fresh_copy", "lift_fresh", "lift"
            ),
            *aten("to.dtype", "to.dtype_layout", "to.device", "to.other", "type_as"),
            *aten("detach_copy", "alias_copy", "positive", "resolve_conj", "resolve_neg"),
            "prims.convert_element_type.default",
        ),
        _convert,
    ),
    TorchOperator(aten("addcmul"), _addcmul),
    TorchOperator(aten("addcdiv"), _addcdiv),
    TorchOperator(aten("lerp.Scalar", "lerp.Tensor"), _lerp),
    TorchOperator(aten("nan_to_num"), _nan_to_num),
    TorchOperator(aten("logit", "special_logit"), _logit),
    TorchOperator(aten("hypot"), _hypot),
    TorchOperator(aten("copysign.Tensor", "copysign.Scalar"), _copysign),
    TorchOperator(aten("xlogy.Tensor", "xlogy.Scalar_Other", "xlogy.Scalar_Self"), _xlogy),
    TorchOperator(aten("logaddexp"), _logaddexp),
)
