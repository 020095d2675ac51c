"""The array operations in torch, on any of its devices. Nothing writes into an array that a caller holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from tapestry.teg.arrays.kernels import library_kernel
from tapestry.teg.arrays.namespace import Names
from tapestry.teg.arrays.numpy_arrays import NUMPY
from tapestry.teg.arrays.torch_elements import STORED, TorchArray, TorchElements
from tapestry.teg.dtypes import accumulation, is_float, is_integer, item_bytes

known = partial(library_kernel, torch)


def default_device() -> str:
    """Return the first GPU, or the host where torch finds none."""
    return "cuda:0" if torch.cuda.is_available() else "cpu"


class TorchArrays(TorchElements):
    """The operations of torch on one device; see `ArrayNamespace`."""

    def sum(self, array: TorchArray, axes: Sequence[int], dtype: str) -> TorchArray:
        if {self.dtype_of(array), dtype} & set(STORED):
            return self.on_host("sum", array, axes, dtype)
        wide = self.cast(array, dtype)
        return torch.sum(wide, tuple(axes), dtype=wide.dtype) if axes else wide

    def prod(self, array: TorchArray, axes: Sequence[int], dtype: str) -> TorchArray:
        if dtype in STORED:
            return self.on_host("prod", array, axes, dtype)
        result = self.cast(array, dtype)
        for axis in sorted(axes, reverse=True):
            result = torch.prod(result, axis, dtype=result.dtype)
        return result

    def max(self, array: TorchArray, axes: Sequence[int], initial: Any) -> TorchArray:
        return self._extreme("max", torch.amax, array, axes, initial)

    def min(self, array: TorchArray, axes: Sequence[int], initial: Any) -> TorchArray:
        return self._extreme("min", torch.amin, array, axes, initial)

    def _extreme(
        self,
        name: str,
        reduce: Callable[..., TorchArray],
        array: TorchArray,
        axes: Sequence[int],
        initial: Any,
    ) -> TorchArray:
        if self.dtype_of(array) in STORED or array.dtype.is_complex:
            return self.on_host(name, array, axes, initial)
        if not axes:
            return array
        if math.prod(array.shape[a] for a in axes) == 0:
            kept = [n for k, n in enumerate(array.shape) if k not in axes]
            return self.full(kept, initial, self.dtype_of(array))
        return reduce(array, tuple(axes))

    def logsumexp(self, array: TorchArray, axes: Sequence[int]) -> TorchArray:
        return torch.logsumexp(array, tuple(axes)) if axes else array

    def scan(self, monoid: str, array: TorchArray, axis: int) -> TorchArray:
        name = self.dtype_of(array)
        if name in STORED:
            return self.on_host("scan", monoid, array, axis)
        held = array.to(torch.uint8) if name == "bool" else array
        if monoid in ("sum", "prod"):
            return (torch.cumsum if monoid == "sum" else torch.cumprod)(held, axis, dtype=held.dtype)
        if monoid == "logsumexp":
            return torch.logcumsumexp(held, axis)
        return (torch.cummax if monoid == "max" else torch.cummin)(held, axis).values.to(array.dtype)

    def checked(self, positions: TorchArray, low: int, high: int) -> TorchArray:
        if positions.numel():
            least, greatest = (int(p) for p in torch.aminmax(positions))
            if not (low <= least and greatest < high):
                raise ValueError(f"indices must lie in [{low}, {high}), not in [{least}, {greatest}]")
        return positions

    def take(self, array: TorchArray, positions: TorchArray, axis: int) -> TorchArray:
        shape = (*array.shape[:axis], *positions.shape, *array.shape[axis + 1 :])
        flat = positions.reshape(-1)
        return self.moved(lambda a: torch.index_select(a, axis, flat), array).reshape(shape)

    def take_rows(self, tables: TorchArray, positions: TorchArray) -> TorchArray:
        number = torch.arange(len(tables), device=tables.device)[:, None]
        return self.moved(lambda t: t[number, positions], tables)

    def scatter_rows(
        self, monoid: str, values: TorchArray, positions: TorchArray, count: int, identity: Any
    ) -> TorchArray:
        name = self.dtype_of(values)
        if name in STORED or (values.dtype.is_complex and monoid != "sum"):
            return self.on_host("scatter_rows", monoid, values, positions, count, identity)
        wide = "uint8" if name == "bool" else accumulation(name)
        # One row more takes what is left out.
        rows = torch.where((positions >= 0) & (positions < count), positions, count)
        base = self.full((count + 1, values.shape[1]), identity, wide)
        if monoid == "sum":
            made = base.index_add_(0, rows, self.cast(values, wide))
        else:
            reduce = {"prod": "prod", "max": "amax", "min": "amin"}[monoid]
            at = rows[:, None].expand(values.shape)
            made = base.scatter_reduce_(0, at, self.cast(values, wide), reduce, include_self=True)
        return self.cast(made[:count], name)

    def replace_rows(self, base: TorchArray, values: TorchArray, positions: TorchArray) -> TorchArray:
        count, given = len(base), len(values)
        if not given or not count:
            return base
        rows = torch.where((positions >= 0) & (positions < count), positions, count)
        last = torch.full((count + 1,), -1, device=base.device)
        last = last.scatter_reduce_(0, rows, self.arange(0, given), "amax", include_self=True)[:count]
        found = self.take(values, torch.clamp(last, min=0), 0)
        return torch.where((last >= 0)[:, None], found, base)

    def contract(self, arrays: Sequence[TorchArray], labels: Sequence[Names], output: Names) -> TorchArray:
        name = self.dtype_of(arrays[0])
        exact = is_integer(name) and (name in STORED or self.device.type != "cpu")
        if exact:
            return self.from_numpy(NUMPY.contract([self.to_numpy(a) for a in arrays], labels, output))
        # Kernels of accelerators accumulate products of short floats in float32.
        native = name in ("float16", "bfloat16") and self.device.type == "cuda"
        number = {name: k for k, name in enumerate(dict.fromkeys(n for names in labels for n in names))}
        parts: list[Any] = []
        for array, names in zip(arrays, labels, strict=True):
            parts += [array if native else self.cast(array, accumulation(name)), [number[n] for n in names]]
        return self.cast(known("contract")(*parts, [number[n] for n in output]), name)

    def softmax(self, array: TorchArray, axes: Sequence[int]) -> TorchArray:
        return self._along(known("softmax"), array, axes)

    def log_softmax(self, array: TorchArray, axes: Sequence[int]) -> TorchArray:
        return self._along(known("log_softmax"), array, axes)

    def _along(
        self, function: Callable[..., TorchArray], array: TorchArray, axes: Sequence[int]
    ) -> TorchArray:
        """Apply a function of one dimension to several as if they were one."""
        if len(axes) == 1 and item_bytes(self.dtype_of(array)) > 1:
            return function(array, dim=axes[0])
        wide = self.cast(array, accumulation(self.dtype_of(array)))
        order = [*(k for k in range(array.ndim) if k not in axes), *axes]
        moved = wide.permute(order)
        lead = array.ndim - len(axes)
        made = function(moved.reshape(*moved.shape[:lead], math.prod(moved.shape[lead:])), dim=-1)
        back = sorted(range(array.ndim), key=order.__getitem__)
        return made.reshape(moved.shape).permute(back).to(array.dtype)

    def layer_norm(
        self, array: TorchArray, rank: int, eps: float, scale: TorchArray | None, bias: TorchArray | None
    ) -> TorchArray:
        wide = accumulation(self.dtype_of(array))
        made = known("layer_norm")(
            self.cast(array, wide),
            array.shape[array.ndim - rank :],
            weight=None if scale is None else self.cast(scale, wide),
            bias=None if bias is None else self.cast(bias, wide),
            eps=eps,
        )
        return made.to(array.dtype)

    def attention(
        self,
        queries: TorchArray,
        keys: TorchArray,
        values: TorchArray,
        bias: TorchArray | None,
        scale: float,
    ) -> TorchArray:
        return known("attention")(queries, keys, values, attn_mask=bias, scale=scale)

    def convolve(
        self, x: TorchArray, kernel: TorchArray, strides: Sequence[int], dilations: Sequence[int], groups: int
    ) -> TorchArray:
        name = self.dtype_of(x)
        if not is_float(name):
            return self.on_host("convolve", x, kernel, strides, dilations, groups)
        native = name in ("float16", "bfloat16") and self.device.type == "cuda"
        wide = name if native else accumulation(name)
        function = known("convolve", len(strides))
        options = {"stride": tuple(strides), "dilation": tuple(dilations), "groups": groups}
        return self.cast(function(self.cast(x, wide), self.cast(kernel, wide), **options), name)

    def reduce_windows(
        self,
        monoid: str,
        x: TorchArray,
        kernel: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
    ) -> TorchArray:
        name = self.dtype_of(x)
        if name in STORED:
            return self.on_host("reduce_windows", monoid, x, kernel, strides, dilations)
        if monoid == "max" and is_float(name) and item_bytes(name) > 1:
            return known("reduce_windows", len(kernel))(x, tuple(kernel), tuple(strides), 0, tuple(dilations))
        function = {"sum": "add", "max": "max"}[monoid]
        for k, (taps, stride, dilation) in enumerate(zip(kernel, strides, dilations, strict=True)):
            lead = (slice(None),) * (2 + k)
            end = x.shape[2 + k] - (taps - 1) * dilation
            parts = [x[(*lead, slice(t * dilation, t * dilation + end, stride))] for t in range(taps)]
            x = parts[0]
            for part in parts[1:]:
                x = self.elementwise(function, x, part)
        return x
