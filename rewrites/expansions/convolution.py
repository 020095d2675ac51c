"""Convolutions in terms of contractions: of one tap, of patches, tap by tap, and as a matrix product."""

from __future__ import annotations

from tapestry.rewrites.cell_form import Labels, dim_labels, pointwise
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.expansions.images import W, X, image_names
from tapestry.rewrites.expansions.windows import (
    MOST_TAPS,
    SlidingWindows,
    conv_windows,
    padded,
    view_of,
    window_settings,
    with_axis,
)
from tapestry.rewrites.rule import ExampleSizes, Match, Op, Rule, attr, computed, op
from tapestry.teg.dtypes import HALF
from tapestry.teg.graph import Graph
from tapestry.teg.operators.expressions import Expression
from tapestry.teg.operators.selectors import selected, squeezed
from tapestry.teg.views import ViewMap, identity

# Columns hold the image once per tap.
MOST_COLUMNS = 64

CONV = op(
    "conv",
    X,
    W,
    strides=attr("strides"),
    pads=attr("pads"),
    dilations=attr("dilations"),
    groups=attr("groups"),
)


def _is_pointwise(m: Match) -> bool:
    return m["groups"] == 1 and not any(m["pads"]) and conv_windows(m).taps == 1


def _pointwise(m: Match) -> Op:
    windows, shape = conv_windows(m), m.shape("w")
    names = image_names(m)
    matrix = view_of(W, squeezed(shape, range(2, len(shape))), "matrix")
    stepped = windows.tap(m.shape("x")[:2], (0,) * len(windows.kernel))
    taken = X if stepped == identity(m.shape("x")) else view_of(X, stepped, "stepped")
    return op("contract", taken, matrix, labels=(names, ("o", "c")), output=("n", "o", *names[2:]))


def _is_patchwise(m: Match) -> bool:
    """Return whether windows are adjacent, without overlap or padding."""
    w = conv_windows(m)
    return (
        m["groups"] == 1
        and not w.is_padded
        and w.kernel == w.strides
        and w.taps > 1
        and set(w.dilations) <= {1}
    )


def _patches(m: Match) -> Op:
    w = conv_windows(m)
    split = tuple(size for pair in zip(w.counts, w.kernel, strict=True) for size in pair)
    patches = op("reshape", X, shape=(*m.shape("x")[:2], *split)).named("patches")
    rows, taps = image_names(m)[2:], tuple(f"k{j}" for j in range(len(w.kernel)))
    names = ("n", "c", *(name for pair in zip(rows, taps, strict=True) for name in pair))
    return op("contract", patches, W, labels=(names, ("o", "c", *taps)), output=("n", "o", *rows))


def _has_taps(m: Match) -> bool:
    """Return whether the windows may be expanded, and are not already a contraction."""
    w = conv_windows(m)
    return w.taps <= MOST_TAPS and not w.is_cropped and not _is_pointwise(m)


