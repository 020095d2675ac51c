"""Slices through windows and scans: only the part of images that windows reach, with halo, is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tapestry.rewrites.example_builder import ExampleBuilder, replaced_at
from tapestry.rewrites.expansions.windows import window_settings
from tapestry.rewrites.rule import ExampleSizes, Match, Op, Rule, attr, computed, op, tensor
from tapestry.rewrites.selectors.viewing import X, any_view, cut_like, keeps_order, origins, seen, view_of
from tapestry.teg.graph import Graph
from tapestry.teg.operators.selectors import selected, sliced
from tapestry.teg.views import ViewDim, ViewMap

W = tensor("w")
CONV: dict[str, Any] = {n: attr(n) for n in ("strides", "pads", "dilations", "groups")}
POOL: dict[str, Any] = {
    n: attr(n) for n in ("kind", "kernel", "strides", "pads", "dilations", "count_include_pad", "size")
}
SCAN: dict[str, Any] = {n: attr(n) for n in ("axis", "monoid", "exclusive", "reverse")}
HALO = "tiling of stencils with their halo (Holewinski, Pouchet and Sadayappan, ICS 2012)"


class StridedRange(NamedTuple):
    """Positions along a dimension: `length` of them from `first` on, `step` apart."""

    first: int
    step: int
    length: int


class Reach(NamedTuple):
    """The range of a spatial dimension that windows read: from `start` to `end`, padding, and new stride."""

    start: int
    end: int
    low: int
    high: int
    stride: int


class CutWindows(NamedTuple):
    """The remaining image of a window operator, its strides and pads."""

    image: ViewMap
    strides: tuple[int, ...]
    pads: tuple[int, ...]


def spans_of(view: ViewMap, shape: Sequence[int]) -> tuple[StridedRange, ...] | None:
    """Find the positions of each dimension in a view; None if it permutes, repeats, reverses, or is empty."""
    if not keeps_order(view) or 0 in view.shape or 0 in shape:
        return None
    found = [
        StridedRange(d.offset, max(1, d.stride), 1 if d.dim < 0 else view.shape[d.dim]) for d in view.dims
    ]
    return None if any(d.dim >= 0 and d.stride < 1 for d in view.dims) else tuple(found)


def cut_windows(m: Match, kernel: Sequence[int], spans: Sequence[StridedRange]) -> CutWindows | None:
    """Slice the windows at these positions, of the images `spans[0]`; None if one is all padding.

    All channels are kept.
    """
    shape, rank = m.shape("x"), len(kernel)
    starts, ends, steps = (
        [spans[0].first],
        [spans[0].first + spans[0].step * (spans[0].length - 1) + 1],
        [spans[0].step],
    )
    reached: list[Reach] = []
    for k, span in enumerate(spans[2:]):
        stride, low = m["strides"][k], m["pads"][k]
        first = span.first * stride - low
        last = first + (span.length - 1) * span.step * stride + (kernel[k] - 1) * m["dilations"][k] + 1
        start, end = max(0, first), min(shape[2 + k], last)
        if end <= start:
            return None
        reached.append(Reach(start, end, start - first, last - end, span.step * stride))
    image = sliced(
        shape,
        (*starts, 0, *(r.start for r in reached)),
        (*ends, shape[1], *(r.end for r in reached)),
        (*steps, *(1,) * (rank + 1)),
    )
    pads = (*(r.low for r in reached), *(r.high for r in reached))
    return CutWindows(image, tuple(r.stride for r in reached), pads)


def _left_over(view: ViewMap) -> ViewMap:
    """Build the view of the computed result: dimensions of which one position is read are dropped."""
    return ViewMap(tuple(ViewDim(d.dim, min(1, d.dim + 1), 0) for d in view.dims), view.shape)


def _cut(m: Match, kernel: Sequence[int], is_whole_image: bool) -> Mapping[str, Any] | None:
    """Slice a window operator's result `y` to the part that a view reads; None if it cannot be sliced."""
    shape, view = m.shape("y"), view_of(m)
    spans = spans_of(view, shape)
    if spans is None or [s.length for s in spans] == list(shape):
        return None
    if is_whole_image and [s.length for s in spans[2:]] != list(shape[2:]):
        return None
    found = cut_windows(m, kernel, spans)
    return None if found is None else {"cut": found, "spans": spans}


def _shown(m: Match, made: Op) -> Sequence[Op]:
    """Build the result in the view's dimensions."""
    found = seen(made, _left_over(view_of(m)), [s.length for s in m["spans"]])
    assert isinstance(found, Op)
    return [found]


def _channels(span: StridedRange, shape: Sequence[int], axis: int) -> ViewMap:
    """Build the view of some positions of one dimension of a tensor."""
    end = span.first + span.step * (span.length - 1) + 1
    starts, ends = replaced_at((0,) * len(shape), axis, span.first), replaced_at(shape, axis, end)
    return sliced(shape, starts, ends, replaced_at((1,) * len(shape), axis, span.step))


def _conv(m: Match) -> Mapping[str, Any] | None:
    found = _cut(m, m.shape("w")[2:], is_whole_image=False)
    if found is None or (m["groups"] > 1 and found["spans"][1].length < m.shape("y")[1]):
        return None
    return found


def _smaller_conv(m: Match) -> Sequence[Op]:
    cut: CutWindows = m["cut"]
    weights = seen(W, _channels(m["spans"][1], m.shape("w"), 0), m.shape("w"))
    same = {"dilations": m["dilations"], "groups": m["groups"]}
    image = seen(X, cut.image, m.shape("x"))
    return _shown(m, op("conv", image, weights, strides=cut.strides, pads=cut.pads, **same).named("conv"))


