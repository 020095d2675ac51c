"""Helpers shared by the rules about selectors: views as values, on both sides of a rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tapestry.rewrites.cell_form import Labels
from tapestry.rewrites.rule import Match, Op, Pick, Term, attr, op, pick, tensor
from tapestry.teg.operators.selectors import view_attributes
from tapestry.teg.views import ViewDim, ViewMap, identity, parse

X = tensor("x")


def view_of(m: Match, prefix: str = "") -> ViewMap:
    """Return the view that `any_view` bound."""
    return parse(m[prefix + "map"], m[prefix + "shape"])


def given(view: ViewMap) -> Mapping[str, Any]:
    """Return the attributes of a view's block."""
    return dict(view_attributes(view))


def any_view(of: Term = X, prefix: str = "") -> Op:
    """Build the left-side pattern of a view, its attributes bound to `prefix` + map, shape."""
    return op("view", of, map=attr(prefix + "map"), shape=attr(prefix + "shape"))


def at(*sites: str) -> Pick:
    """Build a right-side term, for use among `parts`: operands that exist."""
    return pick(lambda _: sites)


def seen(of: Term, view: ViewMap, shape: Sequence[int]) -> Term:
    """Build a right-side term of this shape through a view; the term itself if that shows all of it in order."""
    return of if view == identity(shape) else op("view", of, given=lambda _: given(view))


def is_whole(view: ViewMap, root: Sequence[int], dim: int) -> bool:
    """Return whether a view runs along all of a root dimension, from its start."""
    d = view.dims[dim]
    return d.dim >= 0 and (d.stride, d.offset) == (1, 0) and view.shape[d.dim] == root[dim]


def origins(view: ViewMap) -> tuple[int, ...]:
    """Return, per dimension of a view, the root dimension that it runs along; -1 where it is broadcast."""
    by_dim = {d.dim: k for k, d in enumerate(view.dims) if d.dim >= 0}
    return tuple(by_dim.get(j, -1) for j in range(len(view.shape)))


def keeps_order(view: ViewMap) -> bool:
    """Return whether a view only slices: no dimension is moved or broadcast, though some may be dropped."""
    kept = origins(view)
    return -1 not in kept and list(kept) == sorted(kept)


def cut(
    shape: Sequence[int], picked: Sequence[ViewDim | None], sizes: Mapping[int, int] | None = None
) -> ViewMap:
    """Build the view that takes of each dimension a `ViewDim` (None: all), in order; `sizes` of those cut."""
    dims: list[ViewDim] = []
    result: list[int] = []
    for k, (size, d) in enumerate(zip(shape, picked, strict=True)):
        if d is not None and d.dim < 0:
            dims.append(d)
            continue
        stride, offset = (1, 0) if d is None else (d.stride, d.offset)
        dims.append(ViewDim(len(result), stride, offset))
        result.append(size if d is None or sizes is None else sizes[k])
    return ViewMap(tuple(dims), tuple(result))


def cut_like(view: ViewMap, shape: Sequence[int], followed: Sequence[int | None]) -> ViewMap:
    """Slice a tensor like a view of a root; dimension `k` runs along the root's `followed[k]` (None: none)."""
    picked = [None if f is None else view.dims[f] for f in followed]
    sizes = {k: view.shape[d.dim] for k, d in enumerate(picked) if d is not None and d.dim >= 0}
    return cut(shape, picked, sizes)


def relabeled(view: ViewMap, root: Sequence[int], labels: Labels) -> Labels | None:
    """Return the labels by which a reader of a view reads its root; None if the view selects or steps."""
    result = []
    for k, (size, d) in enumerate(zip(root, view.dims, strict=True)):
        if d.dim < 0 and size == 1:
            result.append("")
        elif is_whole(view, root, k):
            result.append(labels[d.dim])
        else:
            return None
    return tuple(result)
