"""Views of linear storage by offset and strides, as memory holds tensors.

`position = offset + sum of coordinate * stride`. Reversing, reordering, selecting, adding and spreading dimensions
change offset, shape and strides only; dimensions of size 1 and broadcast ones have stride 0.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tapestry.teg.views import ViewMap
from tapestry.teg.zpoint import ZPoint, permuted, resolved_axis

Part = int | slice


@dataclass(frozen=True)
class StridedView:
    """Elements of a linear buffer, seen as a tensor of `shape`."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.shape) != len(self.strides) or any(n < 0 for n in self.shape):
            raise ValueError(
                f"a view needs as many strides as sizes from 0 up, not {self.shape} and {self.strides}"
            )

    @staticmethod
    def contiguous(shape: Sequence[int]) -> StridedView:
        """Build the view of a whole tensor in row-major order (the last dimension is the densest)."""
        strides = [0] * len(shape)
        step = 1
        for k in range(len(shape) - 1, -1, -1):
            strides[k] = step if shape[k] != 1 else 0
            step *= shape[k]
        return StridedView(0, tuple(shape), tuple(strides))

    @property
    def is_broadcast(self) -> bool:
        """True if some elements are seen more than once: they need to be moved once only."""
        return any(n > 1 and s == 0 for n, s in zip(self.shape, self.strides, strict=True))

    def position(self, point: ZPoint) -> int:
        """Return the buffer position of the element at `point`.

        Raises:
            ValueError: another rank, or a point outside.
        """
        if len(point) != len(self.shape) or any(
            not 0 <= p < n for p, n in zip(point, self.shape, strict=True)
        ):
            raise ValueError(f"{tuple(point)} is no point of a view of shape {self.shape}")
        return self.offset + sum(p * s for p, s in zip(point, self.strides, strict=True))

    def read(self, buffer: Sequence[float] | np.ndarray) -> np.ndarray:
        """Read all elements from a one-dimensional buffer."""
        at = np.full(self.shape, self.offset)
        for k, (size, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            at = at + (np.arange(size) * stride).reshape(
                [-1 if j == k else 1 for j in range(len(self.shape))]
            )
        return np.asarray(np.asarray(buffer)[at])

    def permute(self, order: Sequence[int] | None = None) -> StridedView:
        """Return the view with its dimensions in another order; reversed if no order is given."""
        order = range(len(self.shape))[::-1] if order is None else order
        return StridedView(self.offset, permuted(self.shape, order), permuted(self.strides, order))

    def reverse(self, axis: int) -> StridedView:
        """Return the view with one dimension reversed."""
        axis = resolved_axis(axis, len(self.shape))
        stride = self.strides[axis]
        moved = self.offset + max(self.shape[axis] - 1, 0) * stride
        return replace(self, offset=moved, strides=(*self.strides[:axis], -stride, *self.strides[axis + 1 :]))

    def select(self, parts: Sequence[Part]) -> StridedView:
        """Select a part as in `t[0:3, 5, 0::2]`: a number removes its dimension, a slice keeps each n-th position."""
        if len(parts) > len(self.shape):
            raise ValueError(f"{len(parts)} parts of a view of {len(self.shape)} dimensions")
        offset, shape, strides = self.offset, [], []
        rest = (slice(None),) * (len(self.shape) - len(parts))
        for part, size, stride in zip((*parts, *rest), self.shape, self.strides, strict=True):
            if isinstance(part, slice):
                kept = range(*part.indices(size))
                offset += kept.start * stride if kept else 0
                shape.append(len(kept))
                strides.append(kept.step * stride if len(kept) != 1 else 0)
            elif -size <= part < size:
                offset += part % size * stride
            else:
                raise ValueError(f"position {part} lies outside a dimension of size {size}")
        return StridedView(offset, tuple(shape), tuple(strides))

    def unsqueeze(self, axis: int, size: int = 1) -> StridedView:
        """Insert a dimension before `axis` along which all elements repeat: of size 1, or broadcast to `size`."""
        axis = resolved_axis(axis, len(self.shape) + 1)
        shape = (*self.shape[:axis], size, *self.shape[axis:])
        return StridedView(self.offset, shape, (*self.strides[:axis], 0, *self.strides[axis:]))

    def squeeze(self, axis: int) -> StridedView:
        """Remove a dimension of size 1."""
        axis = resolved_axis(axis, len(self.shape))
        if self.shape[axis] != 1:
            raise ValueError(
                f"only a dimension of size 1 can be squeezed, not one of size {self.shape[axis]}"
            )
        return self.select([0 if k == axis else slice(None) for k in range(len(self.shape))])


def strided(view: ViewMap, root_shape: Sequence[int]) -> StridedView:
    """Convert a view block's map to offset and strides into the contiguous storage of its root."""
    root = _steps(root_shape)
    strides = [0] * len(view.shape)
    offset = 0
    for dim, step in zip(view.dims, root, strict=True):
        offset += dim.offset * step
        if dim.dim >= 0 and view.shape[dim.dim] != 1:
            strides[dim.dim] = dim.stride * step
    return StridedView(offset, view.shape, tuple(strides))


def _steps(shape: Sequence[int]) -> list[int]:
    steps = [1] * len(shape)
    for k in range(len(shape) - 2, -1, -1):
        steps[k] = steps[k + 1] * shape[k + 1]
    return steps


def parse_selection(text: str) -> tuple[Part, ...]:
    """Parse the parts of a selection written as in Python, the whitepaper's form of selectors: `t[0:3, 5, 0::2]`.

    Raises:
        ValueError: the text is not a selection.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = None
    if not isinstance(tree, ast.Subscript):
        raise ValueError(f"{text!r} is no selection; write it as t[0:3, 5, 0::2]")
    return tuple(_parts(tree.slice, text))


def _parts(node: ast.expr, text: str) -> Iterator[Part]:
    for part in node.elts if isinstance(node, ast.Tuple) else [node]:
        if isinstance(part, ast.Slice):
            yield slice(
                *(None if n is None else _number(n, text) for n in (part.lower, part.upper, part.step))
            )
        else:
            yield _number(part, text)


def _number(node: ast.expr, text: str) -> int:
    sign = -1 if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else 1
    inner = node.operand if isinstance(node, ast.UnaryOp) and sign < 0 else node
    if isinstance(inner, ast.Constant) and type(inner.value) is int:
        return sign * inner.value
    raise ValueError(f"{text!r} selects by numbers and slices of numbers only")
