"""The range that an affine expression's steps can take, so that none of them passes 64 bits unnoticed."""

from collections.abc import Sequence

from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.tt_metal.expression import (
    CEILDIV,
    FLOORDIV,
    Binary,
    ConstantExpr,
    Dim,
    Expression,
    Sum,
)
from tapestry.hardware.layouts.tt_metal.scanner import INT64_MAX

ValueRange = tuple[int, int]


def bounds(expression: Expression, shape: Sequence[int]) -> ValueRange:
    """Compute the least and the greatest value that are possible with every dimension `d` in `[0, shape[d])`.

    Raises `LayoutError` if a step could pass 64 bits, and for symbols.
    """
    found = _bounds(expression, shape)
    if max(map(abs, found)) > INT64_MAX:
        raise LayoutError(f"{str(expression)[:80]} can be {max(found, key=abs)}, which passes 64 bits")
    return found


def _bounds(expression: Expression, shape: Sequence[int]) -> ValueRange:
    match expression:
        case Dim(index):
            return 0, max(shape[index] - 1, 0)
        case ConstantExpr(value):
            return value, value
        case Sum(terms):
            low = high = 0
            for term in terms:
                least, greatest = bounds(term, shape)
                low, high = low + least, high + greatest
            return low, high
        case Binary(operation, left, ConstantExpr(value)):
            return _of(operation, bounds(left, shape), value)
    raise LayoutError(f"expected an affine expression without symbols, not {str(expression)[:80]}")


def _of(operation: str, span: ValueRange, value: int) -> ValueRange:
    low, high = span
    if operation == "*":
        ends = low * value, high * value
        return min(ends), max(ends)
    if operation == FLOORDIV:
        return low // value, high // value
    if operation == CEILDIV:
        return -(-low // value), -(-high // value)
    return 0, value - 1
