"""Pooling as reductions, as cells over shifted images, one dimension after the other, and as a convolution."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tapestry.rewrites.cell_form import Labels, dim_labels, pointwise
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.expansions.images import X, image_names, spatial_rank
from tapestry.rewrites.expansions.windows import MOST_TAPS, padded, pool_windows, view_of, window_settings
from tapestry.rewrites.rule import ExampleSizes, Match, Op, Rule, attr, computed, op
from tapestry.teg.dtypes import HALF, accumulation
from tapestry.teg.graph import Graph
from tapestry.teg.operators.expressions import Expression
from tapestry.teg.operators.monoids import identity

POOL = op(
    "pool",
    X,
    kind=attr("kind"),
    kernel=attr("kernel"),
    strides=attr("strides"),
    pads=attr("pads"),
    dilations=attr("dilations"),
    count_include_pad=attr("include"),
    size=attr("size"),
)


def _is_global(m: Match) -> bool:
    """Return whether one window covers exactly the whole image."""
    whole = m["kernel"] == m.shape("x")[2:] and not any(m["pads"])
    return bool(whole and all(d == 1 for d in m["dilations"]))


def _divides_evenly(m: Match) -> bool:
    """Return whether every window of an average divides by all its taps."""
    if m["kind"] == "max" or m["size"] is None:
        return True
    w = pool_windows(m)
    for k, size in enumerate(m["size"]):
        low, high = (w.low[k], w.high[k]) if m["include"] else (0, 0)
        last = w.strides[k] * (w.counts[k] - 1) - w.low[k] + (w.kernel[k] - 1) * w.dilations[k]
        if w.low[k] > low or last >= size + high:
            return False
    return True


def _may_be_spelled_out(m: Match) -> bool:
    w = pool_windows(m)
    counts = _divides_evenly(m) or set(w.dilations) == {1}
    return 1 < w.taps <= MOST_TAPS and not w.is_cropped and not _is_global(m) and counts


def _count(m: Match, names: Labels) -> Expression:
    """Build the number of taps of a window that an average counts: per dimension those between the borders."""
    w, product = pool_windows(m), None
    for k, (name, size) in enumerate(zip(names, m["size"], strict=True)):
        low, high = (w.low[k], w.high[k]) if m["include"] else (0, 0)
        start = ("sub", ("mul", ("index", name), ("const", w.strides[k])), ("const", w.low[k]))
        end = ("min", ("add", start, ("const", w.kernel[k])), ("const", size + high))
        taps: Expression = ("sub", end, ("max", start, ("const", -low)))
        product = taps if product is None else ("mul", product, taps)
    assert product is not None
    return product


def _shifted(m: Match) -> Op:
    """Build one cell over the image at each tap of the window."""
    w, dtype, largest = pool_windows(m), m.dtype("x"), m["kind"] == "max"
    image = padded(X, w, identity("max", dtype) if largest else 0)
    taps = [view_of(image, w.tap(m.shape("x")[:2], t), "shifted") for t in w.positions()]
    reads: list[Expression] = [("input", k) for k in range(len(taps))]
    if not largest and dtype in HALF:
        reads = [("cast", "float32", read) for read in reads]
    expr = reads[0]
    for read in reads[1:]:
        expr = ("max" if largest else "add", expr, read)
    shape = m.result().shape
    if not largest and _divides_evenly(m):
        expr = ("mul", expr, ("const", 1.0 / w.taps))
    elif not largest:
        wide = accumulation(dtype)
        expr = ("div", expr, ("cast", wide, _count(m, dim_labels(len(shape))[2:])))
    labels = (dim_labels(len(shape)),) * len(taps)
    return op("cell", *taps, given=lambda _: pointwise(expr, labels, shape, dtype)).named("window")


def _wide_dims(m: Match) -> list[str]:
    """List the spatial dimensions along which the window has several taps; empty unless there are several."""
    wide = [str(k) for k, n in enumerate(m["kernel"]) if n > 1]
    return wide if len(wide) > 1 else []


def _one_after_the_other(m: Match) -> Op:
    chosen, rank = int(m.choice), spatial_rank(m)
    counts = m.result().shape[2:]
    size = m["size"]
    first = _along(m, [k == chosen for k in range(rank)], size)
    if size is not None:
        size = tuple(counts[k] if k == chosen else n for k, n in enumerate(size))
    return op(
        "pool", op("pool", X, **first).named("first"), **_along(m, [k != chosen for k in range(rank)], size)
    )


def _along(m: Match, chosen: list[bool], size: Any) -> Mapping[str, Any]:
    """Build the pool's attributes along the chosen dimensions, with a window of one tap along the others."""
    attributes = {"kind": m["kind"], "count_include_pad": m["include"], "size": size}
    for name, idle in (("kernel", 1), ("strides", 1), ("dilations", 1), ("pads", 0)):
        values = m[name]
        attributes[name] = tuple(v if chosen[k % len(chosen)] else idle for k, v in enumerate(values))
    return attributes


def _weights(m: Match) -> Mapping[str, Any]:
    """Build the cell of each tap's share, per channel: no operand, one constant."""
    shape = (m.shape("x")[1], 1, *m["kernel"])
    return pointwise(("const", 1.0 / math.prod(m["kernel"])), (), shape, m.dtype("x"))


