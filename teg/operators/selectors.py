"""Views: selectors that move no data, and the functions that describe which view is meant."""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.graph import Attributes, Definition, TensorType, attributes
from tapestry.teg.operators.operator import Inferred, Operand, Operator, OperatorExample, Work
from tapestry.teg.operators.reading import dim_names, expect_inputs, integers, settings
from tapestry.teg.signature import IndexDim, Row, Signature, projection
from tapestry.teg.views import ViewDim, ViewMap, apply_view, parse, permutation
from tapestry.teg.zspace import ZRange


def _infer_view(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    given = settings(attrs, ("map", "shape"))
    expect_inputs(inputs, ("root",))
    root, dtype = inputs[0]
    shape = integers(given["shape"], "shape", least=0)
    if not isinstance(given["map"], tuple) or len(given["map"]) != len(root):
        raise ValueError(
            f"attribute 'map' needs a (dim, stride, offset) per dimension of {root}, not {given['map']!r}"
        )
    view = parse([integers(d, "map", 3) for d in given["map"]], shape)
    _check_bounds(view, root)
    dims = tuple(IndexDim(name, size) for name, size in zip(dim_names(len(shape)), shape, strict=True))
    read = [Row(d.dim, d.stride, d.offset, 1) if d.dim >= 0 else Row(-1, 0, d.offset, 1) for d in view.dims]
    written = [Row(k, 1, 0, 1) for k in range(len(shape))]
    signature = Signature(dims, (projection(read, len(dims)),), (projection(written, len(dims)),))
    return Inferred(signature, (TensorType(shape, dtype),))


def _check_bounds(view: ViewMap, root: Sequence[int]) -> None:
    used = [d.dim for d in view.dims if d.dim >= 0]
    if len(set(used)) != len(used):
        raise ValueError(f"a view dimension may run along one root dimension only, not {used}")
    for k, (d, size) in enumerate(zip(view.dims, root, strict=True)):
        if not -1 <= d.dim < len(view.shape):
            raise ValueError(f"root dimension {k} names view dimension {d.dim} of {len(view.shape)}")
        if d.dim >= 0 and d.stride == 0:
            raise ValueError(
                f"root dimension {k} has stride 0; what broadcasts is a view dimension no root dimension names"
            )
        count = view.shape[d.dim] if d.dim >= 0 else 1
        last = d.offset + d.stride * (count - 1) if d.dim >= 0 else d.offset
        if count and not (0 <= d.offset < size and 0 <= last < size):
            raise ValueError(
                f"root dimension {k} of size {size} is read from {d.offset} to {last}, which is outside"
            )


def _evaluate_view(
    xp: ArrayNamespace, definition: Definition, index: ZRange, operands: Sequence[Operand]
) -> tuple[Array, ...]:
    view = parse(definition["map"], definition["shape"])
    wanted = list(zip(index.start, index.end, strict=True))
    return (apply_view(xp, view, operands[0].array, operands[0].start, wanted),)


def normal_axis(axis: int, rank: int) -> int:
    """Return `axis` counted from the front, as numpy does.

    Raises:
        ValueError: it lies outside a tensor of this rank.
    """
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} lies outside a tensor of rank {rank}")
    return axis % rank


def permuted(shape: Sequence[int], order: Sequence[int]) -> ViewMap:
    """Return the view `numpy.transpose(x, order)`."""
    return permutation(shape, order)


def sliced(
    shape: Sequence[int], starts: Sequence[int], ends: Sequence[int], steps: Sequence[int] | None = None
) -> ViewMap:
    """Return the view of `range(start, end, step)` of each dimension; a step may be negative (then `end` may be -1)."""
    ranges = [range(*bounds) for bounds in zip(starts, ends, steps or [1] * len(shape), strict=True)]
    return ViewMap(
        tuple(ViewDim(k, r.step, r.start) for k, r in enumerate(ranges)), tuple(len(r) for r in ranges)
    )


