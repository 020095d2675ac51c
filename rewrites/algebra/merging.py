"""Merging of contractions that share an operand into one, over concatenated operands."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from tapestry.rewrites.algebra.contraction_terms import V, W, X, agree, contraction
from tapestry.rewrites.example_builder import ExampleBuilder, replaced_at
from tapestry.rewrites.rule import ExampleSizes, Match, Op, Rule, attr, computed, op, pick
from tapestry.teg.graph import Graph
from tapestry.teg.operators.selectors import sliced, view_attributes


def _free_names(m: Match) -> list[str]:
    """List the output names that only the second operands have, where these agree in all other dimensions."""
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
    """Return the view attributes of the k-th result: a slice of the wide one along the chosen name."""
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


def _merge_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("merge_contracts")
    x = b.tensor("x", size(2), size(3), size(4))
    width, heads = b.shape(x)[2], size(2)
    q = b.tensor("q", width, heads, size(3), role="parameter")
    k = b.tensor("k", width, heads, b.shape(q)[2], role="parameter")
    late = b.contract("xyz,zuv->xuyv", x, k)
    return b.result(b.contract("bsd,dhe->bhse", x, q), late)


def _all_parts(m: Match) -> list[Op]:
    """Build one contraction with all other operands side by side, and a slice of its result for each."""
    members = m.together
    axis = m["o1"].index(m.choice)
    weights = op(
        "concat",
        W,
        pick(lambda _: [each["v"] for each in members]),
        axis=m["l1"][1].index(m.choice),
    ).named("weights")
    wide = op("contract", X, weights, labels=m["l1"], output=m["o1"]).named("wide")
    shapes = [m.result(k).shape for k in range(1 + len(members))]
    starts = list(accumulate((shape[axis] for shape in shapes), initial=0))
    full = replaced_at(shapes[0], axis, starts[-1])
    return [_slice(wide, full, axis, start, shape) for start, shape in zip(starts, shapes, strict=False)]


def _slice(wide: Op, full: tuple[int, ...], axis: int, start: int, shape: tuple[int, ...]) -> Op:
    begin = replaced_at((0,) * len(full), axis, start)
    end = replaced_at(full, axis, start + shape[axis])
    return op("view", wide, given=lambda _: dict(view_attributes(sliced(full, begin, end)))).named("part")


def _all_example(size: ExampleSizes) -> Graph:
    """Build an example: queries, keys and values of different widths; one more reads their results."""
    b = ExampleBuilder("merge_all_contracts")
    x = b.tensor("x", size(2), size(3), 4)
    heads = size(2)
    q, k, v = (b.tensor(n, 4, heads, size(d), role="parameter") for n, d in (("q", 3), ("k", 2), ("v", 4)))
    late = b.tensor("late", heads, b.shape(q)[2], 4, role="parameter")
    made = [b.contract("bsd,dhe->bhse", x, q), b.contract("dhe,bsd->bhse", k, x)]
    made.append(b.contract("xyz,zuv->xuyv", x, v))
    return b.result(*made, b.contract("bhse,hed->bsd", made[0], late))


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
    Rule(
        name="merge_all_contracts",
        left=(contraction("y1", "l1", "o1", X, W), contraction("y2", "l2", "o2", X, V)),
        right=computed(_all_parts),
        when=_may_merge,
        choices=_free_names,
        together=True,
        doc="""
        All contractions of one tensor that say the same become a wider one, and views of its result.

        x w, x v, x u, ...  ->  parts of x concat(w, v, u, ...)
        Where `merge_contracts` would do it pair by pair: queries, keys and values, the gates of a recurrent cell,
        the keys and values of all layers that attend to the same memory.
        """,
        source="Jia et al., TASO, SOSP 2019, figure 2 (merging multiplications that share an operand)",
        example=_all_example,
        domain="real",
    ),
)
