"""Laws of element-wise expressions as rules: `law("add_neg", A + -B, A - B, ...)`.

Both sides are written with the variables of `rewrites.elements`; a pattern is an expression of
`teg.operators.expressions` with variables in it. Commutative functions fit both ways round. A law is used
anywhere inside a cell; where a sub-expression occurs more than once, all occurrences change. It is used only
where both sides have the same element type there; a law for floats (as those of domain "real" are unless they
say otherwise) only where that type is a float. A `Chain` fits sums and products whatever their brackets and
order; where a law's whole left side is one, other terms may stand between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from tapestry.rewrites.cell_form import CellForm, any_cell, bound_cell, cell, element_type
from tapestry.rewrites.elements import pattern_of
from tapestry.rewrites.patterns import (
    Bound,
    Chain,
    chained,
    fits,
    instance,
    parts_of,
    replaced,
    tree_size,
)
from tapestry.rewrites.rule import ExampleSizes, Match, Rule, rest
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.dtypes import is_float
from tapestry.teg.graph import Definition, Graph, TensorType
from tapestry.teg.operators.expressions import Expression, cell_flops


@dataclass(frozen=True, eq=False)
class ElementwiseLaw:
    """Patterns, any of which is rewritten to another, and a guard: a cell attribute pattern, binding `new`.

    `saving`: only where the cell does not become more expensive, which a shared part of the left side might cause.
    """

    lefts: tuple[Any, ...]
    right: Any
    when: Callable[[Bound], bool]
    floats_only: bool
    saving: bool
    heads: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        heads = (left.function if isinstance(left, Chain) else left[0] for left in self.lefts)
        object.__setattr__(self, "heads", frozenset(heads))

    def ways(self, definition: Definition, inputs: Sequence[TensorType]) -> Sequence[Mapping[str, Any]]:
        """Find the expressions into which the law rewrites a cell's expression."""
        if self.floats_only and not (is_float(definition["dtype"]) or definition["dtype"] == "bool"):
            return ()  # a whole number would show the rounding
        return _ways(self, definition, tuple(t.dtype for t in inputs))

    def results(self, part: Expression) -> Iterator[Expression]:
        """Yield the results of the law on an expression that is an instance as a whole."""
        for left in self.lefts:
            if isinstance(left, Chain):
                for bound, others in left.ways(part, {}):
                    if self.when(bound):
                        yield chained(left.function, [instance(self.right, bound), *others])
            else:
                yield from (instance(self.right, bound) for bound in fits(left, part, {}) if self.when(bound))


@dataclass(frozen=True, eq=False)
class Whole:
    """An attribute pattern for a cell whose whole expression is an instance; binds the pattern's variables."""

    pattern: Any

    def ways(self, definition: Definition, inputs: Sequence[TensorType]) -> Sequence[Mapping[str, Any]]:
        """Return the bindings of the variables."""
        return list(fits(self.pattern, definition["expr"], {}))


@lru_cache(maxsize=1 << 16)
def _ways(
    law: ElementwiseLaw, definition: Definition, dtypes: tuple[str, ...]
) -> tuple[Mapping[str, Any], ...]:
    whole = definition["expr"]
    found: dict[str, Expression] = {}
    for text, part in parts_of(whole).items():
        for new in law.results(part):
            kind = _type(part, dtypes)
            if kind is not None and kind == _type(new, dtypes) and (is_float(kind) or not law.floats_only):
                result = replaced(whole, text, new)
                if not law.saving or _size(result) < _size(whole):
                    found.setdefault(repr(result), result)
    found.pop(repr(whole), None)
    return tuple({"new": result} for result in found.values())


def _size(expr: Expression) -> tuple[float, int]:
    """Compute the measure that decreases with every saturating move: flops per element, then the size."""
    return cell_flops(expr), tree_size(expr)


def _type(expr: Expression, dtypes: tuple[str, ...]) -> str | None:
    try:
        return element_type(expr, dtypes)
    except (TypeError, ValueError, OverflowError):
        return None


def changed_cell(m: Match) -> CellForm:
    """Build the matched cell with the expression bound to `new`."""
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
    also: Sequence[Any] = (),
) -> Rule:
    """Build the rule of a law; `also` are other left sides, with the same variables.

    `types` and `constants` are those of its example ("float32"; 0.5 and -2.0 by default). `holds_for`:
    "numbers" or "floats" (by default what the domain says).
    """
    floats_only = holds_for == "floats" or (holds_for is None and domain == "real")
    lefts = tuple(map(pattern_of, (left, *also)))
    pattern = ElementwiseLaw(lefts, pattern_of(right), when, floats_only, saturating)
    values = {"k": 0.5, "j": -2.0, "t": "float32", **(constants or {})}
    return Rule(
        name=name,
        left=any_cell(rest("xs"), inside=pattern),
        right=cell(changed_cell),
        doc=doc,
        source=source,
        example=lambda size: _example(name, lefts, types or {}, values, size),
        domain=domain,
        saturating=saturating,
    )


def _example(
    name: str, lefts: Sequence[Any], types: Mapping[str, str], values: Mapping[str, Any], size: ExampleSizes
) -> Graph:
    """Build an example: a cell for each left side, over inputs for its variables."""
    builder = GraphBuilder(name)
    shape = (size(3), size(4))
    names = [n for n in "abcd" if any(f"Wild(name='{n}')" in repr(left) for left in lefts)]
    sources = [builder.source(n, shape, types.get(n, "float32")) for n in names]
    dtypes = tuple(types.get(n, "float32") for n in names)
    for k, left in enumerate(lefts):
        own = [j for j, n in enumerate(names) if f"Wild(name='{n}')" in repr(left)]
        bound = {**values, **{names[j]: ("input", i) for i, j in enumerate(own)}}
        expr = instance(left, bound)
        (y,) = builder.apply(
            "cell",
            [sources[j] for j in own],
            site=f"y{k or ''}",
            expr=expr,
            labels=(("row", "column"),) * len(own),
            dims=(("row", shape[0]), ("column", shape[1])),
            dtype=element_type(expr, [dtypes[j] for j in own]),
        )
        builder.sink(y, site=f"out{k or ''}")
    return builder.build()
