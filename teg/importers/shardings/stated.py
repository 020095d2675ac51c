"""Shardings as another program states them: by tensor, over the axes of its mesh, before they meet a graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from tapestry.teg.sharding.spec import WHOLE, Split

# The monoids of DTensor's reductions.
MONOIDS = {"sum": "sum", "product": "prod", "max": "max", "min": "min"}


class ShardingError(ValueError):
    """Error raised for stated shardings that cannot be read or do not fit; `faults` are all of them."""

    def __init__(self, *faults: str) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


@dataclass(frozen=True)
class StatedAxis:
    """An axis of the stated mesh, whose devices count row-major; `sub_axes` where it says which it joins."""

    name: str
    size: int
    sub_axes: tuple[str, ...] = ()


@dataclass(frozen=True)
class StatedSharding:
    """The sharding of a tensor: splits of its first dimensions, the rest whole; or of `factors` that a plan stores."""

    name: str
    dims: tuple[Split, ...]
    partial: tuple[str, ...] = ()
    monoid: str | None = None
    factors: tuple[int, ...] | None = None


@dataclass(frozen=True)
class StatedShardings:
    """The shardings of a program's tensors on one mesh."""

    axes: tuple[StatedAxis, ...]
    tensors: tuple[StatedSharding, ...] = field(default_factory=tuple)


def axes_of(sizes: Mapping[str, int]) -> tuple[StatedAxis, ...]:
    """Return the axes of a mesh, slowest first."""
    return tuple(StatedAxis(name, size) for name, size in sizes.items())


def from_partition_specs(axes: Mapping[str, int], specs: Mapping[str, Iterable[Any]]) -> StatedShardings:
    """Read PartitionSpecs of JAX by the tensors' names, on a mesh of these axes.

    Raises:
        ShardingError: an entry is neither None, an axis nor a tuple of axes.
    """
    faults: list[str] = []
    tensors = []
    for name, spec in specs.items():
        dims = []
        for entry in spec:
            names = () if entry is None else (entry,) if isinstance(entry, str) else entry
            if not isinstance(names, Sequence) or not all(isinstance(axis, str) for axis in names):
                faults.append(f"{name}: {entry!r} is no entry of a PartitionSpec: None, an axis, or axes")
                continue
            dims.append(Split(tuple(names)) if names else WHOLE)
        tensors.append(StatedSharding(name, tuple(dims)))
    if faults:
        raise ShardingError(*faults)
    return StatedShardings(axes_of(axes), tuple(tensors))


def from_placements(axes: Mapping[str, int], placements: Mapping[str, Sequence[Any]]) -> StatedShardings:
    """Read DTensor placements by the tensors' names, on a mesh of these axes.

    Raises:
        ShardingError: another number of placements than axes, or one that is neither Shard, Replicate nor Partial.
    """
    faults: list[str] = []
    tensors = []
    for name, own in placements.items():
        if len(own) != len(axes):
            faults.append(
                f"{name}: {len(own)} placements on a mesh of {len(axes)} axes; write one for each axis"
            )
            continue
        split: dict[int, tuple[str, ...]] = {}
        partial: dict[str, str] = {}
        for axis, placement in zip(axes, own, strict=True):
            kind = getattr(placement, "kind", type(placement).__name__)
            if kind == "Shard" and isinstance(placement.dim, int) and placement.dim >= 0:
                split[placement.dim] = (*split.get(placement.dim, ()), axis)
            elif kind == "Partial" and placement.reduce_op in MONOIDS:
                partial[axis] = MONOIDS[placement.reduce_op]
            elif kind != "Replicate":
                faults.append(
                    f"{name}: {placement!r} is not read; write Shard of a dimension from 0, or Replicate"
                )
        if len(set(partial.values())) > 1:
            faults.append(f"{name}: terms of two reductions, {' and '.join(sorted(set(partial.values())))}")
            continue
        dims = tuple(Split(split[k]) if k in split else WHOLE for k in range(max(split, default=-1) + 1))
        tensors.append(StatedSharding(name, dims, tuple(partial), next(iter(partial.values()), None)))
    if faults:
        raise ShardingError(*faults)
    return StatedShardings(axes_of(axes), tuple(tensors))


def from_mesh_mappers(
    axes: Mapping[str, int], mappers: Mapping[str, tuple[Sequence[Any], Sequence[int]]]
) -> StatedShardings:
    """Read mesh mappers of ttnn by the tensors' names: placements, and the shape of the mesh that they are for.

    The mesh has the devices of `axes`, row-major; an axis of its own joins neighboring ones of `axes`. An empty shape
    is that of `axes`.

    Raises:
        ShardingError: an axis of a mesh joins no axes of `axes`, another number of placements, or another placement.
    """
    faults: list[str] = []
    tensors = []
    for name, (placements, shape) in mappers.items():
        runs = _joined_axes(axes, shape or list(axes.values()))
        if runs is None or len(runs) != len(placements):
            faults.append(
                f"{name}: a mesh of shape {list(shape)} and {len(placements)} placements do not fit "
                f"the axes {dict(axes)}"
            )
            continue
        split: dict[int, tuple[str, ...]] = {}
        for run, placement in zip(runs, placements, strict=True):
            if placement.kind == "PlacementShard" and isinstance(placement.dim, int) and placement.dim >= 0:
                split[placement.dim] = (*split.get(placement.dim, ()), *run)
            elif placement.kind != "PlacementReplicate":
                faults.append(f"{name}: write PlacementShard of a dimension from 0, or PlacementReplicate")
        dims = tuple(Split(split[k]) if k in split else WHOLE for k in range(max(split, default=-1) + 1))
        tensors.append(StatedSharding(name, dims))
    if faults:
        raise ShardingError(*faults)
    return StatedShardings(axes_of(axes), tuple(tensors))


def _joined_axes(axes: Mapping[str, int], shape: Sequence[int]) -> list[tuple[str, ...]] | None:
    """Return the axes that each axis of another shape of the mesh joins; None where one begins inside an axis."""
    waiting = list(axes)
    runs = []
    for size in shape:
        run: list[str] = []
        while waiting and prod(axes[axis] for axis in run) < size:
            run.append(waiting.pop(0))
        if prod(axes[axis] for axis in run) != size:
            return None
        runs.append(tuple(run))
    return None if any(axes[axis] > 1 for axis in waiting) else runs
