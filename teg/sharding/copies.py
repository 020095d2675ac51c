"""Copies that convert a tensor from its producer spec to the spec a block needs.

Decides the form of a copy (view, reductions, fetch) once for predictor, expansion and simulator; each of
them counts bytes by its own code. It follows the conventions "single split", "nearest holder", "axis by axis"
and "staging" of `docs/sharding.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.partition import same_boxes
from tapestry.teg.sharding.spec import WHOLE, ChunkWindow, Spec, Split, boxes, contains
from tapestry.teg.sharding.stages import Route

CollectiveStep = tuple[str, tuple[str, ...]]
"""One step of a collective: a mesh axis and the named sub-axes of it."""


@dataclass(frozen=True)
class CopyPlan:
    """A copy as phases: reduce-scatter steps, all-reduce steps (fastest axis first), then a fetch.

    `middle` is the spec after the reductions (the source's own where there are none). `fetch` says
    whether `needed` is then assembled from the pieces of `middle`, each missing element once. A `relayout` changes the
    physical layout and nothing else. A copy with a `route` is between two stages: the sending one reduces, and all that
    the other one needs is fetched that way.
    """

    source: Spec
    needed: Spec
    scatter: tuple[CollectiveStep, ...]
    reduce: tuple[CollectiveStep, ...]
    middle: Spec
    fetch: bool
    relayout: bool = False
    route: Route | None = None

    @property
    def reduces(self) -> bool:
        return bool(self.scatter or self.reduce)


@lru_cache(maxsize=65536)
def plan_copy(
    source: Spec,
    needed: Spec,
    shape: tuple[int, ...],
    mesh_shape: MeshShape,
    route: Route | None = None,
) -> CopyPlan | None:
    """Plan the copy that turns `source` into `needed`; None where the needed part is a view of the local buffer.

    Where `needed` is exact, that is the whole of the local buffer. With a `route`, the copy is to another stage of the
    same shape, which has no part of the tensor yet.
    """
    held, wanted = boxes(source, shape, mesh_shape), boxes(needed, shape, mesh_shape)
    if not source.partial:
        is_there = contains(held, wanted).all() and (not needed.exact or same_boxes(held, wanted).all())
        if is_there and route is None:
            return None
        return CopyPlan(source, needed, (), (), source, True, route=route)
    middle, scattered = intermediate_spec(source, needed, mesh_shape)
    between = boxes(middle, shape, mesh_shape)
    if not contains(held, between).all() or _overfull(middle, shape, mesh_shape):
        middle, scattered = source.whole(), ()
        between = held
    remaining = tuple(a for a in source.partial if a not in scattered)
    scatter, reduce = mesh_shape.by_axis(scattered), mesh_shape.by_axis(remaining)
    fetch = route is not None or not same_boxes(between, wanted).all()
    return CopyPlan(source, needed, scatter, reduce, middle, fetch, route=route)


def local_copy(source: Spec, needed: Spec) -> CopyPlan:
    """Plan the copy of a local buffer into another physical layout: nothing moves between devices."""
    return CopyPlan(source, needed, (), (), source, True, relayout=True)


def _overfull(spec: Spec, shape: tuple[int, ...], mesh_shape: MeshShape) -> bool:
    """Return whether a dimension has more devices than elements: combining there would leave some without work."""
    return any(mesh_shape.size_of(split.axes) > size for split, size in zip(spec.dims, shape, strict=True))


def intermediate_spec(source: Spec, needed: Spec, mesh_shape: MeshShape) -> tuple[Spec, tuple[str, ...]]:
    """Return the spec in which partial terms are combined, and the partial axes that are scattered on the way.

    Every dimension without a window takes the axes the consumer spec adds: partial ones are reduce-scattered,
    replicated ones are sliced locally first. A constant slice is taken before the reduction.
    """
    used = {a for split in source.dims for a in split.axes}
    dims: list[Split] = []
    windows: list[ChunkWindow | None] = []
    scattered: list[str] = []
    for k, split in enumerate(source.dims):
        window = needed.window(k)
        if window is not None:
            constant = window.stride == 0 and not split.axes
            dims.append(WHOLE if constant else split)
            windows.append(window if constant else None)
            continue
        added = [a for a in needed.dims[k].axes if a not in used]
        scattered.extend(a for a in added if a in source.partial)
        granule = needed.dims[k].granule if added else split.granule
        axes = mesh_shape.in_order((*split.axes, *added)) if added else split.axes
        dims.append(Split(axes, granule) if axes else WHOLE)
        windows.append(None)
    return Spec(tuple(dims), windows=tuple(windows) if any(windows) else ()), tuple(scattered)


def scatter_members(mesh_shape: MeshShape, steps: Sequence[CollectiveStep], done: int) -> np.ndarray:
    """Return the devices whose parts a device still holds after `done` scatter steps, `(devices, members)`.

    They differ from it only along the sub-axes of the steps that are still to come.
    """
    later = tuple(a for _, axes in steps[done:] for a in axes)
    return group_members(mesh_shape, mesh_shape.in_order(later))


@lru_cache(maxsize=4096)
def group_members(mesh_shape: MeshShape, sub_axes: tuple[str, ...]) -> np.ndarray:
    """Return for each device the devices that differ from it only along `sub_axes`, by position; `(devices, size)`."""
    own = mesh_shape.linear(sub_axes)
    others = tuple(s.name for s in mesh_shape.sub_axes if s.name not in sub_axes)
    group = mesh_shape.linear(others)
    members = np.empty((int(group.max(initial=0)) + 1, mesh_shape.size_of(sub_axes)), dtype=np.int64)
    members[group, own] = np.arange(mesh_shape.device_count)
    found: np.ndarray = members[group]
    return found


def flat_slices(
    length: np.ndarray, steps: Sequence[CollectiveStep], mesh_shape: MeshShape
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Compute each all-reduce step's slice `[start, end)` of the flattened shard per device; `(devices,)` each."""
    start, end = np.zeros_like(length), length.copy()
    result = []
    for _, axes in steps:
        size = -(-(end - start) // mesh_shape.size_of(axes))
        position = mesh_shape.linear(axes)
        first = np.minimum(start + position * size, end)
        start, end = first, np.minimum(first + size, end)
        result.append((start, end))
    return result


class Round(NamedTuple):
    """The use of one mesh axis by a phase of a copy: kind of exchange, group size, distance between neighbors."""

    axis: str
    kind: str
    members: int
    stride: int


def reduce_round(step: CollectiveStep, kind: str, mesh_shape: MeshShape) -> Round:
    """Build the round of one step of a collective over named sub-axes."""
    axis, names = step
    return Round(axis, kind, mesh_shape.size_of(names), _stride(names, axis, mesh_shape))


@lru_cache(maxsize=65536)
def fetch_round(
    middle: Spec, needed: Spec, shape: tuple[int, ...], axis: str, mesh_shape: MeshShape
) -> Round:
    """Build the round of a fetch over one mesh axis: all-gather, broadcast, all-to-all, or pieces from neighbors.

    The kind follows from what is exchanged, whether or not the reader has windows. Sub-axes along which devices no
    longer differ in what they hold are gathered, or broadcast where one member of every group holds all that is read;
    ones that move to another dimension exchange all to all; where none does either, devices fetch halos and pieces of
    chunks that do not nest. A group is the whole axis where such pieces come in as well.
    """
    mine = {s.name for s in mesh_shape.sub_axes if s.axis == axis}
    place = {a: k for k, split in enumerate(needed.dims) for a in split.axes if not _is_constant(needed, k)}
    held = [(a, k) for k, split in enumerate(middle.dims) for a in split.axes if a in mine]
    released = [a for a, k in held if place.get(a) != k]
    if not released:
        return Round(axis, "fetch", dict(mesh_shape.axes)[axis], 1)
    kind = "all_to_all" if any(a in place for a in released) else "all_gather"
    names = mesh_shape.in_order(released)
    if any(place.get(a) == k and _is_irregular(middle, needed, k) for a, k in held):
        names = mesh_shape.in_order(mine)
    elif kind == "all_gather" and _has_one_owner(middle, needed, shape, (axis, names), mesh_shape):
        kind = "broadcast"
    return reduce_round((axis, names), kind, mesh_shape)


def send_round(route: Route) -> Round:
    """Build the round of what goes from one stage to another: devices in pairs, one of each stage."""
    return Round(route.axis, "send", 2, route.distance)


def _has_one_owner(
    middle: Spec, needed: Spec, shape: tuple[int, ...], step: CollectiveStep, mesh_shape: MeshShape
) -> bool:
    """Return whether, for every device, all it reads across an axis is held at one place of its group there.

    Devices at the same place of the group differ on faster axes only.
    """
    axis, names = step
    held, wanted = boxes(middle, shape, mesh_shape), boxes(needed, shape, mesh_shape)
    level = [name for name, _ in mesh_shape.axes].index(axis)
    slower = mesh_shape.axis_coordinates[:, :level]
    others = [k for k, s in enumerate(mesh_shape.sub_axes) if s.axis == axis and s.name not in names]
    fixed = np.concatenate([slower, mesh_shape.coordinates[:, others]], axis=1)
    place = mesh_shape.axis_coordinates[:, level]
    for device, box in enumerate(wanted):
        common = np.minimum(held[..., 1], box[:, 1]) > np.maximum(held[..., 0], box[:, 0])
        holds = common.all(axis=1) & (fixed == fixed[device]).all(axis=1)
        if len(np.unique(place[holds])) > 1:
            return False
    return True


def _is_constant(needed: Spec, dim: int) -> bool:
    """Return whether all devices read the same range of a dimension."""
    window = needed.window(dim)
    return window is not None and window.stride == 0


def _is_irregular(middle: Spec, needed: Spec, dim: int) -> bool:
    """Return whether devices that keep their place in a dimension need more than their chunk of it."""
    if needed.window(dim) is not None:
        return not _is_constant(needed, dim)
    held, wanted = middle.dims[dim], needed.dims[dim]
    return bool(held.axes and wanted.axes) and held.granule != wanted.granule


def _stride(names: tuple[str, ...], axis: str, mesh_shape: MeshShape) -> int:
    """Compute the distance along the axis between neighbors of a group over `names`."""
    stride = 1
    for sub in reversed([s for s in mesh_shape.sub_axes if s.axis == axis]):
        if sub.name in names:
            break
        stride *= sub.size
    return stride
