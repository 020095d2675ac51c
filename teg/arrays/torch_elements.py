"""Element types, shapes and functions on elements in torch, on any of its devices."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import array_api_compat.torch
import numpy as np
import torch

from tapestry.teg.arrays.namespace import Shape, is_weak
from tapestry.teg.arrays.numpy_arrays import NUMPY
from tapestry.teg.arrays.promotion import MOVING
from tapestry.teg.arrays.standard_arrays import StandardArrays
from tapestry.teg.arrays.torch_functions import FUNCTIONS, IN_SINGLE
from tapestry.teg.dtypes import EXTENDED, item_bytes, numpy_dtype

TorchArray = Any

# Large arrays in large pages, as numpy asks for: torch reads this when it first makes an array.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

# Types that torch stores, but hardly computes with: numpy does.
STORED = ("uint16", "uint32", "uint64")
# Of those with one: the element type of the same bits that torch moves.
SIGNED = {"uint16": torch.int16, "uint32": torch.int32, "uint64": torch.int64}


class TorchElements(StandardArrays):
    """The operations of torch on one device that need no knowledge of axes; see `TorchArrays`."""

    name = "torch"
    xp = array_api_compat.torch
    functions = FUNCTIONS
    in_single = IN_SINGLE

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

    def full(self, shape: Shape, value: Any, dtype: str) -> TorchArray:
        return self.from_numpy(NUMPY.full((), value, dtype)).expand(tuple(shape)).clone()

    def empty(self, shape: Shape, dtype: str) -> TorchArray:
        return torch.empty(tuple(shape), dtype=self.torch_dtype(dtype), device=self.device)

    def arange(self, start: int, end: int) -> TorchArray:
        return torch.arange(start, end, device=self.device)

    def identity_matrix(self, rows: int, columns: int, dtype: str) -> TorchArray:
        return torch.eye(rows, columns, dtype=self.torch_dtype(dtype), device=self.device)

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

    def lacks(self, function: str, dtype: str) -> bool:
        stored = dtype in STORED and not function.startswith("random") and function not in MOVING
        return stored or super().lacks(function, dtype)

    def number(self, value: Any, dtype: str) -> TorchArray:
        # It stays on the host: torch takes it along to any device.
        return torch.tensor(value, dtype=self.torch_dtype(dtype))

    def ordered(self, array: TorchArray) -> TorchArray:
        name = self.dtype_of(array)
        if name == "bool":
            return array.to(torch.uint8)
        if name in ("uint16", "uint32"):
            return array.to(torch.int64)
        if name == "uint64":  # moved by 2^63, they are numbers with sign in the same order
            return array.view(torch.int64) ^ torch.iinfo(torch.int64).min
        return array

    def word(self, value: Any) -> TorchArray:
        """Return whole numbers as 64 bits with sign."""
        if is_weak(value):
            return torch.tensor((int(value) + 2**63) % 2**64 - 2**63)
        return value.view(torch.int64) if self.dtype_of(value) == "uint64" else value.to(torch.int64)
