"""The array operations in jax.numpy. All of them run in the context of `computing`, in which JAX has 64 bits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tapestry.teg.arrays.jax_functions import FUNCTIONS, IN_SINGLE, JaxArray
from tapestry.teg.arrays.kernels import library_kernel
from tapestry.teg.arrays.namespace import Names, Shape, is_weak
from tapestry.teg.arrays.numpy_arrays import NUMPY
from tapestry.teg.arrays.standard_arrays import StandardArrays
from tapestry.teg.dtypes import accumulation, bounds, is_float, numpy_dtype

HIGHEST = jax.lax.Precision.HIGHEST
known = partial(library_kernel, jax)


class JaxArrays(StandardArrays):
    """The operations of jax.numpy; see `ArrayNamespace`."""

    name = "jax"
    xp = jnp
    functions = FUNCTIONS
    in_single = IN_SINGLE

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

    def full(self, shape: Shape, value: Any, dtype: str) -> JaxArray:
        return jnp.broadcast_to(jnp.asarray(NUMPY.full((), value, dtype)), tuple(shape))

    def empty(self, shape: Shape, dtype: str) -> JaxArray:
        return self.full(shape, 0, dtype)

    def arange(self, start: int, end: int) -> JaxArray:
        return jnp.arange(start, end)

    def identity_matrix(self, rows: int, columns: int, dtype: str) -> JaxArray:
        return jnp.eye(rows, columns, dtype=numpy_dtype(dtype))

    def copy(self, array: JaxArray) -> JaxArray:
        return array

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

    def word(self, value: Any) -> JaxArray:
        """Return whole numbers as 64 bits, negative ones in two's complement."""
        return self.constant(int(value) % 2**64, "uint64") if is_weak(value) else value.astype(jnp.uint64)

    def sum(self, array: JaxArray, axes: Sequence[int], dtype: str) -> JaxArray:
        return jnp.sum(array, axis=tuple(axes), dtype=numpy_dtype(dtype))

    def prod(self, array: JaxArray, axes: Sequence[int], dtype: str) -> JaxArray:
        return jnp.prod(array, axis=tuple(axes), dtype=numpy_dtype(dtype))

    def max(self, array: JaxArray, axes: Sequence[int], initial: Any) -> JaxArray:
        return jnp.max(array, axis=tuple(axes), initial=initial)

    def min(self, array: JaxArray, axes: Sequence[int], initial: Any) -> JaxArray:
        return jnp.min(array, axis=tuple(axes), initial=initial)

    def logsumexp(self, array: JaxArray, axes: Sequence[int]) -> JaxArray:
        return jax.scipy.special.logsumexp(array, axis=tuple(axes))

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
        return self.cast(known("contract")(*parts, [number[n] for n in output], precision=HIGHEST), name)

    def softmax(self, array: JaxArray, axes: Sequence[int]) -> JaxArray:
        name = self.dtype_of(array)
        return self.cast(known("softmax")(self.cast(array, accumulation(name)), axis=tuple(axes)), name)

    def log_softmax(self, array: JaxArray, axes: Sequence[int]) -> JaxArray:
        name = self.dtype_of(array)
        return self.cast(known("log_softmax")(self.cast(array, accumulation(name)), axis=tuple(axes)), name)

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

    def attention(
        self, queries: JaxArray, keys: JaxArray, values: JaxArray, bias: JaxArray | None, scale: float
    ) -> JaxArray | None:
        if values.shape != keys.shape:
            return None
        given = (jnp.swapaxes(array, 1, 2) for array in (queries, keys, values))
        with jax.default_matmul_precision("highest"):
            made = known("attention")(*given, bias=bias, scale=scale)
        return jnp.swapaxes(made, 1, 2)

    def convolve(
        self, x: JaxArray, kernel: JaxArray, strides: Sequence[int], dilations: Sequence[int], groups: int
    ) -> JaxArray:
        name = self.dtype_of(x)
        if not is_float(name):
            return self.on_host("convolve", x, kernel, strides, dilations, groups)
        wide = accumulation(name)
        made = known("convolve")(
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
        return known("reduce_windows")(x, first, combine, windows, moves, "VALID", window_dilation=apart)
