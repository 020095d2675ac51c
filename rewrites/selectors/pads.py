"""Padding: chains are merged, unread elements are not padded, gradients of slices become concatenations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tapestry.rewrites.cell_form import CellForm, CellRead, any_cell, bound_cell
from tapestry.rewrites.example_builder import ExampleBuilder, replaced_at
from tapestry.rewrites.rule import ExampleSizes, Match, Op, Rule, Term, attr, computed, op, rest, tensor
from tapestry.rewrites.selectors.viewing import X, any_view, at, given, view_of
from tapestry.teg.arrays import NUMPY
from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.graph import Graph
from tapestry.teg.operators.expressions import Expression, inputs_of, run_steps, steps_of
from tapestry.teg.operators.selectors import permuted, sliced
from tapestry.teg.views import ViewDim, ViewMap

PADDING = "definition of padding"
Y = tensor("y")


def any_pad(of: Term = X, prefix: str = "") -> Op:
    """Build the left-side pattern of padding, its attributes bound to `prefix` + low, high, value."""
    return op("pad", of, low=attr(prefix + "low"), high=attr(prefix + "high"), value=attr(prefix + "value"))


def _same_value(m: Match) -> bool:
    one, two = (np.full((), m[name] or 0, numpy_dtype(m.dtype("x"))) for name in ("value", "inner_value"))
    return one.tobytes() == two.tobytes()


def _both(m: Match, side: str) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(m[side], m["inner_" + side], strict=True))


def _inside(m: Match) -> Mapping[str, Any] | None:
    """Convert a view of a padded tensor that reads no padding to a view of the tensor; else None."""
    view, dims = view_of(m), []
    for size, low, d in zip(m.shape("x"), m["low"], view.dims, strict=True):
        last = d.offset + (d.stride * (view.shape[d.dim] - 1) if d.dim >= 0 else 0)
        if min(d.offset, last) < low or max(d.offset, last) >= low + size:
            return None
        dims.append(ViewDim(d.dim, d.stride, d.offset - low))
    return {"view": ViewMap(tuple(dims), view.shape)}


def _partly(m: Match) -> Mapping[str, Any] | None:
    """Convert a view of some padding to less padding around a view; None if it steps or reads only padding."""
    view = view_of(m)
    if _inside(m) is not None:
        return None
    low, high, kept = [0] * len(view.shape), [0] * len(view.shape), list(view.shape)
    dims = []
    for size, before, d in zip(m.shape("x"), m["low"], view.dims, strict=True):
        start = d.offset - before
        if d.dim >= 0:
            end = start + view.shape[d.dim]
            low[d.dim], high[d.dim] = max(0, -start), max(0, end - size)
            kept[d.dim] -= low[d.dim] + high[d.dim]
            if d.stride != 1 or kept[d.dim] <= 0:
                return None
        elif not 0 <= start < size:
            return None
        dims.append(ViewDim(d.dim, d.stride, max(0, start)))
    return {"view": ViewMap(tuple(dims), tuple(kept)), "less": (tuple(low), tuple(high))}


def _padded_value(m: Match) -> Mapping[str, Any] | None:
    """Compute the cell's value in the padding; None if it reads other tensors or uses coordinates."""
    names, labels = [n for n, _ in m["dims"]], m["labels"][0]
    steps = steps_of(m["expr"])
    if sorted(labels) != sorted(names) or any(s.name == "index" for s in steps):
        return None
    one = np.full(1, m["value"] or 0, numpy_dtype(m.dtype("x")))
    with np.errstate(all="ignore"):
        made = np.asarray(run_steps(NUMPY, steps, [one], {})).astype(numpy_dtype(m["dtype"])).reshape(-1)[0]
    value = made.item()
    if not np.isfinite(value):
        return None
    order = [labels.index(n) for n in names]
    return {
        "made": int(value) if isinstance(value, bool) else value,
        "sides": {side: tuple(m[side][k] for k in order) for side in ("low", "high")},
        "inner": tuple(zip(names, (m.shape("x")[k] for k in order), strict=True)),
    }


