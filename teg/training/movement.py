"""Rules of differentiation for blocks that move elements: their transposes move them back, and add up what meets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from tapestry.teg.operators.expressions import Expression
from tapestry.teg.training.rule import BlockGradients, NotDifferentiable
from tapestry.teg.training.writing import FIRST, SECOND, THIRD, GradientWriter
from tapestry.teg.views import ViewMap, parse


def view(b: BlockGradients) -> Sequence[str | None]:
    """Put elements back where the view reads them; what it broadcasts is summed, what it leaves out is zero."""
    shape = b.writer.shape(b.inputs[0])
    return (unview(b.writer, b.gradient, parse(b.attribute("map"), b.attribute("shape")), shape),)


def unview(w: GradientWriter, gradient: str, seen: ViewMap, shape: Sequence[int]) -> str:
    """Return the gradient of the tensor of `shape` that is viewed."""
    if not math.prod(seen.shape):
        return w.filled(0.0, shape, w.dtype(gradient))
    labels = [f"d{k}" for k in range(len(seen.shape))]
    made = w.reduce(gradient, labels, [labels[d.dim] if d.dim >= 0 else "" for d in seen.dims])
    low, high = [], []
    for axis, (d, size) in enumerate(zip(seen.dims, shape, strict=True)):
        count = w.shape(made)[axis]
        if d.dim >= 0 and d.stride < 0:
            made = w.slice(made, axis, count - 1, -1, -1)
        first = d.offset + min(0, d.stride * (count - 1)) if d.dim >= 0 else d.offset
        step = abs(d.stride) if d.dim >= 0 and count > 1 else 1
        made = w.dilated(made, axis, step)
        low.append(first)
        high.append(size - first - count * step)
    return w.pad(made, low, high)


def flat_slice(b: BlockGradients) -> Sequence[str | None]:
    """Put a run of elements back into its place."""
    shape = b.writer.shape(b.inputs[0])
    size = math.prod(shape)
    row = b.writer.pad(b.gradient, (b.attribute("start"),), (size - b.attribute("end"),))
    return (b.writer.reshape(row, shape),)


def concat(b: BlockGradients) -> Sequence[str | None]:
    """Cut the gradient into those of the inputs."""
    axis = b.attribute("axis")
    ends = list(accumulate(b.writer.shape(t)[axis] for t in b.inputs))
    starts = [0, *ends]
    return [
        b.writer.slice(b.gradient, axis, start, end) if wanted else None
        for start, end, wanted in zip(starts, ends, b.wanted, strict=False)
    ]


def interleave(b: BlockGradients) -> Sequence[str | None]:
    """Take every n-th element for each of n inputs."""
    axis, count = b.attribute("axis"), len(b.inputs)
    size = b.writer.shape(b.gradient)[axis]
    return [
        b.writer.slice(b.gradient, axis, k, size, count) if wanted else None
        for k, wanted in enumerate(b.wanted)
    ]


def pad(b: BlockGradients) -> Sequence[str | None]:
    """Cut off what was padded."""
    return (b.writer.pad(b.gradient, [-n for n in b.attribute("low")], [-n for n in b.attribute("high")]),)


def dilate(b: BlockGradients) -> Sequence[str | None]:
    """Take the elements between the zeros."""
    axis, size = b.attribute("axis"), b.writer.shape(b.gradient)[b.attribute("axis")]
    return (b.writer.slice(b.gradient, axis, 0, size, b.attribute("factor")),)


def reshape(b: BlockGradients) -> Sequence[str | None]:
    """Reshape back."""
    return (b.writer.reshape(b.gradient, b.writer.shape(b.inputs[0])),)


def assemble(b: BlockGradients) -> Sequence[str | None]:
    """Cut the gradient into those of the pieces."""
    if b.attribute("onto"):
        raise NotDifferentiable("it goes on with an assembly that others read before")
    found: list[str | None] = []
    placed = zip(b.inputs, b.attribute("boxes"), b.attribute("firsts"), b.wanted, strict=True)
    for piece, (start, end), first, wanted in placed:
        if not wanted:
            found.append(None)
            continue
        part = b.gradient
        for axis, (a, e) in enumerate(zip(start, end, strict=True)):
            part = b.writer.slice(part, axis, a, e)
        shape = b.writer.shape(piece)
        if shape != b.writer.shape(part):
            row = b.writer.reshape(part, (math.prod(b.writer.shape(part)),))
            part = b.writer.slice(row, 0, first, first + math.prod(shape))
        found.append(part)
    return found


def gather(b: BlockGradients) -> Sequence[str | None]:
    """Add up, for each entry of the table, what was gathered from it."""
    w, (table, indices), mode = b.writer, b.inputs, b.attribute("mode", "strict")
    axis = b.attribute("axis")
    size = w.shape(table)[axis]
    if mode == "clip":
        indices = w.pointwise(_clipped(size), indices)
    made = w.apply(
        "scatter",
        indices,
        b.gradient,
        axis=axis,
        monoid="sum",
        aligned=b.attribute("aligned", ()),
        size=size,
        mode="drop" if mode == "fill" else "strict",
    )
    return made, None


def _clipped(size: int) -> Expression:
    return ("min", ("max", FIRST, ("const", 0)), ("const", size - 1))


def scatter(b: BlockGradients) -> Sequence[str | None]:
    """Gather what the updates became; those that others overwrote get nothing."""
    monoid = b.attribute("monoid")
    if monoid in ("max", "min"):
        return None, _of_the_greatest(b)
    if monoid == "prod":
        raise NotDifferentiable("updates are multiplied")
    if monoid == "sum":
        return None, _gathered(b, b.gradient)
    w, (base, indices, updates) = b.writer, b.inputs
    where = {
        "axis": b.attribute("axis"),
        "aligned": b.attribute("aligned", ()),
        "mode": b.attribute("mode", "strict"),
    }
    found: list[str | None] = [None, None, None]
    if b.wanted[0]:
        zeros = w.filled(0.0, w.shape(updates), w.dtype(updates))
        found[0] = w.apply("scatter", b.gradient, indices, zeros, monoid="last", **where)
    if b.wanted[2]:
        numbers = _numbered(w, w.shape(updates))
        nobody = w.filled(-1, w.shape(base), "int64")
        last = w.apply("scatter", nobody, indices, numbers, monoid="last", **where)
        chosen = ("where", ("eq", SECOND, THIRD), FIRST, ("const", 0.0))
        found[2] = w.pointwise(chosen, _gathered(b, b.gradient), _gathered(b, last), numbers)
    return found


def _numbered(w: GradientWriter, shape: Sequence[int]) -> str:
    """Number the elements of a shape, row-major."""
    expr: Expression = ("const", 0)
    for k, size in enumerate(shape):
        expr = ("add", ("mul", expr, ("const", size)), ("index", f"d{k}"))
    return w.cell(expr, (), (), {f"d{k}": n for k, n in enumerate(shape)}, "int64")


def _gathered(b: BlockGradients, tensor: str) -> str:
    """Gather from a tensor in the shape of the result what is where each update went."""
    return b.writer.apply(
        "gather",
        tensor,
        b.inputs[-2],
        axis=b.attribute("axis"),
        aligned=b.attribute("aligned", ()),
        mode="fill" if b.attribute("mode") == "drop" else "strict",
    )


def _of_the_greatest(b: BlockGradients) -> str:
    """Give each place's gradient to the updates that are its value, in equal parts."""
    w, updates = b.writer, b.inputs[-1]
    hit = ("where", ("eq", FIRST, SECOND), ("const", 1.0), ("const", 0.0))
    hits = w.pointwise(hit, updates, _gathered(b, b.output))
    where = {name: value for name, value in b.block.definition.attributes if name != "monoid"}
    counts = w.apply("scatter", b.inputs[-2], hits, monoid="sum", **where)
    share = ("div", ("mul", FIRST, SECOND), ("max", THIRD, ("const", 1.0)))
    return w.pointwise(share, _gathered(b, b.gradient), hits, _gathered(b, counts))
