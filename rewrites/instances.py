"""Instances of expressions in expressions: numbers match any number, sums and products any bracketing.

A pattern that is a sum or product of several terms matches any of the terms of a longer one; the remaining terms
stay around it. Imported by `rewrites.equations`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import count, islice
from typing import Any, NamedTuple

from tapestry.rewrites.patterns import (
    Chain,
    Constant,
    OperandPattern,
    chained,
    fits,
    parts_of,
    replaced,
    terms_of,
)
from tapestry.teg.graph import Definition, TensorType
from tapestry.teg.operators.expressions import Expression

ASSOCIATIVE = frozenset(("add", "mul", "max", "min", "and", "or"))

# Stands in an expression for the value that a pattern was an instance of.
HOLE: Expression = ("hole",)

# A pattern that fits in more ways than this says nothing about a place.
MOST_WAYS = 24

Numbers = tuple[float, ...]


class Instance(NamedTuple):
    """An instance of a pattern: its inputs and numbers, the matched expression, and the one around it."""

    inputs: tuple[int, ...]
    numbers: Numbers
    found: Expression
    around: Expression


@dataclass(frozen=True)
class Form:
    """A pattern: an expression over inputs 0 to `count` - 1 whose numbers stand for any number.

    `inside`: it may be a part of a bigger expression. `brackets`: sums and products fit in any bracketing.
    """

    expr: Expression
    count: int
    inside: bool
    brackets: bool

    @cached_property
    def pattern(self) -> Any:
        """The expression with operands `x0`, `x1`, ... and numbers `n0`, `n1`, ... as variables."""
        return _pattern(self.expr, count(), self.brackets)

    def instances(self, expr: Expression) -> Sequence[Instance]:
        """Find all instances of the pattern in (a part of) an expression; numbers in the order of `numbers_of`."""
        return _instances(self, expr)


@dataclass(frozen=True, eq=False)
class InstanceMatch:
    """An attribute pattern for a cell with an instance of a form.

    The instance is bound to `name`, its operands' places to `name.places`.
    """

    form: Form
    name: str

    @property
    def heads(self) -> frozenset[str]:
        """The root function of an instance."""
        return frozenset((self.form.expr[0],))

    def ways(self, definition: Definition, _: Sequence[TensorType]) -> Sequence[dict[str, Any]]:
        """Return the bindings of each instance."""
        return [
            {self.name: way, f"{self.name}.places": way.inputs}
            for way in self.form.instances(definition["expr"])
        ]


def numbers_of(expr: Expression) -> Numbers:
    """List the numbers of a pattern, except truth values, in the order in which instances list theirs."""
    if expr[0] == "const":
        return () if isinstance(expr[1], bool) else (expr[1],)
    return tuple(n for part in expr[1:] if isinstance(part, tuple) for n in numbers_of(part))


def _pattern(expr: Expression, numbers: Iterator[int], brackets: bool) -> Any:
    head = expr[0]
    if head == "input":
        return OperandPattern(f"x{expr[1]}")
    if head == "const":
        return expr if isinstance(expr[1], bool) else (head, Constant(f"n{next(numbers)}"))
    parts = [_pattern(p, numbers, brackets) if isinstance(p, tuple) else p for p in expr[1:]]
    if brackets and head in ASSOCIATIVE:
        terms = [t for p in parts for t in (p.parts if isinstance(p, Chain) and p.function == head else (p,))]
        # What says much is looked for first.
        return Chain(head, tuple(sorted(terms, key=lambda t: isinstance(t, OperandPattern))))
    return (head, *parts)


@lru_cache(maxsize=1 << 14)
def _instances(form: Form, expr: Expression) -> tuple[Instance, ...]:
    found: dict[tuple[Any, ...], Instance] = {}
    total = len(numbers_of(form.expr))
    parts = parts_of(expr).values() if form.inside else (expr,)
    ways = ((part, bound, left) for part in parts for bound, left in _ways(form, part))
    for part, bound, left in islice(ways, MOST_WAYS):
        around = HOLE if part is expr and left is HOLE else replaced(expr, repr(part), left)
        inputs = tuple(bound[f"x{k}"][1] for k in range(form.count))
        numbers = tuple(bound[f"n{k}"] for k in range(total))
        found.setdefault((inputs, numbers, repr(around)), Instance(inputs, numbers, part, around))
    return tuple(found.values())


def _ways(form: Form, part: Expression) -> Iterator[tuple[Any, Expression]]:
    """Yield the bindings of each fit, and the hole with the remaining terms of a longer sum or product."""
    if part[0] != form.expr[0]:
        return
    pattern = form.pattern
    if not isinstance(pattern, Chain):
        yield from ((bound, HOLE) for bound in fits(pattern, part, {}))
        return
    if len(pattern.parts) > len(terms_of(pattern.function, part)):
        return
    for bound, left in pattern.ways(part, {}):
        if not left or form.inside:
            yield bound, chained(pattern.function, [HOLE, *left])
