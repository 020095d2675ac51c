"""Element expressions as Python arithmetic: `(1 - s) * g` instead of nested tuples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class Expr:
    """An expression over elements; `tree` is what cells take (see `teg.operators.expressions`)."""

    tree: tuple[Any, ...]

    def __add__(self, other: Expr | float) -> Expr:
        return call("add", self, other)

    def __radd__(self, other: float) -> Expr:
        return call("add", other, self)

    def __sub__(self, other: Expr | float) -> Expr:
        return call("sub", self, other)

    def __rsub__(self, other: float) -> Expr:
        return call("sub", other, self)

    def __mul__(self, other: Expr | float) -> Expr:
        return call("mul", self, other)

    def __rmul__(self, other: float) -> Expr:
        return call("mul", other, self)

    def __truediv__(self, other: Expr | float) -> Expr:
        return call("div", self, other)

    def __rtruediv__(self, other: float) -> Expr:
        return call("div", other, self)

    def __neg__(self) -> Expr:
        return call("neg", self)

    def __lt__(self, other: Expr | float) -> Expr:
        return call("lt", self, other)

    def __le__(self, other: Expr | float) -> Expr:
        return call("le", self, other)

    def __gt__(self, other: Expr | float) -> Expr:
        return call("gt", self, other)

    def __ge__(self, other: Expr | float) -> Expr:
        return call("ge", self, other)

    def __and__(self, other: Expr) -> Expr:
        return call("and", self, other)

    def __or__(self, other: Expr) -> Expr:
        return call("or", self, other)


def tree_of(value: Expr | float) -> tuple[Any, ...]:
    """Return the tree of an expression or of a number."""
    return value.tree if isinstance(value, Expr) else ("const", value)


def call(name: str, *arguments: Expr | float) -> Expr:
    """Apply the cell function `name` to expressions and numbers."""
    return Expr((name, *(tree_of(a) for a in arguments)))


def where(condition: Expr, then: Expr | float, otherwise: Expr | float) -> Expr:
    """Select `then` where the condition holds, else `otherwise`."""
    return call("where", condition, then, otherwise)


def equal(a: Expr, b: Expr | float) -> Expr:
    """Compare two elements for equality; `==` compares the expressions themselves."""
    return call("eq", a, b)


def cast(dtype: str, value: Expr) -> Expr:
    """Cast the value to another element type."""
    return Expr(("cast", dtype, value.tree))


def coordinate(dim: int) -> Expr:
    """Return the position along dimension `dim` of the result."""
    return Expr(("index", f"d{dim}"))
