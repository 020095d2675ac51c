"""Operators and functions that work element by element: the same for tensors and inside a composed cell."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

from tapestry.teg.operators.expressions import CELL_FUNCTIONS
from tapestry.teg.programs.failure import ProgramError

# The other side of an operator: a tensor or cell of the same kind, a Python or numpy number, a numpy array.
ElementwiseOperand = Any

WHOLE_NUMBERS = ("bool", "int", "uint")


class Elementwise(ABC):
    """Elementwise operators; a subclass defines how a function of several operands becomes one."""

    @property
    @abstractmethod
    def dtype(self) -> str:
        """The name of the element type."""

    @abstractmethod
    def fused(self, site: str, function: Callable[..., Any], *others: ElementwiseOperand) -> Self:
        """Compute `function` of this and the others in one cell."""

    def function(self, name: str, *others: ElementwiseOperand) -> Self:
        """Apply any cell function by name: `x.function("atan2", y)`; `teg.operators.expressions` lists them.

        Raises:
            ProgramError: there is none of this name.
        """
        if name not in CELL_FUNCTIONS:
            raise ProgramError(f"there is no cell function {name!r}; known are {', '.join(CELL_FUNCTIONS)}")
        return self.fused(name, lambda first, *rest: first.function(name, *rest), *others)

    def cast(self, dtype: str) -> Self:
        """Cast the elements to another element type."""
        return self.fused("cast", lambda a: a.cast(dtype))

    def __add__(self, other: ElementwiseOperand) -> Self:
        return self.function("add", other)

    def __radd__(self, other: ElementwiseOperand) -> Self:
        return self.fused("add", lambda a, b: b + a, other)

    def __sub__(self, other: ElementwiseOperand) -> Self:
        return self.function("sub", other)

    def __rsub__(self, other: ElementwiseOperand) -> Self:
        return self.fused("sub", lambda a, b: b - a, other)

    def __mul__(self, other: ElementwiseOperand) -> Self:
        return self.function("mul", other)

    def __rmul__(self, other: ElementwiseOperand) -> Self:
        return self.fused("mul", lambda a, b: b * a, other)

    def __truediv__(self, other: ElementwiseOperand) -> Self:
        return self.fused("div", lambda a, b: a / b, other)

    def __rtruediv__(self, other: ElementwiseOperand) -> Self:
        return self.fused("div", lambda a, b: b / a, other)

    def __floordiv__(self, other: ElementwiseOperand) -> Self:
        return self.fused("floor_div", lambda a, b: a // b, other)

    def __rfloordiv__(self, other: ElementwiseOperand) -> Self:
        return self.fused("floor_div", lambda a, b: b // a, other)

    def __mod__(self, other: ElementwiseOperand) -> Self:
        return self.function("mod", other)

    def __pow__(self, other: ElementwiseOperand) -> Self:
        return self.function("pow", other)

    def __rpow__(self, other: ElementwiseOperand) -> Self:
        return self.fused("pow", lambda a, b: b**a, other)

    def __neg__(self) -> Self:
        return self.function("neg")

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Self:
        return self.function("abs")

    def __eq__(self, other: ElementwiseOperand) -> Self:  # type: ignore[override]
        return self.function("eq", other)

    def __ne__(self, other: ElementwiseOperand) -> Self:  # type: ignore[override]
        return self.function("ne", other)

    __hash__ = object.__hash__

    def __lt__(self, other: ElementwiseOperand) -> Self:
        return self.function("lt", other)

    def __le__(self, other: ElementwiseOperand) -> Self:
        return self.function("le", other)

    def __gt__(self, other: ElementwiseOperand) -> Self:
        return self.function("gt", other)

    def __ge__(self, other: ElementwiseOperand) -> Self:
        return self.function("ge", other)

    def __and__(self, other: ElementwiseOperand) -> Self:
        return self._logical("and", "bit_and", other)

    def __or__(self, other: ElementwiseOperand) -> Self:
        return self._logical("or", "bit_or", other)

    def __xor__(self, other: ElementwiseOperand) -> Self:
        return self._logical("xor", "bit_xor", other)

    def __invert__(self) -> Self:
        return self.function("not" if self.dtype == "bool" else "bit_not")

    def _logical(self, of_bools: str, of_bits: str, other: ElementwiseOperand) -> Self:
        both = self.dtype == "bool" and str(getattr(other, "dtype", type(other).__name__)) == "bool"
        return self.function(of_bools if both else of_bits, other)

    def __bool__(self) -> bool:
        raise ProgramError(
            "a tensor has no truth value while the program is written: combine conditions by & | ~, choose by .where()"
        )

    def exp(self) -> Self:
        """Compute e to the power of each element."""
        return self.function("exp")

    def expm1(self) -> Self:
        """Compute `exp(x) - 1`, exact near 0."""
        return self.function("expm1")

    def log(self) -> Self:
        """Compute the natural logarithm."""
        return self.function("log")

    def log1p(self) -> Self:
        """Compute `log(1 + x)`, exact near 0."""
        return self.function("log1p")

    def sqrt(self) -> Self:
        """Compute the square root."""
        return self.function("sqrt")

    def rsqrt(self) -> Self:
        """Compute the reciprocal of the square root."""
        return self.function("rsqrt")

    def reciprocal(self) -> Self:
        """Compute `1 / x`."""
        return self.function("reciprocal")

    def square(self) -> Self:
        """Compute `x * x`."""
        return self.function("square")

    def abs(self) -> Self:
        """Compute the absolute value."""
        return self.function("abs")

    def sign(self) -> Self:
        """Compute the sign: -1, 0 or 1."""
        return self.function("sign")

    def sin(self) -> Self:
        """Compute the sine."""
        return self.function("sin")

    def cos(self) -> Self:
        """Compute the cosine."""
        return self.function("cos")

    def tanh(self) -> Self:
        """Compute the hyperbolic tangent."""
        return self.function("tanh")

    def erf(self) -> Self:
        """Compute the error function."""
        return self.function("erf")

    def floor(self) -> Self:
        """Round to the largest whole number that is not above."""
        return self.function("floor")

    def ceil(self) -> Self:
        """Round to the smallest whole number that is not below."""
        return self.function("ceil")

    def round(self) -> Self:
        """Round to the nearest whole number; halves go to the even one."""
        return self.function("round")

    def is_nan(self) -> Self:
        """Return whether each element is not a number."""
        return self.function("is_nan")

    def is_inf(self) -> Self:
        """Return whether each element is infinite."""
        return self.function("is_inf")

    def maximum(self, other: ElementwiseOperand) -> Self:
        """Compute the larger of two elements."""
        return self.function("max", other)

    def minimum(self, other: ElementwiseOperand) -> Self:
        """Compute the smaller of two elements."""
        return self.function("min", other)

    def clip(self, low: ElementwiseOperand, high: ElementwiseOperand) -> Self:
        """Clip each element to `[low, high]`."""
        return self.fused("clip", lambda x, a, b: x.maximum(a).minimum(b), low, high)

    def where(self, then: ElementwiseOperand, otherwise: ElementwiseOperand) -> Self:
        """Select `then` where this is true, `otherwise` elsewhere."""
        return self.function("where", then, otherwise)

    def relu(self) -> Self:
        """Compute `max(x, 0)`."""
        return self.function("relu")

    def sigmoid(self) -> Self:
        """Compute `1 / (1 + exp(-x))`."""
        return self.function("sigmoid")

    def silu(self) -> Self:
        """Compute `x * sigmoid(x)` in one cell."""
        return self.fused("silu", lambda x: x * x.sigmoid())

    def softplus(self) -> Self:
        """Compute `log(1 + exp(x))` without overflow in one cell."""
        return self.fused("softplus", lambda x: x.maximum(0) + (-x.abs()).exp().log1p())

    def gelu(self, approximate: bool = False) -> Self:
        """Compute the Gaussian error linear unit in one cell; `approximate` by a hyperbolic tangent.

        Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.
        """
        if approximate:
            root = math.sqrt(2 / math.pi)
            return self.fused("gelu", lambda x: 0.5 * x * (1 + ((x + 0.044715 * x * x * x) * root).tanh()))
        return self.fused("gelu", lambda x: 0.5 * x * (1 + (x * math.sqrt(0.5)).erf()))


def is_whole(dtype: str) -> bool:
    """Return whether an element type holds whole numbers or truth values."""
    return dtype.startswith(WHOLE_NUMBERS)
