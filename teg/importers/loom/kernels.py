"""The kernels of Loom graphs that are known here; the others stay blocks of the operator `external`.

A kernel gets its input tensors in the order of the operation's names and makes one output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.operators.expressions import CELL_FUNCTIONS, Expression


@dataclass(frozen=True)
class Application:
    """One operation to be built: its site, input tensors, and the type of its output."""

    builder: GraphBuilder
    site: str
    inputs: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str

    def type_of(self, position: int) -> tuple[tuple[int, ...], str]:
        """Return the shape and element type of an input."""
        kind = self.builder.tensors[self.inputs[position]].type
        return kind.shape, kind.dtype


Kernel = Callable[[Application], str]


def kernel_named(name: str, inputs: int) -> Kernel | None:
    """Return the function that builds a kernel with this number of inputs; None for an unknown kernel."""
    plain = name.removeprefix("op:")
    if plain in KERNELS:
        return KERNELS[plain]
    function = CELL_FUNCTIONS.get(plain)
    if function is not None and (function.arity == inputs or (plain in FOLDED and inputs >= 2)):
        return lambda a: _cell(a, _folded(plain, inputs) if plain in FOLDED else _applied(plain, inputs))
    return None


# Functions that take any number of inputs, two at a time.
FOLDED = ("add", "mul", "max", "min")


def _folded(name: str, count: int) -> Expression:
    expr: Expression = ("input", 0)
    for k in range(1, count):
        expr = (name, expr, ("input", k))
    return expr


def _applied(name: str, count: int) -> Expression:
    return (name, *(("input", k) for k in range(count)))


def _cell(a: Application, expr: Expression) -> str:
    """Append a cell of an expression on inputs that are broadcast to the output by NumPy's rule."""
    names = tuple(f"d{k}" for k in range(len(a.shape)))
    labels = tuple(_labels(a.type_of(k)[0], a.shape, names) for k in range(len(a.inputs)))
    dims = tuple(zip(names, a.shape, strict=True))
    made = a.builder.apply("cell", a.inputs, site=a.site, expr=expr, labels=labels, dims=dims, dtype=a.dtype)
    return made[0]


def _labels(shape: Sequence[int], wanted: Sequence[int], names: Sequence[str]) -> tuple[str, ...]:
    lead = len(wanted) - len(shape)
    if lead < 0:
        raise ValueError(f"an input of shape {tuple(shape)} is not broadcast to {tuple(wanted)}")
    pairs = zip(shape, wanted[lead:], names[lead:], strict=True)
    return tuple(name if size == other else "" for size, other, name in pairs)


def _linear(a: Application) -> str:
    """Append `x A + b`: x `[*batch, in]`, A `[in, out]`, b `[out]` or none."""
    product = _product(a, "b" if len(a.inputs) == 2 else "")
    if len(a.inputs) == 2:
        return product
    summed = Application(a.builder, a.site, (product, a.inputs[2]), a.shape, a.dtype)
    return _cell(summed, _folded("add", 2))


def _matmul(a: Application) -> str:
    return _product(a, "b")


def _product(a: Application, last: str) -> str:
    rank = len(a.type_of(0)[0])
    batch = tuple(f"b{k}" for k in range(rank - 1))
    site = a.site if last else f"{a.site}.product"
    labels = ((*batch, "k"), ("k", "n"))
    return a.builder.apply("contract", a.inputs[:2], site=site, labels=labels, output=(*batch, "n"))[0]


KERNELS: dict[str, Kernel] = {"linear": _linear, "matmul": _matmul}
