"""Sinking of broadcasts: values constant along a dimension are computed once and repeated at their reader."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tapestry.rewrites.cell_form import Labels, any_cell
from tapestry.rewrites.example_builder import ExampleBuilder, replaced_at
from tapestry.rewrites.rule import ExampleSizes, Match, Op, Rule, Term, attr, computed, op, rest
from tapestry.rewrites.selectors.viewing import X, any_view, given, is_whole, origins, view_of
from tapestry.teg.dtypes import is_float
from tapestry.teg.graph import Graph
from tapestry.teg.operators.expressions import Expression
from tapestry.teg.operators.selectors import broadcast
from tapestry.teg.views import ViewDim, ViewMap

IDEMPOTENT = ("max", "min", "any", "all")
SINKING = "broadcast sinking: a function of equal arguments has equal values"


def _without(view: ViewMap, gone: Sequence[int]) -> ViewMap:
    """Remove some broadcast dimensions from the view."""
    kept = [j for j in range(len(view.shape)) if j not in gone]
    dims = (ViewDim(kept.index(d.dim), d.stride, d.offset) if d.dim >= 0 else d for d in view.dims)
    return ViewMap(tuple(dims), tuple(view.shape[j] for j in kept))


def _repeats(m: Match) -> Mapping[str, Any] | None:
    """Find the broadcast dimensions that are reduced, and how often elements repeat along them, or None."""
    view, labels = view_of(m), m["labels"]
    gone = [j for j, k in enumerate(origins(view)) if k < 0 and labels[j] not in m["output"]]
    count = math.prod(view.shape[j] for j in gone)
    summed = m["monoid"] == "sum" and (is_float(m.dtype("x")) or count == 1)
    if not gone or count == 0 or not (summed or m["monoid"] in IDEMPOTENT):
        return None
    scale = 1.0 if m["scale"] is None else float(m["scale"])
    return {
        "less": _without(view, gone),
        "kept_labels": tuple(n for j, n in enumerate(labels) if j not in gone),
        "scales": {"scale": scale * count} if m["monoid"] == "sum" and scale * count != 1.0 else {},
    }


def _reduced_once(m: Match) -> Sequence[Op]:
    looked = op("view", X, given=lambda m: given(m["less"]))
    keep = m["keep"] or ()
    return [
        op(
            "reduce",
            looked,
            monoid=m["monoid"],
            labels=m["kept_labels"],
            output=m["output"],
            keep=keep,
            **m["scales"],
        )
    ]


def _contracted_labels(m: Match) -> Mapping[str, Any] | None:
    """Relabel a contraction to read the root of a broadcast view; None if the others lack one of its names."""
    view, k = view_of(m), len(m["before"])
    kept = origins(view)
    if -1 not in kept or not all(is_whole(view, m.shape("x"), r) for r in range(len(m.shape("x")))):
        return None
    own: Labels = m["labels"][k]
    others = {n for j, names in enumerate(m["labels"]) if j != k for n in names}
    if any(own[j] not in others for j, r in enumerate(kept) if r < 0):
        return None
    labels = tuple(own[d.dim] for d in view.dims)
    return {"new_labels": replaced_at(m["labels"], k, labels)}


def _uses(expr: Expression, name: str) -> bool:
    return expr == ("index", name) or any(_uses(p, name) for p in expr[1:] if isinstance(p, tuple))


def _constant_along(m: Match) -> Mapping[str, Any] | None:
    """Find the dimensions along which a cell always computes the same value; None if there are none."""
    read = {n for labels in m["labels"] for n in labels}
    same = [
        k for k, (n, size) in enumerate(m["dims"]) if size > 1 and n not in read and not _uses(m["expr"], n)
    ]
    return {"same": same} if same and m["xs"] else None


def _computed_once(m: Match) -> Sequence[Op]:
    kept = [k for k in range(len(m["dims"])) if k not in m["same"]]
    dims = tuple(m["dims"][k] for k in kept)
    once: Term = op("cell", rest("xs"), expr=m["expr"], labels=m["labels"], dims=dims, dtype=m["dtype"])
    view = ViewMap(tuple(ViewDim(k, 1, 0) for k in kept), m.result().shape)
    return [op("view", once, given=lambda _: given(view))]


def _reduce_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("reduce_of_broadcast")
    x = b.tensor("x", size(3), 1)
    wide = b.view(x, broadcast(b.shape(x), (size(2), b.shape(x)[0], 4)))
    labels = ("a", "b", "c")
    total = b.op("reduce", wide, monoid="sum", labels=labels, output=("b",), keep=(1,), scale=0.5)
    return b.result(total, b.op("reduce", wide, monoid="max", labels=labels, output=("c", "b")))


def _contract_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("contract_of_broadcast")
    w = b.tensor("w", size(3), size(4), role="parameter")
    wide = b.view(w, broadcast(b.shape(w), (size(2), *b.shape(w))))
    x = b.tensor("x", b.shape(wide)[0], size(3), b.shape(w)[0])
    return b.result(b.contract("bmk,bkn->bmn", x, wide))


def _cell_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("broadcast_of_cell")
    x = b.tensor("x", size(3))
    dims = (("b", 2), ("r", b.shape(x)[0]), ("c", 4))
    expr = ("add", ("tanh", ("input", 0)), ("cast", "float32", ("index", "b")))
    return b.result(b.op("cell", x, expr=expr, labels=(("r",),), dims=dims, dtype="float32"))


BROADCASTS: tuple[Rule, ...] = (
    Rule(
        name="reduce_of_broadcast",
        left=op(
            "reduce",
            any_view(),
            monoid=attr("monoid"),
            labels=attr("labels"),
            output=attr("output"),
            keep=attr("keep"),
            scale=attr("scale"),
        ),
        right=computed(_reduced_once),
        where=_repeats,
        doc="""
        What is repeated is not reduced again and again.

        sum_j x[i] over n equal elements  ->  n x[i]; max_j x[i]  ->  x[i]
        For sums of floats, and for monoids that do not count.
        """,
        source="definition of a monoid's powers",
        example=_reduce_example,
        domain="real",
    ),
    Rule(
        name="contract_of_broadcast",
        left=op(
            "contract",
            rest("before"),
            any_view(),
            rest("after"),
            labels=attr("labels"),
            output=attr("output"),
        ),
        right=op(
            "contract",
            rest("before"),
            X,
            rest("after"),
            labels=lambda m: m["new_labels"],
            output=attr("output"),
        ),
        where=_contracted_labels,
        doc="""
        A contraction reads through a broadcast: a batch of products with one matrix is one product.

        x[b, m, k] broadcast(w)[b, k, n]  ->  x[b, m, k] w[k, n]
        Where the view shows all of its root and another operand has the repeated names.
        """,
        source=SINKING,
        example=_contract_example,
        domain="real",
        saturating=True,
    ),
    Rule(
        name="broadcast_of_cell",
        left=any_cell(rest("xs")),
        right=computed(_computed_once),
        where=_constant_along,
        doc="""
        A cell that computes the same along a dimension computes it once, and is repeated where it is read.

        cell[i, j](x[i])  ->  broadcast(cell[i](x[i]))
        Where neither operands nor coordinates distinguish the elements along it.
        """,
        source=SINKING,
        example=_cell_example,
    ),
)
