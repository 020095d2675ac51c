"""The array operations in numpy: the reference of what operators mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from tapestry.teg.arrays.namespace import Names, Shape
from tapestry.teg.arrays.numpy_contraction import contract
from tapestry.teg.arrays.numpy_functions import apply_function
from tapestry.teg.arrays.numpy_kernels import (
    convolve,
    layer_norm,
    log_softmax,
    logsumexp,
    reduce_windows,
    scan,
    scatter_rows,
    softmax,
)
from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.zspace import ZRange

Arrays = Sequence[np.ndarray]

# Elements computed at a time: the temporaries of a long expression then stay in the processor's cache.
BLOCK_ELEMENTS = 1 << 16


class NumpyArrays:
    """The operations of numpy; see `ArrayNamespace`."""

    name = "numpy"
    chunk_bytes: int | None = 1 << 20

    def computing(self) -> AbstractContextManager[Any]:
        return np.errstate(all="ignore")

    def dtype_of(self, array: np.ndarray) -> str:
        return array.dtype.name

    def cast(self, array: np.ndarray, dtype: str) -> np.ndarray:
        return np.asarray(array).astype(numpy_dtype(dtype), copy=False)

    def bitcast(self, array: np.ndarray, dtype: str) -> np.ndarray:
        return np.asarray(array).view(numpy_dtype(dtype))

    def from_numpy(self, array: np.ndarray) -> np.ndarray:
        return array

    def to_numpy(self, array: np.ndarray) -> np.ndarray:
        return array

    def constant(self, value: Any, dtype: str) -> np.ndarray:
        return np.asarray(value).astype(numpy_dtype(dtype))

    def full(self, shape: Shape, value: Any, dtype: str) -> np.ndarray:
        return np.full(tuple(shape), value, numpy_dtype(dtype))

    def empty(self, shape: Shape, dtype: str) -> np.ndarray:
        return np.empty(tuple(shape), numpy_dtype(dtype))

    def arange(self, start: int, end: int) -> np.ndarray:
        return np.arange(start, end)

    def identity_matrix(self, rows: int, columns: int, dtype: str) -> np.ndarray:
        return np.eye(rows, columns, dtype=numpy_dtype(dtype))

    def reshape(self, array: np.ndarray, shape: Shape) -> np.ndarray:
        return array.reshape(tuple(shape))

    def permute_dims(self, array: np.ndarray, order: Sequence[int]) -> np.ndarray:
        return array.transpose(tuple(order))

    def expand_dims(self, array: np.ndarray, axes: Sequence[int]) -> np.ndarray:
        return np.expand_dims(array, tuple(axes))

    def squeeze(self, array: np.ndarray, axes: Sequence[int]) -> np.ndarray:
        return np.squeeze(array, tuple(axes))

    def broadcast_to(self, array: np.ndarray, shape: Shape) -> np.ndarray:
        return np.broadcast_to(array, tuple(shape))

    def copy(self, array: np.ndarray) -> np.ndarray:
        return np.array(array)

    def flip(self, array: np.ndarray, axis: int) -> np.ndarray:
        return np.flip(array, axis)

    def concat(self, arrays: Arrays, axis: int) -> np.ndarray:
        return np.concatenate(arrays, axis=axis)

    def stack(self, arrays: Arrays, axis: int) -> np.ndarray:
        return np.stack(arrays, axis=axis)

    def pad_to(self, array: np.ndarray, shape: Shape, first: Sequence[int], value: Any) -> np.ndarray:
        if array.shape == tuple(shape) and not any(first):
            return array
        result = np.full(tuple(shape), value, array.dtype)
        if array.size:
            result[tuple(slice(f, f + n) for f, n in zip(first, array.shape, strict=True))] = array
        return result

    def assemble(
        self,
        shape: Shape,
        dtype: str,
        starts: Sequence[Sequence[int]],
        pieces: Arrays,
        onto: np.ndarray | None = None,
    ) -> np.ndarray:
        result = np.zeros(tuple(shape), numpy_dtype(dtype)) if onto is None else onto.copy()
        for start, piece in zip(starts, pieces, strict=True):
            result[tuple(slice(s, s + n) for s, n in zip(start, piece.shape, strict=True))] = piece
        return result

    def elementwise(self, function: str, *arguments: Any) -> Any:
        return apply_function(function, list(arguments))

    def by_blocks(
        self,
        compute: Callable[[ZRange, Arrays], np.ndarray],
        index: ZRange,
        arrays: Arrays,
        dtype: str,
    ) -> np.ndarray:
        if index.size <= 2 * BLOCK_ELEMENTS:
            return compute(index, arrays)
        result = np.empty(index.shape, numpy_dtype(dtype))
        for part in _blocks(index):
            inside = tuple(
                slice(s - o, e - o) for s, e, o in zip(part.start, part.end, index.start, strict=True)
            )
            pieces = [
                a[tuple(s if n > 1 else slice(None) for s, n in zip(inside, a.shape, strict=True))]
                for a in arrays
            ]
            result[inside] = compute(part, pieces)
        return result

    def sum(self, array: np.ndarray, axes: Sequence[int], dtype: str) -> np.ndarray:
        return np.asarray(np.sum(array, axis=tuple(axes), dtype=numpy_dtype(dtype)))

    def prod(self, array: np.ndarray, axes: Sequence[int], dtype: str) -> np.ndarray:
        return np.asarray(np.prod(array, axis=tuple(axes), dtype=numpy_dtype(dtype)))

    def max(self, array: np.ndarray, axes: Sequence[int], initial: Any) -> np.ndarray:
        return np.asarray(np.max(array, axis=tuple(axes), initial=initial))

    def min(self, array: np.ndarray, axes: Sequence[int], initial: Any) -> np.ndarray:
        return np.asarray(np.min(array, axis=tuple(axes), initial=initial))

    def any(self, array: np.ndarray, axes: Sequence[int]) -> np.ndarray:
        return np.asarray(np.any(array, axis=tuple(axes)))

    def all(self, array: np.ndarray, axes: Sequence[int]) -> np.ndarray:
        return np.asarray(np.all(array, axis=tuple(axes)))

    def logsumexp(self, array: np.ndarray, axes: Sequence[int]) -> np.ndarray:
        return logsumexp(array, tuple(axes))

    def argmax(self, array: np.ndarray, axis: int) -> np.ndarray:
        return np.asarray(np.argmax(array, axis=axis), np.int64)

    def argmin(self, array: np.ndarray, axis: int) -> np.ndarray:
        return np.asarray(np.argmin(array, axis=axis), np.int64)

    def argsort(self, array: np.ndarray, axis: int) -> np.ndarray:
        return np.argsort(array, axis=axis, kind="stable").astype(np.int64, copy=False)

    def scan(self, monoid: str, array: np.ndarray, axis: int) -> np.ndarray:
        return scan(monoid, array, axis)

    def checked(self, positions: np.ndarray, low: int, high: int) -> np.ndarray:
        if positions.size and not (low <= positions.min() and positions.max() < high):
            raise ValueError(
                f"indices must lie in [{low}, {high}), not in [{positions.min()}, {positions.max()}]"
            )
        return positions

    def take(self, array: np.ndarray, positions: np.ndarray, axis: int) -> np.ndarray:
        return np.asarray(np.take(array, positions, axis=axis))

    def take_rows(self, tables: np.ndarray, positions: np.ndarray) -> np.ndarray:
        return np.asarray(tables[np.arange(len(tables))[:, None], positions])

    def scatter_rows(
        self, monoid: str, values: np.ndarray, positions: np.ndarray, count: int, identity: Any
    ) -> np.ndarray:
        return scatter_rows(monoid, values, positions, count, identity)

    def replace_rows(self, base: np.ndarray, values: np.ndarray, positions: np.ndarray) -> np.ndarray:
        hit = (positions >= 0) & (positions < len(base))
        result = np.array(base, order="C")
        result[positions[hit]] = values[hit]
        return result

    def contract(self, arrays: Arrays, labels: Sequence[Names], output: Names) -> np.ndarray:
        return contract(arrays, labels, output)

    def softmax(self, array: np.ndarray, axes: Sequence[int]) -> np.ndarray:
        return softmax(array, tuple(axes))

    def log_softmax(self, array: np.ndarray, axes: Sequence[int]) -> np.ndarray:
        return log_softmax(array, tuple(axes))

    def layer_norm(
        self,
        array: np.ndarray,
        rank: int,
        eps: float,
        scale: np.ndarray | None,
        bias: np.ndarray | None,
    ) -> np.ndarray:
        return layer_norm(array, rank, eps, scale, bias)

    def attention(self, *_: Any) -> None:
        return None

    def convolve(
        self,
        x: np.ndarray,
        kernel: np.ndarray,
        strides: Sequence[int],
        dilations: Sequence[int],
        groups: int,
    ) -> np.ndarray:
        return convolve(x, kernel, strides, dilations, groups)

    def reduce_windows(
        self,
        monoid: str,
        x: np.ndarray,
        kernel: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
    ) -> np.ndarray:
        return reduce_windows(monoid, x, kernel, strides, dilations)

    def fft(self, array: np.ndarray, axis: int, inverse: bool) -> np.ndarray:
        return np.asarray((np.fft.ifft if inverse else np.fft.fft)(array, axis=axis))

    def triangle(self, matrices: np.ndarray, lower: bool) -> np.ndarray:
        return np.tril(matrices) if lower else np.triu(matrices)

    def det(self, matrices: np.ndarray) -> np.ndarray:
        return np.asarray(np.linalg.det(matrices))

    def inverse(self, matrices: np.ndarray) -> np.ndarray:
        return np.linalg.inv(matrices)

    def cholesky(self, matrices: np.ndarray, lower: bool) -> np.ndarray:
        return np.linalg.cholesky(matrices, upper=not lower)

    def solve(self, matrices: np.ndarray, right: np.ndarray) -> np.ndarray:
        return np.linalg.solve(matrices, right)


def _blocks(index: ZRange) -> Iterator[ZRange]:
    """Yield parts of at most about `BLOCK_ELEMENTS` points, cut along the leading dimensions."""
    if index.size <= BLOCK_ELEMENTS or index.rank == 0:
        yield index
        return
    axis = next(k for k, n in enumerate(index.shape) if n > 1)
    step = max(1, BLOCK_ELEMENTS * index.shape[axis] // index.size)
    for start in range(index.start[axis], index.end[axis], step):
        end = min(start + step, index.end[axis])
        part = ZRange(
            (*index.start[:axis], start, *index.start[axis + 1 :]),
            (*index.end[:axis], end, *index.end[axis + 1 :]),
        )
        yield from _blocks(part)


NUMPY = NumpyArrays()
