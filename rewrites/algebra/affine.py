"""Expressions as `scale * input + terms` and as products: the parts that folding moves out of a cell.

Coefficients are sub-expressions of chosen inputs and constants only (`fixed`), in practice those that vary
along fewer dimensions than the input in question.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import NamedTuple

from tapestry.rewrites.cell_form import element_type
from tapestry.rewrites.patterns import parts_of, replaced, tree_size
from tapestry.teg.operators.expressions import Expression, inputs_of

# A term of a sum: whether it is subtracted, and its expression.
AffineTerm = tuple[bool, Expression]


class Affine(NamedTuple):
    """An expression of the form `scale * input + sum of terms`; a scale of None stands for 1."""

    scale: Expression | None
    terms: tuple[AffineTerm, ...]


class AffinePart(NamedTuple):
    """An affine sub-expression: its text (which may occur several times), expression and form."""

    text: str
    expr: Expression
    form: Affine


def has_index(expr: Expression) -> bool:
    """Return whether the expression depends on a coordinate."""
    return any(part[0] == "index" for part in parts_of(expr).values())


def is_coefficient(expr: Expression, fixed: Collection[int]) -> bool:
    """Return whether the expression reads no inputs but these and no coordinate."""
    return set(inputs_of(expr)) <= set(fixed) and not has_index(expr)


def affine(expr: Expression, k: int, fixed: Collection[int]) -> Affine | None:
    """Write the expression as scale times input `k` plus terms; None if it has no such form.

    Only sums of coefficients are multiplied out: any other term would be scaled once more.
    """
    name = expr[0]
    if expr == ("input", k):
        return Affine(None, ())
    if name == "identity":
        return affine(expr[1], k, fixed)
    if name == "neg":
        inner = affine(expr[1], k, fixed)
        return None if inner is None else _negated(inner)
    if name in ("add", "sub"):
        return _of_sum(expr, k, fixed)
    if name in ("mul", "div"):
        return _of_product(expr, k, fixed)
    return None


def _of_sum(expr: Expression, k: int, fixed: Collection[int]) -> Affine | None:
    name, a, b = expr
    if (k in inputs_of(a)) == (k in inputs_of(b)):
        return None
    minus = name == "sub"
    if k in inputs_of(a):
        inner = affine(a, k, fixed)
        return None if inner is None else Affine(inner.scale, (*inner.terms, (minus, b)))
    inner = affine(b, k, fixed)
    if inner is None:
        return None
    inner = _negated(inner) if minus else inner
    return Affine(inner.scale, ((False, a), *inner.terms))


def _of_product(expr: Expression, k: int, fixed: Collection[int]) -> Affine | None:
    name, a, b = expr
    if name == "mul" and k not in inputs_of(a):
        a, b = b, a
    if k not in inputs_of(a) or not is_coefficient(b, fixed):
        return None
    inner = affine(a, k, fixed)
    if inner is None or not all(is_coefficient(term, fixed) for _, term in inner.terms):
        return None
    if inner.scale is None:
        scale: Expression = b if name == "mul" else ("div", ("const", 1.0), b)
    else:
        scale = (name, inner.scale, b)
    return Affine(scale, tuple((minus, (name, term, b)) for minus, term in inner.terms))


def _negated(inner: Affine) -> Affine:
    scale = ("const", -1.0) if inner.scale is None else ("neg", inner.scale)
    return Affine(scale, tuple((not minus, term) for minus, term in inner.terms))


@lru_cache(maxsize=1 << 12)
def affine_part(
    expr: Expression, k: int, fixed: frozenset[int], dtypes: tuple[str, ...]
) -> AffinePart | None:
    """Find the largest affine sub-expression through which alone the expression depends on input `k`, or None.

    Its element type, and that of all its terms, is the input's.
    """
    parts = parts_of(expr)
    for text in sorted(parts, key=lambda t: -tree_size(parts[t])):
        part = parts[text]
        if k not in inputs_of(part) or part == ("input", k):
            continue
        form = affine(part, k, fixed)
        if form is None or k in inputs_of(replaced(expr, text, ("const", 0))):
            continue
        typed = [part, *(term for _, term in form.terms), *(() if form.scale is None else (form.scale,))]
        kinds = {element_type(e, dtypes) for e in typed}
        if {k for k in kinds if not k.startswith("weak ")} == {dtypes[k]}:
            return AffinePart(text, part, form)
    return None


def summed(terms: Sequence[AffineTerm], start: Expression | None = None) -> Expression:
    """Build the sum of the terms, after `start` if that is specified."""
    if start is None:
        minus, first = terms[0]
        start, terms = ("neg", first) if minus else first, terms[1:]
    for minus, term in terms:
        start = ("sub" if minus else "add", start, term)
    return start


def factors(expr: Expression) -> list[tuple[bool, Expression]]:
    """List the factors of a product, each with whether it divides."""
    if expr[0] == "mul":
        return [*factors(expr[1]), *factors(expr[2])]
    if expr[0] == "div":
        return [*factors(expr[1]), (True, expr[2])]
    return [(False, expr)]


def multiplied(found: Sequence[tuple[bool, Expression]]) -> Expression:
    """Build the product of the factors; 1 if there are none."""
    above = [e for divides, e in found if not divides]
    below = [e for divides, e in found if divides]
    result: Expression | None = None
    for e in above:
        result = e if result is None else ("mul", result, e)
    for e in below:
        result = ("div", ("const", 1.0) if result is None else result, e)
    return ("const", 1.0) if result is None else result
