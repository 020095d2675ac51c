"""Conversion of a logical array to the padded array that is stored, and back, element by element and as a whole.

Two encodings: every dimension is padded and leading ones are folded into rows (`PaddedDimensions`), or the matrix is
first split into logical shards and each of them is padded (`PaddedShards`, ttnn's ShardMode::LOGICAL).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapestry.hardware.layouts.layout import Indices, LayoutError, Mask
from tapestry.hardware.layouts.ttnn.shape import to_2d
from tapestry.hardware.layouts.ttnn.storage import padded
from tapestry.hardware.layouts.ttnn.tensor_layout import TensorLayout
from tapestry.hardware.layouts.ttnn.tile import Pair

Array = NDArray[Any]


class Encoding(ABC):
    """The mapping of a logical shape to a padded array of some `extents`."""

    @property
    @abstractmethod
    def extents(self) -> tuple[int, ...]:
        """The extents of the padded array."""

    @abstractmethod
    def positions(self, coords: Indices) -> list[Indices]:
        """Compute the positions in the padded array, one array (n,) for each dimension, of coordinates (n, rank)."""

    @abstractmethod
    def coordinates(self, positions: list[Indices]) -> tuple[Indices, Mask]:
        """Compute the coordinates (n, rank) of positions and a mask (n,), False on padding; inverse of `positions`."""

    @abstractmethod
    def encode(self, array: Array, fill: float = 0) -> Array:
        """Build the padded array (extents)."""

    @abstractmethod
    def decode(self, stored: Array) -> Array:
        """Extract the logical array from a padded array (extents): the inverse of `encode`."""


@dataclass(frozen=True)
class PaddedDimensions(Encoding):
    """A shape padded to `padded` (of no smaller rank), its first dimensions folded until `rank` are left."""

    shape: tuple[int, ...]
    padded: tuple[int, ...]
    rank: int = 2

    @property
    def _whole(self) -> tuple[int, ...]:
        """The padded shape with leading ones up to `rank`."""
        return (1,) * (self.rank - len(self.padded)) + self.padded

    @property
    def _folded(self) -> int:
        """The number of dimensions that make up the first extent."""
        return len(self._whole) - self.rank + 1

    @property
    def extents(self) -> tuple[int, ...]:
        """The extents of the padded array."""
        whole = self._whole
        return (prod(whole[: self._folded]), *whole[self._folded :])

    def positions(self, coords: Indices) -> list[Indices]:
        missing = len(self._whole) - len(self.shape)
        nothing = np.zeros(len(coords), dtype=np.int64)
        axes = [nothing] * missing + [coords[:, at] for at in range(len(self.shape))]
        first = axes[0]
        for size, axis in zip(self._whole[1 : self._folded], axes[1 : self._folded], strict=True):
            first = first * size + axis
        return [first, *axes[self._folded :]]

    def coordinates(self, positions: list[Indices]) -> tuple[Indices, Mask]:
        rest = positions[0]
        axes: list[Indices] = []
        for size in reversed(self._whole[1 : self._folded]):
            axes.insert(0, rest % size)
            rest = rest // size
        axes = [rest, *axes, *positions[1:]]
        shape = (1,) * (len(axes) - len(self.shape)) + self.shape
        real = np.ones(len(rest), dtype=np.bool_)
        for axis, size in zip(axes, shape, strict=True):
            real &= axis < size
        return _columns(axes[len(axes) - len(self.shape) :], len(rest)), real

    def encode(self, array: Array, fill: float = 0) -> Array:
        missing = len(self._whole) - len(self.shape)
        return padded(array.reshape((1,) * missing + self.shape), self._whole, fill).reshape(self.extents)

    def decode(self, stored: Array) -> Array:
        missing = len(self._whole) - len(self.shape)
        kept = tuple(slice(size) for size in (1,) * missing + self.shape)
        return stored.reshape(self._whole)[kept].reshape(self.shape)


@dataclass(frozen=True)
class PaddedShards(Encoding):
    """A shape as a matrix, split into `logical` shards, each padded to `stored`."""

    shape: tuple[int, ...]
    logical: Pair
    stored: Pair

    @property
    def _counts(self) -> Pair:
        rows, columns = to_2d(self.shape)
        return -(-rows // self.logical[0]), -(-columns // self.logical[1])

    @property
    def extents(self) -> tuple[int, ...]:
        """The extents of the padded array."""
        return self._counts[0] * self.stored[0], self._counts[1] * self.stored[1]

    def positions(self, coords: Indices) -> list[Indices]:
        flat = np.zeros(len(coords), dtype=np.int64)
        for at, size in enumerate(self.shape[:-1]):
            flat = flat * size + coords[:, at]
        last = coords[:, -1] if self.shape else flat
        return [
            p // cut * stored + p % cut
            for p, cut, stored in zip((flat, last), self.logical, self.stored, strict=True)
        ]

    def coordinates(self, positions: list[Indices]) -> tuple[Indices, Mask]:
        real = np.ones(len(positions[0]), dtype=np.bool_)
        matrix: list[Indices] = []
        for p, cut, stored, size in zip(positions, self.logical, self.stored, to_2d(self.shape), strict=True):
            found = p // stored * cut + p % stored
            real &= (p % stored < cut) & (found < size)
            matrix.append(found)
        rest, axes = matrix[0], [matrix[1]]
        for size in reversed(self.shape[:-1]):
            axes.insert(0, rest % max(size, 1))
            rest = rest // max(size, 1)
        return _columns(axes[len(axes) - len(self.shape) :], len(real)), real

    def encode(self, array: Array, fill: float = 0) -> Array:
        (high, wide), (rows, columns) = self._counts, self.logical
        whole = padded(array.reshape(to_2d(self.shape)), (high * rows, wide * columns), fill)
        cut = whole.reshape(high, rows, wide, columns)
        return padded(cut, (high, self.stored[0], wide, self.stored[1]), fill).reshape(self.extents)

    def decode(self, stored: Array) -> Array:
        (high, wide), (rows, columns) = self._counts, self.logical
        cut = stored.reshape(high, self.stored[0], wide, self.stored[1])[:, :rows, :, :columns]
        matrix = to_2d(self.shape)
        return cut.reshape(high * rows, wide * columns)[: matrix[0], : matrix[1]].reshape(self.shape)


def encoding_of(layout: TensorLayout, shape: Sequence[int]) -> Encoding:
    """Choose the encoding that pads a tensor of a shape in a layout."""
    spec, shard = layout.memory.shard, layout.physical_shard_2d
    if spec is not None and spec.is_logical and shard is not None:
        return PaddedShards(tuple(shape), spec.shape, shard)
    nd = layout.memory.nd_shard
    return PaddedDimensions(tuple(shape), layout.padded_shape(shape), max(2, len(nd.shape) if nd else 2))


def encode(layout: TensorLayout, array: Array, fill: float = 0) -> Array:
    """Build the matrix (`physical_size`) that ttnn stores for a logical array, before tiles and shards order it."""
    rows, columns = layout.physical_size(array.shape)
    stored = encoding_of(layout, array.shape).encode(array, fill)
    return stored.reshape(-1, stored.shape[-1])[:rows, :columns]


def decode(layout: TensorLayout, shape: Sequence[int], physical: Array) -> Array:
    """Extract the logical array (shape) from a stored matrix (`physical_size`): the inverse of `encode`."""
    expected = layout.physical_size(shape)
    if physical.shape != expected:
        raise LayoutError(f"expected physical data of shape {list(expected)}, not {list(physical.shape)}")
    encoding = encoding_of(layout, shape)
    whole = padded(physical, (prod(encoding.extents[:-1]), encoding.extents[-1]), 0)
    return encoding.decode(whole.reshape(encoding.extents))


def _columns(axes: list[Indices], count: int) -> Indices:
    """Stack arrays (n,) as the columns of one (n, rank)."""
    return np.stack(axes, axis=1) if axes else np.zeros((count, 0), dtype=np.int64)