def _beside(m: Match) -> Mapping[str, Any] | None:
    """Combine two adjacent padded tensors that are added into one concatenation; None if they do not fit."""
    p, q = len(m["before"]), len(m["before"]) + 1 + len(m["between"])
    labels, (one, two) = m["labels"], (m.type("x"), m.type("y"))
    if m["value"] or m["other_value"] or labels[p] != labels[q] or one.dtype != two.dtype:
        return None
    apart = [k for k, (a, b) in enumerate(zip(m["low"], m["other_low"], strict=True)) if a != b]
    if len(apart) != 1 or "" in labels[p]:
        return None
    axis = apart[0]
    if replaced_at(one.shape, axis, 1) != replaced_at(two.shape, axis, 1):
        return None
    sides = [
        (m["low"], m["high"], m["x"], one.shape[axis]),
        (m["other_low"], m["other_high"], m["y"], two.shape[axis]),
    ]
    (low, _, first, size), (other, high, second, _) = sorted(sides, key=lambda s: s[0][axis])
    pair = {("add", ("input", p), ("input", q)), ("add", ("input", q), ("input", p))}
    expr = _joined_expression(m["expr"], pair, p, q)
    if other[axis] != low[axis] + size or expr is None:
        return None
    return {"axis": axis, "pair": (first, second), "around": (low, high), "expr_of_both": expr}


def _joined_expression(expr: Expression, pair: set[Expression], p: int, q: int) -> Expression | None:
    """Replace the sum of inputs p and q in the expression by p; None if they are read anywhere else."""

    def swap(part: Expression) -> Expression:
        if part in pair:
            return ("input", p)
        return tuple(swap(x) if isinstance(x, tuple) else x for x in part)

    def count(part: Expression, k: int) -> int:
        if part == ("input", k):
            return 1
        return sum(count(x, k) for x in part[1:] if isinstance(x, tuple))

    once = count(expr, p) == count(expr, q) == 1
    joined = swap(expr)
    return joined if once and q not in inputs_of(joined) else None


def _join_beside(m: Match) -> list[Op]:
    low, high = m["around"]
    both: Op = op("concat", at(*m["pair"]), axis=m["axis"])
    if any(low) or any(high):
        both = op("pad", both, low=low, high=high)
    p, q = len(m["before"]), len(m["before"]) + 1 + len(m["between"])
    form = bound_cell(m, (*m["before"], "x", *m["between"], "y", *m["after"]))
    reads = tuple(CellRead(f"{k}", r.labels) for k, r in enumerate(form.reads))
    new = CellForm(reads, m["expr_of_both"], form.dims, form.dtype).normal()
    sites = dict(enumerate((*m["before"], "", *m["between"], "", *m["after"])))
    terms: list[Term] = [both if int(r.site) in (p, q) else at(sites[int(r.site)]) for r in new.reads]
    return [op("cell", *terms, given=lambda _: new.attributes)]


