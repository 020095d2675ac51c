"""ONNX's optimizers (domain `ai.onnx.preview.training`) as cells: equations of the operators' documentation."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.program import Value
from tapestry.teg.importers.translate.arithmetic import CellExpr, call
from tapestry.teg.importers.translate.builder import Builder
from tapestry.teg.importers.translate.composing import composed
from tapestry.teg.importers.translate.translation import OnnxTranslator

DOMAIN = "ai.onnx.preview.training"

# Learning rate and count of updates; then one parameter, its gradient and its state; gives the next values.
OptimizerUpdate = Callable[[Builder, OnnxNode, Value, Value, tuple[Value, ...]], tuple[Value, ...]]


def _setting(node: OnnxNode, name: str, default: float) -> float:
    return float(node.get(name, default))


def _gradient(b: Builder, node: OnnxNode, x: Value, g: Value) -> Value:
    """Add the gradient of the regularization to the gradient."""
    weight = _setting(node, "norm_coefficient", 0.0)
    return b.cells(lambda x, g: weight * x + g, x, g, dtype=x.dtype) if weight else g


def _adagrad(
    b: Builder, node: OnnxNode, rate: Value, count: Value, given: tuple[Value, ...]
) -> tuple[Value, ...]:
    x, g, h = given
    decay, epsilon = _setting(node, "decay_factor", 0.0), _setting(node, "epsilon", 1e-6)
    g = _gradient(b, node, x, g)
    squares = b.cells(lambda h, g: h + g * g, h, g, dtype=h.dtype)

    def moved(x: CellExpr, g: CellExpr, h: CellExpr, r: CellExpr, t: CellExpr) -> CellExpr:
        return x - r / (1 + t * decay) * g / (call("sqrt", h) + epsilon)

    return b.cells(moved, x, g, squares, rate, count, dtype=x.dtype), squares


def _adam(
    b: Builder, node: OnnxNode, rate: Value, count: Value, given: tuple[Value, ...]
) -> tuple[Value, ...]:
    """Compute an Adam update; the step size is corrected for moments that began as zeros, but not in update 0."""
    x, g, v, h = given
    alpha, beta = _setting(node, "alpha", 0.9), _setting(node, "beta", 0.999)
    epsilon, after = _setting(node, "epsilon", 0.0), _setting(node, "norm_coefficient_post", 0.0)
    g = _gradient(b, node, x, g)
    first = b.cells(lambda v, g: alpha * v + (1 - alpha) * g, v, g, dtype=v.dtype)
    second = b.cells(lambda h, g: beta * h + (1 - beta) * (g * g), h, g, dtype=h.dtype)

    def moved(x: CellExpr, v: CellExpr, h: CellExpr, r: CellExpr, t: CellExpr) -> CellExpr:
        scale = call("sqrt", 1 - call("pow", beta, t)) / (1 - call("pow", alpha, t))
        step = call("where", t > 0, r * scale, r)
        return (1 - after) * (x - step * (v / (call("sqrt", h) + epsilon)))

    return b.cells(moved, x, first, second, rate, count, dtype=x.dtype), first, second


def _momentum(
    b: Builder, node: OnnxNode, rate: Value, count: Value, given: tuple[Value, ...]
) -> tuple[Value, ...]:
    """Compute a momentum update; the gradient counts fully in update 0."""
    x, g, v = given
    alpha, beta = _setting(node, "alpha", 0.9), _setting(node, "beta", 1.0)
    g = _gradient(b, node, x, g)
    speed = b.cells(
        lambda v, g, t: alpha * v + call("where", t > 0, beta, 1.0) * g, v, g, count, dtype=v.dtype
    )
    if node.get("mode", "standard") == "nesterov":
        moved = b.cells(lambda x, g, v, r: x - r * (g + alpha * v), x, g, speed, rate, dtype=x.dtype)
    else:
        moved = b.cells(lambda x, v, r: x - r * v, x, speed, rate, dtype=x.dtype)
    return moved, speed


def _updates(step: OptimizerUpdate, kinds: int) -> Callable[[Builder, OnnxNode], list[Value]]:
    """Build the translator of all parameters' updates.

    Operands and results come kind by kind: all parameters, all gradients, ...
    """

    def update(b: Builder, node: OnnxNode) -> list[Value]:
        rate, count = (b.reshape(b.value(name), ()) for name in node.inputs[:2])
        operands = [b.value(name) for name in node.inputs[2:]]
        parameters, rest = divmod(len(operands), kinds)
        if rest:
            raise ImportFailure(
                f"{node.where} has {len(operands)} operands beside rate and count; each parameter needs {kinds}"
            )
        made = [step(b, node, rate, count, tuple(operands[k::parameters])) for k in range(parameters)]
        return list(chain.from_iterable(zip(*made, strict=True)))

    return update


TRAINING: tuple[OnnxTranslator, ...] = (
    OnnxTranslator(("Adagrad",), composed(_updates(_adagrad, 3)), DOMAIN),
    OnnxTranslator(("Adam",), composed(_updates(_adam, 4)), DOMAIN),
    OnnxTranslator(("Momentum",), composed(_updates(_momentum, 3)), DOMAIN),
)
