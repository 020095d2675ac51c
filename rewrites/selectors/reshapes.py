"""Reshapes: chains are merged, no-ops removed, and views move through unchanged dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.rule import ExampleSizes, Match, Rule, attr, op
from tapestry.rewrites.selectors.viewing import X, any_view, given, is_whole, origins, view_of
from tapestry.teg.graph import Graph
from tapestry.teg.operators.reshaping import groups
from tapestry.teg.operators.selectors import permuted, sliced
from tapestry.teg.views import ViewDim, ViewMap

ROW_MAJOR = "a reshape keeps the row-major order of elements"


class ReshapePart(NamedTuple):
    """Neighboring dimensions before and after a reshape that hold the same elements; `same`: one, unchanged."""

    before: range
    after: range
    same: bool


def parts_of(shape: Sequence[int], wanted: Sequence[int]) -> tuple[ReshapePart, ...]:
    """Split a reshape into the smallest independent parts; none if it holds no elements."""
    if 0 in shape:
        return ()
    found = [(range(*g.inputs), range(*g.outputs)) for g in groups(shape, wanted)]
    return tuple(ReshapePart(a, b, (len(a), len(b)) == (1, 1)) for a, b in found)


def _squeezing(m: Match) -> Mapping[str, Any] | None:
    """Convert the reshape to a view if it only adds or drops dimensions of size 1; else None."""
    shape, wanted = m.shape("x"), m["shape"]
    if shape == wanted or [n for n in shape if n != 1] != [n for n in wanted if n != 1]:
        return None
    places = iter([j for j, n in enumerate(wanted) if n != 1])
    dims = (ViewDim(next(places), 1, 0) if n != 1 else ViewDim(-1, 0, 0) for n in shape)
    return {"view": ViewMap(tuple(dims), wanted)}


def _view_first(m: Match) -> Mapping[str, Any] | None:
    """Convert a view of a reshape to a view of its root, before the reshape; None if it cuts through a part."""
    view, shape, wanted = view_of(m), m.shape("x"), m["wanted"]
    parts, kept = parts_of(shape, wanted), origins(view)
    by_start = {p.after[0]: p for p in parts if p.after}
    dims: dict[int, ViewDim] = {}
    shown: list[int] = []
    j = 0
    while j < len(kept):
        if kept[j] < 0:
            shown.append(view.shape[j])
            j += 1
            continue
        part = by_start.get(kept[j])
        if part is None or kept[j : j + len(part.after)] != tuple(part.after):
            return None
        if not part.same and not all(is_whole(view, wanted, k) for k in part.after):
            return None
        for k in part.before:
            d = view.dims[part.after[0]] if part.same else ViewDim(0, 1, 0)
            dims[k] = ViewDim(len(shown), d.stride, d.offset)
            shown.append(view.shape[j] if part.same else shape[k])
        j += len(part.after)
    for part in parts:
        if part.same and view.dims[part.after[0]].dim < 0:
            dims[part.before[0]] = view.dims[part.after[0]]
        elif not part.after:
            dims.update({k: ViewDim(-1, 0, 0) for k in part.before})
    if len(dims) < len(shape) or 0 in view.shape or not parts:
        return None
    return {"first": ViewMap(tuple(dims[k] for k in range(len(shape))), tuple(shown))}


def _twice_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("reshape_of_reshape")
    n = size(3)
    flat = b.op("reshape", b.tensor("x", n, 4, 5, dtype="int32"), shape=(20 * n,))
    return b.result(b.op("reshape", flat, shape=(2, 10 * n)))


def _same_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("identity_reshape")
    x = b.tensor("x", size(3), size(4))
    return b.result(b.op("reshape", x, shape=b.shape(x)))


def _squeeze_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("reshape_to_view")
    x = b.tensor("x", size(3), 1, size(4, least=2))
    rows, _, columns = b.shape(x)
    return b.result(b.op("reshape", x, shape=(1, rows, columns, 1)))


def _cut_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("cut_reshape")
    x = b.tensor("x", size(3, least=2), 4, 6, size(2))
    rows, *_, last = b.shape(x)
    v = b.op("reshape", x, shape=(rows, 24, last))
    shape = b.shape(v)
    turned = sliced(shape, (1, 0, 0), shape).then(permuted((rows - 1, 24, last), (1, 2, 0)))
    return b.result(b.view(v, turned))


RESHAPES: tuple[Rule, ...] = (
    Rule(
        name="reshape_of_reshape",
        left=op("reshape", op("reshape", X), shape=attr("shape")),
        right=op("reshape", X, shape=attr("shape")),
        doc="""
        A reshape of a reshape is one reshape.

        reshape(reshape(x))  ->  reshape(x)
        Always: neither changes the order of elements.
        """,
        source=ROW_MAJOR,
        example=_twice_example,
        saturating=True,
    ),
    Rule(
        name="identity_reshape",
        left=op("reshape", X, shape=attr("shape")),
        right=X,
        when=lambda m: bool(m["shape"] == m.shape("x")),
        doc="""
        A reshape to the same shape disappears.

        reshape(x)  ->  x
        Where the shape is that of x.
        """,
        source=ROW_MAJOR,
        example=_same_example,
        saturating=True,
    ),
    Rule(
        name="reshape_to_view",
        left=op("reshape", X, shape=attr("shape")),
        right=op("view", X, given=lambda m: given(m["view"])),
        where=_squeezing,
        doc="""
        A reshape that only adds or drops dimensions of size 1 moves nothing.

        reshape(x)  ->  view(x)
        Where the sizes other than 1 are the same, in order.
        """,
        source=ROW_MAJOR,
        example=_squeeze_example,
        saturating=True,
    ),
    Rule(
        name="cut_reshape",
        left=any_view(op("reshape", X, shape=attr("wanted"))),
        right=op("reshape", op("view", X, given=lambda m: given(m["first"])), shape=attr("shape")),
        where=_view_first,
        doc="""
        A reshape is cut, or put into order, before it is made.

        view(reshape(x))  ->  reshape(view(x))
        Where the view shows all of the dimensions that were split or merged, side by side. Not for saturation: the
        whole may be reshaped for other readers anyway.
        """,
        source=ROW_MAJOR,
        example=_cut_example,
    ),
)
