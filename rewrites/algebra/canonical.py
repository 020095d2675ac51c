"""Canonical form of expressions: associative and commutative laws are normalized, never enumerated.

Operands of commutative functions stand in a fixed order, constants last. Sums and products of one element
type are flattened and rebuilt from the left, their constants folded into one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from tapestry.rewrites.cell_form import any_cell, cell, element_type
from tapestry.rewrites.laws import changed_cell
from tapestry.rewrites.patterns import COMMUTATIVE
from tapestry.rewrites.rule import ExampleSizes, Rule, rest
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.dtypes import is_float
from tapestry.teg.graph import Definition, Graph, TensorType
from tapestry.teg.operators.expressions import CELL_FUNCTIONS, Expression, cell_flops

# Element types that hold whole numbers up to SMALL as they are.
KINDS = ("int32", "int64", "float32", "float64")
SMALL = 1 << 20

ASSOCIATIVE: Mapping[str, Callable[[list[Any]], Any]] = {"add": sum, "mul": math.prod}


def canonical(expr: Expression, dtypes: Sequence[str]) -> Expression:
    """Bring an expression over inputs of these element types to canonical form; equal up to rounding.

    The result costs no more: where flattening would compute a shared part twice, the expression is only sorted.
    """
    new = _canonical(expr, dtypes)
    return new if cell_flops(new) <= cell_flops(expr) else _sorted(expr)


def _canonical(expr: Expression, dtypes: Sequence[str]) -> Expression:
    new = tuple(_canonical(part, dtypes) if isinstance(part, tuple) else part for part in expr)
    if new[0] in ASSOCIATIVE:
        return _chain(new, dtypes)
    if new[0] == "cast" and new[2][0] == "cast" and _is_small(_number(new[2])):
        return ("cast", new[1], new[2][2])
    return _ordered(new)


def _chain(expr: Expression, dtypes: Sequence[str]) -> Expression:
    """Rewrite a sum or product as one chain, sorted, with its constants folded."""
    name, kind = expr[0], element_type(expr, dtypes)
    terms = _flat(expr, name, kind, dtypes)
    constants = [n for t in terms if (n := _number(t)) is not None]
    rest_of = sorted((t for t in terms if _number(t) is None), key=_rank)
    folded = ASSOCIATIVE[name](constants) if len(constants) > 1 else (*constants, None)[0]
    if kind in KINDS and _is_small(folded) and (not rest_of or _annihilates(name, folded, kind)):
        return ("cast", kind, ("const", folded))
    if not rest_of:
        return expr
    if folded is not None:
        rest_of.append(("const", folded))
    result = rest_of[0]
    for term in rest_of[1:]:
        result = (name, result, term)
    return result if element_type(result, dtypes) == kind else _ordered(expr)


def _flat(expr: Expression, name: str, kind: str, dtypes: Sequence[str]) -> list[Expression]:
    """List the terms of nested applications of `name` as far as all of them have the element type `kind`."""
    if expr[0] != name or element_type(expr, dtypes) != kind:
        return [expr]
    sides = expr[1:]
    if any(not _is_number(s) and element_type(s, dtypes) != kind for s in sides):
        return [expr]
    return [term for side in sides for term in _flat(side, name, kind, dtypes)]


def _ordered(expr: Expression) -> Expression:
    if expr[0] in COMMUTATIVE and _rank(expr[2]) < _rank(expr[1]):
        return (expr[0], expr[2], expr[1])
    return expr


def _sorted(expr: Expression) -> Expression:
    return _ordered(tuple(_sorted(part) if isinstance(part, tuple) else part for part in expr))


def _is_number(expr: Expression) -> bool:
    return expr[0] == "const" and isinstance(expr[1], int | float) and not isinstance(expr[1], bool)


def _number(expr: Expression) -> int | float | None:
    """Return the value of a constant, or of one that a cast leaves unchanged; None for anything else."""
    if _is_number(expr):
        return cast("int | float", expr[1])
    if expr[0] == "cast" and _is_number(expr[2]) and _is_small(expr[2][1]) and expr[1] in KINDS:
        return cast("int | float", expr[2][1])
    return None


def _is_small(value: int | float | None) -> bool:
    """Return whether a number is whole, and the same in every type of `KINDS`."""
    return value is not None and float(value).is_integer() and abs(value) <= SMALL


def _annihilates(name: str, value: int | float | None, kind: str) -> bool:
    """Return whether a product is zero whatever its other factors; never for floats (may be infinite)."""
    return name == "mul" and value == 0 and not is_float(kind)


def _rank(expr: Expression) -> tuple[int, str]:
    """Return the sort key of a term: functions first, then inputs and coordinates, constants last."""
    order = 0 if expr[0] in CELL_FUNCTIONS or expr[0] == "cast" else 2 if expr[0] == "const" else 1
    return order, repr(expr)


@dataclass(frozen=True, eq=False)
class NotCanonical:
    """An attribute pattern for a cell whose expression is not in canonical form; binds `new`."""

    def ways(self, definition: Definition, inputs: Sequence[TensorType]) -> Sequence[Mapping[str, Any]]:
        """Return the binding of the canonical expression, if it differs from the present one."""
        return _ways(definition, tuple(t.dtype for t in inputs))


@lru_cache(maxsize=1 << 14)
def _ways(definition: Definition, dtypes: tuple[str, ...]) -> tuple[Mapping[str, Any], ...]:
    new = canonical(definition["expr"], dtypes)
    return () if repr(new) == repr(definition["expr"]) else ({"new": new},)


def _example(size: ExampleSizes) -> Graph:
    """Build an example: c + 2 (a b) 3 + a, with its terms in no order."""
    builder = GraphBuilder("canonical")
    shape = (size(3), size(4))
    names = [builder.source(n, shape, "float32") for n in ("a", "b", "c")]
    a, b, c = (("input", k) for k in range(3))
    product = ("mul", ("const", 2.0), ("mul", ("mul", b, a), ("const", 3.0)))
    (y,) = builder.apply(
        "cell",
        names,
        site="y",
        expr=("add", c, ("add", product, a)),
        labels=(("row", "column"),) * 3,
        dims=(("row", shape[0]), ("column", shape[1])),
        dtype="float32",
    )
    builder.sink(y, site="out")
    return builder.build()


CANONICAL: tuple[Rule, ...] = (
    Rule(
        name="canonical_cell",
        left=any_cell(rest("xs"), inside=NotCanonical()),
        right=cell(changed_cell),
        doc="""
        An expression is brought to canonical form.

        c + (2 ((b a) 3) + a)  ->  b a 6 + a + c
        Always: sums and products of one element type are associative and commutative, integers exactly, floats
        up to rounding; where parts have different element types, only operands are exchanged.
        """,
        source="associative and commutative laws",
        example=_example,
        domain="real",
        saturating=True,
    ),
)
