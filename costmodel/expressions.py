"""Expressions over named costs: terms, their values, and the forms in which the search computes them.

A term is a number, a name, or an operation on terms. It is evaluated on one plan's costs (`evaluate`), reduced to
weights where it is linear (`affine_weights`), and otherwise compiled to a postfix program (`postfix`) that the
search runs in its compiled loop. `costmodel.expression_parser` reads terms from text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

# Values of objectives lie in [0, LARGEST_COST]: below zero counts as zero; what is undefined, as the largest.
LARGEST_COST = 1e300

# Codes of postfix programs. The first two push a constant or a column, all others replace the two topmost values.
PUSH_CONSTANT, PUSH_COLUMN, ADD, SUBTRACT, MULTIPLY, DIVIDE, POWER, MINIMUM, MAXIMUM = range(9)

_CODES = {"+": ADD, "-": SUBTRACT, "*": MULTIPLY, "/": DIVIDE, "^": POWER, "min": MINIMUM, "max": MAXIMUM}
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "negative": 3, "^": 4}
_CLOSED = 5  # precedence of what needs no parentheses anywhere


@dataclass(frozen=True)
class NumberTerm:
    """A constant."""

    value: float

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True)
class NamedTerm:
    """A cost, or another quantity, by its name."""

    name: str

    def __str__(self) -> str:
        return quoted(self.name)


@dataclass(frozen=True)
class OperationTerm:
    """An operation on terms: `+ - * / ^` on two, `negative` on one, `min` and `max` on two or more."""

    operator: str
    operands: tuple[Term, ...]

    def __str__(self) -> str:
        inner = [str(operand) for operand in self.operands]
        if self.operator not in _PRECEDENCE:
            return f"{self.operator}({', '.join(inner)})"
        own = _PRECEDENCE[self.operator]
        weak = [_precedence(operand) for operand in self.operands]
        if self.operator == "negative":
            return f"-{_enclosed(inner[0], weak[0] < own)}"
        # A power groups from the right, all others from the left.
        from_right = self.operator == "^"
        left = _enclosed(inner[0], weak[0] < own + from_right)
        right = _enclosed(inner[1], weak[1] < own + (not from_right))
        return f"{left} {self.operator} {right}" if own == 1 else f"{left}{self.operator}{right}"


Term: TypeAlias = NumberTerm | NamedTerm | OperationTerm


def _precedence(term: Term) -> int:
    return _PRECEDENCE.get(term.operator, _CLOSED) if isinstance(term, OperationTerm) else _CLOSED


def _enclosed(text: str, is_weak: bool) -> str:
    return f"({text})" if is_weak else text


def quoted(name: str) -> str:
    """Format a name as expressions write it: as it is where it is a plain word, else in double quotes."""
    if name.isidentifier() and name.isascii() and name not in ("min", "max", "sqrt"):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def names_in(term: Term) -> tuple[str, ...]:
    """Return the names in a term, each once, in order."""
    if isinstance(term, NamedTerm):
        return (term.name,)
    if isinstance(term, NumberTerm):
        return ()
    return tuple(dict.fromkeys(name for operand in term.operands for name in names_in(operand)))


def substitute(term: Term, replacement: Callable[[str], Term]) -> Term:
    """Replace every name in a term."""
    if isinstance(term, NamedTerm):
        return replacement(term.name)
    if isinstance(term, NumberTerm):
        return term
    return OperationTerm(term.operator, tuple(substitute(operand, replacement) for operand in term.operands))


def evaluate(term: Term, values: Mapping[str, float]) -> float:
    """Compute the value of a term, at least 0 and at most `LARGEST_COST`; whole where it is a single whole value."""
    return _in_range(_value(term, values))


def _in_range(value: float) -> float:
    if not value <= LARGEST_COST:  # not a number, too
        return LARGEST_COST
    return max(value, 0)


def _value(term: Term, values: Mapping[str, float]) -> float:
    if isinstance(term, NumberTerm):
        return term.value
    if isinstance(term, NamedTerm):
        return values[term.name]
    operands = [_value(operand, values) for operand in term.operands]
    if term.operator == "negative":
        return -operands[0]
    value = operands[0]
    for other in operands[1:]:
        value = _ARITHMETIC[term.operator](value, other)
    return value


def _divided(a: float, b: float) -> float:
    return a / b if b != 0 else math.inf


def _power(a: float, b: float) -> float:
    try:
        return math.pow(a, b)
    except (ValueError, OverflowError):
        return math.inf


_ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divided,
    "^": _power,
    "min": min,
    "max": max,
}


def affine_weights(term: Term) -> tuple[float, dict[str, float]] | None:
    """Split a term into a constant and the weights by name of its sum; None where it is no such sum."""
    if isinstance(term, NumberTerm):
        return term.value, {}
    if isinstance(term, NamedTerm):
        return 0.0, {term.name: 1.0}
    parts = [affine_weights(operand) for operand in term.operands]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if all(not weights for _, weights in known):
        return _value(term, {}), {}
    if term.operator == "negative":
        return _scaled(known[0], lambda v: -v)
    (a, of_a), (b, of_b) = known[0], known[1]
    if term.operator in ("+", "-"):
        sign = 1.0 if term.operator == "+" else -1.0
        names = dict.fromkeys((*of_a, *of_b))
        return a + sign * b, {n: of_a.get(n, 0.0) + sign * of_b.get(n, 0.0) for n in names}
    if term.operator == "*" and not of_a:
        return _scaled(known[1], lambda v: a * v)
    if term.operator == "*" and not of_b:
        return _scaled(known[0], lambda v: v * b)
    if term.operator == "/" and not of_b and b != 0:
        return _scaled(known[0], lambda v: v / b)
    return None


def _scaled(
    part: tuple[float, dict[str, float]], scale: Callable[[float], float]
) -> tuple[float, dict[str, float]]:
    return scale(part[0]), {name: scale(weight) for name, weight in part[1].items()}


def postfix(term: Term, columns: Sequence[str]) -> list[tuple[int, float]]:
    """Compile a term to a postfix program: codes with their operand, a constant or the position of a column."""
    if isinstance(term, NumberTerm):
        return [(PUSH_CONSTANT, float(term.value))]
    if isinstance(term, NamedTerm):
        return [(PUSH_COLUMN, float(columns.index(term.name)))]
    if term.operator == "negative":
        return [(PUSH_CONSTANT, 0.0), *postfix(term.operands[0], columns), (SUBTRACT, 0.0)]
    program = postfix(term.operands[0], columns)
    for operand in term.operands[1:]:
        program += [*postfix(operand, columns), (_CODES[term.operator], 0.0)]
    return program


def stack_depth(program: Sequence[tuple[int, float]]) -> int:
    """Compute how many values a postfix program holds at most."""
    depth = most = 0
    for code, _ in program:
        depth += 1 if code in (PUSH_CONSTANT, PUSH_COLUMN) else -1
        most = max(most, depth)
    return most
