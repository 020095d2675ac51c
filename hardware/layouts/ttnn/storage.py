"""Offsets of the slots of shards: a padded array split into shards, shards into pages, pages into faces.

Every dimension of the array is a number written in mixed radix (which shard, which page of it, which face, which
element), and an offset is the same digits in another order. That is all a ttnn layout does to padded data, so packing
is a reshape and a transposition, and offsets are sums of digits times strides.
"""

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapestry.hardware.layouts.layout import Indices
from tapestry.hardware.layouts.ttnn.tile import Pair


@dataclass(frozen=True)
class Digit:
    """A digit of a dimension: `value = position // weight % radix`, worth `value * stride` slots."""

    axis: int
    weight: int
    radix: int
    stride: int


@dataclass(frozen=True)
class Storage:
    """An array of at least 2 dimensions split into shards of the same rank; pages and faces split the last two.

    `extents` need not be multiples of `shard`: last shards are filled up. A shard is a multiple of a page (rows,
    columns), a page of a face. Shards, the pages of a shard, the faces of a page and the elements of a face are
    ordered row-major.
    """

    extents: tuple[int, ...]
    shard: tuple[int, ...]
    page: Pair
    face: Pair

    @property
    def shard_grid(self) -> tuple[int, ...]:
        """The number of shards along each dimension."""
        return tuple(-(-e // max(s, 1)) if s else 1 for e, s in zip(self.extents, self.shard, strict=True))

    @property
    def full_extents(self) -> tuple[int, ...]:
        """The extents with the last shards filled up."""
        return tuple(n * s for n, s in zip(self.shard_grid, self.shard, strict=True))

    @cached_property
    def radices(self) -> tuple[tuple[int, ...], ...]:
        """The radices of every dimension's digits, most significant first."""
        lead = [(n, s) for n, s in zip(self.shard_grid[:-2], self.shard[:-2], strict=True)]
        last = [
            (n, s // max(p, 1), p // max(f, 1), f)
            for n, s, p, f in zip(self.shard_grid[-2:], self.shard[-2:], self.page, self.face, strict=True)
        ]
        return (*lead, *last)

    @cached_property
    def digit_order(self) -> tuple[int, ...]:
        """The digits, counted through `radices`, in the order of the storage, most significant first."""
        starts = np.cumsum([0, *map(len, self.radices)])[:-1].tolist()
        lead, last = starts[:-2], starts[-2:]
        return (*starts, *(at + 1 for at in lead), *(at + level for level in (1, 2, 3) for at in last))

    @cached_property
    def digits(self) -> tuple[Digit, ...]:
        """The digits that vary, joined where neighbors are also neighbors in the storage."""
        flat = [radix for radices in self.radices for radix in radices]
        strides = [0] * len(flat)
        stride = 1
        for at in reversed(self.digit_order):
            strides[at] = stride
            stride *= flat[at]
        found: list[Digit] = []
        at = 0
        for axis, radices in enumerate(self.radices):
            weight = prod(radices)
            for radix in radices:
                weight //= max(radix, 1)
                digit = Digit(axis, weight, radix, strides[at])
                at += 1
                if radix == 1:
                    continue
                before = found[-1] if found else None
                if before and before.axis == axis and before.stride == digit.stride * radix:
                    found[-1] = Digit(axis, weight, before.radix * radix, digit.stride)
                else:
                    found.append(digit)
        return tuple(found)

    def offsets(self, positions: list[Indices]) -> Indices:
        """Compute the offsets (n,) of positions, one array (n,) for each dimension."""
        total = np.zeros(positions[0].shape, dtype=np.int64)
        for digit in self.digits:
            value = positions[digit.axis]
            if digit.weight > 1:
                value = value // digit.weight
            if digit.weight * digit.radix < self.full_extents[digit.axis]:
                value = value % digit.radix
            total += value * digit.stride if digit.stride > 1 else value
        return total

    def positions(self, offsets: Indices) -> list[Indices]:
        """Compute the positions in each dimension (n,) of offsets (n,); they may be in the padding of last shards."""
        found = [np.zeros(offsets.shape, dtype=np.int64) for _ in self.extents]
        for digit in self.digits:
            found[digit.axis] += offsets // digit.stride % digit.radix * digit.weight
        return found

    def scatter(self, array: NDArray[Any], fill: float) -> NDArray[Any]:
        """Split an array (extents) into shards (shards, slots), with `fill` in the padding of last shards."""
        full = padded(array, self.full_extents, fill)
        cut = full.reshape([radix for radices in self.radices for radix in radices])
        return np.ascontiguousarray(cut.transpose(self.digit_order)).reshape(
            prod(self.shard_grid), prod(self.shard)
        )

    def gather(self, shards: NDArray[Any]) -> NDArray[Any]:
        """Combine the shards (shards, slots) into their array (extents): the inverse of `scatter`."""
        flat = [radix for radices in self.radices for radix in radices]
        cut = shards.reshape([flat[at] for at in self.digit_order])
        full = cut.transpose(np.argsort(self.digit_order)).reshape(self.full_extents)
        return full[tuple(slice(extent) for extent in self.extents)]


def padded(array: NDArray[Any], extents: tuple[int, ...], fill: float) -> NDArray[Any]:
    """Pad the end of an array with `fill` up to some extents; return the array itself where it has them."""
    if array.shape == extents:
        return array
    whole = np.full(extents, fill, dtype=array.dtype)
    whole[tuple(slice(size) for size in array.shape)] = array
    return whole
