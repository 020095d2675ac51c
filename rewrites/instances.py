"""Instances of expressions inside expressions: numbers fit any number, sums and products any bracketing.

Where a pattern is a sum or product of several terms, it fits any of the terms of a longer one; what is left over
stays around it. Imported by `rewrites.equations`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import Any, NamedTuple

from rewrites.patterns import COMMUTATIVE, parts_of, replaced
from teg.graph import Definition, TensorType
from teg.operators.expressions import Expression

ASSOCIATIVE = frozenset(("add", "mul", "max", "min", "and", "or"))

# Stands in an expression for the value that a pattern was an instance of.
HOLE: Expression = ("hole",)

# A pattern that fits in more ways than this says nothing about a place.
MOST_WAYS = 24

# Terms of a pattern's sum or product that are tried in every order.
MOST_TERMS = 5

Numbers = tuple[float, ...]


class Instance(NamedTuple):
    """Where a pattern's inputs and numbers are found, what was found, and the expression around it."""

    inputs: tuple[int, ...]
    numbers: Numbers
    found: Expression
    around: Expression


class _Fit(NamedTuple):
    inputs: tuple[tuple[int, int], ...] = ()
    numbers: Numbers = ()

    def reading(self, k: int, j: int) -> _Fit | None:
        known = dict(self.inputs).get(k)
        if known is None:
            return _Fit((*self.inputs, (k, j)), self.numbers)
        return self if known == j else None


@dataclass(frozen=True)
class Form:
    """A pattern: an expression over inputs 0 to `count` - 1 whose numbers stand for any number.

    `inside`: it may be a part of a bigger expression. `brackets`: sums and products fit in any bracketing.
    """

    expr: Expression
    count: int
    inside: bool
    brackets: bool

    def instances(self, expr: Expression) -> Sequence[Instance]:
        """Every way in which (a part of) an expression is an instance; numbers in the order of `numbers_of`."""
        return _instances(self, expr)


@dataclass(frozen=True, eq=False)
class Found:
    """Attribute pattern: a cell with an instance of a form, bound to `name`, its operands' places to `name.places`."""

    form: Form
    name: str

    def ways(self, definition: Definition, _: Sequence[TensorType]) -> Sequence[dict[str, Any]]:
        """One for each instance."""
        return [
            {self.name: way, f"{self.name}.places": way.inputs}
            for way in self.form.instances(definition["expr"])
        ]


def numbers_of(expr: Expression) -> Numbers:
    """The numbers of a pattern, in the order in which instances list theirs."""
    if expr[0] == "const":
        return (expr[1],)
    return tuple(n for part in expr[1:] if isinstance(part, tuple) for n in numbers_of(part))


@lru_cache(maxsize=1 << 14)
def _instances(form: Form, expr: Expression) -> tuple[Instance, ...]:
    found: dict[tuple[Any, ...], Instance] = {}
    parts = parts_of(expr).values() if form.inside else (expr,)
    for part in parts:
        if part[0] != form.expr[0]:
            continue
        for fit, left in _with_rest(form, part):
            if len(fit.inputs) < form.count:
                continue
            around = HOLE if part is expr and left is None else replaced(expr, repr(part), left or HOLE)
            inputs = tuple(j for _, j in sorted(fit.inputs))
            found.setdefault((inputs, fit.numbers, repr(around)), Instance(inputs, fit.numbers, part, around))
            if len(found) >= MOST_WAYS:
                return tuple(found.values())
    return tuple(found.values())


def _with_rest(form: Form, part: Expression) -> Iterator[tuple[_Fit, Expression | None]]:
    """The fits of a form to a part; with terms left over, the sum or product of the hole and these."""
    for fit in _fits(form.expr, part, _Fit(), form.brackets):
        yield fit, None
    if not (form.inside and form.brackets and part[0] in ASSOCIATIVE):
        return
    wanted, terms = _terms(form.expr, part[0]), _terms(part, part[0])
    if not 1 < len(wanted) < len(terms) or len(wanted) > MOST_TERMS:
        return
    for chosen in permutations(range(len(terms)), len(wanted)):
        others = [t for k, t in enumerate(terms) if k not in chosen]
        left = HOLE
        for term in others:
            left = (part[0], left, term)
        for fit in _all_fit(wanted, [terms[k] for k in chosen], _Fit(), form.brackets):
            yield fit, left


def _fits(pattern: Expression, expr: Expression, fit: _Fit, brackets: bool) -> Iterator[_Fit]:
    """The ways to read more of a pattern. Its numbers are listed in the pattern's own order."""
    head = pattern[0]
    if head != expr[0]:
        return
    if head == "input":
        more = fit.reading(pattern[1], expr[1])
        if more is not None:
            yield more
    elif head == "const":
        if isinstance(expr[1], bool) == isinstance(pattern[1], bool):
            yield _Fit(fit.inputs, (*fit.numbers, expr[1]))
    elif head in ("cast", "bitcast"):
        if pattern[1] == expr[1]:
            yield from _fits(pattern[2], expr[2], fit, brackets)
    elif head == "index":
        if pattern == expr:
            yield fit
    elif brackets and head in ASSOCIATIVE:
        wanted, terms = _terms(pattern, head), _terms(expr, head)
        if len(wanted) == len(terms) <= MOST_TERMS:
            for order in permutations(terms):
                yield from _all_fit(wanted, order, fit, brackets)
    else:
        yield from _all_fit(pattern[1:], expr[1:], fit, brackets)
        if head in COMMUTATIVE and len(expr) == 3:
            yield from _all_fit(pattern[1:], expr[:0:-1], fit, brackets)


def _all_fit(
    patterns: Sequence[Expression], parts: Sequence[Expression], fit: _Fit, brackets: bool
) -> Iterator[_Fit]:
    if len(patterns) != len(parts):
        return
    if not patterns:
        yield fit
        return
    for found in _fits(patterns[0], parts[0], fit, brackets):
        yield from _all_fit(patterns[1:], parts[1:], found, brackets)


def _terms(expr: Expression, head: str) -> list[Expression]:
    """The terms of nested applications of an associative function, from left to right."""
    return [t for part in expr[1:] for t in _terms(part, head)] if expr[0] == head else [expr]
