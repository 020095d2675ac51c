"""The base of array libraries that have the names of the Python array API standard.

The standard's names are those of jax.numpy, and of torch by `array_api_compat`. Element types are promoted by numpy's
rules before a function is called, so what the libraries' own promotion says does not matter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tapestry.teg.arrays.namespace import Array, Shape, is_weak
from tapestry.teg.arrays.numpy_arrays import NUMPY
from tapestry.teg.arrays.promotion import CONDITIONAL, function_types, is_common
from tapestry.teg.dtypes import HALF, item_bytes
from tapestry.teg.zspace import ZRange


class StandardArrays(ABC):
    """The operations that libraries have alike; see `ArrayNamespace`.

    `xp` has the standard's functions, `functions` are those on elements, and `in_single` those of them that the library
    does not round once at the end, or does not have, for short floats.
    """

    chunk_bytes: int | None = None
    xp: Any
    functions: Mapping[str, Callable[..., Array]]
    in_single: frozenset[str]

    @abstractmethod
    def dtype_of(self, array: Array) -> str: ...

    @abstractmethod
    def cast(self, array: Array, dtype: str) -> Array: ...

    @abstractmethod
    def from_numpy(self, array: np.ndarray) -> Array: ...

    @abstractmethod
    def to_numpy(self, array: Array) -> np.ndarray: ...

    @abstractmethod
    def word(self, value: Any) -> Array:
        """Return whole numbers as 64 bits, negative ones in two's complement."""

    def number(self, value: Any, dtype: str) -> Array:
        """Return a Python number as an argument of a function."""
        return self.constant(value, dtype)

    def lacks(self, function: str, dtype: str) -> bool:
        """Return whether numpy must compute a function for arguments that meet in a type."""
        return not is_common(function, dtype)

    def ordered(self, array: Array) -> Array:
        """Return the elements as a type that the library orders, in the same order."""
        return array

    def constant(self, value: Any, dtype: str) -> Array:
        return self.from_numpy(NUMPY.constant(value, dtype))

    def reshape(self, array: Array, shape: Shape) -> Array:
        return self.xp.reshape(array, tuple(shape))

    def permute_dims(self, array: Array, order: Sequence[int]) -> Array:
        return self.xp.permute_dims(array, tuple(order))

    def expand_dims(self, array: Array, axes: Sequence[int]) -> Array:
        for axis in sorted(axes):
            array = self.xp.expand_dims(array, axis=axis)
        return array

    def squeeze(self, array: Array, axes: Sequence[int]) -> Array:
        return self.xp.squeeze(array, tuple(axes)) if axes else array

    def broadcast_to(self, array: Array, shape: Shape) -> Array:
        return self.xp.broadcast_to(array, tuple(shape))

    def flip(self, array: Array, axis: int) -> Array:
        return self.xp.flip(array, axis=axis)

    def concat(self, arrays: Sequence[Array], axis: int) -> Array:
        return self.xp.concat(list(arrays), axis=axis)

    def stack(self, arrays: Sequence[Array], axis: int) -> Array:
        return self.xp.stack(list(arrays), axis=axis)

    def elementwise(self, function: str, *arguments: Any) -> Any:
        if all(map(is_weak, arguments)):
            return NUMPY.elementwise(function, *arguments)
        types = function_types(function, arguments, self.dtype_of)
        if self.lacks(function, types.given):
            return self.on_host("elementwise", function, *arguments)
        if function.startswith("random"):
            return self.functions[function](*map(self.word, arguments))
        computed = types.computed
        if computed in HALF and (function in self.in_single or item_bytes(computed) == 1):
            computed = "float32"
        free = 1 if function in CONDITIONAL else 0
        given = [self._argument(a, "bool") for a in arguments[:free]]
        given += [self._argument(a, computed) for a in arguments[free:]]
        return self.cast(self.functions[function](*given), types.result)

    def _argument(self, value: Any, dtype: str) -> Array:
        return self.number(value, dtype) if is_weak(value) else self.cast(value, dtype)

    def on_host(self, method: str, *arguments: Any) -> Array:
        """Compute in numpy what the library lacks for the type."""
        given = [self.to_numpy(a) if hasattr(a, "dtype") else a for a in arguments]
        with NUMPY.computing():
            return self.from_numpy(getattr(NUMPY, method)(*given))

    def by_blocks(
        self,
        compute: Callable[[ZRange, Sequence[Array]], Array],
        index: ZRange,
        arrays: Sequence[Array],
        dtype: str,
    ) -> Array:
        return compute(index, arrays)

    def any(self, array: Array, axes: Sequence[int]) -> Array:
        return self.xp.any(array, axis=tuple(axes)) if axes else array

    def all(self, array: Array, axes: Sequence[int]) -> Array:
        return self.xp.all(array, axis=tuple(axes)) if axes else array

    def argmax(self, array: Array, axis: int) -> Array:
        return self.cast(self.xp.argmax(self.ordered(array), axis=axis), "int64")

    def argmin(self, array: Array, axis: int) -> Array:
        return self.cast(self.xp.argmin(self.ordered(array), axis=axis), "int64")

    def argsort(self, array: Array, axis: int) -> Array:
        return self.cast(self.xp.argsort(self.ordered(array), axis=axis, stable=True), "int64")

    def fft(self, array: Array, axis: int, inverse: bool) -> Array:
        return (self.xp.fft.ifft if inverse else self.xp.fft.fft)(array, axis=axis)

    def triangle(self, matrices: Array, lower: bool) -> Array:
        return self.xp.tril(matrices) if lower else self.xp.triu(matrices)

    def det(self, matrices: Array) -> Array:
        return self.xp.linalg.det(matrices)

    def inverse(self, matrices: Array) -> Array:
        return self.xp.linalg.inv(matrices)

    def cholesky(self, matrices: Array, lower: bool) -> Array:
        return self.xp.linalg.cholesky(matrices, upper=not lower)

    def solve(self, matrices: Array, right: Array) -> Array:
        return self.xp.linalg.solve(matrices, right)
