"""Elements inside a composed cell: operators on them write an expression, not blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from tapestry.teg.arrays import NUMPY
from tapestry.teg.dtypes import NAMES, numpy_dtype
from tapestry.teg.operators.expressions import CELL_FUNCTIONS, Expression, run_steps, steps_of
from tapestry.teg.programs.elementwise import Elementwise, ElementwiseOperand, is_whole
from tapestry.teg.programs.failure import ProgramError

# Expressions are written out as trees, in documents too: a part that is used twice stands there twice.
LARGEST_EXPRESSION = 10_000
DEEPEST_EXPRESSION = 200


class CellContext(NamedTuple):
    """The context of the cells of one expression: element types of the inputs, labels of the dimensions."""

    dtypes: tuple[str, ...]
    labels: tuple[str, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Cell(Elementwise):
    """One element of each operand of `Program.cell`: an expression that will become part of one block.

    >>> import tapestry
    >>> p = tapestry.program()
    >>> x = p.input("x", row=8, column=6)
    >>> p.cell(lambda e: (e * 2 + e.coordinate("row")).maximum(0), x, name="ramp")
    ramp: float64[row=8, column=6]
    """

    context: CellContext
    expression: Expression
    size: int = 1
    depth: int = 1

    def __repr__(self) -> str:
        return f"cell {self.expression}"

    @property
    def dtype(self) -> str:
        """The element type, by numpy's promotion.

        Raises:
            ProgramError: the expression has no meaning on its inputs.
        """
        try:
            with np.errstate(all="ignore"):
                ones = [np.ones(1, numpy_dtype(name)) for name in self.context.dtypes]
                coordinates = {label: np.ones(1, np.int64) for label in self.context.labels}
                result = np.asarray(run_steps(NUMPY, steps_of(self.expression), ones, coordinates))
        except (TypeError, ValueError, OverflowError) as error:
            types = ", ".join(self.context.dtypes)
            raise ProgramError(f"{self.expression[0]} has no meaning on {types}: {error}") from None
        return str(result.dtype.name)

    def fused(self, site: str, function: Callable[..., Any], *others: ElementwiseOperand) -> Self:
        """Apply the function itself: all of it is one expression anyway."""
        return self.lift(function(self, *(self.lift(o) for o in others)))

    def function(self, name: str, *others: ElementwiseOperand) -> Self:
        """Apply any cell function by name.

        Raises:
            ProgramError: there is none of this name, or it takes another number of operands.
        """
        if name not in CELL_FUNCTIONS:
            raise ProgramError(f"there is no cell function {name!r}; known are {', '.join(CELL_FUNCTIONS)}")
        if len(others) + 1 != CELL_FUNCTIONS[name].arity:
            raise ProgramError(f"{name!r} takes {CELL_FUNCTIONS[name].arity} operands, not {len(others) + 1}")
        parts = [self, *(self.lift(o) for o in others)]
        size, depth = 1 + sum(c.size for c in parts), 1 + max(c.depth for c in parts)
        if size > LARGEST_EXPRESSION or depth > DEEPEST_EXPRESSION:
            raise ProgramError(
                f"the expression of this cell has grown beyond {LARGEST_EXPRESSION} parts or {DEEPEST_EXPRESSION} "
                "levels; compute a part of it as a tensor of its own"
            )
        return type(self)(self.context, (name, *(c.expression for c in parts)), size, depth)

    def cast(self, dtype: str) -> Self:
        """Cast the element to another element type."""
        if dtype not in NAMES:
            raise ProgramError(f"there is no element type {dtype!r}; known are {', '.join(NAMES)}")
        return type(self)(self.context, ("cast", dtype, self.expression), self.size + 1, self.depth + 1)

    def coordinate(self, dim: str | int) -> Self:
        """Return this element's coordinate along a dimension of the result, as int64."""
        if isinstance(dim, int) and -len(self.context.labels) <= dim < len(self.context.labels):
            return self._with(("index", self.context.labels[dim]))
        if isinstance(dim, str) and dim and dim in self.context.names:
            return self._with(("index", self.context.labels[self.context.names.index(dim)]))
        raise ProgramError(
            f"the result has no dimension {dim!r}; its dimensions are {list(self.context.labels)}"
        )

    def __truediv__(self, other: ElementwiseOperand) -> Self:
        """Divide; division of whole numbers gives fractions, as in Python."""
        divisor = self.lift(other)
        if is_whole(self.dtype) and is_whole(divisor.dtype):
            return self.cast("float64").function("div", divisor.cast("float64"))
        return self.function("div", divisor)

    def __floordiv__(self, other: ElementwiseOperand) -> Self:
        """Compute the quotient rounded down, as in Python."""
        divisor = self.lift(other)
        if is_whole(self.dtype) and is_whole(divisor.dtype):
            rest = self.function("mod", divisor)
            return self.function("sub", rest).function("div", divisor)
        return self.function("div", divisor).floor()

    def lift(self, value: ElementwiseOperand) -> Self:
        """Convert a number to a cell; Python numbers take the element type of what they meet, numpy's keep theirs."""
        if isinstance(value, Cell):
            return type(self)(self.context, value.expression, value.size, value.depth)
        if isinstance(value, np.generic):
            return self._with(("cast", value.dtype.name, ("const", value.item())))
        if isinstance(value, (bool, int, float, complex)):
            return self._with(("const", value))
        raise ProgramError(f"inside a cell operands are cells and numbers, not {type(value).__name__}")

    def _with(self, expression: Expression) -> Self:
        return type(self)(self.context, expression)
