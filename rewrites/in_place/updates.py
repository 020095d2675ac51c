"""Updates of a part of a tensor: no temporary of the whole is made if only a part changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tapestry.rewrites.cell_form import INPUT, Labels, any_cell, dim_labels, element_type, pointwise
from tapestry.rewrites.example_builder import ExampleBuilder, replaced_at
from tapestry.rewrites.rule import ExampleSizes, Match, Op, Rule, Term, attr, computed, op, rest, tensor
from tapestry.rewrites.selectors.pads import any_pad
from tapestry.rewrites.selectors.viewing import any_view, at, seen
from tapestry.teg.graph import Graph
from tapestry.teg.operators.expressions import Expression, substitute
from tapestry.teg.operators.selectors import sliced
from tapestry.teg.views import ViewMap, parse

X, Y = tensor("x"), tensor("y")
SPLITTING = "index set splitting (Allen and Kennedy, Optimizing Compilers for Modern Architectures, 2001)"


def _adds_part(m: Match) -> Mapping[str, Any] | None:
    """Find the tensor to which a zero-padded one is added, with dimension, range and function; or None."""
    sites, names = (*m["before"], *m["after"]), tuple(n for n, _ in m["dims"])
    changed = [k for k, (a, b) in enumerate(zip(m["low"], m["high"], strict=True)) if a or b]
    if len(sites) != 1 or len(changed) != 1 or m["value"] or m["labels"] != (names, names):
        return None
    pad, other = ("input", len(m["before"])), ("input", 1 - len(m["before"]))
    functions = {("add", other, pad): "add", ("add", pad, other): "add", ("sub", other, pad): "sub"}
    if m["expr"] not in functions or m["dtype"] != m.edited.tensors[sites[0]].dtype:
        return None
    axis = changed[0]
    start = m["low"][axis]
    end = start + m.shape("y")[axis]
    if start == end:
        return None
    return {"whole": sites[0], "axis": axis, "range": (start, end), "function": functions[m["expr"]]}


def _slice_along(shape: Sequence[int], axis: int, start: int, end: int) -> ViewMap:
    return sliced(shape, replaced_at((0,) * len(shape), axis, start), replaced_at(shape, axis, end))


def _part_updated(m: Match) -> Sequence[Op]:
    (start, end), axis, shape = m["range"], m["axis"], m.result().shape
    pieces: list[Term] = [
        seen(at(m["whole"]), _slice_along(shape, axis, a, b), shape)
        for a, b in ((0, start), (start, end), (end, shape[axis]))
    ]
    part = replaced_at(shape, axis, end - start)
    labels = (dim_labels(len(shape)),) * 2
    given = pointwise((m["function"], ("input", 0), ("input", 1)), labels, part, m["dtype"])
    changed = op("cell", pieces[1], Y, given=lambda _: given).named("changed")
    kept = [pieces[0]] * (start > 0), [pieces[2]] * (end < shape[axis])
    return [op("concat", *kept[0], changed, *kept[1], axis=axis)]


def _is_own_part(m: Match, site: str, start: int, end: int) -> bool:
    """Return whether a tensor is the part of `x` at the same position."""
    producer = m.edited.producers[site]
    if not producer.is_view or producer.inputs != (m["x"],):
        return False
    own = _slice_along(m.shape("x"), m["axis"], start, end)
    return parse(producer.definition["map"], producer.definition["shape"]) == own


def _updates_part(m: Match) -> Mapping[str, Any] | None:
    """Find the range of the cell among unmoved parts of `x`, if it is computed from the part there; or None."""
    axis, start, root = m["axis"], 0, m.roots[0]
    if m.result() != m.type("x"):
        return None
    for k, site in enumerate(root.inputs):
        end = start + m.edited.tensors[site].shape[axis]
        here = k == len(m["before"])
        if not _is_own_part(m, m["part"] if here else site, start, end):
            return None
        if here:
            place = (start, end)
        start = end
    names = tuple(n for n, _ in m["dims"])
    same = m["labels"] == (names,) and m["dtype"] == m.dtype("x")
    plain = same and element_type(m["expr"], [m["dtype"]]) == m["dtype"] and not _uses_coordinates(m["expr"])
    return {"place": place} if plain else None


def _uses_coordinates(expr: Expression) -> bool:
    return expr[0] == "index" or any(_uses_coordinates(p) for p in expr[1:] if isinstance(p, tuple))


def _whole_updated(m: Match) -> Sequence[Op]:
    (start, end), axis, (shape, dtype) = m["place"], m["axis"], m.result()
    names: Labels = dim_labels(len(shape))
    index = ("index", names[axis])
    inside = ("and", ("ge", index, ("const", start)), ("lt", index, ("const", end)))
    expr = ("where", inside, substitute(m["expr"], {0: INPUT}), INPUT)
    given = pointwise(expr, (names,), shape, dtype)
    return [op("cell", X, given=lambda _: given)]


def _row_written(m: Match) -> Mapping[str, Any] | None:
    """Find the one row that is replaced, the other parts being those of `x`; matched at the first; or None."""
    axis, root, start = m["axis"], m.roots[0], 0
    if m.result() != m.type("x"):
        return None
    others: list[tuple[int, str]] = []
    first = ""
    for site in root.inputs:
        end = start + m.edited.tensors[site].shape[axis]
        if not _is_own_part(m, site, start, end):
            others.append((start, site))
        elif not first:
            first = site
        start = end
    if len(others) != 1 or m["part"] != first or m["part"] in m["before"]:
        return None
    place, site = others[0]
    return {"row": site, "place": place} if m.edited.tensors[site].shape[axis] == 1 else None


def _with_row(m: Match) -> Sequence[Op]:
    axis, (shape, dtype) = m["axis"], m.result()
    names: Labels = dim_labels(len(shape))
    expr = ("where", ("eq", ("index", names[axis]), ("const", m["place"])), ("input", 1), INPUT)
    given = pointwise(expr, (names, replaced_at(names, axis, "")), shape, dtype)
    return [op("cell", X, at(m["row"]), given=lambda _: given)]


def _add_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("add_to_part")
    rows, columns = size(3), size(4)
    changes = [b.op("pad", b.tensor(f"y{k}", rows, columns), low=(0, 2 * k), high=(0, 1)) for k in range(2)]
    wholes = [b.tensor(f"x{k}", *b.shape(c)) for k, c in enumerate(changes)]
    difference = b.cell(("sub", ("input", 1), ("input", 0)), {changes[1]: "rc", wholes[1]: "rc"})
    return b.result(
        b.cell(("add", ("input", 0), ("input", 1)), {wholes[0]: "rc", changes[0]: "rc"}), difference
    )


def _concat_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("update_of_part")
    x = b.tensor("x", size(3), 6)
    shape = b.shape(x)
    first, middle, last = (b.view(x, _slice_along(shape, 1, *ends)) for ends in ((0, 1), (1, 4), (4, 6)))
    return b.result(b.op("concat", first, b.cell(("tanh", INPUT), {middle: "rc"}), last, axis=1))


def _row_example(size: ExampleSizes) -> Graph:
    """Build an example: a cache of keys with the row of this step, and one whose first row is new."""
    b = ExampleBuilder("update_of_row")
    cache, last = b.tensor("cache", size(2), 6, size(3)), b.tensor("last", 4, size(3))
    shape, short = b.shape(cache), b.shape(last)
    key, row = b.tensor("key", shape[0], 1, shape[2]), b.tensor("row", 1, short[1])
    before, after = (b.view(cache, _slice_along(shape, 1, *ends)) for ends in ((0, 2), (3, 6)))
    rest_of = b.view(last, _slice_along(short, 0, 1, 4))
    return b.result(b.op("concat", before, key, after, axis=1), b.op("concat", row, rest_of, axis=0))


UPDATES: tuple[Rule, ...] = (
    Rule(
        name="add_to_part",
        left=any_cell(rest("before"), any_pad(Y).only_here(), rest("after")),
        right=computed(_part_updated),
        where=_adds_part,
        doc="""
        What is added to a part is added to that part: no padded copy is made.

        x + pad(y)  ->  concat(x[:a], x[a:b] + y, x[b:])
        Where y is padded by zeros along one dimension and nobody else reads it padded. Not for saturation: a cell
        becomes a copy and a smaller cell.
        """,
        source=SPLITTING,
        example=_add_example,
    ),
    Rule(
        name="update_of_part",
        left=op(
            "concat",
            rest("before"),
            any_cell(any_view(X, "view_").named("part")).only_here(),
            rest("after"),
            axis=attr("axis"),
        ),
        right=computed(_whole_updated),
        where=_updates_part,
        context_depth=1,
        doc="""
        A tensor of which one part changes in place is one cell of the tensor.

        concat(x[:a], f(x[a:b]), x[b:])  ->  where(a <= i < b, f(x), x)
        Where all other parts are those of x, where they were: x goes as its new value comes, and nothing else is made.
        """,
        source=SPLITTING,
        example=_concat_example,
    ),
    Rule(
        name="update_of_row",
        left=op(
            "concat",
            rest("before"),
            any_view(X, "view_").named("part").only_here(),
            rest("after"),
            axis=attr("axis"),
        ),
        right=computed(_with_row),
        where=_row_written,
        context_depth=1,
        doc="""
        A tensor of which one row is replaced is one cell of the tensor and the row.

        concat(x[:a], y, x[a+1:])  ->  where(i == a, y, x)
        Where all other parts are those of x, where they were, and nobody else reads the first of them. What makes the
        row, and what reads the tensor next, may become one with the cell. Not for saturation: a copy counts no flops.
        """,
        source=SPLITTING,
        example=_row_example,
    ),
)
