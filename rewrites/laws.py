"""Laws of element-wise expressions as rules: `law("neg_neg", ("neg", ("neg", A)), A, ...)`.

Patterns are expressions of `teg.operators.expressions` with variables in them: `A`, `B`, `C` stand for any
expression, `J`, `K` for a constant's value, `T` for an element type. Commutative functions fit both ways
round. A law is used anywhere inside a cell; where a sub-expression occurs more than once, all occurrences
change. It is used only where both sides have the same element type there; a law for floats (as those of
domain "real" are unless they say otherwise) only where that type is a float.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from rewrites.cell_form import CellForm, any_cell, bound_cell, cell, element_type
from rewrites.rule import Match, Rule, Sizes, rest
from teg.builder import GraphBuilder
from teg.dtypes import is_float
from teg.graph import Definition, Graph, TensorType
from teg.operators.expressions import Expression

COMMUTATIVE = frozenset(
    ("add", "mul", "min", "max", "eq", "ne", "and", "or", "xor", "bit_and", "bit_or", "bit_xor")
)
Bound = Mapping[str, Any]


@dataclass(frozen=True)
class Wild:
    """Any sub-expression, or any element type in a cast."""

    name: str


@dataclass(frozen=True)
class Constant:
    """The value of any number constant, as in `("const", K)`."""

    name: str


A, B, C, T = Wild("a"), Wild("b"), Wild("c"), Wild("t")
J, K = Constant("j"), Constant("k")


def fits(pattern: Any, expr: Any, bound: Bound) -> Iterator[Bound]:
    """Every way in which an expression is an instance of a pattern."""
    if isinstance(pattern, Wild):
        if pattern.name not in bound:
            yield {**bound, pattern.name: expr}
        elif repr(bound[pattern.name]) == repr(expr):
            yield bound
    elif isinstance(pattern, Constant):
        if isinstance(expr, int | float) and not isinstance(expr, bool):
            yield from fits(Wild(pattern.name), expr, bound)
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
    """The pattern with its variables replaced; a function in it is called with what is bound."""
    if isinstance(pattern, Wild | Constant):
        return bound[pattern.name]
    if callable(pattern):
        return pattern(bound)
    return tuple(instance(part, bound) for part in pattern) if isinstance(pattern, tuple) else pattern


def parts_of(expr: Expression) -> dict[str, Expression]:
    """All distinct sub-expressions by their text, the whole first."""
    found = {repr(expr): expr}
    for part in expr[1:]:
        if isinstance(part, tuple):
            found.update(parts_of(part))
    return found


def tree_size(expr: Expression) -> int:
    """How many nodes an expression has, repeated parts counted as often as they occur."""
    return 1 + sum(tree_size(part) for part in expr[1:] if isinstance(part, tuple))


def replaced(expr: Expression, text: str, new: Expression) -> Expression:
    """The expression with every sub-expression of this text replaced."""
    if repr(expr) == text:
        return new
    return tuple(replaced(p, text, new) if isinstance(p, tuple) else p for p in expr)


@dataclass(frozen=True, eq=False)
class Law:
    """Two patterns and a guard on what they bind: an attribute pattern of cells, binding `new`."""

    left: Any
    right: Any
    when: Callable[[Bound], bool]
    floats_only: bool
    head: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "head", self.left[0])

    def ways(self, definition: Definition, inputs: Sequence[TensorType]) -> Sequence[Mapping[str, Any]]:
        """The expressions that the law makes of a cell's expression."""
        if self.head not in functions_of(definition):
            return ()
        return _ways(self, definition, tuple(t.dtype for t in inputs))


@dataclass(frozen=True, eq=False)
class Whole:
    """Attribute pattern: a cell whose whole expression is an instance; binds the pattern's variables."""

    pattern: Any

    def ways(self, definition: Definition, inputs: Sequence[TensorType]) -> Sequence[Mapping[str, Any]]:
        """What the variables stand for."""
        return list(fits(self.pattern, definition["expr"], {}))


@lru_cache(maxsize=1 << 14)
def functions_of(definition: Definition) -> frozenset[str]:
    """The functions in a cell's expression."""
    return frozenset(part[0] for part in parts_of(definition["expr"]).values())


@lru_cache(maxsize=1 << 16)
def _ways(law: Law, definition: Definition, dtypes: tuple[str, ...]) -> tuple[Mapping[str, Any], ...]:
    whole = definition["expr"]
    found: dict[str, Expression] = {}
    for text, part in parts_of(whole).items():
        for bound in fits(law.left, part, {}):
            if not law.when(bound):
                continue
            new = instance(law.right, bound)
            kind = _type(part, dtypes)
            if kind is not None and kind == _type(new, dtypes) and (is_float(kind) or not law.floats_only):
                result = replaced(whole, text, new)
                found.setdefault(repr(result), result)
    found.pop(repr(whole), None)
    return tuple({"new": result} for result in found.values())


def _type(expr: Expression, dtypes: tuple[str, ...]) -> str | None:
    try:
        return element_type(expr, dtypes)
    except (TypeError, ValueError, OverflowError):
        return None


def changed_cell(m: Match) -> CellForm:
    """The matched cell with the expression bound to `new`."""
    return replace(bound_cell(m, m["xs"]), expr=m["new"]).normal()


def law(
    name: str,
    left: Any,
    right: Any,
    *,
    doc: str,
    source: str,
    domain: str = "exact",
    when: Callable[[Bound], bool] = lambda _: True,
    types: Mapping[str, str] | None = None,
    constants: Mapping[str, float] | None = None,
    holds_for: str | None = None,
    saturating: bool = True,
) -> Rule:
    """The rule of a law.

    `types` and `constants` are those of its example ("float32"; 0.5 and -2.0 by default). `holds_for`:
    "numbers" or "floats" (by default what the domain says).
    """
    pattern = Law(left, right, when, holds_for == "floats" or (holds_for is None and domain == "real"))
    values = {"k": 0.5, "j": -2.0, "t": "float32", **(constants or {})}
    return Rule(
        name=name,
        left=any_cell(rest("xs"), inside=pattern),
        right=cell(changed_cell),
        doc=doc,
        source=source,
        example=lambda size: _example(name, left, types or {}, values, size),
        domain=domain,
        saturating=saturating,
    )


def _example(name: str, left: Any, types: Mapping[str, str], values: Mapping[str, Any], size: Sizes) -> Graph:
    """One cell whose expression is the left side, over inputs for its variables."""
    builder = GraphBuilder(name)
    shape = (size(3), size(4))
    names = [n for n in ("a", "b", "c") if f"Wild(name='{n}')" in repr(left)]
    sources = [builder.source(n, shape, types.get(n, "float32")) for n in names]
    bound = {**values, **{n: ("input", k) for k, n in enumerate(names)}}
    expr = instance(left, bound)
    dtypes = tuple(types.get(n, "float32") for n in names)
    (y,) = builder.apply(
        "cell",
        sources,
        site="y",
        expr=expr,
        labels=(("row", "column"),) * len(names),
        dims=(("row", shape[0]), ("column", shape[1])),
        dtype=element_type(expr, dtypes),
    )
    builder.sink(y, site="out")
    return builder.build()
