"""Rewriting of expressions during lowering: coordinates over factors, known values, trivial conditions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tapestry.teg.importers.literals import affine
from tapestry.teg.operators.expressions import CASTS

Expr = tuple[Any, ...]


def rebuild(expr: Expr, leaf: Callable[[Expr], Expr]) -> Expr:
    """Return the expression with each leaf replaced."""
    if expr[0] in ("input", "const", "index"):
        return leaf(expr)
    if expr[0] in CASTS:
        return (expr[0], expr[1], rebuild(expr[2], leaf))
    return (expr[0], *(rebuild(e, leaf) for e in expr[1:]))


def leaves(expr: Expr, kind: str) -> list[Any]:
    """Return the payloads of all leaves of a kind, in order of appearance."""
    found: dict[Any, None] = {}

    def note(leaf: Expr) -> Expr:
        if leaf[0] == kind:
            found[leaf[1]] = None
        return leaf

    rebuild(expr, note)
    return list(found)


def size_of(expr: Expr) -> int:
    """Count the functions and leaves of an expression."""
    if expr[0] in ("input", "const", "index"):
        return 1
    return 1 + sum(size_of(e) for e in expr[1:] if isinstance(e, tuple))


def coordinate(names: Sequence[str], strides: Sequence[int]) -> Expr:
    """Build the coordinate along a dimension from the coordinates along its factors."""
    terms: list[Expr] = [scaled(("index", n), s, 0) for n, s in zip(names, strides, strict=True)]
    if not terms:
        return ("const", 0)
    total = terms[0]
    for term in terms[1:]:
        total = ("add", total, term)
    return total


def scaled(expr: Expr, step: float, start: float) -> Expr:
    """Build the expression `start + step * expr`."""
    product = expr if step == 1 else ("mul", expr, ("const", step))
    return product if start == 0 else ("add", product, ("const", start))


def on_factors(expr: Expr, names: Mapping[str, Sequence[str]], strides: Mapping[str, Sequence[int]]) -> Expr:
    """Rewrite coordinates of logical dimensions in terms of their factors."""
    return rebuild(expr, lambda e: coordinate(names[e[1]], strides[e[1]]) if e[0] == "index" else e)


def known_leaf(array: np.ndarray, names: Sequence[str]) -> Expr | None:
    """Build an expression for a known value without an input; None if there is none.

    Such a value is a number, or an arithmetic progression along one dimension (named factors).
    """
    if array.size == 1:
        return _constant(number(array))
    law = affine(array.reshape(-1))
    if law is None or any(not n for n, s in zip(names, array.shape, strict=True) if s > 1):
        return None
    strides = [int(np.prod(array.shape[k + 1 :], dtype=np.int64)) for k in range(array.ndim)]
    along = [(n, s) for n, s, size in zip(names, strides, array.shape, strict=True) if size > 1]
    start, step = law
    whole = float(start).is_integer() and float(step).is_integer()
    line = coordinate([n for n, _ in along], [s for _, s in along])
    if whole:
        line = scaled(line, int(step), int(start))
        return line if array.dtype == np.int64 else ("cast", array.dtype.name, line)
    # The law was found to hold in float64, rounded once.
    return ("cast", array.dtype.name, scaled(("cast", "float64", line), step, start))


def _constant(value: Any) -> Expr:
    """Build a constant; one with an imaginary part combines two reals, as documents hold no complex numbers."""
    if not isinstance(value, complex):
        return ("const", value)
    if value.imag == 0 and math.copysign(1.0, value.imag) > 0:
        return ("const", value.real)
    return ("complex", ("const", value.real), ("const", value.imag))


def number(array: np.ndarray) -> Any:
    """Return the single element as a Python number; extended float types are converted to float."""
    value = array.reshape(-1)[0]
    return value.item() if array.dtype.kind in "biufc" else float(value)


def simplified(expr: Expr) -> Expr:
    """Simplify logical operators and `where` that have known operands."""
    if expr[0] in ("input", "const", "index"):
        return expr
    if expr[0] in CASTS:
        return (expr[0], expr[1], simplified(expr[2]))
    name, *arguments = (expr[0], *(simplified(e) for e in expr[1:]))
    known = {k: a[1] for k, a in enumerate(arguments) if a[0] == "const"}
    if name in ("and", "or"):
        neutral = name == "and"
        for k, other in ((0, 1), (1, 0)):
            if k in known:
                return arguments[other] if bool(known[k]) is neutral else ("const", not neutral)
    if name == "where" and 0 in known:
        return arguments[1] if known[0] else arguments[2]
    if name == "not" and 0 in known:
        return ("const", not known[0])
    return (name, *arguments)
