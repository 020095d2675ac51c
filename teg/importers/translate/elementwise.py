"""Translation of elementwise ONNX operators to cells: an expression over broadcast operands."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.program import Literal
from tapestry.teg.importers.translate.translation import OnnxTranslator, Translation

Expr = tuple[Any, ...]

UNARY = {
    "Abs": "abs",
    "Acos": "acos",
    "Acosh": "acosh",
    "Asin": "asin",
    "Asinh": "asinh",
    "Atan": "atan",
    "Atanh": "atanh",
    "BitwiseNot": "bit_not",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "Log": "log",
    "Neg": "neg",
    "Reciprocal": "reciprocal",
    "Relu": "relu",
    "Round": "round",
    "Sigmoid": "sigmoid",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
}
BINARY = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Div": "div",
    "Pow": "pow",
    "BitwiseAnd": "bit_and",
    "BitwiseOr": "bit_or",
    "BitwiseXor": "bit_xor",
}
COMPARISON = {
    "Equal": "eq",
    "Less": "lt",
    "LessOrEqual": "le",
    "Greater": "gt",
    "GreaterOrEqual": "ge",
    "And": "and",
    "Or": "or",
    "Xor": "xor",
    "Not": "not",
    "IsNaN": "is_nan",
}
VARIADIC = {"Sum": "add", "Max": "max", "Min": "min"}

X: Expr = ("input", 0)


def const(value: float) -> Expr:
    """Build an expression for a number."""
    return ("const", value)


def _simple(t: Translation, node: OnnxNode) -> None:
    name = UNARY.get(node.op) or BINARY[node.op]
    expr = (name, *(("input", k) for k in range(len(node.inputs))))
    t.cell(node.name, node.inputs, node.outputs[0], expr, t.value(node.inputs[0]).dtype)


def _compare(t: Translation, node: OnnxNode) -> None:
    expr = (COMPARISON[node.op], *(("input", k) for k in range(len(node.inputs))))
    t.cell(node.name, node.inputs, node.outputs[0], expr, "bool")


def _variadic(t: Translation, node: OnnxNode) -> None:
    terms: list[Expr] = [("input", k) for k in range(len(node.inputs))]
    expr = reduce(lambda a, b: (VARIADIC[node.op], a, b), terms)
    t.cell(node.name, node.inputs, node.outputs[0], expr, t.value(node.inputs[0]).dtype)


def _mean(t: Translation, node: OnnxNode) -> None:
    terms: list[Expr] = [("input", k) for k in range(len(node.inputs))]
    expr = ("mul", reduce(lambda a, b: ("add", a, b), terms), const(1 / len(terms)))
    t.cell(node.name, node.inputs, node.outputs[0], expr, t.value(node.inputs[0]).dtype)


def _mod(t: Translation, node: OnnxNode) -> None:
    expr = ("fmod" if node.get("fmod", 0) else "mod", X, ("input", 1))
    t.cell(node.name, node.inputs, node.outputs[0], expr, t.value(node.inputs[0]).dtype)


def _where(t: Translation, node: OnnxNode) -> None:
    expr = ("where", X, ("input", 1), ("input", 2))
    t.cell(node.name, node.inputs, node.outputs[0], expr, t.value(node.inputs[1]).dtype)


def _identity(t: Translation, node: OnnxNode) -> None:
    t.alias(node.outputs[0], node.inputs[0])


def _dropout(t: Translation, node: OnnxNode) -> None:
    """Translate dropout at inference, or with ratio 0, as the identity, with a mask that keeps everything."""
    training = t.constant(node, 2, "training mode")
    if training is not None and bool(training.reshape(-1)[0]):
        ratio = t.constant(node, 1, "ratio")
        if ratio is None or ratio.reshape(-1)[0] != 0:
            raise ImportFailure(f"{node.where} is unsupported in training mode")
    t.alias(node.outputs[0], node.inputs[0])
    mask = node.outputs[1] if len(node.outputs) > 1 else ""
    if mask:
        value = t.value(node.inputs[0])
        # Before version 10 the mask had the type of the data.
        kept = np.ones((1,) * len(value.shape), bool if t.opset >= 10 else numpy_dtype(value.dtype))
        t.know(mask, Literal(kept, value.shape))


def _is_infinite(t: Translation, node: OnnxNode) -> None:
    """Test for infinity, with the signs that the node detects."""
    up, down = bool(node.get("detect_positive", 1)), bool(node.get("detect_negative", 1))
    expr: Expr = ("is_inf", X)
    if up != down:
        expr = ("eq", X, const(math.inf if up else -math.inf))
    elif not up:
        expr = ("and", ("is_inf", X), ("const", False))
    t.cell(node.name, node.inputs, node.outputs[0], expr, "bool")


def _clip(t: Translation, node: OnnxNode) -> None:
    """Clip a value; bounds are attributes before opset 11, then inputs; known ones become numbers in the expression."""
    inputs, expr = [node.inputs[0]], X
    for position, (name, fn) in enumerate((("min", "max"), ("max", "min")), start=1):
        if name in node.attributes:
            expr = (fn, expr, const(float(node.attributes[name])))
        elif position < len(node.inputs) and node.inputs[position]:
            expr = (fn, expr, ("input", len(inputs)))
            inputs.append(node.inputs[position])
    t.cell(node.name, inputs, node.outputs[0], expr, t.value(node.inputs[0]).dtype)


def _gelu(t: Translation, node: OnnxNode) -> None:
    if node.get("approximate", "none") == "tanh":
        cubic = ("add", X, ("mul", const(0.044715), ("mul", X, ("mul", X, X))))
        bell = ("tanh", ("mul", const(math.sqrt(2 / math.pi)), cubic))
    else:
        bell = ("erf", ("mul", X, const(math.sqrt(0.5))))
    expr = ("mul", ("mul", const(0.5), X), ("add", const(1.0), bell))
    t.cell(node.name, node.inputs, node.outputs[0], expr, t.value(node.inputs[0]).dtype)


def _activation(t: Translation, node: OnnxNode) -> None:
    one, zero = const(1.0), const(0.0)
    growth = ("sub", ("exp", X), one)
    softplus = ("add", ("relu", X), ("log", ("add", one, ("exp", ("neg", ("abs", X))))))

    def given(name: str, default: float) -> Expr:
        return const(float(node.get(name, default)))

    def gate(a: Expr, b: Expr) -> Expr:
        return ("max", zero, ("min", one, ("add", ("mul", a, X), b)))

    def positive(below: Expr) -> Expr:
        return ("where", ("lt", X, zero), below, X)

    celu = ("sub", ("exp", ("div", X, given("alpha", 1.0))), one)
    selu = positive(("mul", given("alpha", 1.6732632423543772), growth))
    expressions: dict[str, Expr] = {
        "HardSigmoid": gate(given("alpha", 0.2), given("beta", 0.5)),
        "HardSwish": ("mul", X, gate(const(1 / 6), const(0.5))),
        "LeakyRelu": positive(("mul", given("alpha", 0.01), X)),
        "PRelu": positive(("mul", ("input", 1), X)),
        "Elu": positive(("mul", given("alpha", 1.0), growth)),
        "Celu": positive(("mul", given("alpha", 1.0), celu)),
        "Selu": ("mul", given("gamma", 1.0507009873554805), selu),
        "ThresholdedRelu": ("where", ("gt", X, given("alpha", 1.0)), X, zero),
        "Softplus": softplus,
        "Softsign": ("div", X, ("add", one, ("abs", X))),
        "Mish": ("mul", X, ("tanh", softplus)),
        "Swish": ("mul", X, ("sigmoid", ("mul", given("alpha", 1.0), X))),
    }
    t.cell(node.name, node.inputs, node.outputs[0], expressions[node.op], t.value(node.inputs[0]).dtype)


_ACTIVATIONS = (
    *("HardSigmoid", "HardSwish", "LeakyRelu", "PRelu", "Elu", "Celu", "Selu"),
    *("ThresholdedRelu", "Softplus", "Softsign", "Mish", "Swish"),
)

ELEMENTWISE: tuple[OnnxTranslator, ...] = (
    OnnxTranslator((*UNARY, *BINARY), _simple),
    OnnxTranslator(tuple(COMPARISON), _compare),
    OnnxTranslator(tuple(VARIADIC), _variadic),
    OnnxTranslator(("Mean",), _mean),
    OnnxTranslator(("Mod",), _mod),
    OnnxTranslator(("Where",), _where),
    OnnxTranslator(("Identity",), _identity),
    OnnxTranslator(("Dropout",), _dropout),
    OnnxTranslator(("IsInf",), _is_infinite),
    OnnxTranslator(("Clip",), _clip),
    OnnxTranslator(("Gelu",), _gelu),
    OnnxTranslator(_ACTIVATIONS, _activation),
)
