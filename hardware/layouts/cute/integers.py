"""CuTe's integers: static ones, known when a kernel is compiled and printed `_4`, and dynamic ones, printed `4`.

Source: NVIDIA/cutlass include/cute/numeric/integral_constant.hpp and math.hpp. Two static integers give a static one;
a static and a dynamic one give a dynamic one, except where the static operand alone decides the result (`0 * x`,
`0 / x`, `0 % x`, `x % 1`, `0 & x`). Quotients and remainders are those of C: truncated toward zero.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from math import gcd

from tapestry.hardware.layouts.layout import LayoutError


@dataclass(frozen=True, slots=True)
class Static:
    """An integer that is part of a type: `Int<4>`, printed `_4`."""

    value: int

    def __str__(self) -> str:
        return f"_{self.value}"


Integer = int | Static
"""A Python int is a dynamic integer of CuTe."""

ZERO, ONE = Static(0), Static(1)


def number(x: Integer) -> int:
    """Return the value of an integer, static or not."""
    return x.value if isinstance(x, Static) else x


def constant(x: object, value: int) -> bool:
    """Return whether `x` is the static integer `value`."""
    return isinstance(x, Static) and x.value == value


def combined(a: Integer, b: Integer, operation: Callable[[int, int], int]) -> Integer:
    """Apply an operation to two integers; the result is static if both are."""
    result = operation(number(a), number(b))
    return Static(result) if isinstance(a, Static) and isinstance(b, Static) else result


def added(a: Integer, b: Integer) -> Integer:
    """Compute `a + b`."""
    return combined(a, b, lambda x, y: x + y)


def subtracted(a: Integer, b: Integer) -> Integer:
    """Compute `a - b`."""
    return combined(a, b, lambda x, y: x - y)


def multiplied(a: Integer, b: Integer) -> Integer:
    """Compute `a * b`; a static zero absorbs a dynamic operand."""
    return ZERO if constant(a, 0) or constant(b, 0) else combined(a, b, lambda x, y: x * y)


def multiplied_up(numbers: Iterable[Integer]) -> Integer:
    """Compute the product of integers, `_1` of none."""
    found = list(numbers)
    start: Integer = found[0] if found else ONE
    return reduce(multiplied, found[1:], start)


def truncated(x: int, y: int) -> int:
    """Compute the quotient of C, rounded toward zero; raise `LayoutError` for a zero divisor."""
    if y == 0:
        raise LayoutError(f"expected a divisor other than 0, not {x} / 0")
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def divided(a: Integer, b: Integer) -> Integer:
    """Compute `a / b` of C; a static zero divided by a dynamic integer stays static."""
    if constant(a, 0) and not isinstance(b, Static):
        return ZERO
    return combined(a, b, truncated)


def remainder(a: Integer, b: Integer) -> Integer:
    """Compute `a % b` of C, with the sign of `a`."""
    if (constant(a, 0) and not isinstance(b, Static)) or (
        isinstance(b, Static) and abs(b.value) == 1 and not isinstance(a, Static)
    ):
        return ZERO
    return combined(a, b, lambda x, y: x - truncated(x, y) * y)


def rounded_up(a: Integer, b: Integer) -> Integer:
    """Compute `ceil_div(a, b)`: (a + b - 1) / b."""
    return divided(subtracted(added(a, b), ONE), b)


def negated(x: Integer) -> Integer:
    """Compute `-x`."""
    return Static(-x.value) if isinstance(x, Static) else -x


def absolute(x: Integer) -> Integer:
    """Compute `abs(x)`."""
    return Static(abs(x.value)) if isinstance(x, Static) else abs(x)


def sign(x: Integer) -> Integer:
    """Compute `signum(x)`: -1, 0 or 1."""
    found = (number(x) > 0) - (number(x) < 0)
    return Static(found) if isinstance(x, Static) else found


def smaller(a: Integer, b: Integer) -> Integer:
    """Compute `min(a, b)`: static only if both are."""
    return combined(a, b, min)


def larger(a: Integer, b: Integer) -> Integer:
    """Compute `max(a, b)`: static only if both are."""
    return combined(a, b, max)


def common_divisor(a: Integer, b: Integer) -> Integer:
    """Compute `gcd(a, b)`, not negative."""
    return combined(a, b, gcd)
