"""Element expressions as Python arithmetic: `(1 - s) * g` instead of nested tuples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class CellExpr:
    """An expression over elements; `tree` is what cells take (see `teg.operators.expressions`)."""

    tree: tuple[Any, ...]

    def __add__(self, other: CellExpr | float) -> CellExpr:
        return call("add", self, other)

    def __radd__(self, other: float) -> CellExpr:
        return call("add", other, self)

    def __sub__(self, other: CellExpr | float) -> CellExpr:
        return call("sub", self, other)

    def __rsub__(self, other: float) -> CellExpr:
        return call("sub", other, self)

    def __mul__(self, other: CellExpr | float) -> CellExpr:
        return call("mul", self, other)

    def __rmul__(self, other: float) -> CellExpr:
        return call("mul", other, self)

    def __truediv__(self, other: CellExpr | float) -> CellExpr:
        return call("div", self, other)

    def __rtruediv__(self, other: float) -> CellExpr:
        return call("div", other, self)

    def __neg__(self) -> CellExpr:
        return call("neg", self)

    def __lt__(self, other: CellExpr | float) -> CellExpr:
        return call("lt", self, other)

    def __le__(self, other: CellExpr | float) -> CellExpr:
        return call("le", self, other)

    def __gt__(self, other: CellExpr | float) -> CellExpr:
        return call("gt", self, other)

    def __ge__(self, other: CellExpr | float) -> CellExpr:
        return call("ge", self, other)

    def __and__(self, other: CellExpr) -> CellExpr:
        return call("and", self, other)

    def __or__(self, other: CellExpr) -> CellExpr:
        return call("or", self, other)


def tree_of(value: CellExpr | float) -> tuple[Any, ...]:
    """Return the tree of an expression or of a number."""
    return value.tree if isinstance(value, CellExpr) else ("const", value)


def call(name: str, *arguments: CellExpr | float) -> CellExpr:
    """Apply the cell function `name` to expressions and numbers."""
    return CellExpr((name, *(tree_of(a) for a in arguments)))


def where(condition: CellExpr, then: CellExpr | float, otherwise: CellExpr | float) -> CellExpr:
    """Select `then` where the condition holds, else `otherwise`."""
    return call("where", condition, then, otherwise)


def equal(a: CellExpr, b: CellExpr | float) -> CellExpr:
    """Compare two elements for equality; `==` compares the expressions themselves."""
    return call("eq", a, b)


def cast(dtype: str, value: CellExpr) -> CellExpr:
    """Cast the value to another element type."""
    return CellExpr(("cast", dtype, value.tree))


def coordinate(dim: int) -> CellExpr:
    """Return the position along dimension `dim` of the result."""
    return CellExpr(("index", f"d{dim}"))
