"""A table of shardings in the user's terms: tensors by the program's names, dimensions over axes of a logical mesh.

A logical mesh has as many axes as the shardings need: sub-axes that are always used together are one axis of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from tapestry.teg.sharding.mesh_shape import MeshShape

INPUT, PARAMETER, BUFFER, STATE, OUTPUT, INTERMEDIATE = ROLES = (
    "input",
    "parameter",
    "buffer",
    "state",
    "output",
    "intermediate",
)


@dataclass(frozen=True)
class LogicalAxis:
    """An axis of the logical mesh: `sub_axes` are the sub-axes of the plan's mesh that it joins, slowest first."""

    name: str
    size: int
    sub_axes: tuple[str, ...]


@dataclass(frozen=True)
class DimSharding:
    """The sharding of one dimension: over `axes`, the first most significant, in chunks of `chunk` elements.

    Device number i along the axes holds the elements from `i * chunk` to `(i + 1) * chunk`, cut off at the size.
    `granule` is what the plan rounded the chunk up to. `fault` says why the plan's split of this dimension cannot be
    stated over it; then it has no axes.
    """

    chunk: int
    axes: tuple[str, ...] = ()
    granule: int = 1
    fault: str = ""


@dataclass(frozen=True)
class FactoredDims:
    """The plan's own sharding of a tensor that it stores in factored dimensions.

    `groups` has for each of the user's dimensions the dimensions of `shape` that are its factors, outermost first;
    it is None where the tensor's elements are not so arranged.
    """

    shape: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...] | None
    dims: tuple[DimSharding, ...]


@dataclass(frozen=True)
class ReadSharding:
    """The sharding in which the block that makes a tensor reads another one, `name`: it is moved there before."""

    name: str
    dims: tuple[DimSharding, ...]


@dataclass(frozen=True)
class TensorSharding:
    """The sharding of a tensor of the user's program, in the user's dimensions.

    `site` is the block of the graph that makes (an output: observes) it. On the axes `partial` the devices hold terms
    that `monoid` combines; on all axes that are not named they hold copies. `layout` is the text of the physical
    layout, empty for the device's default; `carries` names the state whose next value an output is. `reads` are the
    tensors that the block reads otherwise than they are left.
    """

    name: str
    role: str
    site: str
    shape: tuple[int, ...]
    dtype: str
    dims: tuple[DimSharding, ...]
    partial: tuple[str, ...] = ()
    monoid: str | None = None
    factored: FactoredDims | None = None
    layout: str = ""
    carries: str | None = None
    reads: tuple[ReadSharding, ...] = ()

    @property
    def is_boundary(self) -> bool:
        """True if it enters or leaves the program."""
        return self.role != INTERMEDIATE

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that the stated dimensions are split over."""
        return tuple(axis for dim in self.dims for axis in dim.axes)


@dataclass(frozen=True)
class ShardingTable:
    """The shardings of a program's tensors on a logical mesh, whose devices count row-major over `axes`.

    `mesh` are the axes and sizes of the plan's mesh, of which `devices` (`gpu:4`; empty: all) take part. With
    `micro_batches` (`4 x tokens[0]`), the plan has rounds, whose slices are divided so; no table makes the rounds.
    """

    program: str
    plan: str
    mesh: tuple[tuple[str, int], ...]
    devices: str
    axes: tuple[LogicalAxis, ...]
    tensors: tuple[TensorSharding, ...]
    micro_batches: str = ""

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The size of each axis."""
        return {axis.name: axis.size for axis in self.axes}

    @property
    def device_count(self) -> int:
        return prod(axis.size for axis in self.axes)

    @cached_property
    def logical_shape(self) -> MeshShape:
        """The logical mesh as a mesh shape; its devices have the numbers of the plan's."""
        return MeshShape(tuple((axis.name, axis.size) for axis in self.axes))

    @cached_property
    def by_name(self) -> dict[str, TensorSharding]:
        """The tensors by name."""
        return {tensor.name: tensor for tensor in self.tensors}

    def of_roles(self, roles: Iterable[str]) -> tuple[TensorSharding, ...]:
        """Return the tensors of these roles, in order."""
        wanted = frozenset(roles)
        return tuple(tensor for tensor in self.tensors if tensor.role in wanted)

    def parts(self, axes: Sequence[str]) -> int:
        """Count the devices along these axes together."""
        return prod(self.sizes[axis] for axis in axes)

    def positions(self, axes: Sequence[str]) -> np.ndarray:
        """Compute each device's position along `axes`, the first most significant; `(devices,)`."""
        shape = [axis.size for axis in self.axes]
        coordinates = dict(zip(self.sizes, np.indices(shape).reshape(len(shape), -1), strict=True))
        position = np.zeros(self.device_count, dtype=np.int64)
        for axis in axes:
            position = position * self.sizes[axis] + coordinates[axis]
        return position

    def boxes(self, tensor: TensorSharding) -> np.ndarray:
        """Compute the box of a tensor that each device holds as the stated dimensions have it, `(devices, rank, 2)`."""
        result = np.zeros((self.device_count, len(tensor.shape), 2), dtype=np.int64)
        for k, (size, dim) in enumerate(zip(tensor.shape, tensor.dims, strict=True)):
            start = np.minimum(self.positions(dim.axes) * dim.chunk, size)
            result[:, k, 0], result[:, k, 1] = start, np.minimum(start + dim.chunk, size)
        return result
