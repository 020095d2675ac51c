"""Counts of copies from boxes, without moving any data: the dry-run counterpart of `movement`."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tapestry.hardware.simulator.classes import count_fetch_by_class
from tapestry.hardware.simulator.fetches import count_fetch, lands_in_order
from tapestry.hardware.simulator.rounds import CopyCounts, Exchange, fetch_exchanges, no_links
from tapestry.teg.sharding.copies import CollectiveStep, CopyPlan, flat_slices, group_members, reduce_round
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import boxes, volumes


@lru_cache(maxsize=4096)
def count_copy(
    plan: CopyPlan, shape: tuple[int, ...], mesh_shape: MeshShape, item_bytes: int, by_class: bool
) -> CopyCounts:
    """Count the sizes, staging and rounds of one copy of a tensor of `shape`.

    `by_class` evaluates the fetch for one device of every class of equal devices and leaves links out.
    """
    links = None if by_class else no_links(mesh_shape.device_count)
    result = volumes(boxes(plan.needed, shape, mesh_shape)) * item_bytes
    landed = np.zeros_like(result)
    staging = np.zeros(mesh_shape.device_count, dtype=np.int64)
    exchanges = [
        *_count_scatter(plan, shape, mesh_shape, item_bytes, staging, links),
        *_count_reduce(plan, shape, mesh_shape, item_bytes, staging, links),
    ]
    if plan.fetch:
        if plan.reduces:
            staging += volumes(boxes(plan.middle, shape, mesh_shape)) * item_bytes
        if links is None:
            direct, gathered = count_fetch_by_class(plan, shape, mesh_shape)
        else:
            direct, gathered, by_link = count_fetch(plan, shape, mesh_shape)
            links += by_link * item_bytes
        exchanges += fetch_exchanges(plan, mesh_shape, direct * item_bytes, gathered * item_bytes)
        if not lands_in_order(plan, shape, mesh_shape):
            landed = result
            staging += landed
    return CopyCounts(result, staging, tuple(exchanges), links, landed)


def _count_scatter(
    plan: CopyPlan,
    shape: tuple[int, ...],
    mesh_shape: MeshShape,
    item_bytes: int,
    staging: np.ndarray,
    links: np.ndarray | None,
) -> list[Exchange]:
    """Count the reduce-scatter steps: each device receives its next set from every peer of the step."""
    exchanges = []
    for done, step in enumerate(plan.scatter, start=1):
        members = group_members(mesh_shape, step[1])
        slice_bytes = _set_volumes(plan, shape, mesh_shape, plan.scatter[done:]) * item_bytes
        round_ = reduce_round(step, "reduce_scatter", mesh_shape)
        exchanges.append(Exchange(round_, (members.shape[1] - 1) * slice_bytes))
        _add_links(links, members, np.broadcast_to(slice_bytes[:, None], members.shape))
        if done == 1:
            staging += slice_bytes * (2 if len(plan.scatter) > 1 else 1)
    return exchanges


def _set_volumes(
    plan: CopyPlan, shape: tuple[int, ...], mesh_shape: MeshShape, later: tuple[CollectiveStep, ...]
) -> np.ndarray:
    """Count the elements each device still reduces with the steps `later` ahead, `(devices,)`.

    The chunks of one dimension are disjoint, so its part is a sum over the sub-axes still to be scattered.
    """
    middle = boxes(plan.middle, shape, mesh_shape)
    names = {name for _, axes in later for name in axes}
    volume = np.ones(mesh_shape.device_count, dtype=np.int64)
    for k, split in enumerate(plan.middle.dims):
        lengths = middle[:, k, 1] - middle[:, k, 0]
        mine = mesh_shape.in_order(name for name in split.axes if name in names)
        volume *= lengths[group_members(mesh_shape, mine)].sum(axis=1) if mine else lengths
    return volume


def _count_reduce(
    plan: CopyPlan,
    shape: tuple[int, ...],
    mesh_shape: MeshShape,
    item_bytes: int,
    staging: np.ndarray,
    links: np.ndarray | None,
) -> list[Exchange]:
    """Count the all-reduce steps: slices of the flattened shard are reduced, then gathered in reverse order."""
    around = volumes(boxes(plan.middle, shape, mesh_shape))
    reductions, gathers = [], []
    for step, (start, end) in zip(plan.reduce, flat_slices(around, plan.reduce, mesh_shape), strict=True):
        members = group_members(mesh_shape, step[1])
        own_bytes = (end - start) * item_bytes
        received_bytes = (members.shape[1] - 1) * own_bytes
        reductions.append(Exchange(reduce_round(step, "reduce_scatter", mesh_shape), received_bytes))
        _add_links(links, members, np.broadcast_to(own_bytes[:, None], members.shape))
        gathered_bytes = around * item_bytes - own_bytes
        gathers.append(Exchange(reduce_round(step, "all_gather", mesh_shape), gathered_bytes))
        _add_links(links, members, own_bytes[members])
        if not plan.scatter and len(reductions) == 1:
            staging += own_bytes
        around = end - start
    return [*reductions, *reversed(gathers)]


def _add_links(links: np.ndarray | None, members: np.ndarray, size_bytes: np.ndarray) -> None:
    """Add `size_bytes` to the link into every device from each of its `members`, `(devices, members)` both."""
    if links is None:
        return
    targets = np.broadcast_to(np.arange(len(members))[:, None], members.shape)
    others = members != targets
    np.add.at(links, (members[others], targets[others]), size_bytes[others])
