"""Variables of element-wise laws, combined by operators and methods of tensors: `A + -B`, `A.exp().log()`.

`A` to `D` stand for any expression, `J`, `K` for any number, `T` for any element type (`A.cast(T)`);
`number(function)` is a number computed from the values of J and K. Conditions are combined by `& | ~`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from tapestry.rewrites.patterns import Bound, Chain, Constant, Wild
from tapestry.teg.programs.elementwise import Elementwise


@dataclass(frozen=True, eq=False)
class ElementVariable(Elementwise):
    """An expression pattern; combining it gives a larger one. `pattern` holds its nested tuples."""

    pattern: Any

    @property
    def dtype(self) -> str:
        """The element type for `& | ~`, always bool: there are no such laws for other types."""
        return "bool"

    def function(self, name: str, *others: Any) -> Self:
        """Apply any cell function by name."""
        return type(self)((name, self.pattern, *(_lifted(o).pattern for o in others)))

    def fused(self, site: str, function: Callable[..., Any], *others: Any) -> Self:
        """Apply the function itself; the result is one expression anyway."""
        found: Self = function(self, *map(_lifted, others))
        return found

    def __truediv__(self, other: Any) -> Self:
        return self.function("div", other)

    def cast(self, dtype: str | Wild) -> Self:
        """Cast the elements to another element type."""
        return type(self)(("cast", dtype, self.pattern))


def _lifted(value: Any) -> ElementVariable:
    return value if isinstance(value, ElementVariable) else ElementVariable(("const", value))


def pattern_of(side: Any) -> Any:
    """Return the pattern of a law's side: of an element, of a chain of elements, or a pattern unchanged."""
    if isinstance(side, Chain):
        return Chain(side.function, tuple(map(pattern_of, side.parts)))
    if isinstance(side, tuple):
        return tuple(map(pattern_of, side))
    return side.pattern if isinstance(side, ElementVariable) else side


def number(formula: Callable[[Bound], float]) -> ElementVariable:
    """Build a number computed from the numbers `e["j"]` and `e["k"]` at a place; right-hand side only."""
    return ElementVariable(("const", formula))


A, B, C, D = (ElementVariable(Wild(name)) for name in "abcd")
J, K = (ElementVariable(("const", Constant(name))) for name in "jk")
T = Wild("t")
