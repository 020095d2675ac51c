"""Affine expressions of dimensions and symbols, simplified as they are built and printed as MLIR prints them.

A sum is kept flat, its constant last: `(d0 * 192 + d1) + 4`. The simplifications follow MLIR's AffineExpr.cpp
(simplifyAdd, simplifyMul, simplifyFloorDiv, simplifyCeilDiv, simplifyMod); floordiv, ceildiv and mod round as there:
`-1 floordiv 8 = -1`, `-1 ceildiv 8 = 0`, `-1 mod 8 = 7`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tapestry.hardware.layouts.layout import LayoutError

DEEPEST = 64
"""Operations inside each other; more is refused, since every walk over an expression recurses."""

FLOORDIV, CEILDIV, MOD = "floordiv", "ceildiv", "mod"


@dataclass(frozen=True)
class Dim:
    """The dimension `d<index>`."""

    index: int

    def __str__(self) -> str:
        return f"d{self.index}"


@dataclass(frozen=True)
class Symbol:
    """The symbol `s<index>`."""

    index: int

    def __str__(self) -> str:
        return f"s{self.index}"


@dataclass(frozen=True)
class ConstantExpr:
    """An integer constant."""

    value: int

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True)
class Sum:
    """A sum of two or more terms, none of them a sum or zero; a constant comes last."""

    terms: tuple["Expression", ...]

    def __str__(self) -> str:
        return printed(self)


@dataclass(frozen=True)
class Binary:
    """A product `*` (the constant or symbol on the right), a quotient or a remainder."""

    operation: str
    left: "Expression"
    right: "Expression"

    def __str__(self) -> str:
        return printed(self)


Expression = Dim | Symbol | ConstantExpr | Sum | Binary
ZERO = ConstantExpr(0)


def add(*parts: Expression) -> Expression:
    """Add expressions from left to right."""
    terms: list[Expression] = []
    constant = 0
    for term in _terms(parts):
        if isinstance(term, ConstantExpr):
            constant += term.value
        elif len(terms) == 1 and (like := _like_terms(terms[0], term)) is not None:
            terms[:] = [] if like == ZERO else [like]
        elif terms and (rest := _remainder(terms, term)) is not None:
            terms[:] = [rest]
        else:
            terms.append(term)
    if constant or not terms:
        terms.append(ConstantExpr(constant))
    return terms[0] if len(terms) == 1 else _checked(Sum(tuple(terms)))


def multiply(left: Expression, right: Expression) -> Expression:
    """Multiply two expressions; raise `LayoutError` unless one factor is free of dimensions."""
    if isinstance(left, ConstantExpr) and isinstance(right, ConstantExpr):
        return ConstantExpr(left.value * right.value)
    if not is_symbolic(right) or isinstance(left, ConstantExpr):
        left, right = right, left
    if not is_symbolic(right):
        raise LayoutError(
            "non-affine expression: at least one of the multiply operands has to be either a constant or symbolic"
        )
    if isinstance(right, ConstantExpr):
        if right.value in (0, 1):
            return left if right.value else right
        if isinstance(left, Binary) and left.operation == "*" and isinstance(left.right, ConstantExpr):
            return multiply(left.left, ConstantExpr(left.right.value * right.value))
    elif isinstance(left, Binary) and left.operation == "*" and isinstance(left.right, ConstantExpr):
        return multiply(multiply(left.left, right), left.right)
    return _checked(Binary("*", left, right))


def divide(left: Expression, right: Expression, operation: str) -> Expression:
    """Divide two expressions, rounding down (`floordiv`) or up (`ceildiv`)."""
    divisor = _divisor(right, operation)
    if divisor is None:
        return _checked(Binary(operation, left, right))
    if isinstance(left, ConstantExpr):
        return ConstantExpr(left.value // divisor if operation == FLOORDIV else -(-left.value // divisor))
    if divisor == 1:
        return left
    if (whole := _exact(left, divisor)) is not None:
        return whole
    if operation == FLOORDIV and isinstance(left, Sum):
        wholes = [_exact(term, divisor) for term in left.terms]
        if any(whole is not None for whole in wholes):
            rest = add(*(t for t, whole in zip(left.terms, wholes, strict=True) if whole is None))
            return add(*(w for w in wholes if w is not None), divide(rest, right, operation))
    return _checked(Binary(operation, left, right))


def modulo(left: Expression, right: Expression) -> Expression:
    """Compute the remainder, which is never negative."""
    divisor = _divisor(right, MOD)
    if divisor is None:
        return _checked(Binary(MOD, left, right))
    if isinstance(left, ConstantExpr):
        return ConstantExpr(left.value % divisor)
    if divisor == 1 or _exact(left, divisor) is not None:
        return ZERO
    if isinstance(left, Sum) and any(_exact(t, divisor) is not None for t in left.terms):
        return modulo(add(*(t for t in left.terms if _exact(t, divisor) is None)), right)
    match left:
        case Binary("mod", inner, ConstantExpr(value)) if value % divisor == 0:
            return modulo(inner, right)
    return _checked(Binary(MOD, left, right))


OPERATIONS = {
    "*": multiply,
    FLOORDIV: lambda left, right: divide(left, right, FLOORDIV),
    CEILDIV: lambda left, right: divide(left, right, CEILDIV),
    MOD: modulo,
}


def children(expression: Expression) -> tuple[Expression, ...]:
    """Return the operands of an expression."""
    if isinstance(expression, Sum):
        return expression.terms
    return (expression.left, expression.right) if isinstance(expression, Binary) else ()


def leaves(expression: Expression) -> Iterator[Expression]:
    """Yield the dimensions, symbols and constants of an expression, from left to right."""
    below = children(expression)
    if not below:
        yield expression
    for child in below:
        yield from leaves(child)


def is_symbolic(expression: Expression) -> bool:
    """Return whether no dimension occurs in the expression."""
    return not any(isinstance(leaf, Dim) for leaf in leaves(expression))


def evaluate(expression: Expression, dims: Sequence[Any], symbols: Sequence[Any] = ()) -> Any:
    """Evaluate the expression where the dimensions and symbols are integers or int64 arrays (n,)."""
    match expression:
        case Dim(index):
            return dims[index]
        case Symbol(index):
            return symbols[index]
        case ConstantExpr(value):
            return value
        case Sum(terms):
            values = [evaluate(term, dims, symbols) for term in terms]
            return sum(values[1:], start=values[0])
        case Binary(operation, left, right):
            return _apply(operation, evaluate(left, dims, symbols), evaluate(right, dims, symbols))


def replace(
    expression: Expression, dims: Sequence[Expression], symbols: Sequence[Expression] | None = None
) -> Expression:
    """Substitute expressions for the dimensions (and symbols), and simplify the result."""
    match expression:
        case Dim(index):
            return dims[index]
        case Symbol(index):
            return expression if symbols is None else symbols[index]
        case Sum(terms):
            return add(*(replace(term, dims, symbols) for term in terms))
        case Binary(operation, left, right):
            return OPERATIONS[operation](replace(left, dims, symbols), replace(right, dims, symbols))
    return expression


def printed(expression: Expression, tight: bool = False) -> str:
    """Format the expression as MLIR text; `tight` puts parentheses around anything but a name or a number."""
    match expression:
        case Binary("*", left, ConstantExpr(-1)):
            text = f"-{printed(left, True)}"
        case Binary(operation, left, right):
            text = f"{printed(left, True)} {operation} {printed(right, True)}"
        case Sum(terms):
            text = printed(terms[0]) + "".join(map(_next_term, terms[1:]))
        case _:
            return str(expression)
    return f"({text})" if tight else text


def _next_term(term: Expression) -> str:
    match term:
        case ConstantExpr(value) if value < 0:
            return f" - {-value}"
        case Binary("*", left, ConstantExpr(-1)):
            return f" - {printed(left, isinstance(left, Sum))}"
        case Binary("*", left, ConstantExpr(value)) if value < -1:
            return f" - {printed(left, True)} * {-value}"
    return f" + {printed(term)}"


def _terms(parts: Iterable[Expression]) -> Iterator[Expression]:
    for part in parts:
        yield from part.terms if isinstance(part, Sum) else (part,)


def _scaled(term: Expression) -> tuple[Expression, int]:
    if isinstance(term, Binary) and term.operation == "*" and isinstance(term.right, ConstantExpr):
        return term.left, term.right.value
    return term, 1


def _like_terms(one: Expression, other: Expression) -> Expression | None:
    (left, times), (right, more) = _scaled(one), _scaled(other)
    return multiply(left, ConstantExpr(times + more)) if left == right else None


def _remainder(terms: list[Expression], last: Expression) -> Expression | None:
    """Return `e mod q` if the terms form `e - (e floordiv q) * q`; None otherwise."""
    quotient, factor = _scaled(last)
    if isinstance(quotient, Binary) and quotient.operation == FLOORDIV and factor < -1:
        whole = terms[0] if len(terms) == 1 else Sum(tuple(terms))
        if quotient.right == ConstantExpr(-factor) and quotient.left == whole:
            return modulo(whole, quotient.right)
    return None


def _exact(term: Expression, divisor: int) -> Expression | None:
    """Divide a term by a divisor of its factor; return None if the factor is not divisible."""
    left, factor = _scaled(term)
    if isinstance(term, ConstantExpr):
        return ConstantExpr(term.value // divisor) if term.value % divisor == 0 else None
    return multiply(left, ConstantExpr(factor // divisor)) if factor % divisor == 0 else None


def _divisor(right: Expression, operation: str) -> int | None:
    if not is_symbolic(right):
        raise LayoutError(
            f"non-affine expression: right operand of {operation} has to be either a constant or symbolic"
        )
    if isinstance(right, ConstantExpr):
        if right.value <= 0:
            raise LayoutError(f"expected a positive right operand of {operation}, not {right.value}")
        return right.value
    return None


def _apply(operation: str, left: Any, right: Any) -> Any:
    if operation == "*":
        return left * right
    if isinstance(right, int) and right <= 0:
        raise LayoutError(f"expected a positive right operand of {operation}, not {right}")
    if operation == MOD:
        return left % right
    return left // right if operation == FLOORDIV else -(-left // right)


def _depth(expression: Expression) -> int:
    return 1 + max(map(_depth, children(expression)), default=0)


def _checked(expression: Expression) -> Expression:
    if _depth(expression) > DEEPEST:
        raise LayoutError(f"an affine expression of more than {DEEPEST} operations inside each other")
    return expression
