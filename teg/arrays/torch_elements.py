"""Element types, shapes and functions on elements in torch, on any of its devices."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch

from tapestry.teg.arrays.namespace import Array, Shape, is_weak
from tapestry.teg.arrays.numpy_arrays import NUMPY
from tapestry.teg.arrays.promotion import CONDITIONAL, MOVING, function_types, is_common
from tapestry.teg.arrays.torch_functions import FUNCTIONS, IN_SINGLE
from tapestry.teg.dtypes import EXTENDED, HALF, item_bytes, numpy_dtype
from tapestry.teg.zspace import ZRange

TorchArray = Any

# Types that torch stores, but hardly computes with: numpy does.
STORED = ("uint16", "uint32", "uint64")
# Of those with one: the element type of the same bits that torch moves.
SIGNED = {"uint16": torch.int16, "uint32": torch.int32, "uint64": torch.int64}


class TorchElements:
    """The operations of torch on one device that need no knowledge of axes; see `TorchArrays`."""

    name = "torch"
    chunk_bytes: int | None = None

    def __init__(self, device: str = "cpu") -> None:
        self.device = torch.device(device)

    def computing(self) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = torch.no_grad()
        return context

    def dtype_of(self, array: TorchArray) -> str:
        return str(array.dtype).removeprefix("torch.")

    def torch_dtype(self, name: str) -> Any:
        """Return torch's element type of this name.

        Raises:
            ValueError: torch has none.
        """
        dtype = getattr(torch, name, None)
        if dtype is None or name in ("int4", "uint4", "int2", "uint2"):
            raise ValueError(f"torch has no element type {name}; use numpy, or cast to a longer type")
        return dtype

    def cast(self, array: TorchArray, dtype: str) -> TorchArray:
        wanted = self.torch_dtype(dtype)
        if array.dtype.is_complex and not wanted.is_complex:
            array = torch.real(array) if dtype != "bool" else array != 0
        return array.to(wanted)

    def bitcast(self, array: TorchArray, dtype: str) -> TorchArray:
        return array.view(self.torch_dtype(dtype))

    def from_numpy(self, array: np.ndarray) -> TorchArray:
        wanted = self.torch_dtype(array.dtype.name)
        dense = np.asarray(array, order="C")
        if dense.dtype.name in EXTENDED:
            dense = dense.view(f"int{8 * dense.dtype.itemsize}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # memory that is read only: nothing here writes into it
            return torch.from_numpy(dense).view(wanted).to(self.device)

    def to_numpy(self, array: TorchArray) -> np.ndarray:
        name, held = self.dtype_of(array), array.detach().resolve_conj().resolve_neg().cpu()
        if name in EXTENDED:
            bits = held.contiguous().view(torch.int8 if item_bytes(name) == 1 else torch.int16)
            return np.asarray(bits.numpy()).view(numpy_dtype(name))
        return np.asarray(held.numpy())

    def constant(self, value: Any, dtype: str) -> TorchArray:
        return self.from_numpy(NUMPY.constant(value, dtype))

    def full(self, shape: Shape, value: Any, dtype: str) -> TorchArray:
        return self.from_numpy(NUMPY.full((), value, dtype)).expand(tuple(shape)).clone()

    def empty(self, shape: Shape, dtype: str) -> TorchArray:
        return torch.empty(tuple(shape), dtype=self.torch_dtype(dtype), device=self.device)

    def arange(self, start: int, end: int) -> TorchArray:
        return torch.arange(start, end, device=self.device)

    def identity_matrix(self, rows: int, columns: int, dtype: str) -> TorchArray:
        return torch.eye(rows, columns, dtype=self.torch_dtype(dtype), device=self.device)

    def reshape(self, array: TorchArray, shape: Shape) -> TorchArray:
        return array.reshape(tuple(shape))

    def permute_dims(self, array: TorchArray, order: Sequence[int]) -> TorchArray:
        return array.permute(tuple(order))

    def expand_dims(self, array: TorchArray, axes: Sequence[int]) -> TorchArray:
        for axis in sorted(axes):
            array = array.unsqueeze(axis)
        return array

    def squeeze(self, array: TorchArray, axes: Sequence[int]) -> TorchArray:
        return array.squeeze(tuple(axes)) if axes else array

    def broadcast_to(self, array: TorchArray, shape: Shape) -> TorchArray:
        return array.expand(tuple(shape))

    def copy(self, array: TorchArray) -> TorchArray:
        return array.clone(memory_format=torch.contiguous_format)

    def flip(self, array: TorchArray, axis: int) -> TorchArray:
        return self.moved(lambda a: torch.flip(a, (axis,)), array)

    def moved(self, move: Callable[[TorchArray], TorchArray], array: TorchArray) -> TorchArray:
        """Apply a function that moves elements as they are, to their bits where torch does not move the type."""
        name = self.dtype_of(array)
        if name in SIGNED:
            return move(array.view(SIGNED[name])).view(array.dtype)
        if name in EXTENDED and item_bytes(name) == 1:
            return move(array.view(torch.int8)).view(array.dtype)
        return move(array)

    def concat(self, arrays: Sequence[TorchArray], axis: int) -> TorchArray:
        return torch.cat(list(arrays), axis)

    def stack(self, arrays: Sequence[TorchArray], axis: int) -> TorchArray:
        return torch.stack(list(arrays), axis)

    def pad_to(self, array: TorchArray, shape: Shape, first: Sequence[int], value: Any) -> TorchArray:
        if tuple(array.shape) == tuple(shape) and not any(first):
            return array
        base = self.full(shape, value, self.dtype_of(array))
        return self._written(base, [first], [array]) if math.prod(array.shape) else base

    def assemble(
        self,
        shape: Shape,
        dtype: str,
        starts: Sequence[Sequence[int]],
        pieces: Sequence[TorchArray],
        onto: TorchArray | None = None,
    ) -> TorchArray:
        base = self.full(shape, 0, dtype) if onto is None else onto.clone()
        return self._written(base, starts, pieces)

    def _written(
        self, base: TorchArray, starts: Sequence[Sequence[int]], pieces: Sequence[TorchArray]
    ) -> TorchArray:
        """Write pieces into a new array that nobody else holds."""
        for start, piece in zip(starts, pieces, strict=True):
            base[tuple(slice(s, s + n) for s, n in zip(start, piece.shape, strict=True))] = piece
        return base

    def elementwise(self, function: str, *arguments: Any) -> Any:
        if all(map(is_weak, arguments)):
            return NUMPY.elementwise(function, *arguments)
        types = function_types(function, arguments, self.dtype_of)
        lacking = types.given in STORED and not function.startswith("random") and function not in MOVING
        if lacking or not is_common(function, types.given):
            return self.on_host("elementwise", function, *arguments)
        if function.startswith("random"):
            return FUNCTIONS[function](*(self._word(a) for a in arguments))
        computed = types.computed
        if computed in HALF and (function in IN_SINGLE or item_bytes(computed) == 1):
            computed = "float32"
        free = 1 if function in CONDITIONAL else 0
        given = [self._argument(a, "bool") for a in arguments[:free]]
        given += [self._argument(a, computed) for a in arguments[free:]]
        return self.cast(FUNCTIONS[function](*given), types.result)

    def _argument(self, value: Any, dtype: str) -> TorchArray:
        # A number stays on the host: torch takes it along to any device.
        return (
            torch.tensor(value, dtype=self.torch_dtype(dtype)) if is_weak(value) else self.cast(value, dtype)
        )

    def _word(self, value: Any) -> TorchArray:
        """Return whole numbers as 64 bits with sign."""
        if is_weak(value):
            return torch.tensor((int(value) + 2**63) % 2**64 - 2**63)
        return value.view(torch.int64) if self.dtype_of(value) == "uint64" else value.to(torch.int64)

    def on_host(self, method: str, *arguments: Any) -> TorchArray:
        """Compute in numpy what torch lacks for the type."""
        given = [self.to_numpy(a) if isinstance(a, torch.TorchArray) else a for a in arguments]
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