def _global_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("reduce_of_pool")
    x = b.tensor("x", size(2), size(3), size(4), size(5))
    image = b.shape(x)[2:]
    shared: dict[str, Any] = {"kernel": image, "strides": image, "pads": (0,) * 4, "dilations": (1, 1)}
    mean = b.op("pool", x, kind="average", size=image, **shared)
    return b.result(mean, b.op("pool", x, kind="max", **shared))


def _window_example(name: str, *kinds: str) -> Any:
    def example(size: ExampleSizes) -> Graph:
        b = ExampleBuilder(name)
        x = b.tensor("x", size(2), size(3), 5 + size(3), 4 + size(4))
        plain = window_settings(kernel=(3, 2), strides=(1, 1), pads=(1, 0, 1, 1))
        average = {**plain, "count_include_pad": True}
        results = [b.op("pool", x, kind=k, **(plain if k == "max" else average)) for k in kinds]
        return b.result(*results)

    return example


def _shifts_example(size: ExampleSizes) -> Graph:
    """Build an example: a maximum, an average that counts the padding, one that does not."""
    b = ExampleBuilder("shifts_of_pool")
    x = b.tensor("x", size(2), size(3), 5 + size(3), 4 + size(4))
    plain = window_settings(kernel=(3, 2), strides=(2, 1), pads=(1, 0, 1, 1))
    average: dict[str, Any] = {"kind": "average", "size": b.shape(x)[2:], **plain}
    counted = b.op("pool", x, count_include_pad=True, **average)
    return b.result(b.op("pool", x, kind="max", **plain), counted, b.op("pool", x, **average))


def _split_example(size: ExampleSizes) -> Graph:
    """Build an example: an average that counts the image only, with and without dilation, and a maximum."""
    b = ExampleBuilder("split_pool")
    x = b.tensor("x", size(2), size(3), 5 + size(3), 4 + size(4))
    plain = window_settings(kernel=(3, 2), pads=(1, 0, 1, 1))
    apart = {**plain, "dilations": (2, 1), "count_include_pad": True}
    average: dict[str, Any] = {"kind": "average", "size": b.shape(x)[2:]}
    results = [b.op("pool", x, **average, **given) for given in (plain, apart)]
    return b.result(*results, b.op("pool", x, kind="max", **plain))


POOLING: tuple[Rule, ...] = (
    Rule(
        name="reduce_of_pool",
        left=POOL,
        right=op(
            "reduce",
            X,
            monoid=lambda m: "max" if m["kind"] == "max" else "sum",
            labels=image_names,
            output=("n", "c"),
            keep=lambda m: tuple(range(2, 2 + spatial_rank(m))),
            scale=lambda m: 1.0 if m["kind"] == "max" else 1.0 / math.prod(m["kernel"]),
        ),
        when=_is_global,
        doc="""
        A pooling over the whole image becomes a reduction, so that the image can be split.

        pool[kernel = image](x)  ->  mean or max of x over its spatial dimensions
        Only where the one window covers the image without padding.
        """,
        source="definition of pooling",
        example=_global_example,
        kind="semantic",
        domain="real",
    ),
    Rule(
        name="shifts_of_pool",
        left=POOL,
        right=computed(lambda m: [_shifted(m)]),
        when=_may_be_spelled_out,
        doc="""
        A pooling becomes one cell over the image at each tap of its window.

        pool[k](x)  ->  max or mean over t of x[n, c, y + t]
        For windows of few taps. Shifts are views; how many taps an average counts at a border is a function of
        coordinates, where taps lie side by side.
        """,
        source="definition of pooling",
        example=_shifts_example,
        kind="semantic",
        domain="real",
    ),
    Rule(
        name="split_pool",
        left=POOL,
        right=computed(lambda m: [_one_after_the_other(m)]),
        when=lambda m: bool(_wide_dims(m)),
        choices=_wide_dims,
        doc="""
        A pooling over several dimensions becomes two; along which one goes first is the choice.

        pool[k x l](x)  ->  pool[1 x l](pool[k x 1](x))  or  pool[k x 1](pool[1 x l](x))
        Always: a window is a box, and what an average divides by is a product over its dimensions.
        """,
        source="definition of pooling: maxima and sums over a box",
        example=_split_example,
        kind="semantic",
        domain="real",
    ),
    Rule(
        name="conv_of_average_pool",
        left=POOL,
        right=op(
            "conv",
            X,
            op("cell", given=_weights).named("shares"),
            strides=attr("strides"),
            pads=attr("pads"),
            dilations=attr("dilations"),
            groups=lambda m: m.shape("x")[1],
        ),
        when=lambda m: m["kind"] == "average" and not _is_global(m) and _divides_evenly(m),
        doc="""
        An average pooling becomes a convolution of each channel with equal weights.

        pool[k](x)  ->  conv(x, 1 / k) channel by channel
        For averages that divide by all their taps: what does not lie in the image counts as zero.
        """,
        source="definition of average pooling",
        example=_window_example("conv_of_average_pool", "average"),
        kind="semantic",
        domain="real",
    ),
)
