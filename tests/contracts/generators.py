"""Generators of arbitrary attributes and shapes of each shardable operator, small enough to try every dimension."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from tapestry.teg.graph import TensorType, attributes
from tapestry.teg.operators.operator import OperatorExample
from tapestry.teg.operators.selectors import (
    broadcast,
    permuted,
    reversed_along,
    selected,
    sliced,
    unsqueezed,
    view_attributes,
)
from tapestry.teg.views import identity

Draw = Callable[[st.SearchStrategy[Any]], Any]
Generator = Callable[[Draw], OperatorExample]

SIZES = st.integers(1, 7)
NUMBERS = st.sampled_from(["float64", "float32", "int32"])
FLOATS = st.sampled_from(["float64", "float32"])


def shape_of(draw: Draw, least: int = 1, most: int = 3) -> tuple[int, ...]:
    return tuple(draw(st.lists(SIZES, min_size=least, max_size=most)))


def some(draw: Draw, names: Sequence[Any]) -> tuple[Any, ...]:
    """Draw some of the names, in any order."""
    order = draw(st.permutations(list(names)))
    return tuple(order[: draw(st.integers(0, len(order)))])


def example(kinds: Sequence[TensorType], **attrs: Any) -> OperatorExample:
    return OperatorExample(attributes(**attrs), tuple(kinds))


def axis_of(draw: Draw, shape: Sequence[int]) -> int:
    return int(draw(st.integers(0, len(shape) - 1)))


def view(draw: Draw) -> OperatorExample:
    """Draw up to three views, each of the previous one."""
    shape = root = shape_of(draw)
    fused = identity(root)
    for _ in range(draw(st.integers(1, 3))):
        axis = axis_of(draw, shape) if shape else 0
        starts = [draw(st.integers(0, n - 1)) for n in shape]
        ends = [draw(st.integers(a + 1, n)) for a, n in zip(starts, shape, strict=True)]
        views = [
            permuted(shape, draw(st.permutations(range(len(shape))))),
            unsqueezed(shape, (draw(st.integers(0, len(shape))),)),
            broadcast(shape, (draw(SIZES), *shape)),
            sliced(shape, starts, ends, [draw(st.integers(1, 2)) for _ in shape]),
        ]
        if shape:
            views += [
                reversed_along(shape, (axis,)),
                selected(shape, axis, draw(st.integers(0, shape[axis] - 1))),
            ]
        step = views[draw(st.integers(0, len(views) - 1))]
        fused, shape = fused.then(step), step.shape
        if len(shape) > 3:
            break
    return OperatorExample(view_attributes(fused), (TensorType(root, draw(NUMBERS)),))


def concat(draw: Draw) -> OperatorExample:
    shape, dtype = shape_of(draw), draw(NUMBERS)
    axis = axis_of(draw, shape)
    sizes = draw(st.lists(st.integers(0, 6), min_size=1, max_size=4).filter(any))
    kinds = [TensorType((*shape[:axis], n, *shape[axis + 1 :]), dtype) for n in sizes]
    return example(kinds, axis=axis)


def interleave(draw: Draw) -> OperatorExample:
    kind = TensorType(shape_of(draw), draw(NUMBERS))
    return example([kind] * draw(st.integers(1, 4)), axis=axis_of(draw, kind.shape))


def flat_slice(draw: Draw) -> OperatorExample:
    kind = TensorType(shape_of(draw), draw(NUMBERS))
    start = draw(st.integers(0, math.prod(kind.shape) - 1))
    return example([kind], start=start, end=draw(st.integers(start + 1, math.prod(kind.shape))))


def assemble(draw: Draw) -> OperatorExample:
    """Draw a tensor cut along one dimension; each part comes whole or as rows of its elements, in any order."""
    shape, dtype = shape_of(draw), draw(NUMBERS)
    axis = axis_of(draw, shape)
    cuts = sorted({0, shape[axis], *draw(st.lists(st.integers(0, shape[axis]), max_size=3))})
    pieces = []
    for a, b in pairwise(cuts):
        start, end = [0] * len(shape), list(shape)
        start[axis], end[axis] = a, b
        part = tuple(e - s for s, e in zip(start, end, strict=True))
        box = (tuple(start), tuple(end))
        if draw(st.booleans()):
            pieces.append((TensorType(part, dtype), box, 0))
            continue
        ends = sorted({0, math.prod(part), draw(st.integers(0, math.prod(part)))})
        pieces += [(TensorType((n - m,), dtype), box, m) for m, n in pairwise(ends)]
    kinds, boxes, firsts = zip(*draw(st.permutations(pieces)), strict=True)
    return example(kinds, shape=shape, boxes=boxes, firsts=firsts)


def accumulate(draw: Draw) -> OperatorExample:
    monoid = draw(st.sampled_from(["sum", "max", "min", "prod", "logsumexp"]))
    dtype = draw(FLOATS if monoid == "logsumexp" else NUMBERS)
    return example([TensorType(shape_of(draw), dtype)] * draw(st.integers(1, 4)), monoid=monoid)


def waypoint(draw: Draw) -> OperatorExample:
    return example([TensorType(shape_of(draw), draw(NUMBERS))])


def pad(draw: Draw) -> OperatorExample:
    shape = shape_of(draw)
    low, high = (tuple(draw(st.integers(0, 9)) for _ in shape) for _ in range(2))
    return example([TensorType(shape, draw(NUMBERS))], low=low, high=high, value=draw(st.integers(-2, 2)))


def dilate(draw: Draw) -> OperatorExample:
    kind = TensorType(shape_of(draw), draw(NUMBERS))
    return example([kind], axis=axis_of(draw, kind.shape), factor=draw(st.integers(1, 4)))


def reshape(draw: Draw) -> OperatorExample:
    """Draw a reshape between two groupings of the same factors."""
    factors = draw(st.lists(st.sampled_from([1, 2, 3, 5]), min_size=1, max_size=4))

    def grouped() -> tuple[int, ...]:
        cuts = sorted(draw(st.sets(st.integers(1, len(factors) - 1)))) if len(factors) > 1 else []
        spans = zip([0, *cuts], [*cuts, len(factors)], strict=True)
        return tuple(math.prod(factors[a:b]) for a, b in spans)

    return example([TensorType(grouped(), draw(NUMBERS))], shape=grouped())


def cell(draw: Draw) -> OperatorExample:
    sizes = shape_of(draw)
    names = tuple(f"c{k}" for k in range(len(sizes)))
    dims = tuple(zip(names, sizes, strict=True))
    labels = tuple(n if draw(st.booleans()) else "" for n in names)
    thin = TensorType(tuple(s if n else 1 for n, s in zip(labels, sizes, strict=True)), "float64")
    place = ("index", draw(st.sampled_from(names)))
    expr = (
        "where",
        ("ge", place, ("const", 2)),
        ("mul", ("input", 0), ("input", 1)),
        ("sub", ("input", 0), place),
    )
    kinds = [TensorType(sizes, "float64"), thin]
    return example(kinds, expr=expr, labels=(names, labels), dims=dims, dtype="float64")


def reduce(draw: Draw) -> OperatorExample:
    shape = shape_of(draw)
    names = tuple(f"r{k}" for k in range(len(shape)))
    monoid = draw(st.sampled_from(["sum", "max", "min", "prod", "logsumexp", "any", "all"]))
    dtype = "bool" if monoid in ("any", "all") else draw(FLOATS)
    return example([TensorType(shape, dtype)], monoid=monoid, labels=names, output=some(draw, names))


def softmax(draw: Draw) -> OperatorExample:
    shape = shape_of(draw)
    return example([TensorType(shape, draw(FLOATS))], axes=(axis_of(draw, shape),))


def layer_norm(draw: Draw) -> OperatorExample:
    shape = shape_of(draw)
    first = axis_of(draw, shape)
    axes = tuple(range(first, len(shape)))
    scales = [TensorType(shape[first:], "float64")] * draw(st.integers(0, 2))
    return example([TensorType(shape, "float64"), *scales], axes=axes, eps=0.1)


def contract(draw: Draw) -> OperatorExample:
    sizes = {name: draw(SIZES) for name in "abcd"}
    labels = [some(draw, "abcd")[:3] or ("a",) for _ in range(draw(st.integers(1, 3)))]
    known = sorted({n for own in labels for n in own})
    kinds = [TensorType(tuple(sizes[n] for n in own), "float64") for own in labels]
    return example(kinds, labels=tuple(labels), output=some(draw, known))


def windows(draw: Draw) -> tuple[list[int], dict[str, tuple[int, ...]], tuple[int, ...]]:
    """Draw spatial sizes, strides and so on, and a kernel; windows overlap or touch and read everything."""
    rank = draw(st.integers(1, 2))
    kernel = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    strides = tuple(draw(st.integers(1, k)) for k in kernel)
    counts = [draw(st.integers(1, 5)) for _ in kernel]
    low, high = [], []
    sizes = []
    for k, s, n in zip(kernel, strides, counts, strict=True):
        reach = s * (n - 1) + k
        low.append(draw(st.integers(0, min(k - 1, reach - 1))))
        high.append(draw(st.integers(0, min(k - 1, reach - 1 - low[-1]))))
        sizes.append(reach - low[-1] - high[-1])
    return sizes, {"strides": strides, "pads": (*low, *high), "dilations": (1,) * rank}, kernel


def conv(draw: Draw) -> OperatorExample:
    sizes, geometry, kernel = windows(draw)
    groups, channels = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    x = TensorType((draw(SIZES), groups * channels, *sizes), "float64")
    w = TensorType((groups * draw(st.integers(1, 3)), channels, *kernel), "float64")
    return example([x, w], groups=groups, **geometry)


def pool(draw: Draw) -> OperatorExample:
    sizes, geometry, kernel = windows(draw)
    kind, inside = draw(st.sampled_from(["max", "average"])), draw(st.booleans())
    x = TensorType((draw(SIZES), draw(SIZES), *sizes), "float64")
    attrs: dict[str, Any] = {"count_include_pad": inside, "size": tuple(sizes)} if kind == "average" else {}
    return example([x], kind=kind, kernel=kernel, **geometry, **attrs)


def gather(draw: Draw) -> OperatorExample:
    table = shape_of(draw)
    axis = axis_of(draw, table)
    together = [k for k in range(len(table)) if k != axis and draw(st.booleans())]
    free = [draw(SIZES) for _ in range(draw(st.integers(0, 2)))]
    indices = TensorType((*(table[k] for k in together), *free), "int64")
    pairs = tuple((k, n) for n, k in enumerate(together))
    mode = draw(st.sampled_from([{}, {"mode": "clip"}, {"mode": "fill"}]))
    return example([TensorType(table, draw(NUMBERS)), indices], axis=axis, aligned=pairs, **mode)


def scatter(draw: Draw) -> OperatorExample:
    target, monoid = shape_of(draw), draw(st.sampled_from(["sum", "max", "min", "prod", "last"]))
    axis = axis_of(draw, target)
    free = [draw(SIZES) for _ in range(draw(st.integers(0, 2)))]
    kinds = [
        TensorType(tuple(free), "int64"),
        TensorType((*target[:axis], *free, *target[axis + 1 :]), "float64"),
    ]
    mode = draw(st.sampled_from([{}, {"mode": "drop"}]))
    if monoid == "last":
        return example([TensorType(target, "float64"), *kinds], axis=axis, monoid=monoid, **mode)
    return example(kinds, axis=axis, monoid=monoid, size=target[axis], **mode)


def scan(draw: Draw) -> OperatorExample:
    shape, monoid = shape_of(draw), draw(st.sampled_from(["sum", "max", "min", "prod", "logsumexp"]))
    ways = {"exclusive": draw(st.booleans()), "reverse": draw(st.booleans())}
    return example([TensorType(shape, draw(FLOATS))], axis=axis_of(draw, shape), monoid=monoid, **ways)


def arg_reduce(draw: Draw) -> OperatorExample:
    shape, kind = shape_of(draw), draw(st.sampled_from(["max", "min"]))
    return example(
        [TensorType(shape, draw(NUMBERS))], axis=axis_of(draw, shape), kind=kind, last=draw(st.booleans())
    )


def arg_sort(draw: Draw) -> OperatorExample:
    shape = shape_of(draw)
    axis = axis_of(draw, shape)
    count = draw(st.integers(1, shape[axis]))
    return example([TensorType(shape, draw(NUMBERS))], axis=axis, count=count, largest=draw(st.booleans()))


def fft(draw: Draw) -> OperatorExample:
    shape = shape_of(draw)
    return example([TensorType(shape, "complex128")], axis=axis_of(draw, shape), inverse=draw(st.booleans()))


def linalg(draw: Draw) -> OperatorExample:
    stack, n = shape_of(draw, 0, 2), draw(st.integers(1, 3))
    matrix, right = TensorType((*stack, n, n), "float64"), TensorType((*stack, n, draw(SIZES)), "float64")
    function = draw(st.sampled_from(["det", "inverse", "solve"]))
    return example([matrix, right] if function == "solve" else [matrix], function=function)


def factorise(draw: Draw) -> OperatorExample:
    stack, m, n = shape_of(draw, 0, 2), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    function = draw(st.sampled_from(["lu", "qr", "reflect", "eigh", "svd"]))
    rows, columns = {"eigh": (n, n), "reflect": (m + n, n)}.get(function, (m, n))
    inputs = [TensorType((*stack, rows, columns), "float64")]
    if function == "reflect":
        inputs.append(TensorType((*stack, n), "float64"))
    return example(inputs, function=function)


def reported(kind: TensorType) -> tuple[Any, ...]:
    return (kind.shape, kind.dtype)


def fused(draw: Draw) -> OperatorExample:
    """Draw a product with cells before and behind it, then perhaps a softmax, a second product or a reduction.

    The second operand of the first product may be transposed by a view, and what it makes observed too.
    """
    m, k, n = (draw(SIZES) for _ in range(3))
    x, w = TensorType((m, k), "float64"), TensorType((n, k), "float64")
    half = ("mul", ("input", 0), ("const", 0.5))
    wave = ("add", ("tanh", ("input", 0)), ("mul", ("index", "n"), ("const", 0.25)))
    view_of = view_attributes(permuted((n, k), (1, 0)))

    def cells(expr: Any, dims: str, value: int) -> tuple[Any, ...]:
        sizes = {"m": m, "k": k, "n": n}
        shape = tuple((d, sizes[d]) for d in dims)
        return ("cell", attributes(expr=expr, labels=(tuple(dims),), dims=shape, dtype="float64"), (value,))

    def product(labels: str, reads: tuple[int, int]) -> tuple[Any, ...]:
        left, right, output = (tuple(part) for part in labels.split(","))
        return ("contract", attributes(labels=(left, right), output=output), reads)

    body = [cells(half, "mk", 0), ("view", view_of, (1,)), product("mk,kn,mn", (2, 3)), cells(wave, "mn", 4)]
    outputs = [5]
    last = draw(st.sampled_from(["nothing", "softmax", "product", "sum", "max", "both"]))
    if last in ("softmax", "product"):
        body.append(("softmax", attributes(axes=(1,)), (5,)))
        outputs = [6]
    if last == "product":
        body.append(product("mn,nk,mk", (6, 1)))
        outputs = [7]
    if last in ("sum", "max"):
        attrs = attributes(monoid=last, labels=("m", "n"), output=some(draw, "mn"))
        body.append(("reduce", attrs, (5,)))
        outputs = [6]
    if last == "both":
        outputs = [5, 4]
    return example([x, w], body=tuple(body), types=(reported(x), reported(w)), results=tuple(outputs))


GENERATORS: Mapping[str, Generator] = {
    "view": view,
    "concat": concat,
    "interleave": interleave,
    "flat_slice": flat_slice,
    "assemble": assemble,
    "accumulate": accumulate,
    "waypoint": waypoint,
    "pad": pad,
    "dilate": dilate,
    "reshape": reshape,
    "cell": cell,
    "reduce": reduce,
    "softmax": softmax,
    "log_softmax": softmax,
    "layer_norm": layer_norm,
    "contract": contract,
    "conv": conv,
    "pool": pool,
    "gather": gather,
    "scatter": scatter,
    "scan": scan,
    "arg_reduce": arg_reduce,
    "arg_sort": arg_sort,
    "fft": fft,
    "linalg": linalg,
    "factorise": factorise,
    "fused": fused,
}
