"""Counts of copies from boxes, without moving any data: the dry-run counterpart of `movement`."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tapestry.hardware.simulator.classes import count_fetch_by_class
from tapestry.hardware.simulator.fetches import count_fetch, moves_in_order, packed_elements
from tapestry.hardware.simulator.rounds import CopyCounts, Exchange, fetch_exchanges, joined_counts, no_links
from tapestry.teg.sharding.copies import CollectiveStep, CopyPlan, flat_slices, group_members, reduce_round
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.partition import is_run, lengths, nonempty
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
    packed, staging = list[np.ndarray](), np.zeros_like(result)
    exchanges = [
        *_count_scatter(plan, shape, mesh_shape, item_bytes, staging, packed, links),
        *_count_reduce(plan, shape, mesh_shape, item_bytes, staging, packed, links),
    ]
    reduced = CopyCounts(
        np.zeros_like(result), staging, tuple(exchanges), links, tuple(packed), np.zeros_like(result)
    )
    if not plan.fetch:
        return reduced._replace(result_bytes=result)
    if plan.reduces:
        staging += volumes(boxes(plan.middle, shape, mesh_shape)) * item_bytes
    sent, landed = moves_in_order(plan, shape, mesh_shape)
    if not sent:
        packed.append(packed_elements(plan, shape, mesh_shape) * item_bytes)
        staging += packed[-1]
    reduced = reduced._replace(packed_bytes=tuple(packed))
    between: np.ndarray | None = None
    if by_class:
        direct, gathered = count_fetch_by_class(plan, shape, mesh_shape)
    else:
        direct, gathered, (by_link, by_team) = count_fetch(plan, shape, mesh_shape)
        between, links = by_link * item_bytes, by_team * item_bytes
    kept = landed and not plan.relayout and plan.route is None
    fetched = CopyCounts(
        result,
        np.zeros_like(result) if landed else result,
        fetch_exchanges(plan, shape, mesh_shape, direct * item_bytes, gathered * item_bytes),
        links,
        () if landed else (result,),
        _common_volumes(plan, shape, mesh_shape) * item_bytes if kept else np.zeros_like(result),
    )
    return joined_counts(reduced, fetched, between, plan.route is not None)


def _common_volumes(plan: CopyPlan, shape: tuple[int, ...], mesh_shape: MeshShape) -> np.ndarray:
    """Count the elements of its result that each device holds before the fetch, `(devices,)`."""
    held, wanted = boxes(plan.middle, shape, mesh_shape), boxes(plan.needed, shape, mesh_shape)
    low = np.maximum(held[..., 0], wanted[..., 0])
    high = np.maximum(np.minimum(held[..., 1], wanted[..., 1]), low)
    return volumes(np.stack([low, high], axis=-1))


def _count_scatter(
    plan: CopyPlan,
    shape: tuple[int, ...],
    mesh_shape: MeshShape,
    item_bytes: int,
    staging: np.ndarray,
    packed: list[np.ndarray],
    links: np.ndarray | None,
) -> list[Exchange]:
    """Count the reduce-scatter steps: each device receives its next set from every peer of the step.

    What it sends to them in the first step it packs, if some part is no run of what it is cut from.
    """
    exchanges = []
    for done, step in enumerate(plan.scatter, start=1):
        members = group_members(mesh_shape, step[1])
        slice_bytes = _set_volumes(plan, shape, mesh_shape, plan.scatter[done:]) * item_bytes
        if done == 1 and is_cut(plan, shape, mesh_shape):
            packed.append(slice_bytes[members].sum(axis=1) - slice_bytes)
            staging += packed[-1]
        round_ = reduce_round(step, "reduce_scatter", mesh_shape)
        exchanges.append(Exchange(round_, (members.shape[1] - 1) * slice_bytes))
        _add_links(links, members, np.broadcast_to(slice_bytes[:, None], members.shape))
        if done == 1:
            staging += slice_bytes * (2 if len(plan.scatter) > 1 else 1)
    return exchanges


def is_cut(plan: CopyPlan, shape: tuple[int, ...], mesh_shape: MeshShape) -> bool:
    """Return whether the part that some device reduces is no run of the part that it holds before."""
    middle, source = boxes(plan.middle, shape, mesh_shape), boxes(plan.source, shape, mesh_shape)
    some = nonempty(middle)
    return not is_run(lengths(middle)[some], lengths(source)[some]).all()


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
    packed: list[np.ndarray],
    links: np.ndarray | None,
) -> list[Exchange]:
    """Count the all-reduce steps: slices of the flattened shard are reduced, then gathered in reverse order.

    A shard that is cut from a larger part, and no run of it, is packed before.
    """
    around = volumes(boxes(plan.middle, shape, mesh_shape))
    if plan.reduce and not plan.scatter and is_cut(plan, shape, mesh_shape):
        packed.append(around * item_bytes)
        staging += packed[-1]
    exchanges: list[Exchange] = []
    for step, (start, end) in zip(plan.reduce, flat_slices(around, plan.reduce, mesh_shape), strict=True):
        members = group_members(mesh_shape, step[1])
        own_bytes = (end - start) * item_bytes
        received_bytes = (members.shape[1] - 1) * own_bytes
        _add_links(links, members, np.broadcast_to(own_bytes[:, None], members.shape))
        gathered_bytes = around * item_bytes - own_bytes
        _add_links(links, members, own_bytes[members])
        exchanges.append(
            Exchange(reduce_round(step, "all_reduce", mesh_shape), received_bytes + gathered_bytes)
        )
        if not plan.scatter and len(exchanges) == 1:
            staging += own_bytes
        around = end - start
    return exchanges


def _add_links(links: np.ndarray | None, members: np.ndarray, size_bytes: np.ndarray) -> None:
    """Add `size_bytes` to the link into every device from each of its `members`, `(devices, members)` both."""
    if links is None:
        return
    targets = np.broadcast_to(np.arange(len(members))[:, None], members.shape)
    others = members != targets
    np.add.at(links, (members[others], targets[others]), size_bytes[others])