def _tap_by_tap(m: Match) -> Op:
    """Build the sum of what each tap gives; in groups of more than one channel these are a dimension."""
    w, (n, channels) = conv_windows(m), m.shape("x")[:2]
    groups, (out, inner) = m["groups"], m.shape("w")[:2]
    if _is_single(m):
        return _channel_by_channel(m, w)
    image, weights = padded(X, w), W
    rows = image_names(m)[2:]
    if groups == 1:
        parts = [
            op(
                "contract",
                view_of(image, w.tap((n, channels), t), "shifted"),
                view_of(weights, _weight_tap(m.shape("w"), t), "tap"),
                labels=(("n", "c", *rows), ("o", "c")),
                output=("n", "o", *rows),
            ).named("product")
            for t in w.positions()
        ]
        return _sum(parts, m, m.result().shape)
    image = op("reshape", image, shape=(n, groups, inner, *w.padded)).named("groups")
    split = (groups, out // groups, inner, *w.kernel)
    grouped = op("reshape", weights, shape=split).named("group_weights")
    parts = [
        op(
            "contract",
            view_of(image, w.tap((n, groups, inner), t), "shifted"),
            view_of(grouped, _weight_tap(split, t), "tap"),
            labels=(("n", "g", "c", *rows), ("g", "o", "c")),
            output=("n", "g", "o", *rows),
        ).named("product")
        for t in w.positions()
    ]
    total = _sum(parts, m, (n, groups, out // groups, *w.counts))
    return op("reshape", total, shape=m.result().shape).named("joined")


def _weight_tap(shape: tuple[int, ...], position: tuple[int, ...]) -> ViewMap:
    """Return the view of the weights at one tap: their last dimensions are selected."""
    view = identity(shape)
    for t in reversed(position):
        view = view.then(selected(view.shape, len(view.shape) - 1, t))
    return view


def _sum(parts: list[Op], m: Match, shape: tuple[int, ...]) -> Op:
    """Build one cell that adds up tensors of the same shape, halves in single precision."""
    if len(parts) == 1:
        return parts[0]
    dtype = m.dtype("x")
    expr = _added([_read(dtype, k) for k in range(len(parts))])
    labels = (dim_labels(len(shape)),) * len(parts)
    return op("cell", *parts, given=lambda _: pointwise(expr, labels, shape, dtype)).named("sum")


def _read(dtype: str, k: int) -> Expression:
    return ("cast", "float32", ("input", k)) if dtype in HALF else ("input", k)


def _added(terms: list[Expression]) -> Expression:
    total, *others = terms
    for term in others:
        total = ("add", total, term)
    return total


def _only_channel(view: ViewMap) -> ViewMap:
    """View weights `(o, 1)` as `(o)`."""
    return view.then(selected(view.shape, 1, 0))


def _channel_by_channel(m: Match, w: SlidingWindows) -> Op:
    """Build separate channels: one cell over all shifted images and the weights of all taps."""
    dtype, taps = m.dtype("x"), w.positions()
    image = padded(X, w)
    shifted = [view_of(image, w.tap(m.shape("x")[:2], t), "shifted") for t in taps]
    weights = [view_of(W, _only_channel(_weight_tap(m.shape("w"), t)), "tap") for t in taps]
    count, names = len(taps), dim_labels(len(m.result().shape))
    expr = _added([("mul", _read(dtype, k), _read(dtype, count + k)) for k in range(count)])
    labels: tuple[Labels, ...] = ((names,) * count) + ((names[1],),) * count
    return op(
        "cell", *shifted, *weights, given=lambda m: pointwise(expr, labels, m.result().shape, dtype)
    ).named("sum")


def _has_columns(m: Match) -> bool:
    w = conv_windows(m)
    return 1 < w.taps <= MOST_COLUMNS and not w.is_cropped and (m["groups"] == 1 or not _is_single(m))


def _is_single(m: Match) -> bool:
    """Return whether every channel is separate: a matrix product would sum over taps only."""
    return bool(m["groups"] == m.shape("x")[1] == m.shape("w")[0])


def _columns(m: Match) -> Op:
    w, (out, channels) = conv_windows(m), m.shape("w")[:2]
    image = padded(X, w)
    taps = [view_of(image, with_axis(w.tap(m.shape("x")[:2], t), 2), "shifted") for t in w.positions()]
    columns = op("concat", *taps, axis=2).named("columns")
    rows, groups = image_names(m)[2:], m["groups"]
    if groups > 1:
        shape = (m.shape("x")[0], groups, channels, w.taps, *w.counts)
        split = op("reshape", columns, shape=shape).named("groups")
        weights = op("reshape", W, shape=(groups, out // groups, channels, w.taps)).named("matrix")
        labels = (("n", "g", "c", "t", *rows), ("g", "o", "c", "t"))
        product = op("contract", split, weights, labels=labels, output=("n", "g", "o", *rows)).named(
            "product"
        )
        return op("reshape", product, shape=m.result().shape)
    matrix = op("reshape", W, shape=(out, channels, w.taps)).named("matrix")
    return op(
        "contract",
        columns,
        matrix,
        labels=(("n", "c", "t", *rows), ("o", "c", "t")),
        output=("n", "o", *rows),
    )


def _pointwise_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("contract_of_conv")
    x = b.tensor("x", size(2), size(3), 7, 5)
    w = b.tensor("w", size(4), b.shape(x)[1], 1, 1, role="parameter")
    return b.result(*(b.op("conv", x, w, **window_settings(strides=(s, s), groups=1)) for s in (1, 2)))


def _patch_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("patches_of_conv")
    x = b.tensor("x", size(2), size(3), 2 * size(3), 3 * size(2))
    w = b.tensor("w", size(4), b.shape(x)[1], 2, 3, role="parameter")
    return b.result(b.op("conv", x, w, **window_settings(strides=(2, 3), groups=1)))


def _taps_example(size: ExampleSizes) -> Graph:
    """Build an example: a dense convolution, one in groups, one of single channels."""
    b = ExampleBuilder("taps_of_conv")
    x = b.tensor("x", size(2), 4, 4 + size(3), 5 + size(2))
    dense = b.tensor("w", size(3), 4, 3, 2, role="parameter")
    grouped = b.tensor("v", 2 * size(3), 2, 2, 2, role="parameter")
    single = b.tensor("u", 4, 1, 3, 1, role="parameter")
    plain = window_settings(pads=(1, 0, 1, 1))
    return b.result(
        b.op("conv", x, dense, **{**plain, "strides": (2, 1), "groups": 1}),
        b.op("conv", x, grouped, **{**plain, "dilations": (1, 2), "groups": 2}),
        b.op("conv", x, single, **{**plain, "groups": 4}),
    )


def _columns_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("columns_of_conv")
    x = b.tensor("x", size(2), size(3), 4 + size(3), 5 + size(2))
    w = b.tensor("w", size(4), b.shape(x)[1], 3, 2, role="parameter")
    y = b.tensor("y", size(2), 4, 4 + size(3), 5 + size(2))
    v = b.tensor("v", 2 * size(3), 2, 2, 3, role="parameter")
    return b.result(
        b.op("conv", x, w, **window_settings(pads=(1, 0, 1, 1), strides=(2, 1), groups=1)),
        b.op("conv", y, v, **window_settings(pads=(1, 0, 1, 1), groups=2)),
    )


CONVOLUTION: tuple[Rule, ...] = (
    Rule(
        name="contract_of_conv",
        left=CONV,
        right=computed(lambda m: [_pointwise(m)]),
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
        name="patches_of_conv",
        left=CONV,
        right=computed(lambda m: [_patches(m)]),
        when=_is_patchwise,
        doc="""
        A convolution whose windows lie side by side becomes a contraction of patches.

        conv[k x k, stride k](x, w)  ->  x[n, c, y, k] w[o, c, k] with the image cut in patches
        Only where strides are the kernel's size, in one group, without padding: no element is read twice.
        """,
        source="Dosovitskiy et al., An Image is Worth 16x16 Words, ICLR 2021, equation 1",
        example=_patch_example,
        kind="semantic",
        domain="real",
    ),
    Rule(
        name="taps_of_conv",
        left=CONV,
        right=computed(lambda m: [_tap_by_tap(m)]),
        when=_has_taps,
        doc="""
        A convolution becomes the sum over its taps of shifted images times the tap's weights.

        conv(x, w)  ->  sum_t x[n, c, y + t] w[o, c, t]
        For windows of few taps. Shifts are views; groups of channels are one more dimension of the
        contractions; where every channel is by itself, all is one cell.
        """,
        source="definition of a convolution",
        example=_taps_example,
        kind="semantic",
        domain="real",
    ),
    Rule(
        name="columns_of_conv",
        left=CONV,
        right=computed(lambda m: [_columns(m)]),
        when=_has_columns,
        doc="""
        A convolution becomes one matrix product of the weights with the image's windows as columns.

        conv(x, w)  ->  columns[n, c, t, y] w[o, c, t] with columns[n, c, t, y] = x[n, c, y + t]
        For windows of few taps: the columns hold the image once per tap. Groups of channels are one more dimension,
        where they are not channel by channel.
        """,
        source="Chellapilla, Puri and Simard, High Performance Convolutional Neural Networks, 2006, section 3.1",
        example=_columns_example,
        kind="semantic",
        domain="real",
    ),
)
