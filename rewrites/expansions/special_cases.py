"""Local expansions under conditions: operators that are, for some shapes, special cases of simpler ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rewrites.cell_form import Labels, dim_labels
from rewrites.rule import Match, Rule, Sizes, attr, case, op, tensor
from rewrites.sketch import Sketch
from teg.graph import Graph
from teg.operators.selectors import sliced, squeezed, view_attributes

X, W, TABLE, INDICES = tensor("x"), tensor("w"), tensor("table"), tensor("indices")

# A table of so few rows is read whole without much loss.
SMALL_TABLE = 64


def _spatial(m: Match) -> int:
    return len(m.shape("x")) - 2


def _image_names(m: Match) -> Labels:
    return ("n", "c", *(f"y{k}" for k in range(_spatial(m))))


def _is_global(m: Match) -> bool:
    """Whether one window covers the whole image and nothing else."""
    whole = m["kernel"] == m.shape("x")[2:] and not any(m["pads"])
    return bool(whole and all(d == 1 for d in m["dilations"]))


def _is_pointwise(m: Match) -> bool:
    return all(size == 1 for size in m.shape("w")[2:]) and not any(m["pads"])


def _stepped(m: Match) -> Mapping[str, Any]:
    """Every stride-th element of the image, as the windows of one tap read it."""
    shape = m.shape("x")
    steps = (1, 1, *m["strides"])
    ends = (*shape[:2], *(s * (n - 1) + 1 for s, n in zip(m["strides"], m.result().shape[2:], strict=True)))
    return dict(view_attributes(sliced(shape, (0,) * len(shape), ends, steps)))


def _taps_squeezed(m: Match) -> Mapping[str, Any]:
    shape = m.shape("w")
    return dict(view_attributes(squeezed(shape, range(2, len(shape)))))


def _position_names(m: Match) -> Labels:
    return tuple(f"i{k}" for k in range(len(m.shape("indices"))))


def _is_small_table(m: Match) -> bool:
    """Few rows, read by positions that count from the end if negative and stand for whole slices."""
    plain = not m["aligned"] and m["mode"] in (None, "strict")
    return bool(plain and m.shape("table")[m["axis"]] <= SMALL_TABLE and m.dtype("table") != "bool")


def _one_hot(m: Match) -> Mapping[str, Any]:
    """1 where the position is the table's row, negative positions counted from the end."""
    names = _position_names(m)
    size = m.shape("table")[m["axis"]]
    index = ("input", 0)
    wrapped = ("where", ("lt", index, ("const", 0)), ("add", index, ("const", size)), index)
    dims = (*zip(names, m.shape("indices"), strict=True), ("v", size))
    expr = ("cast", m.dtype("table"), ("eq", wrapped, ("index", "v")))
    return {"expr": expr, "labels": (names,), "dims": dims, "dtype": m.dtype("table")}


def _table_names(m: Match) -> Labels:
    names = dim_labels(len(m.shape("table")))
    return (*names[: m["axis"]], "v", *names[m["axis"] + 1 :])


def _gathered_names(m: Match) -> Labels:
    names, axis = _table_names(m), m["axis"]
    return (*names[:axis], *_position_names(m), *names[axis + 1 :])


def _pool_example(size: Sizes) -> Graph:
    b = Sketch("reduce_of_pool")
    x = b.tensor("x", size(2), size(3), size(4), size(5))
    image = b.shape(x)[2:]
    shared: dict[str, Any] = {"kernel": image, "strides": image, "pads": (0,) * 4, "dilations": (1, 1)}
    mean = b.op("pool", x, kind="average", size=image, **shared)
    return b.result(mean, b.op("pool", x, kind="max", **shared))


def _pointwise_example(size: Sizes) -> Graph:
    b = Sketch("contract_of_conv")
    x = b.tensor("x", size(2), size(3), 7, 5)
    w = b.tensor("w", size(4), b.shape(x)[1], 1, 1, role="parameter")
    plain: dict[str, Any] = {"pads": (0,) * 4, "dilations": (1, 1), "groups": 1}
    return b.result(*(b.op("conv", x, w, strides=(s, s), **plain) for s in (1, 2)))


def _gather_example(size: Sizes) -> Graph:
    b = Sketch("contract_of_gather")
    table = b.tensor("table", size(2), size(5), size(3), role="parameter")
    indices = b.tensor("indices", size(2), size(3), dtype="int64")
    return b.result(b.op("gather", table, indices, axis=1))


SPECIAL_CASES: tuple[Rule, ...] = (
    Rule(
        name="reduce_of_pool",
        left=op(
            "pool",
            X,
            kind=attr("kind"),
            kernel=attr("kernel"),
            pads=attr("pads"),
            dilations=attr("dilations"),
        ),
        right=op(
            "reduce",
            X,
            monoid=lambda m: "max" if m["kind"] == "max" else "sum",
            labels=_image_names,
            output=("n", "c"),
            keep=lambda m: tuple(range(2, 2 + _spatial(m))),
            scale=lambda m: 1.0 if m["kind"] == "max" else 1.0 / math.prod(m["kernel"]),
        ),
        when=_is_global,
        doc="""
        A pooling over the whole image becomes a reduction, so that the image can be split.

        pool[kernel = image](x)  ->  mean or max of x over its spatial dimensions
        Only where the one window covers the image without padding.
        """,
        source="definition of pooling",
        example=_pool_example,
        kind="semantic",
        domain="real",
    ),
    Rule(
        name="contract_of_conv",
        left=op("conv", X, W, strides=attr("strides"), pads=attr("pads"), groups=1),
        right=op(
            "contract",
            case(
                lambda m: any(s != 1 for s in m["strides"]), op("view", X, given=_stepped).named("stepped"), X
            ),
            op("view", W, given=_taps_squeezed).named("matrix"),
            labels=lambda m: (_image_names(m), ("o", "c")),
            output=lambda m: ("n", "o", *_image_names(m)[2:]),
        ),
        when=_is_pointwise,
        doc="""
        A convolution with one tap becomes a contraction of channels.

        conv[1 x 1](x, w)  ->  x[n, c, y] w[o, c]
        Only where the kernel is one tap, in one group, without padding; strides are a view.
        """,
        source="definition of a convolution",
        example=_pointwise_example,
        kind="semantic",
        domain="real",
    ),
    Rule(
        name="contract_of_gather",
        left=op("gather", TABLE, INDICES, axis=attr("axis"), aligned=attr("aligned"), mode=attr("mode")),
        right=op(
            "contract",
            op("cell", INDICES, given=_one_hot).named("one_hot"),
            TABLE,
            labels=lambda m: ((*_position_names(m), "v"), _table_names(m)),
            output=_gathered_names,
        ),
        when=_is_small_table,
        doc="""
        A gather from a small table becomes a contraction with one-hot rows.

        table[indices]  ->  onehot(indices) table
        Only for tables of few rows read by whole slices, of finite numbers: all others are multiplied by zero.
        """,
        source="Jouppi et al., Ten Lessons from Three Generations of TPUs, ISCA 2021 (embedding as matrix product)",
        example=_gather_example,
        kind="semantic",
        domain="real",
    ),
)
