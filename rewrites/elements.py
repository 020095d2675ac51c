"""Variables of element-wise laws, combined by the operators and methods that tensors have: `A + -B`, `A.exp().log()`.

`A` to `D` stand for any expression, `J`, `K` for any number, `T` for any element type (`A.cast(T)`);
`number(function)` is a number worked out from what J and K stand for. Conditions are combined by `& | ~`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from tapestry.rewrites.patterns import Bound, Chain, Constant, Wild
from tapestry.teg.programs.elementwise import Elementwise


@dataclass(frozen=True, eq=False)
class Element(Elementwise):
    """An expression pattern; what is written with it is a bigger one, `pattern` its nested tuples."""

    pattern: Any

    @property
    def dtype(self) -> str:
        """Truth values, as far as `& | ~` ask: of others there are no laws."""
        return "bool"

    def function(self, name: str, *others: Any) -> Self:
        """Any cell function by name."""
        return type(self)((name, self.pattern, *(_lifted(o).pattern for o in others)))

    def fused(self, site: str, function: Callable[..., Any], *others: Any) -> Self:
        """The function itself: all of it is one expression."""
        found: Self = function(self, *map(_lifted, others))
        return found

    def __truediv__(self, other: Any) -> Self:
        return self.function("div", other)

    def cast(self, dtype: str | Wild) -> Self:
        """The elements as another element type."""
        return type(self)(("cast", dtype, self.pattern))


def _lifted(value: Any) -> Element:
    return value if isinstance(value, Element) else Element(("const", value))


def pattern_of(side: Any) -> Any:
    """The pattern of a law's side: an element, a chain of elements, or a pattern as it is."""
    if isinstance(side, Chain):
        return Chain(side.function, tuple(map(pattern_of, side.parts)))
    if isinstance(side, tuple):
        return tuple(map(pattern_of, side))
    return side.pattern if isinstance(side, Element) else side


def number(formula: Callable[[Bound], float]) -> Element:
    """A number worked out from the numbers `e["j"]` and `e["k"]` at a place; right side only."""
    return Element(("const", formula))


A, B, C, D = (Element(Wild(name)) for name in "abcd")
J, K = (Element(("const", Constant(name))) for name in "jk")
T = Wild("t")
