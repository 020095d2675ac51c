"""Contractions that share an operand become one, over operands put together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rewrites.algebra.contraction_terms import V, W, X, agree, contraction
from rewrites.rule import Match, Rule, Sizes, attr, op
from rewrites.sketch import Sketch, replaced_at
from teg.graph import Graph
from teg.operators.selectors import sliced, view_attributes


def _free_names(m: Match) -> list[str]:
    """The output names that only the second operands have, where these agree in all others."""
    (x, w), output = m["l1"], m["o1"]
    one, two = m.type("w"), m.type("v")
    found = []
    for k, name in enumerate(w):
        others = all(a == b for j, (a, b) in enumerate(zip(one.shape, two.shape, strict=True)) if j != k)
        if name in output and name not in x and others:
            found.append(name)
    return found


def _may_merge(m: Match) -> bool:
    return bool(agree(m) and m["w"] != m["v"] and m.dtype("w") == m.dtype("v") and _free_names(m))


def _part(m: Match, k: int) -> Mapping[str, Any]:
    """The k-th result as a slice of the wide one along the chosen name."""
    axis = m["o1"].index(m.choice)
    first, own = m.result(0).shape, m.result(k).shape
    wide = replaced_at(first, axis, first[axis] + m.result(1).shape[axis])
    start = replaced_at((0,) * len(wide), axis, first[axis] if k else 0)
    end = tuple(s + n for s, n in zip(start, own, strict=True))
    return dict(view_attributes(sliced(wide, start, end)))


WIDE = op(
    "contract",
    X,
    op("concat", W, V, axis=lambda m: m["l1"][1].index(m.choice)).named("weights"),
    labels=attr("l1"),
    output=attr("o1"),
).named("wide")


def _merge_example(size: Sizes) -> Graph:
    b = Sketch("merge_contracts")
    x = b.tensor("x", size(2), size(3), size(4))
    width, heads = b.shape(x)[2], size(2)
    q = b.tensor("q", width, heads, size(3), role="parameter")
    k = b.tensor("k", width, heads, b.shape(q)[2], role="parameter")
    late = b.contract("xyz,zuv->xuyv", x, k)
    return b.result(b.contract("bsd,dhe->bhse", x, q), late)


MERGING: tuple[Rule, ...] = (
    Rule(
        name="merge_contracts",
        left=(contraction("y1", "l1", "o1", X, W), contraction("y2", "l2", "o2", X, V)),
        right=(
            op("view", WIDE, given=lambda m: _part(m, 0)).named("first"),
            op("view", WIDE, given=lambda m: _part(m, 1)).named("second"),
        ),
        when=_may_merge,
        choices=_free_names,
        doc="""
        Two contractions of one tensor become a wider one, and two views of its result.

        x w, x v  ->  y[:n], y[n:] with y = x concat(w, v)
        Where both say the same but for names, and the other operands may be put together along a dimension
        that the shared one lacks; several such dimensions are choices. Columns of a product are independent.
        """,
        source="Jia et al., TASO, SOSP 2019, figure 2 (merging multiplications that share an operand)",
        example=_merge_example,
        domain="real",
    ),
)
