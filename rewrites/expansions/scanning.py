"""Scans in pieces, whose lengths are split over devices, step by step, and as matrix products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tapestry.rewrites.cell_form import Labels, dim_labels, pointwise
from tapestry.rewrites.example_builder import ExampleBuilder, replaced_at
from tapestry.rewrites.expansions.rows import X
from tapestry.rewrites.rule import ExampleSizes, Match, Op, Rule, Term, attr, computed, op
from tapestry.rewrites.selectors.viewing import any_view, given, seen, view_of
from tapestry.teg.dtypes import accumulation, is_float
from tapestry.teg.graph import Graph
from tapestry.teg.operators.expressions import Expression
from tapestry.teg.operators.monoids import identity
from tapestry.teg.operators.selectors import selected, sliced
from tapestry.teg.views import ViewDim, ViewMap

A, B = ("input", 0), ("input", 1)
LARGER = ("max", A, B)


def _logarithm_of_sum() -> Expression:
    """Build log(exp(a) + exp(b)); if the larger one is infinite, it is the result."""
    difference = ("neg", ("abs", ("sub", A, B)))
    return ("where", ("is_inf", LARGER), LARGER, ("add", ("log1p", ("exp", difference)), LARGER))


# How two partial results are combined, by monoid.
COMBINED: Mapping[str, Expression] = {
    "sum": ("add", A, B),
    "prod": ("mul", A, B),
    "max": LARGER,
    "min": ("min", A, B),
    "logsumexp": _logarithm_of_sum(),
}

PIECES = (2, 4, 8, 16)

# The matrix of a scan has the square of its length.
MOST_ROWS = 256

# Each step is a block of its own.
MOST_STEPS = 32

SCAN = op(
    "scan", X, axis=attr("axis"), monoid=attr("monoid"), exclusive=attr("exclusive"), reverse=attr("reverse")
)


def _pieces(m: Match) -> list[str]:
    """List the numbers of pieces that divide the length, with at least two elements each."""
    length = m.shape("x")[m["axis"]]
    return [str(p) for p in PIECES if length % p == 0 and length >= 2 * p]


def _in_pieces(m: Match) -> Op:
    axis, shape, pieces = m["axis"], m.shape("x"), int(m.choice)
    split = (*shape[:axis], pieces, shape[axis] // pieces, *shape[axis + 1 :])
    names = dim_labels(len(split))
    outer = (*names[: axis + 1], *names[axis + 2 :])
    direction: dict[str, Any] = {"monoid": m["monoid"], "reverse": m["reverse"]}
    parts = op("reshape", X, shape=split).named("pieces")
    inside = op("scan", parts, axis=axis + 1, exclusive=m["exclusive"], **direction).named("inside")
    totals = op("reduce", parts, monoid=m["monoid"], labels=names, output=outer).named("totals")
    before = op("scan", totals, axis=axis, exclusive=True, **direction).named("before")
    combined = op(
        "cell",
        inside,
        before,
        expr=COMBINED[m["monoid"]],
        labels=(names, outer),
        dims=tuple(zip(names, split, strict=True)),
        dtype=m.dtype("x"),
    ).named("combined")
    return op("reshape", combined, shape=shape).named("joined")


def _may_unroll(m: Match) -> bool:
    length = m.shape("x")[m["axis"]]
    return (
        m["monoid"] in COMBINED
        and m.dtype("x") != "bool"
        and 2 <= length <= MOST_STEPS
        and 0 not in m.shape("x")
    )


def _unrolled(m: Match) -> Op:
    """Compute each element from the one before it, in the element type of sums, and concatenate all of them."""
    axis, shape, dtype = m["axis"], m.shape("x"), m.dtype("x")
    length, wide = shape[axis], accumulation(dtype)
    row = replaced_at(shape, axis, 1)
    names = dim_labels(len(shape))

    def cell(expr: Expression, *terms: Term, kind: str = wide, size: Sequence[int] = row) -> Op:
        return op("cell", *terms, given=lambda _: pointwise(expr, (names,) * len(terms), size, kind))

    def element(k: int) -> Op:
        start = replaced_at((0,) * len(shape), axis, k)
        return op(
            "view", X, given=lambda _: given(sliced(shape, start, replaced_at(shape, axis, k + 1)))
        ).named("element")

    order = range(length - 1, -1, -1) if m["reverse"] else range(length)
    values = [element(k) for k in order]
    first = ("cast", wide, ("const", identity(m["monoid"], dtype)))
    running: list[Op] = [cell(first) if m["exclusive"] else cell(("cast", wide, A), values[0])]
    for value in values[:-1] if m["exclusive"] else values[1:]:
        running.append(cell(COMBINED[m["monoid"]], running[-1], value).named("step"))
    joined = op("concat", *(running[::-1] if m["reverse"] else running), axis=axis)
    return joined if wide == dtype else cell(A, joined.named("running"), kind=dtype, size=shape)


def _ends(m: Match) -> bool:
    """Return whether only the end of the scan is read, and it includes all elements."""
    d = view_of(m, "view_").dims[m["axis"]]
    end = 0 if m["reverse"] else m.shape("x")[m["axis"]] - 1
    count = 1 if d.dim < 0 else view_of(m, "view_").shape[d.dim]
    return not m["exclusive"] and 0 not in m.shape("x") and count == 1 and d.offset == end


def _end(m: Match) -> Op:
    """Build the reduction of all elements, viewed as the end was."""
    axis, shape, names = m["axis"], m.shape("x"), dim_labels(len(m.shape("x")))
    rest = names[:axis] + names[axis + 1 :]
    total = op("reduce", X, monoid=m["monoid"], labels=names, output=rest, keep=(axis,)).named("total")
    looked, row = view_of(m, "view_"), replaced_at(shape, axis, 1)
    d = looked.dims[axis]
    found = seen(
        total, ViewMap(replaced_at(looked.dims, axis, ViewDim(d.dim, d.stride, 0)), looked.shape), row
    )
    assert isinstance(found, Op)
    return found


def _names(m: Match) -> Labels:
    return dim_labels(len(m.shape("x")))


def _triangle(m: Match) -> Mapping[str, Any]:
    """Build the cell that is 1 where element `from` counts for result `to`: a function of coordinates only."""
    length = m.shape("x")[m["axis"]]
    comparison = ("lt" if m["exclusive"] else "le", ("index", "from"), ("index", "to"))
    if m["reverse"]:
        comparison = (comparison[0], comparison[2], comparison[1])
    dims = (("from", length), ("to", length))
    return {"expr": ("cast", m.dtype("x"), comparison), "labels": (), "dims": dims, "dtype": m.dtype("x")}


def _example(name: str, *monoids: str) -> Any:
    def example(size: ExampleSizes) -> Graph:
        b = ExampleBuilder(name)
        x = b.tensor("x", size(3), 4 * size(2), size(2))
        results = [b.op("scan", x, axis=1, monoid=kind) for kind in monoids]
        results.append(b.op("scan", x, axis=1, monoid="sum", exclusive=True, reverse=True))
        return b.result(*results)

    return example


def _end_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("end_of_scan")
    x = b.tensor("x", size(3), size(4, least=2), size(2))
    shape = b.shape(x)
    forward, back = (b.op("scan", x, axis=1, monoid="max", reverse=r) for r in (False, True))
    return b.result(
        b.view(forward, selected(shape, 1, shape[1] - 1)),
        b.view(back, sliced(shape, (0, 0, 0), replaced_at(shape, 1, 1))),
    )


SCANS: tuple[Rule, ...] = (
    Rule(
        name="split_scan",
        left=SCAN,
        right=computed(lambda m: [_in_pieces(m)]),
        when=lambda m: m["monoid"] in COMBINED and m.dtype("x") != "bool" and bool(_pieces(m)),
        choices=_pieces,
        doc="""
        A scan becomes scans of pieces, and a scan of what the pieces amount to; how many pieces is the choice.

        scan(x)  ->  scan(piece) + before[piece] with before = exclusive scan(sum(piece))
        For monoids that cells can combine, in equal pieces. A scan needs its length whole; pieces do not.
        """,
        source="Blelloch, Prefix Sums and Their Applications, 1990, section 1.2",
        example=_example("split_scan", "sum", "max", "logsumexp"),
        kind="semantic",
        domain="real",
    ),
    Rule(
        name="unroll_scan",
        left=SCAN,
        right=computed(lambda m: [_unrolled(m)]),
        when=_may_unroll,
        doc="""
        A short scan is unrolled: each element is one step from the element before.

        scan(x)  ->  concat(y0, y1, ...) with y0 = x0, y1 = f(y0, x1), ...
        For monoids that cells can combine. Steps may fuse with what makes or reads their element, or begin before
        all of x is there, as those of any recurrence whose cell is unrolled.
        """,
        source="loop unrolling (Allen and Kennedy, Optimizing Compilers for Modern Architectures, 2001)",
        example=_example("unroll_scan", "sum", "max", "logsumexp"),
        kind="semantic",
        domain="real",
    ),
    Rule(
        name="end_of_scan",
        left=any_view(SCAN.named("y"), "view_"),
        right=computed(lambda m: [_end(m)]),
        when=_ends,
        doc="""
        The end of a scan is a reduction.

        scan(x)[-1]  ->  reduce(x)
        Where of the scanned dimension only the end is looked at (the begin, if it runs backwards), and the element
        there counts. The whole may be read elsewhere too: the search decides.
        """,
        source="definition of a scan",
        example=_end_example,
        domain="real",
        duplicates=True,
    ),
    Rule(
        name="contract_of_scan",
        left=SCAN,
        right=op(
            "contract",
            X,
            op("cell", given=_triangle).named("triangle"),
            labels=lambda m: (replaced_at(_names(m), m["axis"], "from"), ("from", "to")),
            output=lambda m: replaced_at(_names(m), m["axis"], "to"),
        ),
        when=lambda m: (
            m["monoid"] == "sum" and is_float(m.dtype("x")) and m.shape("x")[m["axis"]] <= MOST_ROWS
        ),
        doc="""
        A short running sum becomes a matrix product with a triangle of ones.

        scan(x)  ->  x[from] triangle[from, to]
        For sums over few elements, of finite floats, which no rule can see: what does not count for a result is
        multiplied by zero, so that one infinity would make every result no number.
        """,
        source="Dakkak et al., Accelerating Reduction and Scan Using Tensor Core Units, ICS 2019, section 4",
        example=_example("contract_of_scan", "sum"),
        kind="semantic",
        domain="real",
    ),
)
