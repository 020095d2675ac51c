"""Fused blocks that are attention: scores, softmax and weighted sum, which libraries have one kernel for.

    contract(softmax(cells(contract(q, k))), v), where the cells scale scores and add to them

Names of dimensions are those of the scores. Batch dimensions are in all four tensors, rows in queries only (grouped
heads too), `column` in keys and values, `inner` in queries and keys, features in values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.operators.fused_body import FusedBody, FusedStep
from tapestry.teg.operators.operator import Operand

Names = tuple[str, ...]
TYPES = ("float32", "float64")


class AddedTerm(NamedTuple):
    """What is added to the scores: which of the operands of which step, its dimensions, and its factor."""

    step: int
    position: int
    names: Names
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
    return None if scaled is None or parts is None else AttentionForm(*parts, *scaled)


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
        at = step.reads.index(value)
        names = dict(zip((d for d, _ in step.definition["dims"]), scores, strict=True))
        labels = [tuple(names.get(d, "") for d in own) for own in step.definition["labels"]]
        factors = linear(step.definition["expr"])
        if factors is None or labels[at] != scores or factors.get(at, 0.0) == 0.0:
            return None
        scale, terms = scale * factors[at], [t._replace(factor=t.factor * factors[at]) for t in terms]
        others = [(j, f) for j, f in factors.items() if j not in (at, -1)]
        if any("" in labels[j] or len(set(labels[j])) < len(labels[j]) for j, _ in others):
            return None
        terms += [AddedTerm(s, j, labels[j], factor) for j, factor in others]
        value = step.makes[0]
    return scale, tuple(terms)


def linear(expr: Any) -> dict[int, float] | None:
    """Return the factor of each input in a linear expression, with -1 for what is added; None if it is no such one."""
    name, *parts = expr
    if name == "input":
        return {parts[0]: 1.0}
    if name == "const":
        return {-1: float(parts[0])} if math.isfinite(parts[0]) else None
    if name not in ("add", "sub", "mul", "div", "neg"):
        return None
    sides = [linear(part) for part in parts]
    if any(side is None for side in sides):
        return None
    left, right = sides[0] or {}, sides[-1] or {}
    if name in ("mul", "div"):
        if name == "mul" and not left.keys() - {-1}:
            left, right = right, left
        number = right.get(-1, 0.0)
        if right.keys() - {-1} or (name == "div" and number == 0.0):
            return None
        return {j: f * number if name == "mul" else f / number for j, f in left.items()}
    if name == "neg":
        return {j: -f for j, f in left.items()}
    sign = 1.0 if name == "add" else -1.0
    return {j: left.get(j, 0.0) + sign * right.get(j, 0.0) for j in {**left, **right}}


def run_attention(
    xp: ArrayNamespace, form: AttentionForm, reads: Mapping[int, Mapping[int, Operand]]
) -> Array | None:
    """Compute attention by the library's kernel; `reads` are the inputs of the block that each step reads, by position.

    None if the library has no kernel for it.
    """
    (q, q_names), (k, k_names), (v, v_names) = form.queries, form.keys, form.values
    last = max(reads)
    arrays = reads[0][q].array, reads[0][k].array, reads[last][v].array
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
        added = _arranged(xp, reads[term.step][term.position].array, term.names, groups, sizes)
        added = added if term.factor == 1.0 else xp.elementwise("mul", added, term.factor)
        bias = added if bias is None else xp.elementwise("add", bias, added)
    made = xp.attention(queries, keys, values, bias, form.scale)
    if made is None:
        return None
    order = (*form.batch, *form.rows, *form.features)
    apart = xp.reshape(made, [sizes[d] for d in order])
    return xp.permute_dims(apart, [order.index(d) for d in form.output])


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
