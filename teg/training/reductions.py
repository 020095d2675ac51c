"""Rules of differentiation for reductions, scans, normalizations and pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

from tapestry.teg.dtypes import accumulation
from tapestry.teg.operators.expressions import Expression
from tapestry.teg.operators.monoids import identity
from tapestry.teg.operators.selectors import sliced
from tapestry.teg.training.movement import unview
from tapestry.teg.training.rule import BlockGradients, NotDifferentiable
from tapestry.teg.training.writing import FIRST, SECOND, THIRD, GradientWriter

MOST_TAPS = 64  # of a window whose greatest element is looked for: each is compared with all before it


def reduce(b: BlockGradients) -> Sequence[str | None]:
    """Give the gradient to every element, by its part in the result."""
    w, x, monoid = b.writer, b.inputs[0], b.attribute("monoid")
    labels, keep = b.attribute("labels"), b.attribute("keep", ())
    sizes = dict(zip(labels, w.shape(x), strict=True))
    named = iter(b.attribute("output"))
    output = ["" if k in keep else next(named) for k in range(len(w.shape(b.output)))]
    reduced = [name for name in labels if name not in output]
    gradient = w.broadcast(b.gradient, output, sizes)
    if monoid == "sum":
        scale = b.attribute("scale", 1.0)
        return (gradient if scale == 1.0 else w.pointwise(("mul", FIRST, ("const", scale)), gradient),)
    if not reduced:
        return (gradient,)
    value = w.broadcast(b.output, output, sizes)
    if monoid == "logsumexp":
        return (w.pointwise(("mul", FIRST, ("exp", ("sub", SECOND, THIRD))), gradient, x, value),)
    if monoid in ("max", "min"):
        hit = w.pointwise(("where", ("eq", FIRST, SECOND), ("const", 1.0), ("const", 0.0)), x, value)
        count = w.broadcast(w.reduce(hit, labels, output), output, sizes)
        return (w.pointwise(("div", ("mul", FIRST, SECOND), THIRD), gradient, hit, count),)
    assert monoid == "prod"
    return (w.pointwise(("mul", FIRST, SECOND), gradient, _product_of_others(w, x, labels, reduced)),)


def _product_of_others(w: GradientWriter, x: str, labels: Sequence[str], reduced: Sequence[str]) -> str:
    """Multiply, for each element, all the others that are reduced with it; zeros are no exception."""
    sizes = dict(zip(labels, w.shape(x), strict=True))
    order = [*(name for name in labels if name not in reduced), *reduced]
    moved = w.rearranged(x, labels, order)
    kept = tuple(sizes[name] for name in order[: len(order) - len(reduced)])
    row = w.reshape(moved, (*kept, math.prod(sizes[name] for name in reduced)))
    before, after = (
        w.apply("scan", row, axis=len(kept), monoid="prod", exclusive=True, reverse=backward)
        for backward in (False, True)
    )
    made = w.pointwise(("mul", FIRST, SECOND), before, after)
    return w.rearranged(w.reshape(made, tuple(sizes[name] for name in order)), order, labels)


def scan(b: BlockGradients) -> Sequence[str | None]:
    """Add up the gradients of all the results that an element is part of."""
    if b.attribute("monoid") != "sum":
        raise NotDifferentiable(f"it scans by {b.attribute('monoid')!r}")
    made = b.writer.apply(
        "scan",
        b.gradient,
        axis=b.attribute("axis"),
        monoid="sum",
        exclusive=b.attribute("exclusive", False),
        reverse=not b.attribute("reverse", False),
    )
    return (made,)


def softmax(b: BlockGradients) -> Sequence[str | None]:
    """Subtract the mean of the gradient, weighted by the result."""
    w, axes = b.writer, b.attribute("axes")
    weighted = _sum_of_products(w, b.gradient, b.output, axes)
    return (w.pointwise(("mul", SECOND, ("sub", FIRST, THIRD)), b.gradient, b.output, weighted),)


def _sum_of_products(w: GradientWriter, a: str, c: str, axes: Sequence[int]) -> str:
    """Multiply two tensors of one shape, and sum over axes, which become of size 1."""
    labels = [f"d{k}" for k in range(len(w.shape(a)))]
    kept = [label for k, label in enumerate(labels) if k not in axes]
    made = w.contract([a, c], [labels, labels], kept)
    return w.rearranged(made, kept, ["" if k in axes else label for k, label in enumerate(labels)])


def log_softmax(b: BlockGradients) -> Sequence[str | None]:
    """Subtract the sum of the gradient, in proportion to the softmax."""
    w = b.writer
    total = w.sum_over(b.gradient, b.attribute("axes"))
    expr = ("sub", FIRST, ("mul", ("exp", SECOND), THIRD))
    return (w.pointwise(expr, b.gradient, b.output, total),)


def layer_norm(b: BlockGradients) -> Sequence[str | None]:
    """Differentiate through mean and variance, which are computed again; sums are in the type of accumulation."""
    w, axes = b.writer, b.attribute("axes")
    x, *affine = b.inputs
    wide = accumulation(w.dtype(x))
    size = math.prod(w.shape(x)[a] for a in axes)
    value, gradient = w.cast(x, wide), w.cast(b.gradient, wide)
    mean = w.sum_over(value, axes, 1 / size)
    centered = w.pointwise(("sub", FIRST, SECOND), value, mean)
    squares = _sum_of_products(w, centered, centered, axes)
    eps = ("add", ("mul", FIRST, ("const", 1 / size)), ("const", b.attribute("eps")))
    inverse = w.pointwise(("rsqrt", eps), squares)
    normal = w.pointwise(("mul", FIRST, SECOND), centered, inverse)
    found: list[str | None] = [None] * len(b.inputs)
    if b.wanted[0]:
        scaled = w.pointwise(("mul", FIRST, SECOND), gradient, affine[0]) if affine else gradient
        scaled = w.cast(scaled, wide)
        level = w.sum_over(scaled, axes, 1 / size)
        slope = _sum_of_products(w, scaled, normal, axes)
        rest = ("sub", ("sub", FIRST, SECOND), ("mul", THIRD, ("mul", ("input", 3), ("const", 1 / size))))
        made = w.pointwise(("mul", rest, ("input", 4)), scaled, level, normal, slope, inverse)
        found[0] = w.cast(made, w.dtype(x))
    rows = [f"d{k}" for k in range(len(w.shape(x)))]
    own = [rows[a] for a in axes]
    if len(affine) > 0 and b.wanted[1]:
        found[1] = w.cast(w.contract([gradient, normal], [rows, rows], own), w.dtype(affine[0]))
    if len(affine) > 1 and b.wanted[2]:
        found[2] = w.cast(w.reduce(gradient, rows, own), w.dtype(affine[1]))
    return found


def pool(b: BlockGradients) -> Sequence[str | None]:
    """Give the gradient of an average to all that it counts, and that of a maximum to the first of the greatest."""
    return (_of_average(b) if b.attribute("kind") == "average" else _of_maximum(b),)


def _of_average(b: BlockGradients) -> str:
    """Sum the windows that an element is in: an average of the gradient with zeros in between, times its taps."""
    w, shape = b.writer, b.writer.shape(b.inputs[0])
    kernel, strides, dilations = (b.attribute(name) for name in ("kernel", "strides", "dilations"))
    rank, pads = len(kernel), b.attribute("pads")
    taps: Expression = ("const", 1.0)
    for k in range(rank):
        taps = ("mul", taps, _counted(b, k))
    names = ("n", "c", *(f"y{k}" for k in range(rank)))
    dims = dict(zip(names, w.shape(b.gradient), strict=True))
    scale = ("mul", ("div", FIRST, taps), ("const", float(math.prod(kernel))))
    spread = w.cell(scale, (b.gradient,), (names,), dims, w.dtype(b.gradient))
    for k, stride in enumerate(strides):
        spread = w.dilated(spread, 2 + k, stride)
    low = [dilations[k] * (kernel[k] - 1) - pads[k] for k in range(rank)]
    high = [shape[2 + k] + pads[k] - w.shape(spread)[2 + k] for k in range(rank)]
    return w.apply(
        "pool",
        w.pad(spread, (0, 0, *low), (0, 0, *high)),
        kind="average",
        kernel=kernel,
        strides=(1,) * rank,
        pads=(0,) * (2 * rank),
        dilations=dilations,
        count_include_pad=True,
    )


def _counted(b: BlockGradients, k: int) -> Expression:
    """Count the taps of a window along one dimension that the average divides by, from its number."""
    kernel, stride, dilation = (b.attribute(name)[k] for name in ("kernel", "strides", "dilations"))
    size, pads = b.attribute("size"), b.attribute("pads")
    if size is None:
        return ("const", float(kernel))
    low, high = pads[k], pads[len(pads) // 2 + k]
    is_counted = b.attribute("count_include_pad", False)
    first, last = (-low, size[k] + high) if is_counted else (0, size[k])
    start = ("sub", ("mul", ("index", f"y{k}"), ("const", stride)), ("const", low))

    def below(bound: int) -> Expression:
        """Count the taps before a position."""
        reach = (
            "floor_div",
            ("add", ("sub", ("const", bound), start), ("const", dilation - 1)),
            ("const", dilation),
        )
        return ("min", ("max", reach, ("const", 0)), ("const", kernel))

    return ("cast", "float32", ("sub", below(last), below(first)))


def _of_maximum(b: BlockGradients) -> str:
    """Give the gradient of each window to its first greatest element: one term per tap, put back into its place."""
    w, x = b.writer, b.inputs[0]
    kernel, strides, dilations = (b.attribute(name) for name in ("kernel", "strides", "dilations"))
    rank, pads, shape = len(kernel), b.attribute("pads"), w.shape(b.inputs[0])
    if math.prod(kernel) > MOST_TAPS:
        raise NotDifferentiable(
            f"its windows have {math.prod(kernel)} elements; at most {MOST_TAPS} are compared"
        )
    windows = w.shape(b.output)[2:]
    # What is beyond the padding that windows read is no part of them.
    high = [
        max((windows[k] - 1) * strides[k] + dilations[k] * (kernel[k] - 1) + 1 - pads[k] - shape[2 + k], 0)
        for k in range(rank)
    ]
    lowest = float(identity("max", w.dtype(x)))
    padded = w.pad(x, (0, 0, *pads[:rank]), (0, 0, *high), lowest)
    whole = w.shape(padded)
    terms, places = [], list(product(*map(range, kernel)))
    views = []
    for place in places:
        starts = [t * d for t, d in zip(place, dilations, strict=True)]
        ends = [s + (n - 1) * step + 1 for s, n, step in zip(starts, windows, strides, strict=True)]
        views.append(sliced(whole, (0, 0, *starts), (*shape[:2], *ends), (1, 1, *strides)))
    taps = [w.view(padded, view) for view in views]
    for k, view in enumerate(views):
        hit: Expression = ("eq", ("input", k + 2), SECOND)
        for earlier in range(k):
            hit = ("and", hit, ("ne", ("input", earlier + 2), SECOND))
        chosen = w.pointwise(("where", hit, FIRST, ("const", 0.0)), b.gradient, b.output, *taps[: k + 1])
        terms.append(unview(w, chosen, view, whole))
    total = w.total(terms)
    return w.pad(total, (0, 0, *(-n for n in pads[:rank])), (0, 0, *(-n for n in high)))
