"""Activation functions and their gradients, as torch defines them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.operator import TorchOperator, aten
from tapestry.teg.importers.torch.tracer import Tracer
from tapestry.teg.importers.translate.arithmetic import CellExpr, call, where

BELL = 1 / math.sqrt(2 * math.pi)


def _sigmoid(a: CellExpr) -> CellExpr:
    return call("sigmoid", a)


def _softplus(a: CellExpr) -> CellExpr:
    """Compute log(1 + exp(a)) without overflow, whatever the size of `a`."""
    return call("relu", a) + call("log1p", call("exp", -call("abs", a)))


def _hard_gate(a: CellExpr) -> CellExpr:
    return call("min", call("max", a + 3.0, 0.0), 6.0) / 6.0


# Of one operand, without parameters.
PLAIN: dict[str, Callable[[CellExpr], CellExpr]] = {
    "relu": lambda a: call("relu", a),
    "silu": lambda a: a * _sigmoid(a),
    "mish": lambda a: a * call("tanh", _softplus(a)),
    "hardsigmoid": _hard_gate,
    "hardswish": lambda a: a * _hard_gate(a),
    "relu6": lambda a: call("min", call("relu", a), 6.0),
    "selu": lambda a: 1.0507009873554804934 * where(a > 0, a, 1.6732632423543772848 * call("expm1", a)),
    "log_sigmoid": lambda a: -_softplus(-a),
}
# Of a gradient and the result, or the operand, of the forward pass.
GRADIENTS: dict[str, Callable[[CellExpr, CellExpr], CellExpr]] = {
    "tanh_backward": lambda g, y: g * (1 - y * y),
    "sigmoid_backward": lambda g, y: g * y * (1 - y),
    "silu_backward": lambda g, a: g * _sigmoid(a) * (1 + a * (1 - _sigmoid(a))),
    "hardsigmoid_backward": lambda g, a: where((a > -3.0) & (a < 3.0), g / 6.0, 0.0),
    "hardswish_backward": lambda g, a: where(a < -3.0, 0.0, where(a <= 3.0, g * (a / 3.0 + 0.5), g)),
    "mish_backward": lambda g, a: (
        g
        * (
            call("tanh", _softplus(a))
            + a * _sigmoid(a) * (1 - call("tanh", _softplus(a)) * call("tanh", _softplus(a)))
        )
    ),
}


def _plain(name: str, t: Tracer, x: Value) -> Value:
    return t.cells(PLAIN[name], x, dtype=t.dtype)


def _gradient(name: str, t: Tracer, grad_output: Value, x: Value) -> Value:
    return t.cells(GRADIENTS[name], grad_output, x, dtype=t.dtype)


def _tanh_gradient(name: str, t: Tracer, grad_output: Value, output: Value) -> Value:
    return t.cells(GRADIENTS[name], grad_output, output, dtype=t.dtype)


def _cubic(a: CellExpr) -> CellExpr:
    return math.sqrt(2 / math.pi) * (a + 0.044715 * (a * a * a))


def _gelu(t: Tracer, x: Value, *, approximate: str = "none") -> Value:
    if approximate == "tanh":
        return t.cells(lambda a: 0.5 * a * (1 + call("tanh", _cubic(a))), x, dtype=t.dtype)
    return t.cells(lambda a: 0.5 * a * (1 + call("erf", a * math.sqrt(0.5))), x, dtype=t.dtype)


def _gelu_backward(t: Tracer, grad_output: Value, x: Value, *, approximate: str = "none") -> Value:
    def exact(g: CellExpr, a: CellExpr) -> CellExpr:
        return g * (0.5 * (1 + call("erf", a * math.sqrt(0.5))) + a * BELL * call("exp", a * a * -0.5))

    def by_tanh(g: CellExpr, a: CellExpr) -> CellExpr:
        bent = call("tanh", _cubic(a))
        slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * (a * a))
        return g * (0.5 * (1 + bent) + 0.5 * a * (1 - bent * bent) * slope)

    return t.cells(by_tanh if approximate == "tanh" else exact, grad_output, x, dtype=t.dtype)


def _leaky_relu(t: Tracer, x: Value, negative_slope: float = 0.01) -> Value:
    return t.cells(lambda a: where(a > 0, a, a * negative_slope), x, dtype=t.dtype)


def _leaky_relu_backward(
    t: Tracer, grad_output: Value, x: Value, negative_slope: float, self_is_result: bool = False
) -> Value:
    return t.cells(lambda g, a: where(a > 0, g, g * negative_slope), grad_output, x, dtype=t.dtype)


def _elu(t: Tracer, x: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    return t.cells(
        lambda a: where(a > 0, a * scale, call("expm1", a * input_scale) * (alpha * scale)), x, dtype=t.dtype
    )


def _elu_backward(
    t: Tracer,
    grad_output: Value,
    alpha: float,
    scale: float,
    input_scale: float,
    is_result: bool,
    self_or_result: Value,
) -> Value:
    def slope(g: CellExpr, a: CellExpr) -> CellExpr:
        if is_result:
            return where(a <= 0, g * input_scale * (a + alpha * scale), g * scale)
        return where(a <= 0, g * (input_scale * alpha * scale) * call("exp", a * input_scale), g * scale)

    return t.cells(slope, grad_output, self_or_result, dtype=t.dtype)


def _celu(t: Tracer, x: Value, alpha: float = 1.0) -> Value:
    return _elu(t, x, alpha, 1.0, 1.0 / alpha)


def _hardtanh(t: Tracer, x: Value, min_val: float = -1, max_val: float = 1) -> Value:
    return t.cells(lambda a: call("min", call("max", a, min_val), max_val), x, dtype=t.dtype)


def _hardtanh_backward(t: Tracer, grad_output: Value, x: Value, min_val: float, max_val: float) -> Value:
    return t.cells(lambda g, a: where((a > min_val) & (a < max_val), g, 0.0), grad_output, x, dtype=t.dtype)


def _threshold(t: Tracer, x: Value, threshold: float, value: float) -> Value:
    return t.cells(lambda a: where(a <= threshold, value, a), x, dtype=t.dtype)


def _threshold_backward(t: Tracer, grad_output: Value, x: Value, threshold: float) -> Value:
    return t.cells(lambda g, a: where(a <= threshold, 0.0, g), grad_output, x, dtype=t.dtype)


def _softplus_of(t: Tracer, x: Value, beta: float = 1, threshold: float = 20) -> Value:
    return t.cells(lambda a: where(a * beta > threshold, a, _softplus(a * beta) / beta), x, dtype=t.dtype)


def _softplus_backward(t: Tracer, grad_output: Value, x: Value, beta: float, threshold: float) -> Value:
    return t.cells(
        lambda g, a: where(a * beta > threshold, g, g * _sigmoid(a * beta)), grad_output, x, dtype=t.dtype
    )


def _hardshrink(t: Tracer, x: Value, lambd: float = 0.5) -> Value:
    return t.cells(lambda a: where((a >= -lambd) & (a <= lambd), 0.0, a), x, dtype=t.dtype)


def _softshrink(t: Tracer, x: Value, lambd: float = 0.5) -> Value:
    return t.cells(
        lambda a: where(a > lambd, a - lambd, where(a < -lambd, a + lambd, 0.0 * a)), x, dtype=t.dtype
    )


def _shrink_backward(t: Tracer, grad_output: Value, x: Value, lambd: float) -> Value:
    return t.cells(lambda g, a: where((a >= -lambd) & (a <= lambd), 0.0, g), grad_output, x, dtype=t.dtype)


def _prelu(t: Tracer, x: Value, weight: Value) -> Value:
    """Translate a PReLU with one slope for all, or one per channel."""
    if weight.shape and len(weight.shape) == 1 and len(x.shape) > 1:
        weight = t.reshape(weight, (*weight.shape, *(1,) * (len(x.shape) - 2)))
    return t.cells(lambda a, w: where(a > 0, a, a * w), x, weight, dtype=t.dtype)


def _prelu_backward(t: Tracer, grad_output: Value, x: Value, weight: Value) -> tuple[Value, Value]:
    given = t.cells(lambda g, a, w: where(a > 0, g, g * w), grad_output, x, weight, dtype=x.dtype)
    return given, t.cells(lambda g, a: where(a > 0, 0.0, g * a), grad_output, x, dtype=x.dtype)


def _rrelu(t: Tracer, x: Value, lower: float = 0.125, upper: float = 1 / 3, training: bool = False) -> Value:
    """Translate an RReLU with the middle slope of evaluation; training, which draws a random slope, is refused."""
    if training:
        raise t.refuse("draws random numbers; export the program in evaluation mode")
    return _leaky_relu(t, x, (lower + upper) / 2)


def _glu(t: Tracer, x: Value, dim: int = -1) -> Value:
    axis = t.axis(dim, len(x.shape))
    half = x.shape[axis] // 2
    left, right = t.part(x, axis, range(half)), t.part(x, axis, range(half, 2 * half))
    return t.cells(lambda a, b: a * _sigmoid(b), left, right, dtype=t.dtype)


def _glu_backward(t: Tracer, grad_output: Value, x: Value, dim: int) -> Value:
    axis = t.axis(dim, len(x.shape))
    half = x.shape[axis] // 2
    left, right = t.part(x, axis, range(half)), t.part(x, axis, range(half, 2 * half))
    first = t.cells(lambda g, b: g * _sigmoid(b), grad_output, right, dtype=t.dtype)
    second = t.cells(
        lambda g, a, b: g * a * _sigmoid(b) * (1 - _sigmoid(b)), grad_output, left, right, dtype=t.dtype
    )
    return t.concat([first, second], axis)


def _log_sigmoid_forward(t: Tracer, x: Value) -> tuple[Value, Value | None]:
    """Translate a log-sigmoid.

    The second result is what torch keeps for the gradient, None on processors that keep nothing.
    """
    kept = t.recorded(1).shape == x.shape
    rest = t.cells(lambda a: call("exp", -call("abs", a)), x, dtype=t.recorded(1).dtype) if kept else None
    return t.cells(PLAIN["log_sigmoid"], x, dtype=t.dtype), rest


def _log_sigmoid_backward(t: Tracer, grad_output: Value, x: Value, buffer: Value | None) -> Value:
    return t.cells(lambda g, a: g * _sigmoid(-a), grad_output, x, dtype=t.dtype)


_BY_RESULT = ("tanh_backward", "sigmoid_backward")

ACTIVATIONS: tuple[TorchOperator, ...] = (
    *(TorchOperator(aten(name), partial(_plain, name)) for name in PLAIN),
    *(TorchOperator(aten(name), partial(_gradient, name)) for name in GRADIENTS if name not in _BY_RESULT),
    *(TorchOperator(aten(name), partial(_tanh_gradient, name)) for name in _BY_RESULT),
    TorchOperator(aten("gelu"), _gelu),
    TorchOperator(aten("gelu_backward"), _gelu_backward),
    TorchOperator(aten("leaky_relu"), _leaky_relu),
    TorchOperator(aten("leaky_relu_backward"), _leaky_relu_backward),
    TorchOperator(aten("elu"), _elu),
    TorchOperator(aten("elu_backward"), _elu_backward),
    TorchOperator(aten("celu"), _celu),
    TorchOperator(aten("hardtanh"), _hardtanh),
    TorchOperator(aten("hardtanh_backward"), _hardtanh_backward),
    TorchOperator(aten("threshold"), _threshold),
    TorchOperator(aten("threshold_backward"), _threshold_backward),
    TorchOperator(aten("softplus"), _softplus_of),
    TorchOperator(aten("softplus_backward"), _softplus_backward),
    TorchOperator(aten("hardshrink"), _hardshrink),
    TorchOperator(aten("softshrink"), _softshrink),
    TorchOperator(aten("softshrink_backward", "hardshrink_backward"), _shrink_backward),
    TorchOperator(aten("prelu", "_prelu_kernel"), _prelu),
    TorchOperator(aten("_prelu_kernel_backward"), _prelu_backward),
    TorchOperator(aten("rrelu"), _rrelu),
    TorchOperator(aten("glu"), _glu),
    TorchOperator(aten("glu_backward"), _glu_backward),
    TorchOperator(aten("log_sigmoid_forward"), _log_sigmoid_forward),
    TorchOperator(aten("log_sigmoid_backward"), _log_sigmoid_backward),
)
