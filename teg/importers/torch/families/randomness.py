"""Random operators: without effect in evaluation mode, refused where numbers would be drawn."""

from __future__ import annotations

from typing import Any

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.operator import TorchOperator, aten
from tapestry.teg.importers.torch.tracer import Tracer

HINT = "export the program in evaluation mode, or give the numbers as an input"


def _dropout(t: Tracer, input: Value, p: float, train: bool | None = None) -> Value:
    if train is not False and p:
        raise t.refuse(f"draws random numbers (dropout); {HINT}")
    return input


def _native_dropout(t: Tracer, input: Value, p: float, train: bool | None) -> tuple[Value, Value]:
    """Translate a dropout; the second result is the mask of the elements that are kept."""
    return _dropout(t, input, p, train is not False), t.full(input.shape, True, "bool")


def _refused(t: Tracer, *_: Any, **__: Any) -> Value:
    raise t.refuse(f"draws random numbers, whose sequence is torch's own; {HINT}")


RANDOMNESS: tuple[TorchOperator, ...] = (
    TorchOperator(aten("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"), _dropout),
    TorchOperator(aten("native_dropout"), _native_dropout),
    TorchOperator(
        (
            *aten("rand", "randn", "randperm", "rand_like", "randn_like", "randint", "randint.low"),
            *aten("randint_like", "randint_like.low_dtype", "bernoulli", "bernoulli.p", "multinomial"),
            *aten("normal_functional", "normal.float_float", "uniform", "exponential"),
        ),
        _refused,
    ),
)
