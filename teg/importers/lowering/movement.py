"""Lowering of steps that move elements: views where the factors allow it, blocks where they do not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from tapestry.teg.importers.lowering.storage import LoweredStorage, Rep, flat, names_of, strides_of
from tapestry.teg.importers.program import Concat, Relabel, Slice
from tapestry.teg.views import ViewDim, ViewMap, permutation

Factors = tuple[tuple[int, ...], ...]


class Span(NamedTuple):
    """The coordinates `start + stride * i` of one factor, `size` of them."""

    start: int
    stride: int
    size: int


def relabel(rep: Rep, step: Relabel, source: Factors, target: Factors) -> Rep:
    """Lower a permutation that may drop dimensions of size 1 and add broadcast dimensions."""
    names, wanted = names_of(step.input_labels, source), names_of(step.output_labels, target)
    dims = tuple(ViewDim(wanted.index(n), 1, 0) if n and n in wanted else ViewDim(-1, 0, 0) for n in names)
    return rep.through(ViewMap(dims, flat(target)), step.site)


def slice_(
    storage: LoweredStorage, rep: Rep, step: Slice, source: Factors, sizes: Sequence[int], target: Factors
) -> Rep:
    """Lower a slice as parts of factors; where the borders cut through factors, the dimension is merged first."""
    found = [
        box(own, start, stride, size)
        for own, (start, stride), size in zip(source, step.spans, sizes, strict=True)
    ]
    if any(b is None for b in found):
        merged = tuple((math.prod(own),) if b is None else own for own, b in zip(source, found, strict=True))
        rep = storage.refactored(rep, flat(merged), f"{step.site}.merge")
        found = [
            [Span(start, stride, size)] if b is None else b
            for b, (start, stride), size in zip(found, step.spans, sizes, strict=True)
        ]
    spans = [span for b in found if b is not None for span in b]
    kept = [k for k, s in enumerate(spans) if s.size != 1]
    dims = tuple(
        ViewDim(kept.index(k), s.stride, s.start) if k in kept else ViewDim(-1, 0, s.start)
        for k, s in enumerate(spans)
    )
    part = rep.through(ViewMap(dims, tuple(spans[k].size for k in kept)), step.site, part=True)
    return storage.refactored(part, flat(target), f"{step.site}.split")


def box(factors: Sequence[int], start: int, stride: int, size: int) -> list[Span] | None:
    """Express the coordinates `start + stride * i` of a dimension as a box over its factors; None if impossible."""
    if size == math.prod(factors) and stride == 1:
        return [Span(0, 1, f) for f in factors]
    if size == math.prod(factors) and stride == -1:  # reversed: every factor is
        return [Span(f - 1, -1, f) for f in factors]
    if len(factors) == 1:
        return [Span(start, stride, size)]
    inner, rest = math.prod(factors[1:]), factors[1:]
    row, within = divmod(start, inner)
    if row == (start + stride * (size - 1)) // inner:
        tail = box(rest, within, stride, size)
        return None if tail is None else [Span(row, 1, 1), *tail]
    if stride == 1:
        whole_rows = within == 0 and size % inner == 0
        return [Span(row, 1, size // inner), *(Span(0, 1, f) for f in rest)] if whole_rows else None
    if stride % inner == 0:
        digits = box(rest, within, 1, 1)
        return None if digits is None else [Span(row, stride // inner, size), *digits]
    if stride > 0 and inner % stride == 0 and start < stride and size * stride == inner * factors[0]:
        tail = box(rest, start, stride, inner // stride)
        return None if tail is None else [Span(0, 1, factors[0]), *tail]
    return None


def concat(
    storage: LoweredStorage, reps: Sequence[Rep], step: Concat, sizes: Sequence[int], target: Factors
) -> Rep:
    """Concatenate parts along the outermost factor whose stride divides the sizes of all parts.

    Equal parts that are one and the same tensor are a broadcast of that factor.
    """
    axis = target[step.axis]
    depth = next(k for k, stride in enumerate(strides_of(axis)) if all(n % stride == 0 for n in sizes))
    rest = axis[depth + 1 :]
    inner = math.prod(rest)
    before, after = flat(target[: step.axis]), flat(target[step.axis + 1 :])
    parts = [
        storage.refactored(rep, (*before, n // inner, *rest, *after), f"{step.site}.part")
        for rep, n in zip(reps, sizes, strict=True)
    ]
    joined = (*before, sum(sizes) // inner, *rest, *after)
    if all((p.root, p.view) == (parts[0].root, parts[0].view) for p in parts) and set(sizes) == {inner}:
        dims = tuple(ViewDim(-1, 0, 0) if k == len(before) else ViewDim(k, 1, 0) for k in range(len(joined)))
        return parts[0].through(ViewMap(dims, joined), step.site)
    order = _stored_order(parts[0])
    shape = tuple(joined[k] for k in order)
    turned = [p.through(permutation(p.view.shape, order), step.site) for p in parts]
    key = storage.emit("concat", [storage.whole(p) for p in turned], step.site, axis=order.index(len(before)))
    back = ViewMap(tuple(ViewDim(k, 1, 0) for k in order), joined)
    assert storage.roots[key].shape == shape
    return storage.refactored(Rep(key, back), flat(target), f"{step.site}.split")


def _stored_order(rep: Rep) -> list[int]:
    """Return the view's dimensions in the order in which its root stores them; broadcast ones keep their places."""
    stored = [d.dim for d in rep.view.dims if d.dim >= 0]
    order = iter(stored)
    return [next(order) if k in stored else k for k in range(len(rep.view.shape))]