def _step(m: Match) -> Mapping[str, Any] | None:
    """Convert a view of a dilated tensor that reads no zeros to a view of the tensor; None if it reads some."""
    view, axis, factor = view_of(m), m["axis"], m["factor"]
    d = view.dims[axis]
    if d.offset % factor or (d.dim >= 0 and d.stride % factor):
        return None
    new = ViewDim(d.dim, d.stride // factor, d.offset // factor)
    return {"view": ViewMap(replaced_at(view.dims, axis, new), view.shape)}


def _pad_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("pad_of_pad")
    x = b.op("pad", b.tensor("x", size(3), size(4)), low=(1, 0), high=(0, 2), value=1.5)
    return b.result(b.op("pad", x, low=(0, 1), high=(3, 0), value=1.5))


def _empty_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("empty_pad")
    return b.result(b.op("pad", b.tensor("x", size(3), size(4)), low=(0, 0), high=(0, 0), value=2.0))


def _inside_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("slice_of_pad")
    x = b.tensor("x", size(3), size(4))
    whole = b.op("pad", x, low=(1, 2), high=(0, 1))
    rows, columns = b.shape(x)
    turned = sliced(b.shape(whole), (1, columns + 1), (rows + 1, 1), (1, -1))
    return b.result(b.view(whole, turned))


def _partly_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("cut_pad")
    whole = b.op("pad", b.tensor("x", size(3), size(4, least=2)), low=(2, 2), high=(0, 1), value=-1.0)
    shape = b.shape(whole)
    cut = sliced(shape, (1, 3), shape)
    return b.result(b.view(whole, cut.then(permuted(cut.shape, (1, 0)))))


def _cell_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("cell_of_pad")
    whole = b.op("pad", b.tensor("x", size(3), size(4)), low=(1, 0), high=(0, 2), value=0.5)
    expr = ("add", ("mul", ("input", 0), ("input", 0)), ("const", 1))
    dims = (("c", b.shape(whole)[1]), ("r", b.shape(whole)[0]))
    return b.result(b.op("cell", whole, expr=expr, labels=(("r", "c"),), dims=dims, dtype="float32"))


def _beside_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("add_of_pads")
    rows, one, two = size(3), size(4), size(2)
    x = b.op("pad", b.tensor("x", rows, one), low=(0, 1), high=(0, two))
    y = b.op("pad", b.tensor("y", rows, two), low=(0, one + 1), high=(0, 0))
    z = b.tensor("z", rows, one + two + 1)
    sum_of_both = ("mul", ("input", 1), ("add", ("input", 0), ("input", 2)))
    return b.result(b.cell(sum_of_both, {y: "rc", z: "rc", x: "rc"}))


def _dilate_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("step_of_dilate")
    whole = b.op("dilate", b.tensor("x", size(3), size(4)), axis=1, factor=3)
    shape = b.shape(whole)
    return b.result(b.view(whole, sliced(shape, (0, 0), shape, (1, 6))))


PADS: tuple[Rule, ...] = (
    Rule(
        name="pad_of_pad",
        left=any_pad(any_pad(prefix="inner_")),
        right=op(
            "pad",
            X,
            low=lambda m: _both(m, "low"),
            high=lambda m: _both(m, "high"),
            value=lambda m: m["value"] or 0,
        ),
        when=_same_value,
        doc="""
        Padding around padding by the same value is one padding.

        pad(pad(x))  ->  pad(x)
        Where both put the same value.
        """,
        source=PADDING,
        example=_pad_example,
        saturating=True,
    ),
    Rule(
        name="empty_pad",
        left=any_pad(),
        right=X,
        when=lambda m: not any((*m["low"], *m["high"])),
        doc="""
        Padding by nothing disappears.

        pad(x)  ->  x
        Where nothing is added on any side.
        """,
        source=PADDING,
        example=_empty_example,
        saturating=True,
    ),
    Rule(
        name="slice_of_pad",
        left=any_view(any_pad()),
        right=op("view", X, given=lambda m: given(m["view"])),
        where=lambda m: None if 0 in m["shape"] else _inside(m),
        doc="""
        A view of a padded tensor that sees no padding is a view of the tensor.

        slice(pad(x))  ->  slice(x)
        Where all it sees lies inside.
        """,
        source=PADDING,
        example=_inside_example,
        saturating=True,
    ),
    Rule(
        name="cut_pad",
        left=any_view(any_pad()),
        right=op(
            "pad",
            op("view", X, given=lambda m: given(m["view"])),
            low=lambda m: m["less"][0],
            high=lambda m: m["less"][1],
            value=lambda m: m["value"] or 0,
        ),
        where=lambda m: None if 0 in m["shape"] else _partly(m),
        doc="""
        Of a padded tensor only what is looked at is padded.

        slice(pad(x))  ->  pad(slice(x))
        Where it sees some padding and something inside, without steps. Not for saturation: the whole may be needed.
        """,
        source=PADDING,
        example=_partly_example,
    ),
    Rule(
        name="cell_of_pad",
        left=any_cell(any_pad().only_here()),
        right=computed(
            lambda m: [
                op(
                    "pad",
                    op("cell", X, expr=m["expr"], labels=m["labels"], dims=m["inner"], dtype=m["dtype"]),
                    **m["sides"],
                    value=m["made"],
                )
            ]
        ),
        where=_padded_value,
        doc="""
        A cell of a padded tensor is computed before padding, the padding with it.

        f(pad(x, v))  ->  pad(f(x), f(v))
        Where the cell reads nothing else, uses no coordinates, and f(v) is finite.
        """,
        source="a cell maps every element by itself",
        example=_cell_example,
    ),
    Rule(
        name="add_of_pads",
        left=any_cell(
            rest("before"),
            any_pad().only_here(),
            rest("between"),
            any_pad(Y, "other_").only_here(),
            rest("after"),
        ),
        right=computed(_join_beside),
        where=_beside,
        doc="""
        Zero-padded tensors that lie beside each other and are added are concatenated.

        f(pad(x) + pad(y))  ->  f(concat(x, y)), padded by what is left
        Where both are padded by zeros to neighboring places, and read only by this sum: gradients of slices.
        """,
        source="the derivative of a split is a concatenation",
        example=_beside_example,
        saturating=True,
    ),
    Rule(
        name="step_of_dilate",
        left=any_view(op("dilate", X, axis=attr("axis"), factor=attr("factor"))),
        right=op("view", X, given=lambda m: given(m["view"])),
        where=_step,
        doc="""
        A view of a dilated tensor that sees no zeros is a view of the tensor.

        dilate(x, n)[0::n]  ->  x
        Where its steps and its start are multiples of the factor.
        """,
        source="definition of dilation",
        example=_dilate_example,
        saturating=True,
    ),
)