def selected(shape: Sequence[int], axis: int, position: int) -> ViewMap:
    """Return the view `x[..., position, ...]` along `axis`, which disappears."""
    axis, position = normal_axis(axis, len(shape)), position % shape[axis]
    kept = [k for k in range(len(shape)) if k != axis]
    dims = tuple(
        ViewDim(-1, 0, position) if k == axis else ViewDim(kept.index(k), 1, 0) for k in range(len(shape))
    )
    return ViewMap(dims, tuple(shape[k] for k in kept))


def squeezed(shape: Sequence[int], axes: Sequence[int]) -> ViewMap:
    """Return the view `numpy.squeeze(x, axes)`.

    Raises:
        ValueError: one of the axes is not of size 1.
    """
    gone = {normal_axis(a, len(shape)) for a in axes}
    if any(shape[a] != 1 for a in gone):
        raise ValueError(f"only dimensions of size 1 can be squeezed, not {sorted(gone)} of {tuple(shape)}")
    kept = [k for k in range(len(shape)) if k not in gone]
    dims = tuple(ViewDim(-1, 0, 0) if k in gone else ViewDim(kept.index(k), 1, 0) for k in range(len(shape)))
    return ViewMap(dims, tuple(shape[k] for k in kept))


def unsqueezed(shape: Sequence[int], axes: Sequence[int]) -> ViewMap:
    """Return the view `numpy.expand_dims(x, axes)`; axes count in the result."""
    rank = len(shape) + len(axes)
    new = {normal_axis(a, rank) for a in axes}
    old = [k for k in range(rank) if k not in new]
    sizes = dict(zip(old, shape, strict=True))
    return ViewMap(tuple(ViewDim(k, 1, 0) for k in old), tuple(sizes.get(k, 1) for k in range(rank)))


def broadcast(shape: Sequence[int], wanted: Sequence[int]) -> ViewMap:
    """Return the view `numpy.broadcast_to(x, wanted)`.

    Raises:
        ValueError: the shapes do not fit by numpy's rule.
    """
    lead = len(wanted) - len(shape)
    if lead < 0 or any(s not in (1, w) for s, w in zip(shape, wanted[max(lead, 0) :], strict=True)):
        raise ValueError(f"shape {tuple(shape)} cannot be broadcast to {tuple(wanted)}")
    dims = (
        ViewDim(lead + k, 1, 0) if size == wanted[lead + k] else ViewDim(-1, 0, 0)
        for k, size in enumerate(shape)
    )
    return ViewMap(tuple(dims), tuple(wanted))


def reversed_along(shape: Sequence[int], axes: Sequence[int]) -> ViewMap:
    """Return the view `numpy.flip(x, axes)`."""
    flipped = {normal_axis(a, len(shape)) for a in axes}
    dims = (ViewDim(k, -1, size - 1) if k in flipped else ViewDim(k, 1, 0) for k, size in enumerate(shape))
    return ViewMap(tuple(dims), tuple(shape))


def view_attributes(view: ViewMap) -> Attributes:
    """Return the attributes of the view block of `view`."""
    return attributes(map=tuple(tuple(d) for d in view.dims), shape=view.shape)


_MATRIX = TensorType((4, 6), "float32")

VIEW = Operator(
    name="view",
    infer=_infer_view,
    evaluate=_evaluate_view,
    work=lambda *_: Work("none"),
    view=True,
    examples=(
        OperatorExample(view_attributes(permuted((4, 6), (1, 0))), (_MATRIX,)),
        OperatorExample(view_attributes(sliced((4, 6), (0, 5), (4, -1), (1, -2))), (_MATRIX,)),
        OperatorExample(view_attributes(selected((4, 6), 1, 2)), (_MATRIX,)),
        OperatorExample(view_attributes(selected((4,), 0, -1)), (TensorType((4,), "int8"),)),
        OperatorExample(view_attributes(broadcast((4, 1), (3, 4, 5))), (TensorType((4, 1), "int32"),)),
        OperatorExample(view_attributes(reversed_along((4, 6), (0,))), (_MATRIX,)),
    ),
)

VIEWS: tuple[Operator, ...] = (VIEW,)
