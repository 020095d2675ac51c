"""Tensor handles, with which people write programs."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from tapestry.teg.dtypes import NAMES
from tapestry.teg.programs.alignment import Aligned, align
from tapestry.teg.programs.base import TensorBase
from tapestry.teg.programs.cell import Cell, CellContext
from tapestry.teg.programs.elementwise import ElementwiseOperand
from tapestry.teg.programs.failure import ProgramError
from tapestry.teg.programs.padding import Padding
from tapestry.teg.programs.products import Products
from tapestry.teg.programs.reductions import Reductions
from tapestry.teg.programs.scanning import Scanning
from tapestry.teg.programs.windows import WindowMethods

NUMBERS = (bool, int, float, complex, np.generic)


class Handle(Reductions, Scanning, Products, WindowMethods, Padding):
    """An immutable, typed handle of one tensor; operators and methods write further steps of its program.

    Handles combine by name where all dimensions have names, by numpy's rule otherwise.
    """

    # numpy arrays on the left of an operator leave it to the handle.
    __array_ufunc__ = None

    def fused(self, site: str, function: Callable[..., Any], *others: ElementwiseOperand) -> Self:
        """Compute `function` of this and the others, element by element, in one cell block."""
        found: Self = fused_cell(site, function, [self, *others])
        return found

    def cast(self, dtype: str) -> Self:
        """Cast the elements to another element type; the same type is the tensor itself.

        Raises:
            ProgramError: there is no such type.
        """
        if dtype not in NAMES:
            raise ProgramError(f"there is no element type {dtype!r}; known are {', '.join(NAMES)}")
        return self if dtype == self.dtype else super().cast(dtype)

    def __getitem__(self, key: Any) -> Self:
        """Slice as numpy does; one index may be a tensor or array of positions, which gathers."""
        parts = key if isinstance(key, tuple) else (key,)
        positions = [k for k, p in enumerate(parts) if isinstance(p, (TensorBase, np.ndarray, list))]
        if not positions:
            return self.sliced_by(parts)
        if len(positions) > 1:
            raise ProgramError("only one index may be a tensor of positions; use gather() for more")
        return self._gathered_by(parts, positions[0])

    def _gathered_by(self, parts: Sequence[Any], place: int) -> Self:
        """Take the slices first, then gather the rows that the tensor of positions names."""
        index = parts[place]
        found = self.sliced_by([slice(None) if k == place else p for k, p in enumerate(parts)])
        before = [p for p in parts[:place] if p is None or isinstance(p, slice)]
        behind = [p for p in parts[place + 1 :] if p is None or isinstance(p, slice)]
        dotted = any(p is Ellipsis for p in parts[:place])
        axis = -1 - len(behind) if dotted else len(before)
        return found.gather(index, axis)

    def __matmul__(self, other: ElementwiseOperand) -> Self:
        """Compute the product summed over one dimension; see `teg.programs.products.Products`."""
        return super().__matmul__(self._tensor(other))

    def __rmatmul__(self, other: ElementwiseOperand) -> Self:
        return self._tensor(other) @ self

    def _tensor(self, value: ElementwiseOperand) -> Self:
        """Convert a numpy array to a tensor of this program; return all else as it is."""
        if not isinstance(value, np.ndarray):
            found: Self = value
            return found
        return self.made(self.writer.literal(value), ("",) * value.ndim)

    def __len__(self) -> int:
        """Return the size of the first dimension."""
        if not self.rank:
            raise ProgramError(f"{self!r} has no dimensions to count")
        return self.shape[0]

    def __iter__(self) -> Iterator[Self]:
        """Iterate over the slices along the first dimension."""
        return (self[k] for k in range(len(self)))

    def _repr_html_(self) -> str:
        """Format the tensor as HTML for a notebook."""
        return f"<code>{html.escape(repr(self))}</code>"


def fused_cell(site: str, function: Callable[..., Any], operands: Sequence[ElementwiseOperand]) -> Any:
    """Build one cell block over tensors, arrays and numbers; the first operand is a tensor.

    Raises:
        ProgramError: dimensions or types do not agree, or `function` gives no element.
    """
    first = next(o for o in operands if isinstance(o, TensorBase))
    tensors: list[TensorBase] = []
    places: list[int | None] = [_place(first, o, tensors) for o in operands]
    aligned = align(tensors)
    context = CellContext(tuple(t.dtype for t in tensors), aligned.target, aligned.names)
    given = [o if k is None else Cell(context, ("input", k)) for o, k in zip(operands, places, strict=True)]
    return cell_block(first, site, function, given, tensors, aligned, context)


def cell_block(
    first: TensorBase,
    site: str,
    function: Callable[..., Any],
    given: Sequence[Any],
    tensors: Sequence[TensorBase],
    aligned: Aligned,
    context: CellContext,
) -> Any:
    """Build the block of an expression that `function` writes."""
    lead = next((c for c in given if isinstance(c, Cell)), Cell(context, ("const", 0)))
    found = function(*(c if isinstance(c, Cell) else lead.lift(c) for c in given))
    result = lead.lift(found)
    dtype = result.dtype
    value = first.writer.compute(
        site,
        "cell",
        [t.value for t in tensors],
        aligned.labels,
        aligned.target,
        (aligned.shape, dtype, aligned.names),
        {"expr": result.expression, "dtype": dtype},
    )
    return first.made(value, aligned.names)


def _place(first: TensorBase, operand: ElementwiseOperand, tensors: list[TensorBase]) -> int | None:
    """Return the number of the input that an operand is (equal tensors are one input); None for a number."""
    if isinstance(operand, np.ndarray):
        operand = first.made(first.writer.literal(operand), ("",) * operand.ndim)
    if isinstance(operand, NUMBERS):
        return None
    if not isinstance(operand, TensorBase):
        raise ProgramError(
            f"an operand is a tensor, a number or a numpy array, not {operand!r} of type {type(operand).__name__}"
        )
    if operand.writer is not first.writer:
        raise ProgramError(f"{operand!r} belongs to program {operand.writer.program.name!r}")
    for k, known in enumerate(tensors):
        if known.value is operand.value and known.names == operand.names:
            return k
    tensors.append(operand)
    return len(tensors) - 1
