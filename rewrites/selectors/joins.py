"""Concatenations: operands computed alike are computed at once; views of a concatenation read its parts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from tapestry.rewrites.cell_form import Labels, any_cell
from tapestry.rewrites.example_builder import ExampleBuilder, replaced_at, sure
from tapestry.rewrites.rule import ExampleSizes, Match, Op, Rule, Term, attr, computed, op, pick, rest
from tapestry.rewrites.selectors.distribution import MOST_PARTS
from tapestry.rewrites.selectors.viewing import X, any_view, at, given, is_whole, seen, view_of
from tapestry.teg.graph import Block, Graph
from tapestry.teg.operators.expressions import Expression
from tapestry.teg.operators.selectors import permuted, sliced
from tapestry.teg.views import ViewDim, ViewMap, parse

JOINING = "definition of concatenation"


class PartView(NamedTuple):
    """A view of one part."""

    site: str
    view: ViewMap


def _part_views(m: Match) -> Mapping[str, Any] | None:
    """Find the views of the parts that a view reads, in the order in which it reads them; None for one part."""
    view, axis = view_of(m), m["axis"]
    d = view.dims[axis]
    if d.dim < 0 or 0 in view.shape:
        return None
    seen_at = range(d.offset, d.offset + d.stride * view.shape[d.dim], d.stride)
    rising = seen_at if d.stride > 0 else seen_at[::-1]
    sizes = [t.shape[axis] for t in m.types("parts")]
    part_views = []
    for site, end, size in zip(m["parts"], accumulate(sizes), sizes, strict=True):
        inside = rising[bisect_left(rising, end - size) : bisect_left(rising, end)]
        if inside:
            first = (inside if d.stride > 0 else inside[::-1])[0] - (end - size)
            dims = replaced_at(view.dims, axis, ViewDim(d.dim, d.stride, first))
            part_views.append(PartView(site, ViewMap(dims, replaced_at(view.shape, d.dim, len(inside)))))
    if not 1 < len(part_views) <= MOST_PARTS:
        return None
    return {"part_views": part_views if d.stride > 0 else part_views[::-1], "along": d.dim}


def _joined_part_views(m: Match) -> Sequence[Op]:
    terms = [seen(at(site), view, m.edited.tensors[site].shape) for site, view in m["part_views"]]
    return [op("concat", *terms, axis=m["along"])]


def _producers(m: Match, operator: str) -> list[Block] | None:
    """Find the producers of the operands, if all are different blocks of an operator read only here, or None."""
    edited, root = m.edited, m.roots[0]
    producers = [edited.producers[t] for t in root.inputs]
    private = all(
        b.operator == operator and edited.is_free(b) and all(r is root for r, _ in edited.readers[t])
        for b, t in zip(producers, root.inputs, strict=True)
    )
    return producers if private and 1 < len(set(root.inputs)) == len(producers) else None


class Alike(NamedTuple):
    """Cells that compute alike from different operands: per operand its site in every cell, and its labels."""

    operands: tuple[tuple[tuple[str, ...], Labels], ...]
    joined: str


def _alike(m: Match) -> Mapping[str, Any] | None:
    producers, axis = _producers(m, "cell"), m["axis"]
    if producers is None:
        return None
    first, *others = (b.definition for b in producers)
    joined = first["dims"][axis][0]
    for other in others:
        same_dims = replaced_at(other["dims"], axis, first["dims"][axis]) == first["dims"]
        same = (other["labels"], repr(other["expr"]), other["dtype"]) == (
            first["labels"],
            repr(first["expr"]),
            first["dtype"],
        )
        if not (same and same_dims):
            return None
    operands = tuple(zip(zip(*(b.inputs for b in producers), strict=True), first["labels"], strict=True))
    split = [joined in labels for _, labels in operands]
    shared = [len(set(sites)) == 1 for sites, _ in operands]
    if (
        not any(split)
        or _reads(first["expr"], joined)
        or not all(a or b for a, b in zip(split, shared, strict=True))
    ):
        return None
    return {"alike": Alike(operands, joined)}


def _reads(expr: Expression, name: str) -> bool:
    """Return whether an expression depends on a coordinate."""
    return expr == ("index", name) or any(_reads(p, name) for p in expr[1:] if isinstance(p, tuple))


def _one_cell(m: Match) -> Sequence[Op]:
    operands, joined = m["alike"]
    terms: list[Term] = [
        op("concat", at(*sites), axis=labels.index(joined)).named("operands")
        if joined in labels
        else at(sites[0])
        for sites, labels in operands
    ]
    producer = sure(_producers(m, "cell"))[0].definition
    dims = replaced_at(producer["dims"], m["axis"], (joined, m.result().shape[m["axis"]]))
    return [
        op(
            "cell",
            *terms,
            expr=producer["expr"],
            labels=producer["labels"],
            dims=dims,
            dtype=producer["dtype"],
        )
    ]


def _common_view(m: Match) -> Mapping[str, Any] | None:
    """Find the view that all operands share of their roots, which are whole along the joined dimension, or None."""
    producers, axis = _producers(m, "view"), m["axis"]
    if producers is None:
        return None
    roots = [m.edited.tensors[b.inputs[0]].type for b in producers]
    views = [parse(b.definition["map"], b.definition["shape"]) for b in producers]
    first = views[0]
    along = next((k for k, d in enumerate(first.dims) if d.dim == axis), None)
    if along is None or {v.dims for v in views} != {first.dims}:
        return None
    alike = {(replaced_at(t.shape, along, 1), t.dtype) for t in roots}
    if len(alike) > 1 or not all(is_whole(v, t.shape, along) for v, t in zip(views, roots, strict=True)):
        return None
    view = ViewMap(first.dims, m.result().shape)
    return {"sites": tuple(b.inputs[0] for b in producers), "along": along, "view": view}


def _is_dealt_out(m: Match) -> bool:
    """Return whether the operands are every n-th element of `x` in turn."""
    axis, count, root = m["axis"], len(m.roots[0].inputs), m.shape("x")
    if m.result().shape != root:
        return False
    for k, t in enumerate(m.roots[0].inputs):
        producer = m.edited.producers[t]
        if not producer.is_view or producer.inputs[0] != m["x"]:
            return False
        start = replaced_at((0,) * len(root), axis, k)
        steps = replaced_at((1,) * len(root), axis, count)
        if parse(producer.definition["map"], producer.definition["shape"]) != sliced(
            root, start, root, steps
        ):
            return False
    return True


def _interleaved_part(m: Match) -> tuple[int, ViewMap] | None:
    """Find the one operand of an interleaving that a view reads, and its view of that; None if several."""
    view, axis, count = view_of(m), m["axis"], len(m["parts"])
    d = view.dims[axis]
    if d.dim >= 0 and d.stride % count:
        return None
    dims = replaced_at(view.dims, axis, ViewDim(d.dim, d.stride // count, d.offset // count))
    return d.offset % count, ViewMap(dims, view.shape)


def _part_views_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("view_of_parts")
    rows = size(3)
    whole = b.op("concat", *(b.tensor(f"x{k}", rows, size(k + 2, least=2)) for k in range(3)), axis=1)
    shape = b.shape(whole)
    turned = sliced(shape, (0, shape[1] - 1), (rows, 0), (1, -1)).then(permuted((rows, shape[1] - 1), (1, 0)))
    return b.result(b.view(whole, sliced(shape, (0, 1), shape)), b.view(whole, turned))


def _alike_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("cell_of_parts")
    rows, scale = size(3), b.tensor("scale", 1)
    shifted = ("add", ("mul", ("tanh", ("input", 0)), ("input", 1)), ("cast", "float32", ("index", "r")))
    cells = [b.cell(shifted, {b.tensor(f"x{k}", rows, size(k + 2)): "rc", scale: "-"}) for k in range(3)]
    return b.result(b.op("concat", *cells, axis=1))


def _views_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("concat_of_views")
    rows = size(3, least=2)
    xs = [b.tensor(f"x{k}", rows, size(k + 2)) for k in range(3)]
    shapes = [b.shape(x) for x in xs]
    views = [sliced(s, (1, 0), s).then(permuted((rows - 1, s[1]), (1, 0))) for s in shapes]
    turned = [b.view(x, view) for x, view in zip(xs, views, strict=True)]
    return b.result(b.op("concat", *turned, axis=0))


def _interleaved_part_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("interleave_of_steps")
    x = b.tensor("x", size(3), 2 * size(3))
    shape = b.shape(x)
    even, odd = (b.view(x, sliced(shape, (0, k), shape, (1, 2))) for k in range(2))
    return b.result(b.op("interleave", even, odd, axis=1))


def _part_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("step_of_interleave")
    shape = (size(3), size(4))
    whole = b.op("interleave", *(b.tensor(f"x{k}", *shape) for k in range(3)), axis=1)
    wide = b.shape(whole)
    return b.result(b.view(whole, sliced(wide, (0, 1), wide, (1, 3))))


JOINS: tuple[Rule, ...] = (
    Rule(
        name="view_of_parts",
        left=any_view(op("concat", rest("parts"), axis=attr("axis"))),
        right=computed(_joined_part_views),
        where=_part_views,
        doc="""
        A view of several parts of a concatenation joins views of these parts.

        concat(x, y, z)[2:9]  ->  concat(x[2:], y[:4])
        Where it sees two or more. Not for saturation: the joined copy may be needed elsewhere anyway.
        """,
        source=JOINING,
        example=_part_views_example,
    ),
    Rule(
        name="cell_of_parts",
        left=op("concat", any_cell(rest("xs")), rest("others"), axis=attr("axis")),
        right=computed(_one_cell),
        where=_alike,
        context_depth=1,
        doc="""
        Cells that do the same to parts that are then joined become one cell of the joined parts.

        concat(cell(a, s), cell(b, s))  ->  cell(concat(a, b), s)
        Where they agree but in what is joined, no coordinate of it is used, and nobody else reads them. Not for
        saturation: fewer blocks, but a cell on a part may fuse with what makes it.
        """,
        source="horizontal fusion; " + JOINING,
        example=_alike_example,
    ),
    Rule(
        name="concat_of_views",
        left=op("concat", any_view(), rest("others"), axis=attr("axis")),
        right=computed(
            lambda m: [
                op("view", op("concat", at(*m["sites"]), axis=m["along"]), given=lambda m: given(m["view"]))
            ]
        ),
        where=_common_view,
        context_depth=1,
        doc="""
        What is seen the same way and then joined is joined first.

        concat(permute(a), permute(b))  ->  permute(concat(a, b))
        Where all views agree and see all along the joined dimension, and nobody else reads them.
        """,
        source=JOINING,
        example=_views_example,
    ),
    Rule(
        name="interleave_of_steps",
        left=op("interleave", any_view(), rest("others"), axis=attr("axis")),
        right=X,
        when=_is_dealt_out,
        context_depth=1,
        doc="""
        What was dealt out and is put together again is what it was.

        interleave(x[0::2], x[1::2])  ->  x
        Where the n operands are every n-th element of one tensor, in turn.
        """,
        source="definition of an interleaving",
        example=_interleaved_part_example,
        saturating=True,
    ),
    Rule(
        name="step_of_interleave",
        left=any_view(op("interleave", rest("parts"), axis=attr("axis"))),
        right=op(
            "view",
            pick(lambda m: [m["parts"][sure(_interleaved_part(m))[0]]]),
            given=lambda m: given(sure(_interleaved_part(m))[1]),
        ),
        when=lambda m: _interleaved_part(m) is not None,
        doc="""
        A view of every n-th element of an interleaving of n tensors is a view of one of them.

        interleave(x, y)[1::2]  ->  y
        Where its step is a multiple of their number.
        """,
        source="definition of an interleaving",
        example=_part_example,
        saturating=True,
    ),
)
