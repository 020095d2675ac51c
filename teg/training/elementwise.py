"""Rules of differentiation for blocks that compute element by element."""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.teg.operators.expressions import inputs_of
from tapestry.teg.training.expressions import derivatives
from tapestry.teg.training.rule import BlockGradients, NotDifferentiable


def cell(b: BlockGradients) -> Sequence[str | None]:
    """Differentiate the expression; what was broadcast is summed."""
    dims, labels = dict(b.attribute("dims")), b.attribute("labels")
    dtypes = [b.writer.dtype(t) for t in b.inputs]
    wanted = {k for k, is_wanted in enumerate(b.wanted) if is_wanted}
    gradient = ("input", len(b.inputs))
    found = derivatives(b.attribute("expr"), wanted, gradient, dtypes, list(dims))
    return [_of_input(b, k, found[k], dims, labels) if k in found else None for k in range(len(b.inputs))]


def _of_input(
    b: BlockGradients, k: int, expr: tuple[object, ...], dims: dict[str, int], labels: Sequence[Sequence[str]]
) -> str:
    w, gradient, inputs = b.writer, len(b.inputs), (*b.inputs, b.gradient)
    every = (*labels, tuple(dims))
    dtype = w.dtype(b.inputs[k])
    own = [name for name in labels[k] if name]
    summed = [name for name in dims if name not in own]
    if expr == ("input", gradient):
        return w.cast(w.reduce(b.gradient, list(dims), labels[k]), dtype)
    other = _factor(expr, gradient)
    if summed and other is not None and all(every[other]) and not w.is_complex(b.gradient):
        made = w.contract([inputs[other], b.gradient], [every[other], every[gradient]], own)
        return w.cast(w.rearranged(made, own, labels[k]), dtype)
    order = {name: dims[name] for name in (*own, *summed)}
    wide = w.dtype(b.gradient) if summed else dtype
    made = w.cell(expr, inputs, every, order, wide)
    return w.cast(w.reduce(made, list(order), labels[k]), dtype)


def _factor(expr: tuple[object, ...], gradient: int) -> int | None:
    """Return the input that an expression multiplies the gradient by, if that is all it does."""
    if expr[0] != "mul" or ("input", gradient) not in expr:
        return None
    found = [k for k in inputs_of(expr) if k != gradient]
    is_product = all(isinstance(part, tuple) and part[0] == "input" for part in expr[1:])
    return found[0] if is_product and len(found) == 1 else None


def waypoint(b: BlockGradients) -> Sequence[str | None]:
    """Hand the gradient on."""
    return (b.gradient,)


def accumulate(b: BlockGradients) -> Sequence[str | None]:
    """Hand the gradient on to every term."""
    if b.attribute("monoid") != "sum":
        raise NotDifferentiable(f"terms are combined by {b.attribute('monoid')!r}")
    return (b.gradient,) * len(b.inputs)
