"""Fused blocks that are attention: scores, softmax and weighted sum, which libraries have one kernel for.

    contract(softmax(cells(contract(q, k))), v), where the cells scale scores, add to them, and mask some of them

Names of dimensions are those of the scores. Batch dimensions are in all four tensors, rows in queries only (grouped
heads too), `column` in keys and values, `inner` in queries and keys, features in values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.operators.cells import aligned, values_of
from tapestry.teg.operators.expressions import Expression, steps_of
from tapestry.teg.operators.fused_body import FusedBody, FusedStep
from tapestry.teg.operators.operator import Operand
from tapestry.teg.zspace import ZRange

Names = tuple[str, ...]
TYPES = ("float32", "float64")
# What is so low takes no share of a softmax, whatever is added to it.
MASKED = -1e9


class AddedTerm(NamedTuple):
    """A term that the cell of a step adds to the scores: an expression, its dimensions, and a factor.

    `names` are those of the scores, `dims` the cell's own names for them and `cell` those of all its dimensions;
    `labels` are those of its inputs, None for the scores.
    """

    step: int
    expr: Expression
    names: Names
    dims: Names
    cell: Names
    labels: tuple[Names | None, ...]
    factor: float


class AttentionForm(NamedTuple):
    """The parts that operands of a fused block play in attention: positions among the reads of two steps, and names."""

    queries: tuple[int, Names]
    keys: tuple[int, Names]
    values: tuple[int, Names]
    output: Names
    batch: Names
    rows: Names
    column: str
    inner: Names
    features: Names
    scale: float
    terms: tuple[AddedTerm, ...]


def attention_form(body: FusedBody) -> AttentionForm | None:
    """Return how a body is attention; None if it is something else, or of a type that kernels round in another way."""
    operators = [step.definition.operator for step in body.steps]
    cells = len(operators) - 3
    if cells < 0 or operators != ["contract", *["cell"] * cells, "softmax", "contract"]:
        return None
    chained = all(a.makes[0] in b.reads for a, b in zip(body.steps, body.steps[1:], strict=False))
    made = [step.makes[0] for step in body.steps]
    again = sum(v in made for step in body.steps for v in step.reads) > len(made) - 1
    same_type = {t.dtype for t in body.types}
    if not chained or again or len(same_type) > 1 or not same_type <= set(TYPES):
        return None
    first, *between, soft, last = body.steps
    scores: Names = first.definition["output"]
    axes = soft.definition["axes"]
    if len(axes) != 1 or len(first.reads) != 2 or len(last.reads) != 2:
        return None
    scaled = _scaled(between, first, scores)
    parts = _parts(first, last, soft.makes[0], scores, scores[axes[0]])
    return None if scaled is None or parts is None else AttentionForm._make((*parts, *scaled))


def _parts(
    first: FusedStep, last: FusedStep, weights: int, scores: Names, column: str
) -> tuple[Any, ...] | None:
    """Return the fields of the form up to `features`, or None."""
    labels = first.definition["labels"]
    k = next((j for j in (1, 0) if column in labels[j] and column not in labels[1 - j]), None)
    if k is None:
        return None
    queries, keys = labels[1 - k], labels[k]
    batch = tuple(d for d in scores if d in queries and d in keys)
    rows = tuple(d for d in scores if d not in keys)
    inner = tuple(d for d in queries if d not in scores)
    p = last.reads.index(weights)
    renamed = dict(zip(last.definition["labels"][p], scores, strict=True))
    if len(renamed) < len(scores):
        return None
    values, output = (
        tuple(renamed.get(d, f"{d}'") for d in names)
        for names in (last.definition["labels"][1 - p], last.definition["output"])
    )
    features = tuple(d for d in values if d not in scores)
    fits = (
        {*keys} == {*batch, column, *inner}
        and {*values} == {*batch, column, *features}
        and {*output} == {*batch, *rows, *features}
        and {*queries} == {*batch, *rows, *inner}
    )
    unique = all(len(set(names)) == len(names) for names in (queries, keys, values, output))
    if not fits or not unique:
        return None
    sides = ((1 - k, queries), (k, keys), (1 - p, values))
    return (*sides, output, batch, rows, column, inner, features)


def _scaled(
    cells: Sequence[FusedStep], first: FusedStep, scores: Names
) -> tuple[float, tuple[AddedTerm, ...]] | None:
    """Return the factor of the scores, and what is added to them; None if cells do anything else."""
    scale, terms, value = 1.0, list[AddedTerm](), first.makes[0]
    for s, step in enumerate(cells, start=1):
        at, dims = step.reads.index(value), tuple(d for d, _ in step.definition["dims"])
        parts = affine(step.definition["expr"], at, step.definition["dtype"])
        labels = step.definition["labels"]
        if parts is None or parts[0] == 0.0 or labels[at] != dims:
            return None
        scale, terms = scale * parts[0], [t._replace(factor=t.factor * parts[0]) for t in terms]
        if parts[1] is not None:
            own = tuple(None if k == at else names for k, names in enumerate(labels))
            leaves = {(leaf.name, leaf.payload) for leaf in steps_of(parts[1])}
            used = {d for k, names in enumerate(own) if ("input", k) in leaves for d in names or ()}
            used |= {d for name, d in leaves if name == "index"}
            kept = tuple(d for d in dims if d in used)
            names = tuple(scores[dims.index(d)] for d in kept)
            terms.append(AddedTerm(s, parts[1], names, kept, dims, own, 1.0))
        value = step.makes[0]
    return scale, tuple(terms)


def affine(expr: Expression, at: int, dtype: str) -> tuple[float, Expression | None] | None:
    """Return how an expression depends on one input: the factor of it, and what is added; None if in another way.

    Masks count: where a condition does not hold, a large negative number may stand, and is added instead.
    """
    if not any(leaf.name == "input" and leaf.payload == at for leaf in steps_of(expr)):
        return 0.0, expr
    name, *parts = expr
    if name == "input":
        return 1.0, None
    if name == "cast":
        return affine(parts[1], at, dtype) if parts[0] == dtype else None
    if name == "where":
        chosen, low = affine(parts[1], at, dtype), parts[2]
        free = affine(parts[0], at, dtype)
        if chosen is None or free is None or free[0] or low[0] != "const" or not -math.inf < low[1] <= MASKED:
            return None
        return chosen[0], ("where", parts[0], chosen[1] or ("const", 0.0), low)
    sides = [affine(part, at, dtype) for part in parts]
    if name not in ("add", "sub", "mul", "div", "neg") or any(side is None for side in sides):
        return None
    (factor, rest), (other, more) = sides[0] or (0.0, None), sides[-1] or (0.0, None)
    if name == "neg":
        return -factor, rest and ("neg", rest)
    if name in ("add", "sub"):
        added = (
            (name, rest, more)
            if rest and more
            else rest or (more and (("neg", more) if name == "sub" else more))
        )
        return factor + (other if name == "add" else -other), added
    if name == "mul" and not factor:
        (factor, rest), more = (other, more), rest
    if more is None or more[0] != "const" or (name == "div" and (not more[1] or not factor)):
        return None
    number = float(more[1])
    return (factor * number if name == "mul" else factor / number), rest and (name, rest, more)


def run_attention(
    xp: ArrayNamespace,
    form: AttentionForm,
    parts: Sequence[ZRange],
    reads: Sequence[Mapping[int, Operand]],
) -> Array | None:
    """Compute attention by the library's kernel.

    `parts` are those of the steps' index spaces, `reads` the inputs of the block that each step reads, by position.
    None if the library has no kernel for it.
    """
    (q, q_names), (k, k_names), (v, v_names) = form.queries, form.keys, form.values
    arrays = reads[0][q].array, reads[0][k].array, reads[-1][v].array
    sizes: dict[str, int] = {}
    for array, names in zip(arrays, (q_names, k_names, v_names), strict=True):
        sizes.update(zip(names, array.shape, strict=True))
    if 0 in sizes.values():
        return None
    heads = (form.batch[:-1], form.batch[-1:])
    queries = _arranged(xp, arrays[0], q_names, (*heads, form.rows, form.inner), sizes)
    keys = _arranged(xp, arrays[1], k_names, (*heads, (form.column,), form.inner), sizes)
    values = _arranged(xp, arrays[2], v_names, (*heads, (form.column,), form.features), sizes)
    bias = None
    for term in form.terms:
        groups = (*heads, form.rows, (form.column,))
        value = _added(xp, term, parts[term.step], reads[term.step], xp.dtype_of(arrays[0]))
        added = _arranged(xp, value, term.names, groups, sizes)
        added = added if term.factor == 1.0 else xp.elementwise("mul", added, term.factor)
        bias = added if bias is None else xp.elementwise("add", bias, added)
    made = xp.attention(queries, keys, values, bias, form.scale)
    if made is None:
        return None
    order = (*form.batch, *form.rows, *form.features)
    apart = xp.reshape(made, [sizes[d] for d in order])
    return xp.permute_dims(apart, [order.index(d) for d in form.output])


def _added(
    xp: ArrayNamespace, term: AddedTerm, part: ZRange, reads: Mapping[int, Operand], dtype: str
) -> Array:
    """Compute what is added to the scores, on the dimensions that it has."""
    steps = steps_of(term.expr)
    used = {leaf.payload for leaf in steps if leaf.name == "input"}
    arrays = [
        aligned(xp, reads[k].array, names, term.dims) if k in used and names is not None else None
        for k, names in enumerate(term.labels)
    ]
    places = [term.cell.index(d) for d in term.dims]
    own = ZRange(tuple(part.start[k] for k in places), tuple(part.end[k] for k in places))
    return values_of(xp, steps, term.dims, own, arrays, dtype)


def _arranged(
    xp: ArrayNamespace, array: Array, names: Names, groups: Sequence[Names], sizes: Mapping[str, int]
) -> Array:
    """Return an array with a dimension for each group of names; of size 1 where it has none of them."""
    order = [d for group in groups for d in group]
    own = [d for d in order if d in names]
    moved = xp.permute_dims(array, [names.index(d) for d in own])
    moved = xp.expand_dims(moved, [k for k, d in enumerate(order) if d not in names])
    held = [any(d in names for d in group) for group in groups]
    wide = [sizes[d] if has else 1 for group, has in zip(groups, held, strict=True) for d in group]
    merged = [
        math.prod(sizes[d] for d in group) if has else 1 for group, has in zip(groups, held, strict=True)
    ]
    return xp.reshape(xp.broadcast_to(moved, wide), merged)
