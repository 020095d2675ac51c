"""Optimizers: how parameters and their states follow from gradients, as blocks and carried state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tapestry.teg.dtypes import item_bytes
from tapestry.teg.operators.expressions import Expression
from tapestry.teg.training.writing import FIRST, SECOND, THIRD, GradientWriter


@dataclass(frozen=True)
class OptimizerSettings:
    """The numbers of an optimizer; `momentum` is of sgd, `betas` and `eps` are of adam."""

    learning_rate: float
    momentum: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8


@dataclass(frozen=True)
class Parameter:
    """A parameter to update: the source's tensor, its gradient, and the copy of full precision, or itself."""

    tensor: str
    gradient: str
    master: str


Update = Callable[[GradientWriter, list[Parameter], OptimizerSettings], list[str]]
"""Append the blocks that compute the next value of each parameter's master; states are carried by sinks."""


def state_of(w: GradientWriter, parameter: Parameter, name: str) -> str:
    """Append a source for a state of a parameter, of its master's shape and type."""
    shape, dtype = w.type_of(parameter.master)
    return w.builder.source(
        w.builder.free_site(f"{parameter.tensor}.{name}"), shape, dtype, "optimizer_state"
    )


def _carry(w: GradientWriter, state: str, value: str) -> None:
    w.builder.sink(value, site=w.builder.free_site(f"{state}.next"), carries=state)


def sgd(w: GradientWriter, parameters: list[Parameter], settings: OptimizerSettings) -> list[str]:
    """Go against the gradient, or against its running sum with momentum, as `torch.optim.SGD` does."""
    found = []
    for p in parameters:
        w.site = f"{p.tensor}.update"
        step = w.cast(p.gradient, w.dtype(p.master))
        if settings.momentum:
            velocity = state_of(w, p, "velocity")
            expr: Expression = ("add", ("mul", FIRST, ("const", settings.momentum)), SECOND)
            step = w.pointwise(expr, velocity, step)
            _carry(w, velocity, step)
        found.append(
            w.pointwise(("sub", FIRST, ("mul", SECOND, ("const", settings.learning_rate))), p.master, step)
        )
    return found


def adam(w: GradientWriter, parameters: list[Parameter], settings: OptimizerSettings) -> list[str]:
    """Divide the running mean by the root of that of squares, both without their bias, as `torch.optim.Adam` does."""
    w.site = "step"
    (first, second), one = settings.betas, ("const", 1.0)
    count = w.builder.source(w.builder.free_site("step"), (), "float32", "optimizer_state")
    now = w.pointwise(("add", FIRST, one), count)
    _carry(w, count, now)
    found = []
    for p in parameters:
        w.site = f"{p.tensor}.update"
        gradient = w.cast(p.gradient, w.dtype(p.master))
        mean, square = state_of(w, p, "mean"), state_of(w, p, "square")
        mixed = ("add", ("mul", FIRST, ("const", first)), ("mul", SECOND, ("const", 1.0 - first)))
        next_mean = w.pointwise(mixed, mean, gradient)
        squares = (
            "add",
            ("mul", FIRST, ("const", second)),
            ("mul", ("square", SECOND), ("const", 1.0 - second)),
        )
        next_square = w.pointwise(squares, square, gradient)
        _carry(w, mean, next_mean)
        _carry(w, square, next_square)
        at = ("input", 3)
        bias = [("sub", one, ("pow", ("const", beta), at)) for beta in settings.betas]
        root = ("add", ("sqrt", ("div", THIRD, bias[1])), ("const", settings.eps))
        change = ("div", ("div", SECOND, bias[0]), root)
        expr = ("sub", FIRST, ("mul", ("const", settings.learning_rate), change))
        found.append(w.pointwise(expr, p.master, next_mean, next_square, now))
    return found


OPTIMIZERS: Mapping[str, Update] = {"adam": adam, "sgd": sgd}
LEARNING_RATES: Mapping[str, float] = {"adam": 1e-3, "sgd": 1e-2}


def needs_master(dtype: str) -> bool:
    """Return whether a parameter of this type is updated in a copy of float32: steps are lost in fewer bits."""
    return item_bytes(dtype) < 4
