"""Patterns of element-wise expressions: variables and chains, their bindings, and instantiation.

A pattern is an expression of `teg.operators.expressions` with variables in it: `A`, `B`, `C` stand for any
expression, `J`, `K` for a constant's value, `T` for an element type; a `Chain` is a sum or product in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tapestry.teg.graph import Definition
from tapestry.teg.operators.expressions import Expression

COMMUTATIVE = frozenset(
    ("add", "mul", "min", "max", "eq", "ne", "and", "or", "xor", "bit_and", "bit_or", "bit_xor")
)
Bound = Mapping[str, Any]


@dataclass(frozen=True)
class Wild:
    """A variable for any sub-expression, or for any element type in a cast."""

    name: str


@dataclass(frozen=True)
class OperandPattern(Wild):
    """A variable for any direct input, `("input", k)`."""


@dataclass(frozen=True)
class Constant:
    """A variable for the value of any number constant, as in `("const", K)`."""

    name: str


@dataclass(frozen=True)
class Chain:
    """A sum or product of these parts in any order and any brackets.

    Parts are matched in the specified order: a selective one first, a variable it binds after it. A bound
    variable stands for all the terms its value has; a free one for a single term.
    """

    function: str
    parts: tuple[Any, ...]

    def ways(self, expr: Expression, bound: Bound) -> Iterator[tuple[Bound, tuple[Expression, ...]]]:
        """Yield the bindings of each match, and the terms that remain."""
        if expr[0] == self.function:
            yield from self._taken(self.parts, tuple(terms_of(self.function, expr)), bound)

    def _taken(
        self, parts: tuple[Any, ...], terms: tuple[Expression, ...], bound: Bound
    ) -> Iterator[tuple[Bound, tuple[Expression, ...]]]:
        if not parts:
            yield bound, terms
            return
        first, others = parts[0], parts[1:]
        if isinstance(first, Wild) and first.name in bound:
            left = without(terms, terms_of(self.function, bound[first.name]))
            if left is not None:
                yield from self._taken(others, left, bound)
            return
        for k, term in enumerate(terms):
            for found in fits(first, term, bound):
                yield from self._taken(others, (*terms[:k], *terms[k + 1 :]), found)


def terms_of(function: str, expr: Expression) -> list[Expression]:
    """List the terms of nested applications of a binary function; the expression itself if it is none."""
    if expr[0] != function:
        return [expr]
    return [*terms_of(function, expr[1]), *terms_of(function, expr[2])]


def without(terms: tuple[Expression, ...], wanted: Sequence[Expression]) -> tuple[Expression, ...] | None:
    """Remove the wanted terms; None if one is missing."""
    left = list(terms)
    for expr in wanted:
        place = next((k for k, term in enumerate(left) if repr(term) == repr(expr)), None)
        if place is None:
            return None
        del left[place]
    return tuple(left)


def chained(function: str, terms: Sequence[Expression]) -> Expression:
    """Combine the terms into one expression, bracketed from the left."""
    result = terms[0]
    for term in terms[1:]:
        result = (function, result, term)
    return result


A, B, C, T = Wild("a"), Wild("b"), Wild("c"), Wild("t")
J, K = Constant("j"), Constant("k")


def fits(pattern: Any, expr: Any, bound: Bound) -> Iterator[Bound]:
    """Yield the bindings of every match of a pattern with an expression."""
    if isinstance(pattern, Wild):
        if isinstance(pattern, OperandPattern) and expr[0] != "input":
            return
        if pattern.name not in bound:
            yield {**bound, pattern.name: expr}
        elif repr(bound[pattern.name]) == repr(expr):
            yield bound
    elif isinstance(pattern, Constant):
        if isinstance(expr, int | float) and not isinstance(expr, bool):
            yield from fits(Wild(pattern.name), expr, bound)
    elif isinstance(pattern, Chain):
        if isinstance(expr, tuple):
            yield from (found for found, left in pattern.ways(expr, bound) if not left)
    elif not isinstance(pattern, tuple):
        if pattern == expr and isinstance(pattern, bool) == isinstance(expr, bool):
            yield bound
    elif isinstance(expr, tuple) and len(expr) == len(pattern) and expr[0] == pattern[0]:
        yield from _all_fit(pattern[1:], expr[1:], bound)
        if expr[0] in COMMUTATIVE and repr(expr[1]) != repr(expr[2]):
            yield from _all_fit(pattern[1:], (expr[2], expr[1]), bound)


def _all_fit(patterns: tuple[Any, ...], parts: tuple[Any, ...], bound: Bound) -> Iterator[Bound]:
    if not patterns:
        yield bound
        return
    for found in fits(patterns[0], parts[0], bound):
        yield from _all_fit(patterns[1:], parts[1:], found)


def instance(pattern: Any, bound: Bound) -> Any:
    """Instantiate the pattern with its variables; a function in it is called with the bindings."""
    if isinstance(pattern, Wild | Constant):
        return bound[pattern.name]
    if isinstance(pattern, Chain):
        return chained(pattern.function, [instance(part, bound) for part in pattern.parts])
    if callable(pattern):
        return pattern(bound)
    return tuple(instance(part, bound) for part in pattern) if isinstance(pattern, tuple) else pattern


def parts_of(expr: Expression) -> dict[str, Expression]:
    """Map the text of each distinct sub-expression to it, the whole first."""
    found = {repr(expr): expr}
    for part in expr[1:]:
        if isinstance(part, tuple):
            found.update(parts_of(part))
    return found


@lru_cache(maxsize=1 << 14)
def functions_of(definition: Definition) -> frozenset[str]:
    """Return the functions in a cell's expression."""
    return frozenset(part[0] for part in parts_of(definition["expr"]).values())


@lru_cache(maxsize=1 << 14)
def size_of(definition: Definition) -> int:
    """Count the nodes of a cell's expression, repeated parts as often as they occur."""
    return tree_size(definition["expr"])


@lru_cache(maxsize=1 << 14)
def reads_of(definition: Definition) -> Mapping[int, int]:
    """Count how often a cell's expression reads each input."""
    found: dict[int, int] = {}
    waiting = [definition["expr"]]
    while waiting:
        expr = waiting.pop()
        if expr[0] == "input":
            found[expr[1]] = found.get(expr[1], 0) + 1
        waiting += [part for part in expr[1:] if isinstance(part, tuple)]
    return found


def tree_size(expr: Expression) -> int:
    """Count the nodes of an expression, repeated parts as often as they occur."""
    return 1 + sum(tree_size(part) for part in expr[1:] if isinstance(part, tuple))


def replaced(expr: Expression, text: str, new: Expression) -> Expression:
    """Replace every sub-expression of the expression that has this text."""
    if repr(expr) == text:
        return new
    return tuple(replaced(p, text, new) if isinstance(p, tuple) else p for p in expr)
