"""Casts, with rounding and saturation as the ONNX standard defines them for short floats."""

from __future__ import annotations

from typing import Any

from tapestry.teg.dtypes import bounds, item_bytes
from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.onnx_tensors import element_type
from tapestry.teg.importers.translate.translation import OnnxTranslator, Translation

Expr = tuple[Any, ...]

# Casts to these stop at the largest finite number, unless the node says otherwise (ONNX, operator Cast, tables).
SATURATING = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
POWERS = "float8_e8m0fnu"
X: Expr = ("input", 0)


def _between(e: Expr, low: float, high: float) -> Expr:
    return ("max", ("min", e, ("const", high)), ("const", low))


def saturated(e: Expr, dtype: str) -> Expr:
    """Clamp the expression to the range of a short float, where casts to it saturate."""
    return _between(e, *bounds(dtype)) if dtype in SATURATING else e


def _power_of_two(node: OnnxNode, saturate: bool) -> Expr:
    """Compute the magnitude as a power of two; infinities become NaN, and zero the smallest power."""
    size: Expr = ("abs", ("cast", "float64", X))
    mode = str(node.get("round_mode", "up"))
    exponents: dict[str, Expr] = {
        "up": ("ceil", ("log2", size)),
        "down": ("floor", ("log2", size)),
        # From 1.5 times a power on, the next one is nearer.
        "nearest": ("add", ("floor", ("log2", ("div", size, ("const", 1.5)))), ("const", 1.0)),
    }
    if mode not in exponents:
        raise ImportFailure(f"{node.where} rounds {mode!r}; known are {', '.join(exponents)}")
    low, high = bounds(POWERS)
    power: Expr = ("max", ("exp2", exponents[mode]), ("const", low))
    if saturate:
        power = ("min", power, ("const", high))
    return ("where", ("is_finite", size), power, ("const", float("nan")))


def _cast(t: Translation, node: OnnxNode) -> None:
    given = t.value(node.inputs[0]).dtype
    like = node.op == "CastLike"
    wanted = t.value(node.inputs[1]).dtype if like else element_type(int(node.get("to")), node.where)
    if wanted == given:
        t.alias(node.outputs[0], node.inputs[0])
        return
    saturate = bool(node.get("saturate", 1))
    bounded = X
    if wanted == POWERS:
        bounded = _power_of_two(node, saturate)
    elif saturate:
        bounded = saturated(X, wanted)
    t.cell(node.name, node.inputs[:1], node.outputs[0], ("cast", wanted, bounded), wanted)


def _bit_cast(t: Translation, node: OnnxNode) -> None:
    """Reinterpret the bits as elements of another type of the same size."""
    given, wanted = t.value(node.inputs[0]).dtype, element_type(int(node.get("to")), node.where)
    if item_bytes(given) != item_bytes(wanted):
        raise ImportFailure(f"{node.where}: elements of {given} have not as many bits as those of {wanted}")
    t.cell(node.name, node.inputs, node.outputs[0], ("bitcast", wanted, X), wanted)


CASTING: tuple[OnnxTranslator, ...] = (
    OnnxTranslator(("Cast", "CastLike"), _cast),
    OnnxTranslator(("BitCast",), _bit_cast),
)
