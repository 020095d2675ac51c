"""Slices through row-wise operators, and lookups of lookups: fewer rows are normalized or gathered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.rule import ExampleSizes, Match, Op, Rule, Term, attr, computed, op, rest, tensor
from tapestry.rewrites.selectors.viewing import (
    X,
    any_view,
    cut_like,
    is_whole,
    keeps_order,
    origins,
    seen,
    view_of,
)
from tapestry.teg.graph import Graph
from tapestry.teg.operators.indexing import Indexing, indexing
from tapestry.teg.operators.selectors import selected, sliced

TABLE, INDICES, OUTER = tensor("table"), tensor("indices"), tensor("outer")
ROWS = ("softmax", "log_softmax", "layer_norm")


def _other_rows(m: Match) -> Mapping[str, Any] | None:
    """Find the view of the operand with the rows that are read, and the positions of their axes, or None."""
    view, shape, axes = view_of(m), m.shape("x"), m["axes"]
    if 0 in view.shape or not keeps_order(view) or not all(is_whole(view, shape, a) for a in axes):
        return None
    cut = cut_like(view, shape, tuple(range(len(shape))))
    if cut.shape == shape:
        return None
    kept = origins(view)
    return {"cut": cut, "new_axes": tuple(kept.index(a) for a in axes)}


def _fewer_rows(operator: str) -> Any:
    def made(m: Match) -> Sequence[Op]:
        eps = {} if m["eps"] is None else {"eps": m["eps"]}
        return [op(operator, seen(X, m["cut"], m.shape("x")), rest("others"), axes=m["new_axes"], **eps)]

    return computed(made)


def _rows_example(operator: str, size: ExampleSizes) -> Graph:
    b = ExampleBuilder(f"cut_{operator}")
    x = b.tensor("x", size(3, least=2), size(2), size(4))
    shape = b.shape(x)
    others = [b.tensor(n, shape[2], role="parameter") for n in ("scale", "bias") if operator == "layer_norm"]
    eps: dict[str, Any] = {"eps": 1e-5} if others else {}
    y = b.op(operator, x, *others, axes=(2,), **eps)
    return b.result(b.view(y, selected(shape, 0, 1)), b.view(y, sliced(shape, (1, 0, 0), shape)))


def _plan(m: Match) -> Indexing:
    kind = m.type("indices")
    return indexing(m["axis"], m["aligned"] or (), m.shape("table"), kind.shape, kind.dtype)


def _looked_up(m: Match) -> Mapping[str, Any] | None:
    """Find the parts of table and indices that a view of a gather reads; None if dimensions move or align."""
    view, plan = view_of(m), _plan(m)
    if 0 in view.shape or plan.aligned or not keeps_order(view):
        return None
    table, indices, axis = m.shape("table"), m.shape("indices"), plan.axis
    places = [None if k == axis else plan.place(k) for k in range(len(table))]
    of_table, of_indices = (
        cut_like(view, table, places),
        cut_like(view, indices, [axis + k for k in range(len(indices))]),
    )
    if (of_table.shape, of_indices.shape) == (table, indices):
        return None
    before = sum(view.dims[k].dim >= 0 for k in range(axis))
    return {"of_table": of_table, "of_indices": of_indices, "new_axis": before}


def _fewer_lookups(m: Match) -> Sequence[Op]:
    mode = {} if m["mode"] is None else {"mode": m["mode"]}
    terms: list[Term] = [
        seen(TABLE, m["of_table"], m.shape("table")),
        seen(INDICES, m["of_indices"], m.shape("indices")),
    ]
    return [op("gather", *terms, axis=m["new_axis"], **mode)]


def _looks_up_positions(m: Match) -> bool:
    """Return whether the outer gather selects among the lookups of the inner one, not within each."""
    plain = not m["aligned"] and not m["outer_aligned"] and m["mode"] is None and m["outer_mode"] is None
    first = m["axis"]
    return bool(plain and first <= m["outer_axis"] < first + len(m.shape("indices")))


def _gather_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("cut_gather")
    table = b.tensor("table", size(2, least=2), 2, size(3, least=2), role="parameter")
    indices = b.op(
        "cell", expr=("mod", ("index", "a"), ("const", 2)), labels=(), dims=(("a", 4),), dtype="int64"
    )
    y = b.op("gather", table, indices, axis=1)
    shape = b.shape(y)
    rows = b.view(y, sliced(shape, (1, 1, 0), shape))
    return b.result(rows, b.view(y, selected(shape, 1, 2)))


def _gathers_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("gather_of_gather")
    table = b.tensor("table", size(3), 4, size(2), role="parameter")
    inner, outer = (
        b.op("cell", expr=("mod", ("index", "a"), ("const", n)), labels=(), dims=(("a", 5),), dtype="int64")
        for n in (4, 3)
    )
    return b.result(b.op("gather", b.op("gather", table, inner, axis=1), outer, axis=1))


def _cut_rows(operator: str, meaning: str) -> Rule:
    return Rule(
        name=f"cut_{operator}",
        left=any_view(op(operator, X, rest("others"), axes=attr("axes"), eps=attr("eps"))),
        right=_fewer_rows(operator),
        where=_other_rows,
        doc=f"""
        Only the rows that are looked at are {meaning}.

        {operator}(x)[rows]  ->  {operator}(x[rows])
        Where the view shows rows whole, in order. Others may look at other rows: the search decides.
        """,
        source="rows are independent of each other",
        duplicates=True,
        example=lambda size: _rows_example(operator, size),
        domain="real",
    )


LOOKUPS: tuple[Rule, ...] = (
    _cut_rows("softmax", "normalized"),
    _cut_rows("log_softmax", "normalized"),
    _cut_rows("layer_norm", "normalized"),
    Rule(
        name="cut_gather",
        left=any_view(
            op("gather", TABLE, INDICES, axis=attr("axis"), aligned=attr("aligned"), mode=attr("mode"))
        ),
        right=computed(_fewer_lookups),
        where=_looked_up,
        doc="""
        Only what is looked at is gathered.

        table[indices][rows, columns]  ->  table[:, columns][indices[rows]]
        Where the view keeps the order of dimensions and none run together. Others may look at more: the search decides.
        """,
        source="definition of a gather",
        example=_gather_example,
    ),
    Rule(
        name="gather_of_gather",
        left=op(
            "gather",
            op("gather", TABLE, INDICES, axis=attr("axis"), aligned=attr("aligned"), mode=attr("mode")),
            OUTER,
            axis=attr("outer_axis"),
            aligned=attr("outer_aligned"),
            mode=attr("outer_mode"),
        ),
        right=op(
            "gather",
            TABLE,
            op("gather", INDICES, OUTER, axis=lambda m: m["outer_axis"] - m["axis"]).named("positions"),
            axis=attr("axis"),
        ),
        when=_looks_up_positions,
        doc="""
        Positions are looked up in positions, and the table once.

        table[i][j]  ->  table[i[j]]
        Where both gather along the same dimensions, with strict positions: rows are moved once instead of twice.
        """,
        source="a gather is a composition of functions",
        example=_gathers_example,
    ),
)
