"""The array operations in jax.numpy. All of them run in the context of `computing`, in which JAX has 64 bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tapestry.teg.arrays.jax_functions import FUNCTIONS, IN_SINGLE, JaxArray
from tapestry.teg.arrays.namespace import Array, Names, Shape, is_weak
from tapestry.teg.arrays.numpy_arrays import NUMPY
from tapestry.teg.arrays.promotion import CONDITIONAL, function_types, is_common
from tapestry.teg.dtypes import HALF, accumulation, bounds, is_float, item_bytes, numpy_dtype
from tapestry.teg.zspace import ZRange

HIGHEST = jax.lax.Precision.HIGHEST


class JaxArrays:
    """The operations of jax.numpy; see `ArrayNamespace`."""

    name = "jax"
    chunk_bytes: int | None = None

    def computing(self) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = jax.enable_x64(True)
        return context

    def dtype_of(self, array: JaxArray) -> str:
        return str(array.dtype.name)

    def cast(self, array: JaxArray, dtype: str) -> JaxArray:
        if self.dtype_of(array) == dtype:
            return array
        if jnp.iscomplexobj(array) and not dtype.startswith("complex"):
            array = array.real if dtype != "bool" else array != 0
        return array.astype(numpy_dtype(dtype))

    def bitcast(self, array: JaxArray, dtype: str) -> JaxArray:
        return array.view(numpy_dtype(dtype))

    def from_numpy(self, array: np.ndarray) -> JaxArray:
        with self.computing():
            return jnp.asarray(array)

    def to_numpy(self, array: JaxArray) -> np.ndarray:
        return np.asarray(array)

    def constant(self, value: Any, dtype: str) -> JaxArray:
        return jnp.asarray(NUMPY.constant(value, dtype))

    def full(self, shape: Shape, value: Any, dtype: str) -> JaxArray:
        return jnp.broadcast_to(jnp.asarray(NUMPY.full((), value, dtype)), tuple(shape))

    def empty(self, shape: Shape, dtype: str) -> JaxArray:
        return self.full(shape, 0, dtype)

    def arange(self, start: int, end: int) -> JaxArray:
        return jnp.arange(start, end)

    def identity_matrix(self, rows: int, columns: int, dtype: str) -> JaxArray:
        return jnp.eye(rows, columns, dtype=numpy_dtype(dtype))

    def reshape(self, array: JaxArray, shape: Shape) -> JaxArray:
        return array.reshape(tuple(shape))

    def permute_dims(self, array: JaxArray, order: Sequence[int]) -> JaxArray:
        return array.transpose(tuple(order))

    def expand_dims(self, array: JaxArray, axes: Sequence[int]) -> JaxArray:
        return jnp.expand_dims(array, tuple(axes))

    def squeeze(self, array: JaxArray, axes: Sequence[int]) -> JaxArray:
        return jnp.squeeze(array, tuple(axes))

    def broadcast_to(self, array: JaxArray, shape: Shape) -> JaxArray:
        return jnp.broadcast_to(array, tuple(shape))

    def copy(self, array: JaxArray) -> JaxArray:
        return array

    def flip(self, array: JaxArray, axis: int) -> JaxArray:
        return jnp.flip(array, axis)

    def concat(self, arrays: Sequence[JaxArray], axis: int) -> JaxArray:
        return jnp.concatenate(list(arrays), axis=axis)

    def stack(self, arrays: Sequence[JaxArray], axis: int) -> JaxArray:
        return jnp.stack(list(arrays), axis=axis)

    def pad_to(self, array: JaxArray, shape: Shape, first: Sequence[int], value: Any) -> JaxArray:
        if tuple(array.shape) == tuple(shape) and not any(first):
            return array
        if not math.prod(array.shape):
            return self.full(shape, value, self.dtype_of(array))
        each = zip(first, shape, array.shape, strict=True)
        widths = [(f, n - f - size, 0) for f, n, size in each]
        return jax.lax.pad(array, self.constant(value, self.dtype_of(array)), widths)

    def assemble(
        self,
        shape: Shape,
        dtype: str,
        starts: Sequence[Sequence[int]],
        pieces: Sequence[JaxArray],
        onto: JaxArray | None = None,
    ) -> JaxArray:
        result = self.full(shape, 0, dtype) if onto is None else onto
        for start, piece in zip(starts, pieces, strict=True):
            result = jax.lax.dynamic_update_slice(result, piece, tuple(start))
        return result

    def elementwise(self, function: str, *arguments: Any) -> Any:
        if all(map(is_weak, arguments)):
            return NUMPY.elementwise(function, *arguments)
        types = function_types(function, arguments, self.dtype_of)
        if not is_common(function, types.given):
            return self._on_host("elementwise", function, *arguments)
        if function.startswith("random"):
            return FUNCTIONS[function](*(self._word(a) for a in arguments))
        computed = types.computed
        if computed in HALF and (function in IN_SINGLE or item_bytes(computed) == 1):
            computed = "float32"
        free = 1 if function in CONDITIONAL else 0
        given = [self._argument(a, "bool") for a in arguments[:free]]
        given += [self._argument(a, computed) for a in arguments[free:]]
        return self.cast(FUNCTIONS[function](*given), types.result)

    def _argument(self, value: Any, dtype: str) -> JaxArray:
        return self.constant(value, dtype) if is_weak(value) else self.cast(value, dtype)

    def _word(self, value: Any) -> JaxArray:
        """Return whole numbers as 64 bits, negative ones in two's complement."""
        return self.constant(int(value) % 2**64, "uint64") if is_weak(value) else value.astype(jnp.uint64)

    def _on_host(self, method: str, *arguments: Any) -> JaxArray:
        """Compute in numpy what JAX lacks for the type."""
        given = [np.asarray(a) if isinstance(a, jax.Array) else a for a in arguments]
        with NUMPY.computing():
            return jnp.asarray(getattr(NUMPY, method)(*given))

    def by_blocks(
        self,
        compute: Callable[[ZRange, Sequence[Array]], Array],
        index: ZRange,
        arrays: Sequence[Array],
        dtype: str,
    ) -> Array:
        return compute(index, arrays)

    def sum(self, array: JaxArray, axes: Sequence[int], dtype: str) -> JaxArray:
        return jnp.sum(array, axis=tuple(axes), dtype=numpy_dtype(dtype))

    def prod(self, array: JaxArray, axes: Sequence[int], dtype: str) -> JaxArray:
        return jnp.prod(array, axis=tuple(axes), dtype=numpy_dtype(dtype))

    def max(self, array: JaxArray, axes: Sequence[int], initial: Any) -> JaxArray:
        return jnp.max(array, axis=tuple(axes), initial=initial)

    def min(self, array: JaxArray, axes: Sequence[int], initial: Any) -> JaxArray:
        return jnp.min(array, axis=tuple(axes), initial=initial)

    def any(self, array: JaxArray, axes: Sequence[int]) -> JaxArray:
        return jnp.any(array, axis=tuple(axes))

    def all(self, array: JaxArray, axes: Sequence[int]) -> JaxArray:
        return jnp.all(array, axis=tuple(axes))

    def logsumexp(self, array: JaxArray, axes: Sequence[int]) -> JaxArray:
        return jax.scipy.special.logsumexp(array, axis=tuple(axes))

    def argmax(self, array: JaxArray, axis: int) -> JaxArray:
        return jnp.argmax(array, axis=axis).astype(jnp.int64)

    def argmin(self, array: JaxArray, axis: int) -> JaxArray:
        return jnp.argmin(array, axis=axis).astype(jnp.int64)

    def argsort(self, array: JaxArray, axis: int) -> JaxArray:
        return jnp.argsort(array, axis=axis, stable=True).astype(jnp.int64)

    def scan(self, monoid: str, array: JaxArray, axis: int) -> JaxArray:
        if monoid in ("sum", "prod"):
            return (jnp.cumsum if monoid == "sum" else jnp.cumprod)(array, axis=axis, dtype=array.dtype)
        if monoid == "logsumexp":
            return jax.lax.cumlogsumexp(array, axis=axis)
        held = array.astype(jnp.uint8) if array.dtype == jnp.bool_ else array
        return (jax.lax.cummax if monoid == "max" else jax.lax.cummin)(held, axis=axis).astype(array.dtype)

    def checked(self, positions: JaxArray, low: int, high: int) -> JaxArray:
        if not isinstance(positions, jax.core.Tracer):
            NUMPY.checked(np.asarray(positions), low, high)
        return positions

    def take(self, array: JaxArray, positions: JaxArray, axis: int) -> JaxArray:
        return jnp.take(array, positions, axis=axis)

    def take_rows(self, tables: JaxArray, positions: JaxArray) -> JaxArray:
        return tables[jnp.arange(len(tables))[:, None], positions]

    def scatter_rows(
        self, monoid: str, values: JaxArray, positions: JaxArray, count: int, identity: Any
    ) -> JaxArray:
        name = self.dtype_of(values)
        wide = "uint8" if name == "bool" else accumulation(name)
        base = self.full((count, values.shape[1]), identity, wide)
        # Negative positions would count from the end.
        at = base.at[jnp.where(positions < 0, count, positions)]
        write = {"sum": at.add, "prod": at.multiply, "max": at.max, "min": at.min}[monoid]
        return self.cast(write(self.cast(values, wide), mode="drop"), name)

    def replace_rows(self, base: JaxArray, values: JaxArray, positions: JaxArray) -> JaxArray:
        count, given = len(base), len(values)
        if not given or not count:
            return base
        at = jnp.full(count, -1).at[jnp.where(positions < 0, count, positions)]
        last = at.max(jnp.arange(given), mode="drop")
        return jnp.where((last >= 0)[:, None], values[jnp.maximum(last, 0)], base)

    def contract(self, arrays: Sequence[JaxArray], labels: Sequence[Names], output: Names) -> JaxArray:
        name = self.dtype_of(arrays[0])
        number = {name: k for k, name in enumerate(dict.fromkeys(n for names in labels for n in names))}
        parts: list[Any] = []
        for array, names in zip(arrays, labels, strict=True):
            parts += [self.cast(array, accumulation(name)), [number[n] for n in names]]
        return self.cast(jnp.einsum(*parts, [number[n] for n in output], precision=HIGHEST), name)

    def softmax(self, array: JaxArray, axes: Sequence[int]) -> JaxArray:
        name = self.dtype_of(array)
        return self.cast(jax.nn.softmax(self.cast(array, accumulation(name)), axis=tuple(axes)), name)

    def log_softmax(self, array: JaxArray, axes: Sequence[int]) -> JaxArray:
        name = self.dtype_of(array)
        return self.cast(jax.nn.log_softmax(self.cast(array, accumulation(name)), axis=tuple(axes)), name)

    def layer_norm(
        self, array: JaxArray, rank: int, eps: float, scale: JaxArray | None, bias: JaxArray | None
    ) -> JaxArray:
        name = self.dtype_of(array)
        wide = accumulation(name)
        axes = tuple(range(array.ndim - rank, array.ndim))
        rows = self.cast(array, wide)
        values = rows - jnp.mean(rows, axis=axes, keepdims=True)
        values = values * jax.lax.rsqrt(jnp.mean(values * values, axis=axes, keepdims=True) + eps)
        if scale is not None:
            values = values * self.cast(scale, wide)
        if bias is not None:
            values = values + self.cast(bias, wide)
        return self.cast(values, name)

    def convolve(
        self, x: JaxArray, kernel: JaxArray, strides: Sequence[int], dilations: Sequence[int], groups: int
    ) -> JaxArray:
        name = self.dtype_of(x)
        if not is_float(name):
            return self._on_host("convolve", x, kernel, strides, dilations, groups)
        wide = accumulation(name)
        made = jax.lax.conv_general_dilated(
            self.cast(x, wide),
            self.cast(kernel, wide),
            tuple(strides),
            "VALID",
            rhs_dilation=tuple(dilations),
            feature_group_count=groups,
            precision=HIGHEST,
        )
        return self.cast(made, name)

    def reduce_windows(
        self,
        monoid: str,
        x: JaxArray,
        kernel: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
    ) -> JaxArray:
        combine = {"sum": jax.lax.add, "max": jax.lax.max}[monoid]
        name = self.dtype_of(x)
        lowest = -jnp.inf if is_float(name) else bounds(name)[0]
        first = self.constant(lowest if monoid == "max" else 0, name)
        windows, moves, apart = ((1, 1, *given) for given in (kernel, strides, dilations))
        return jax.lax.reduce_window(x, first, combine, windows, moves, "VALID", window_dilation=apart)

    def fft(self, array: JaxArray, axis: int, inverse: bool) -> JaxArray:
        return (jnp.fft.ifft if inverse else jnp.fft.fft)(array, axis=axis)

    def triangle(self, matrices: JaxArray, lower: bool) -> JaxArray:
        return jnp.tril(matrices) if lower else jnp.triu(matrices)

    def det(self, matrices: JaxArray) -> JaxArray:
        return jnp.linalg.det(matrices)

    def inverse(self, matrices: JaxArray) -> JaxArray:
        return jnp.linalg.inv(matrices)

    def cholesky(self, matrices: JaxArray, lower: bool) -> JaxArray:
        return jnp.linalg.cholesky(matrices, upper=not lower)

    def solve(self, matrices: JaxArray, right: JaxArray) -> JaxArray:
        return jnp.linalg.solve(matrices, right)
