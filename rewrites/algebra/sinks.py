"""Softmax over a concatenation of which a part is read: the rest only normalizes, as an attention sink does.

Models that let a head attend to nothing concatenate a learned logit to the scores of every row and drop its
probability again. Concatenated, scores and sink are copied; kept separate, the sink is one more term of the row's
maximum and sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from tapestry.rewrites.cell_form import INPUT, Labels, dim_labels, pointwise
from tapestry.rewrites.example_builder import ExampleBuilder, replaced_at
from tapestry.rewrites.expansions.rows import DIFFERENCE
from tapestry.rewrites.rule import ExampleSizes, Match, Op, Rule, Term, attr, computed, op, rest
from tapestry.rewrites.selectors.viewing import any_view, at, seen, view_of
from tapestry.teg.dtypes import accumulation
from tapestry.teg.graph import Graph
from tapestry.teg.operators.expressions import Expression
from tapestry.teg.operators.selectors import broadcast, selected, sliced, unsqueezed
from tapestry.teg.views import ViewDim, ViewMap

# Each part has a maximum and a sum of its own.
MOST_PARTS = 4


class Weighed(NamedTuple):
    """The parts that a view reads, the view of these concatenated, and the parts that only normalize."""

    looked_at: tuple[str, ...]
    view: ViewMap
    weighing: tuple[str, ...]


class Rows(NamedTuple):
    """A tensor with the dimensions of the softmax, and its shape."""

    term: Term
    shape: tuple[int, ...]


def _weighed(m: Match) -> Mapping[str, Any] | None:
    """Separate the parts; None if the view reads all of them, or the softmax is over other dimensions."""
    if any(not reader.is_view for reader, _ in m.edited.readers[m["weights"]]):
        return None
    axis, view, shape = m["axis"], view_of(m), m.shape("whole")
    if axis not in {a % len(shape) for a in m["axes"]} or len(m["parts"]) > MOST_PARTS:
        return None
    if 0 in shape or 0 in view.shape:
        return None
    d, sizes = view.dims[axis], [t.shape[axis] for t in m.types("parts")]
    last = d.offset + (d.stride * (view.shape[d.dim] - 1) if d.dim >= 0 else 0)
    low, high = min(d.offset, last), max(d.offset, last)
    starts = (0, *accumulate(sizes))
    inside = [start <= high and low < start + n for start, n in zip(starts, sizes, strict=False)]
    if all(inside):
        return None
    first = starts[inside.index(True)]
    moved = replaced_at(view.dims, axis, ViewDim(d.dim, d.stride, d.offset - first))
    reported = list(zip(m["parts"], inside, strict=True))
    looked_at, weighing = (tuple(s for s, looked in reported if looked is wanted) for wanted in (True, False))
    return {"weighed": Weighed(looked_at, ViewMap(moved, view.shape), weighing)}


def _rows(m: Match) -> Labels:
    """Return the names of the dimensions that the softmax does not normalize over."""
    names = dim_labels(len(m.shape("whole")))
    whole = {a % len(names) for a in m["axes"]}
    return tuple(n for k, n in enumerate(names) if k not in whole)


def _reduced(m: Match, term: Term, monoid: str) -> Op:
    names = dim_labels(len(m.shape("whole")))
    return op("reduce", term, monoid=monoid, labels=names, output=_rows(m)).named(monoid)


def _with_rows(m: Match, expr: Expression, of: Rows, row: Op, dtype: str) -> Op:
    """Build a cell over a tensor and one value per row."""
    labels = (dim_labels(len(of.shape)), _rows(m))
    return op("cell", of.term, row, given=lambda _: pointwise(expr, labels, of.shape, dtype))


def _per_row(m: Match, function: str, values: Sequence[Op], dtype: str) -> Op:
    """Combine values of rows one after the other."""
    sizes = dict(zip(dim_labels(len(m.shape("whole"))), m.shape("whole"), strict=True))
    expr: Expression = INPUT
    for k in range(1, len(values)):
        expr = (function, expr, ("input", k))
    dims = tuple((n, sizes[n]) for n in _rows(m))
    return op("cell", *values, expr=expr, labels=(_rows(m),) * len(values), dims=dims, dtype=dtype)


def _widened(m: Match, rows: Rows) -> Rows:
    """Cast a tensor to the element type of sums."""
    dtype, wide = m.dtype("whole"), accumulation(m.dtype("whole"))
    if dtype == wide:
        return rows
    given = pointwise(INPUT, (dim_labels(len(rows.shape)),), rows.shape, wide)
    return Rows(op("cell", rows.term, given=lambda _: given).named("wide"), rows.shape)


def _apart(m: Match) -> Sequence[Op]:
    """Build the softmax of the parts that are read, by the maximum and the sum over all parts."""
    parts: Weighed = m["weighed"]
    axis, whole, dtype = m["axis"], m.shape("whole"), m.dtype("whole")
    shapes = {s: m.edited.tensors[s].shape for s in m["parts"]}
    length = sum(shapes[s][axis] for s in parts.looked_at)
    kept: Term = at(*parts.looked_at)
    if len(parts.looked_at) > 1:
        kept = op("concat", kept, axis=axis).named("kept")
    others = {s: _widened(m, Rows(at(s), shapes[s])) for s in parts.weighing}
    looked_at = _widened(m, Rows(kept, replaced_at(whole, axis, length)))
    # In the order of the parts, so that another view of the same row finds the same maximum and sum.
    every = list(dict.fromkeys(others.get(s, looked_at) for s in m["parts"]))
    wide = accumulation(dtype)
    peak = _per_row(m, "max", [_reduced(m, rows.term, "max") for rows in every], wide).named("peak")
    powers = [_with_rows(m, ("exp", DIFFERENCE), rows, peak, wide).named("exp") for rows in every]
    total = _per_row(m, "add", [_reduced(m, e, "sum") for e in powers], wide).named("total")
    quotient = ("div", ("input", 0), ("input", 1))
    own = Rows(powers[every.index(looked_at)], looked_at.shape)
    result = seen(_with_rows(m, quotient, own, total, dtype).named("weights"), parts.view, own.shape)
    assert isinstance(result, Op)
    return [result]


def _example(size: ExampleSizes) -> Graph:
    """Build an example: scores of two heads with a sink each; a row of three parts, two of them read backwards."""
    b = ExampleBuilder("softmax_of_part")
    scores, sink = b.tensor("scores", 2, size(3), size(4)), b.tensor("sink", 2, role="parameter")
    shape = b.shape(scores)
    column = (2, 1, 1)
    one = b.view(sink, unsqueezed((2,), (1, 2)).then(broadcast(column, (*shape[:2], 1))))
    joined = b.op("concat", scores, one, axis=2)
    weights = b.op("softmax", joined, axes=(2,))
    parts = [b.tensor(f"x{k}", size(2), size(k + 2)) for k in range(3)]
    rows = b.shape(parts[0])[0]
    parts = [parts[0], *(b.tensor(f"y{k}", rows, size(k + 2)) for k in range(2))]
    long = b.op("softmax", b.op("concat", *parts, axis=1), axes=(0, 1))
    wide = b.shape(long)
    start = b.shape(parts[0])[1]
    backwards = sliced(wide, (0, start), wide).then(selected((rows, wide[1] - start), 0, 0))
    seen_sink = b.view(weights, selected(b.shape(weights), 2, shape[2]))
    looked_at = b.view(weights, sliced(b.shape(weights), (0, 0, 0), shape))
    return b.result(looked_at, seen_sink, b.view(long, backwards))


SINKS: tuple[Rule, ...] = (
    Rule(
        name="softmax_of_part",
        left=any_view(
            op(
                "softmax",
                op("concat", rest("parts"), axis=attr("axis")).only_here().named("whole"),
                axes=attr("axes"),
            ).named("weights")
        ),
        right=computed(_apart),
        where=_weighed,
        doc="""
        Where only a part of a softmax's row is read, the other parts are terms of its maximum and sum.

        softmax(concat(x, s))[:n]  ->  exp(x - m) / (sum(exp(x - m)) + sum(exp(s - m))) with m = max(x, s)
        Where nobody reads whole rows, of a few parts: the definition, without a copy of x beside s. Views of other
        parts find the same maximum and sum.
        """,
        source="Xiao et al., Efficient Streaming Language Models with Attention Sinks, ICLR 2024, section 3.3",
        example=_example,
        domain="real",
        duplicates=True,
    ),
)
