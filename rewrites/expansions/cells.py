"""Splitting of cells: parts along fewer dimensions are computed once, batch normalizations among them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from tapestry.rewrites.algebra.affine import affine_part, has_index, is_coefficient, summed
from tapestry.rewrites.cell_form import Labels, any_cell, element_type
from tapestry.rewrites.example_builder import ExampleBuilder, sure
from tapestry.rewrites.patterns import parts_of, replaced
from tapestry.rewrites.rule import ExampleSizes, Match, Op, Rule, Term, computed, op, pick, rest
from tapestry.teg.dtypes import is_float
from tapestry.teg.graph import Definition, Graph
from tapestry.teg.operators.expressions import Expression, cell_flops, inputs_of, substitute

ANY = any_cell(rest("xs"))


def _names(cell: Definition, inputs: Collection[int]) -> Labels:
    """Return the dimensions along which these operands vary, in the cell's order."""
    found = {n for j in inputs for n in cell["labels"][j] if n}
    return tuple(n for n, _ in cell["dims"] if n in found)


def _is_small(cell: Definition, inputs: Collection[int]) -> bool:
    """Return whether these operands vary along so few dimensions that the cell recomputes values of them."""
    names = _names(cell, inputs)
    return any(size > 1 for n, size in cell["dims"] if n not in names)


@lru_cache(maxsize=1 << 13)
def _small_parts(cell: Definition) -> tuple[Expression, ...]:
    """Find the largest sub-expressions of small operands that compute anything, in order of their text."""
    small = [j for j in range(len(cell["labels"])) if _is_small(cell, [j])]
    if not small:
        return ()
    parts = {
        text: e
        for text, e in parts_of(cell["expr"]).items()
        if inputs_of(e) and not has_index(e) and cell_flops(e) >= 1 and _is_small(cell, inputs_of(e))
    }
    inside = {
        text for e in parts.values() for part in e[1:] if isinstance(part, tuple) for text in parts_of(part)
    }
    return tuple(parts[text] for text in sorted(parts.keys() - inside))


class Normalization(NamedTuple):
    """An expression that contains `scale * operand + shift`: the text of that part, and the coefficients."""

    operand: int
    text: str
    scale: Expression
    shift: Expression | None


@lru_cache(maxsize=1 << 13)
def _normalization(cell: Definition, dtypes: tuple[str, ...]) -> Normalization | None:
    """Find scale and shift, by small operands, of the only large one, if expanding them saves work; or None."""
    large = [j for j in range(len(dtypes)) if not _is_small(cell, [j])]
    small = frozenset(range(len(dtypes))) - set(large)
    if len(large) != 1 or not small or not _is_small(cell, small) or not is_float(dtypes[large[0]]):
        return None
    part = affine_part(cell["expr"], large[0], small, dtypes)
    if part is None or part.form.scale is None:
        return None
    terms = part.form.terms
    if not inputs_of(part.form.scale) or not all(is_coefficient(t, small) for _, t in terms):
        return None
    if cell_flops(part.expr) <= (2 if terms else 1):
        return None
    return Normalization(large[0], part.text, part.form.scale, summed(terms) if terms else None)


def _normalized(m: Match) -> Normalization | None:
    return _normalization(m.block(ANY).definition, _dtypes(m))


def _dtypes(m: Match) -> tuple[str, ...]:
    return tuple(t.dtype for t in m.types("xs"))


def _part_cell(m: Match, expr: Expression, names: Labels, dtype: str, role: str) -> Op:
    """Build a cell of its own for a sub-expression, over these of the cell's dimensions."""
    used = inputs_of(expr)
    numbers: Mapping[int, Expression] = {j: ("input", k) for k, j in enumerate(used)}
    return op(
        "cell",
        pick(lambda m: [m["xs"][j] for j in used]),
        expr=substitute(expr, numbers),
        labels=tuple(m["labels"][j] for j in used),
        dims=tuple((n, size) for n, size in m["dims"] if n in names),
        dtype=dtype,
    ).named(role)


def _with_parts(m: Match, expr: Expression, parts: Sequence[tuple[Term, Labels]]) -> Op:
    """Build the cell with another expression: over the operands it had, as far as read, then the parts."""
    had, used = len(m["xs"]), inputs_of(expr)
    numbers: Mapping[int, Expression] = {j: ("input", k) for k, j in enumerate(used)}
    old = [j for j in used if j < had]
    return op(
        "cell",
        pick(lambda m: [m["xs"][j] for j in old]),
        *(parts[j - had][0] for j in used if j >= had),
        expr=substitute(expr, numbers),
        labels=tuple(m["labels"][j] if j < had else parts[j - had][1] for j in used),
        dims=m["dims"],
        dtype=m["dtype"],
    )


