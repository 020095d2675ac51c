"""The activation functions of recurrent layers, by their ONNX names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.onnx_reader import OnnxNode

Expr = tuple[Any, ...]
Activation = Callable[[Expr], Expr]

ZERO: Expr = ("const", 0.0)
ONE: Expr = ("const", 1.0)

# Default alpha and beta of the activations that take them (ONNX, operators RNN, GRU and LSTM).
DEFAULTS = {
    "leakyrelu": (0.01, 0.0),
    "thresholdedrelu": (1.0, 0.0),
    "hardsigmoid": (0.2, 0.5),
    "elu": (1.0, 0.0),
    "affine": (1.0, 0.0),
    "scaledtanh": (1.0, 1.0),
}


def activations(node: OnnxNode, names: Sequence[str]) -> Iterator[Activation]:
    """Yield the functions called `names`, each with its own of the node's alphas and betas."""
    given = [iter(node.get(key) or ()) for key in ("activation_alpha", "activation_beta")]
    for name in names:
        lower = str(name).lower()
        alpha, beta = (
            float(next(values, default)) if lower in DEFAULTS else default
            for values, default in zip(given, DEFAULTS.get(lower, (0.0, 0.0)), strict=True)
        )
        yield _activation(node, lower, alpha, beta)


def _activation(node: OnnxNode, name: str, alpha: float, beta: float) -> Activation:
    a, b = ("const", alpha), ("const", beta)
    functions: dict[str, Activation] = {
        "sigmoid": lambda x: ("sigmoid", x),
        "tanh": lambda x: ("tanh", x),
        "relu": lambda x: ("relu", x),
        "softsign": lambda x: ("div", x, ("add", ONE, ("abs", x))),
        "softplus": lambda x: ("add", ("relu", x), ("log1p", ("exp", ("neg", ("abs", x))))),
        "affine": lambda x: ("add", ("mul", a, x), b),
        "leakyrelu": lambda x: ("where", ("lt", x, ZERO), ("mul", a, x), x),
        "thresholdedrelu": lambda x: ("where", ("ge", x, a), x, ZERO),
        "scaledtanh": lambda x: ("mul", a, ("tanh", ("mul", b, x))),
        "hardsigmoid": lambda x: ("max", ZERO, ("min", ONE, ("add", ("mul", a, x), b))),
        "elu": lambda x: ("where", ("lt", x, ZERO), ("mul", a, ("expm1", x)), x),
    }
    if name not in functions:
        raise ImportFailure(
            f"{node.where} has the unknown activation {name!r}; known are {', '.join(functions)}"
        )
    return functions[name]