def _pool(m: Match) -> Mapping[str, Any] | None:
    """Slice a pool; averages depend on the end of the whole image, so only images and channels are sliced."""
    return _cut(m, m["kernel"], is_whole_image=m["kind"] != "max")


def _smaller_pool(m: Match) -> Sequence[Op]:
    cut: CutWindows = m["cut"]
    image: Any = seen(X, cut.image, m.shape("x"))
    images = (m["spans"][0].length, m.shape("x")[1], *cut.image.shape[2:])
    image = seen(image, _channels(m["spans"][1], images, 1), images)
    given = {
        n: m[n] for n in ("kind", "kernel", "dilations", "count_include_pad", "size") if m[n] is not None
    }
    return _shown(m, op("pool", image, strides=cut.strides, pads=cut.pads, **given).named("pool"))


def _scan(m: Match) -> Mapping[str, Any] | None:
    """Slice a scan to the rows that are read, and the scanned dimension to what counts for them, or None."""
    view, shape, axis = view_of(m), m.shape("x"), m["axis"]
    spans = spans_of(view, shape)
    if spans is None or view.dims[axis].dim < 0:
        return None
    span = spans[axis]
    begin = shape[axis] - span.length if m["reverse"] else 0
    if (span.first, span.step) != (begin, 1) or [s.length for s in spans] == list(shape):
        return None
    return {"looked": cut_like(view, shape, tuple(range(len(shape)))), "new_axis": origins(view).index(axis)}


def _shorter_scan(m: Match) -> Sequence[Op]:
    given = {n: m[n] for n in ("exclusive", "reverse") if m[n] is not None}
    return [op("scan", seen(X, m["looked"], m.shape("x")), axis=m["new_axis"], monoid=m["monoid"], **given)]


def _conv_example(size: ExampleSizes) -> Graph:
    """Build an example: some channels of every second row; the middle of a padded result."""
    b = ExampleBuilder("cut_conv")
    x = b.tensor("x", size(2), size(3), 8, 7)
    w = b.tensor("w", 4, b.shape(x)[1], 3, 2, role="parameter")
    y = b.op("conv", x, w, **window_settings(pads=(1, 0, 1, 1), strides=(1, 2), groups=1))
    shape = b.shape(y)
    inner = sliced(shape, (0, 0, 2, 1), (shape[0], 4, 6, shape[3]))
    return b.result(b.view(y, sliced(shape, (0, 1, 0, 0), shape, (1, 1, 2, 1))), b.view(y, inner))


def _pool_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("cut_pool")
    x = b.tensor("x", size(2), 2 * size(2), 8, 7)
    plain = window_settings(kernel=(3, 2), pads=(1, 0, 1, 1))
    largest = b.op("pool", x, kind="max", **plain)
    mean = b.op("pool", x, kind="average", size=(8, 7), **plain)
    shape = b.shape(mean)
    rows = sliced(shape, (0, 0, 3, 0), (*shape[:2], 6, shape[3]))
    return b.result(b.view(largest, rows), b.view(mean, selected(shape, 1, 1)))


def _scan_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("cut_scan")
    x = b.tensor("x", size(3, least=2), 4 + size(2))
    forward, back = (b.op("scan", x, axis=1, monoid="sum", reverse=r, exclusive=r) for r in (False, True))
    rows, length = b.shape(x)
    return b.result(
        b.view(forward, sliced((rows, length), (0, 0), (rows, 3)).then(selected((rows, 3), 0, rows - 1))),
        b.view(back, sliced((rows, length), (0, 2), (rows, length))),
    )


WINDOW_CUTS: tuple[Rule, ...] = (
    Rule(
        name="cut_conv",
        left=any_view(op("conv", X, W, **CONV).named("y")),
        right=computed(_smaller_conv),
        where=_conv,
        doc="""
        Of a convolution only what is looked at is computed.

        conv(x, w)[images, channels, rows]  ->  conv(x[images, :, rows and their halo], w[channels])
        Where the view keeps the order of dimensions; channels in one group. What is padded inside comes from the image.
        Others may look at other parts: the search decides.
        """,
        source=HALO,
        example=_conv_example,
        domain="real",
        duplicates=True,
    ),
    Rule(
        name="cut_pool",
        left=any_view(op("pool", X, **POOL).named("y")),
        right=computed(_smaller_pool),
        where=_pool,
        doc="""
        Of a pooling only what is looked at is computed.

        pool(x)[images, channels, rows]  ->  pool(x[images, channels, rows and their halo])
        Where the view keeps the order of dimensions; averages, which count at borders, whole images only. Others may
        look at other parts: the search decides.
        """,
        source=HALO,
        example=_pool_example,
        domain="real",
        duplicates=True,
    ),
    Rule(
        name="cut_scan",
        left=any_view(op("scan", X, **SCAN).named("y")),
        right=computed(_shorter_scan),
        where=_scan,
        doc="""
        Of a scan only the rows that are looked at are computed, and these no further than to the end of the view.

        scan(x)[rows, :n]  ->  scan(x[rows, :n])
        Where the view keeps the order of dimensions and begins where the scan does. Others may look at more: the
        search decides.
        """,
        source="definition of a scan",
        example=_scan_example,
        domain="real",
        duplicates=True,
    ),
)