def _hoisted(m: Match) -> Op:
    cell = m.block(ANY).definition
    part = _small_parts(cell)[int(m.choice)]
    names = _names(cell, inputs_of(part))
    own = _part_cell(m, part, names, element_type(part, _dtypes(m)), "hoisted")
    return _with_parts(m, replaced(m["expr"], repr(part), ("input", len(m["xs"]))), [(own, names)])


def _scaled_and_shifted(m: Match) -> Op:
    found = sure(_normalized(m))
    had, dtype = len(m["xs"]), m.edited.tensors[m["xs"][found.operand]].dtype
    expr: Expression = ("mul", ("input", found.operand), ("input", had))
    parts = [_coefficient(m, found.scale, dtype, "scale")]
    if found.shift is not None:
        expr = ("add", expr, ("input", had + 1))
        parts.append(_coefficient(m, found.shift, dtype, "shift"))
    return _with_parts(m, replaced(m["expr"], found.text, expr), parts)


def _coefficient(m: Match, expr: Expression, dtype: str, role: str) -> tuple[Op, Labels]:
    names = _names(m.block(ANY).definition, inputs_of(expr))
    return _part_cell(m, expr, names, dtype, role), names


def batch_norm(b: ExampleBuilder, x: str, parameters: Sequence[str], letters: str) -> str:
    """Build an example's batch norm, as importers write it: scale, bias, mean and variance per channel."""
    spread = ("sqrt", ("add", ("input", 4), ("const", 1e-5)))
    centered = ("div", ("sub", ("input", 0), ("input", 3)), spread)
    expr = ("relu", ("add", ("mul", centered, ("input", 1)), ("input", 2)))
    return b.cell(expr, {x: letters, **dict.fromkeys(parameters, "c")})


def _example(name: str) -> Any:
    def example(size: ExampleSizes) -> Graph:
        b = ExampleBuilder(name)
        x = b.tensor("x", size(2, least=2), size(3), size(4))
        names = ("scale", "bias", "mean")
        parameters = [b.tensor(n, b.shape(x)[1], role="parameter") for n in names]
        # A source may have any value, a variance may not: squares are not negative.
        deviation = b.tensor("deviation", b.shape(x)[1], role="parameter")
        variance = b.cell(("add", ("square", ("input", 0)), ("const", 0.5)), {deviation: "c"})
        return b.result(batch_norm(b, x, [*parameters, variance], "ncy"))

    return example


CELL_EXPANSIONS: tuple[Rule, ...] = (
    Rule(
        name="expand_batch_norm",
        left=ANY,
        right=computed(lambda m: [_scaled_and_shifted(m)]),
        when=lambda m: _normalized(m) is not None,
        doc="""
        A batch normalization becomes one scale and one shift per channel.

        (x - mean) / sqrt(variance + eps) scale + bias  ->  x s + t with s = scale / sqrt(variance + eps)
        For any cell that is a scale and a shift of its one large operand, by operands that vary along fewer
        dimensions, where that saves work per element; of finite operands (mean and bias are scaled apart from x).
        """,
        source="Ioffe and Szegedy, Batch Normalization, ICML 2015, algorithm 2, line 11",
        example=_example("expand_batch_norm"),
        kind="semantic",
        domain="real",
    ),
    Rule(
        name="hoist_from_cell",
        left=ANY,
        right=computed(lambda m: [_hoisted(m)]),
        when=lambda m: bool(_small_parts(m.block(ANY).definition)),
        choices=lambda m: [str(k) for k in range(len(_small_parts(m.block(ANY).definition)))],
        doc="""
        What of a cell varies along fewer dimensions is computed once, in a cell of its own.

        cell[f(x, g(v))](x, v broadcast)  ->  cell[f(x, y)](x, y broadcast) with y = cell[g](v)
        For each largest part of the expression that reads operands with fewer index points only; which one is
        the choice. The part has its own element type, so every bit stays.
        """,
        source="loop-invariant code motion (Aho, Lam, Sethi and Ullman, Compilers, section 9.5)",
        example=_example("hoist_from_cell"),
        kind="semantic",
    ),
)
