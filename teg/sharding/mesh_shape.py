"""Mesh shapes: named axes of devices, split into ordered prime sub-axes, without topology and speed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np


def prime_factors(n: int) -> tuple[int, ...]:
    """Return the prime factors of `n`, ascending; none for 1."""
    factors, p = [], 2
    while n > 1:
        while n % p == 0:
            factors.append(p)
            n //= p
        p = p + 1 if p * p <= n else max(n, p + 1)
    return tuple(factors)


@dataclass(frozen=True)
class SubAxis:
    """A prime factor of a mesh axis; `gpu.0` is the most significant factor of axis `gpu`."""

    name: str
    axis: str
    size: int


@dataclass(frozen=True)
class MeshShape:
    """Axes `(name, size)`, slowest first. Device ids count row-major, the last axis fastest.

    Raises:
        ValueError: an axis of size below 1 or a repeated name.
    """

    axes: tuple[tuple[str, int], ...]

    def __post_init__(self) -> None:
        names = [name for name, _ in self.axes]
        if len(set(names)) != len(names) or any(size < 1 for _, size in self.axes):
            raise ValueError(f"mesh axes need different names and sizes of at least 1, not {self.axes}")

    @staticmethod
    def of(**sizes: int) -> MeshShape:
        """Build a mesh shape from sizes by axis name: `MeshShape.of(node=2, gpu=8)`."""
        return MeshShape(tuple(sizes.items()))

    @property
    def device_count(self) -> int:
        return prod(size for _, size in self.axes)

    @cached_property
    def sub_axes(self) -> tuple[SubAxis, ...]:
        """All prime sub-axes, slowest first."""
        return tuple(
            SubAxis(f"{name}.{k}", name, p)
            for name, size in self.axes
            for k, p in enumerate(prime_factors(size))
        )

    @cached_property
    def positions(self) -> dict[str, int]:
        """The position of each sub-axis by name."""
        return {s.name: k for k, s in enumerate(self.sub_axes)}

    @cached_property
    def coordinates(self) -> np.ndarray:
        """The coordinate of every device on every sub-axis, `(devices, sub_axes)`."""
        sizes = [s.size for s in self.sub_axes]
        return np.array(np.unravel_index(np.arange(self.device_count), sizes or [1])).T.reshape(
            self.device_count, -1
        )[:, : len(sizes)]

    @cached_property
    def axis_coordinates(self) -> np.ndarray:
        """The coordinate of every device on every whole axis, `(devices, axes)`."""
        sizes = [size for _, size in self.axes]
        return np.array(np.unravel_index(np.arange(self.device_count), sizes or [1])).T[:, : len(sizes)]

    def part(self, devices: str) -> MeshShape:
        """Return the submesh that a text like `node:1,gpu:4` uses: coordinate 0 of the idle sub-axes.

        Axes it does not name are used whole; an empty text is the whole mesh.

        Raises:
            ValueError: another form, an unknown axis, or a size that does not divide the axis's.
        """
        used = dict(self.axes)
        for item in filter(None, devices.split(",")):
            name, _, size = item.partition(":")
            if name not in used or not size.isdecimal() or int(size) < 1 or dict(self.axes)[name] % int(size):
                axes = ", ".join(f"{n}:{s}" for n, s in self.axes)
                raise ValueError(
                    f"devices {devices!r}: {item!r} is not axis:size with a size that divides an axis of {axes}"
                )
            used[name] = int(size)
        return MeshShape(tuple(used.items()))

    def parts(self) -> tuple[str, ...]:
        """List the whole mesh (an empty text), then ever smaller submeshes: the slowest sub-axes fall idle first."""
        sizes = dict(self.axes)
        texts = [""]
        for sub in self.sub_axes:
            sizes[sub.axis] //= sub.size
            texts.append(",".join(f"{n}:{s}" for n, s in sizes.items()))
        return tuple(texts)

    def size_of(self, sub_axes: Iterable[str]) -> int:
        """Count the devices along these sub-axes together."""
        return prod(self.sub_axes[self.positions[name]].size for name in sub_axes)

    def in_order(self, sub_axes: Iterable[str]) -> tuple[str, ...]:
        """Sort these sub-axes, slowest first."""
        return tuple(sorted(sub_axes, key=self.positions.__getitem__))

    def by_axis(self, sub_axes: Iterable[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Group these sub-axes by mesh axis, fastest axis first: the steps of a collective."""
        wanted = set(sub_axes)
        groups = []
        for name, _ in reversed(self.axes):
            mine = tuple(s.name for s in self.sub_axes if s.axis == name and s.name in wanted)
            if mine:
                groups.append((name, mine))
        return tuple(groups)

    def linear(self, sub_axes: tuple[str, ...]) -> np.ndarray:
        """Compute each device's position along `sub_axes`, the first most significant; `(devices,)`."""
        position = np.zeros(self.device_count, dtype=np.int64)
        for name in sub_axes:
            k = self.positions[name]
            position = position * self.sub_axes[k].size + self.coordinates[:, k]
        return position
