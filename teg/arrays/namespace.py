"""The interface of an array library: the operations in which the meanings of operators are written.

A meaning touches arrays only by functions of the namespace it is given, by `shape` and `ndim`, by basic slices with
positive steps, and by arithmetic and comparisons. It never writes into an array, and it takes no decision in Python
that depends on values. So it means the same in every library, and can be traced: run once by a namespace that notes
down what is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from tapestry.teg.zspace import ZRange

# An array of the library: `shape`, `ndim`, slices and operators are all that is asked of it.
Array = Any
Shape = Sequence[int]
Names = tuple[str, ...]
# Python's own numbers take the element type of the array that they meet, by numpy's rule.
WEAK = (bool, int, float, complex)


def is_weak(value: Any) -> bool:
    """Return whether a value is a Python number rather than an array."""
    return type(value) in WEAK


def box_of(array: Array, start: Sequence[int], end: Sequence[int]) -> Array:
    """Return the box `[start, end)` of an array; numpy would make a number of a part of rank 0."""
    return array[tuple(map(slice, start, end))] if len(start) else array


class ArrayNamespace(Protocol):
    """The operations of one array library. Element types are named as in `teg.dtypes`; axes count from 0.

    `chunk_bytes`: what the values between the steps of a fused block should take at a time; None where parts bring
    nothing.
    """

    @property
    def name(self) -> str: ...

    @property
    def chunk_bytes(self) -> int | None: ...

    def computing(self) -> AbstractContextManager[Any]:
        """Return the context in which operators run: no warnings, no gradients, 64 bits."""
        ...

    # Element types, and the way from and to the host

    def dtype_of(self, array: Array) -> str: ...

    def cast(self, array: Array, dtype: str) -> Array:
        """Convert elements as numpy does; the array itself where it has the type."""
        ...

    def bitcast(self, array: Array, dtype: str) -> Array:
        """Read the same bits as another element type of the same size."""
        ...

    def from_numpy(self, array: np.ndarray) -> Array: ...

    def to_numpy(self, array: Array) -> np.ndarray: ...

    # New arrays

    def constant(self, value: Any, dtype: str) -> Array:
        """Return a Python number as an array of rank 0."""
        ...

    def full(self, shape: Shape, value: Any, dtype: str) -> Array: ...

    def empty(self, shape: Shape, dtype: str) -> Array:
        """Return an array, not initialized, that the caller fills; JAX's arrays cannot be filled."""
        ...

    def arange(self, start: int, end: int) -> Array:
        """Return the whole numbers from `start` up to, not including, `end`, as int64."""
        ...

    def identity_matrix(self, rows: int, columns: int, dtype: str) -> Array: ...

    # Shapes

    def reshape(self, array: Array, shape: Shape) -> Array: ...

    def permute_dims(self, array: Array, order: Sequence[int]) -> Array: ...

    def expand_dims(self, array: Array, axes: Sequence[int]) -> Array:
        """Insert dimensions of size 1; axes count in the result."""
        ...

    def squeeze(self, array: Array, axes: Sequence[int]) -> Array: ...

    def broadcast_to(self, array: Array, shape: Shape) -> Array: ...

    def copy(self, array: Array) -> Array:
        """Return the values as an array of its own, row-major."""
        ...

    def flip(self, array: Array, axis: int) -> Array: ...

    # Several arrays in one

    def concat(self, arrays: Sequence[Array], axis: int) -> Array: ...

    def stack(self, arrays: Sequence[Array], axis: int) -> Array: ...

    def pad_to(self, array: Array, shape: Shape, first: Sequence[int], value: Any) -> Array:
        """Return an array of `shape`, full of `value`, with `array` in it from `first` on; an empty one is nowhere."""
        ...

    def assemble(
        self,
        shape: Shape,
        dtype: str,
        starts: Sequence[Sequence[int]],
        pieces: Sequence[Array],
        onto: Array | None = None,
    ) -> Array:
        """Return an array of zeros, or a copy of `onto`, with each piece in it from its start on."""
        ...

    # Elements

    def elementwise(self, function: str, *arguments: Any) -> Any:
        """Apply a cell function, or `logaddexp`, to broadcast arrays and Python numbers.

        Element types follow numpy's promotion. Of Python numbers alone the result is a Python number.
        """
        ...

    def by_blocks(
        self,
        compute: Callable[[ZRange, Sequence[Array]], Array],
        index: ZRange,
        arrays: Sequence[Array],
        dtype: str,
    ) -> Array:
        """Compute an element-wise result on `index`, in parts where that is faster.

        `compute(part, arrays)` gives the result of `part.shape`; arrays have the rank of `index` and size 1 where they
        are broadcast.
        """
        ...

    # Along axes

    def sum(self, array: Array, axes: Sequence[int], dtype: str) -> Array:
        """Add up in the element type `dtype`."""
        ...

    def prod(self, array: Array, axes: Sequence[int], dtype: str) -> Array: ...

    def max(self, array: Array, axes: Sequence[int], initial: Any) -> Array: ...

    def min(self, array: Array, axes: Sequence[int], initial: Any) -> Array: ...

    def any(self, array: Array, axes: Sequence[int]) -> Array: ...

    def all(self, array: Array, axes: Sequence[int]) -> Array: ...

    def logsumexp(self, array: Array, axes: Sequence[int]) -> Array: ...

    def argmax(self, array: Array, axis: int) -> Array:
        """Return the first position of the greatest element, as int64; not-a-number is greatest."""
        ...

    def argmin(self, array: Array, axis: int) -> Array:
        """Return the first position of the smallest element, as int64; not-a-number is smallest."""
        ...

    def argsort(self, array: Array, axis: int) -> Array:
        """Return the positions in ascending order, as int64; equal elements keep their order."""
        ...

    def scan(self, monoid: str, array: Array, axis: int) -> Array:
        """Combine the elements up to each place, in the array's own type."""
        ...

    # Positions

    def checked(self, positions: Array, low: int, high: int) -> Array:
        """Return positions as they are, after checking that they lie in `[low, high)` where values are at hand.

        Raises:
            ValueError: one does not.
        """
        ...

    def take(self, array: Array, positions: Array, axis: int) -> Array: ...

    def take_rows(self, tables: Array, positions: Array) -> Array:
        """Take rows `(tables, k)` from each of several tables `(tables, n, r)`: `(tables, k, r)`."""
        ...

    def scatter_rows(self, monoid: str, values: Array, positions: Array, count: int, identity: Any) -> Array:
        """Combine rows `(k, r)` that share one of `count` positions: `(count, r)`, `identity` where there is none.

        Positions outside `[0, count)` are left out; rows combine in their accumulation type, in their order.
        """
        ...

    def replace_rows(self, base: Array, values: Array, positions: Array) -> Array:
        """Return `base` `(n, r)` with rows `(k, r)` at their positions, of several the last one.

        Positions outside `[0, n)` are left out.
        """
        ...

    # Kernels: numpy spells them out, other libraries have their own

    def contract(self, arrays: Sequence[Array], labels: Sequence[Names], output: Names) -> Array:
        """Multiply arrays of one element type along named dimensions and sum over the names that the output lacks.

        Sums are accumulated as `teg.dtypes.accumulation` states, and rounded at the end.
        """
        ...

    def softmax(self, array: Array, axes: Sequence[int]) -> Array: ...

    def log_softmax(self, array: Array, axes: Sequence[int]) -> Array: ...

    def layer_norm(
        self, array: Array, rank: int, eps: float, scale: Array | None, bias: Array | None
    ) -> Array:
        """Move rows, the last `rank` dimensions, to mean 0 and variance 1; multiply by `scale`, add `bias`."""
        ...

    def attention(
        self, queries: Array, keys: Array, values: Array, bias: Array | None, scale: float
    ) -> Array | None:
        """Return `softmax(scale queries keys' + bias) values` by one kernel; None if the library has none for it.

        Queries are `(n, h, rows, inner)`, keys `(n, h, columns, inner)`, values `(n, h, columns, features)`, the bias
        `(n or 1, h or 1, rows or 1, columns or 1)`, all of one element type.
        """
        ...

    def convolve(
        self, x: Array, kernel: Array, strides: Sequence[int], dilations: Sequence[int], groups: int
    ) -> Array:
        """Convolve `(n, c, *spatial)` with `(o, c / groups, *taps)`: all windows that fit, `(n, o, *windows)`."""
        ...

    def reduce_windows(
        self,
        monoid: str,
        x: Array,
        kernel: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
    ) -> Array:
        """Combine the taps of each window of `(n, c, *spatial)` that fits by "sum" or "max": `(n, c, *windows)`."""
        ...

    def fft(self, array: Array, axis: int, inverse: bool) -> Array:
        """Transform complex numbers; the inverse divides by the number of elements."""
        ...

    def triangle(self, matrices: Array, lower: bool) -> Array:
        """Return the lower or the upper triangle of matrices, and zeros beside it."""
        ...

    def det(self, matrices: Array) -> Array: ...

    def inverse(self, matrices: Array) -> Array: ...

    def cholesky(self, matrices: Array, lower: bool) -> Array: ...

    def solve(self, matrices: Array, right: Array) -> Array: ...
