"""Detection of collectives: copies that are even on all devices, by the boxes that each one holds and needs.

A form that is even on all devices is one call of the library. Everything else is an exchange of pieces that every rank
computes from the specs.
"""

from __future__ import annotations

from itertools import permutations
from typing import NamedTuple

import numpy as np

from tapestry.teg.sharding.copies import CopyPlan, group_members
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import Spec, boxes, volumes
from tapestry.teg.sharding.transfers import Transfer, fetch_transfers


class CollectiveCall(NamedTuple):
    """One call of a library: the sub-axes of its groups, the dimensions that are joined and cut; -1 for none.

    Of each part that is cut, devices keep what they have by their position along the sub-axes `kept`.
    """

    axes: tuple[str, ...]
    joined: int
    cut: int
    kept: tuple[str, ...] = ()


class Regular(NamedTuple):
    """An even collective: its kind, its calls, and the boxes of what is sent where that is a part of what is held."""

    kind: str
    steps: tuple[CollectiveCall, ...]
    sent: np.ndarray | None = None


def is_local(plan: CopyPlan, shape: tuple[int, ...], mesh_shape: MeshShape) -> bool:
    """Return whether the fetch of a plan moves nothing between devices."""
    return all(t.axis < 0 for t in fetch_transfers(plan, shape, mesh_shape))


def regular_fetch(plan: CopyPlan, shape: tuple[int, ...], mesh_shape: MeshShape) -> Regular | None:
    """Return the all-gathers or the all-to-all that a fetch is; None where it is neither on all devices alike.

    Of dimensions of which all devices need the same part, that part is sent.
    """
    held, needed = boxes(plan.middle, shape, mesh_shape), boxes(plan.needed, shape, mesh_shape)
    sent = held.copy()
    fixed = (held == held[:1]).all(axis=(0, 2)) & (needed == needed[:1]).all(axis=(0, 2))
    sent[:, fixed] = needed[:, fixed]
    if (sent[:, :, 0] < held[:, :, 0]).any() or (sent[:, :, 1] > held[:, :, 1]).any():
        return None
    found = _exchanged(plan, sent, needed, mesh_shape) or _gathered(plan, sent, needed, mesh_shape)
    if found is None:
        return None
    members = group_members(mesh_shape, mesh_shape.in_order({a for step in found.steps for a in step.axes}))
    transfers = fetch_transfers(plan, shape, mesh_shape)
    before = volumes(needed) // members.shape[1] if found.kind == "all_to_all" else volumes(sent)
    if (
        _shares_outside(transfers, members)
        or _fetched(transfers, len(held)) != (volumes(needed) - before).tolist()
    ):
        return None
    return found if (sent == held).all() else found._replace(sent=sent)


def _exchanged(plan: CopyPlan, held: np.ndarray, needed: np.ndarray, mesh_shape: MeshShape) -> Regular | None:
    """Return the all-to-all that joins one dimension and cuts another."""
    different = np.flatnonzero((held != needed).any(axis=(0, 2))).tolist()
    for joined, cut in permutations(different, 2) if len(different) == 2 else ():
        axes = _released(plan.middle, plan.needed, joined)
        if not axes or axes != mesh_shape.in_order(axes):
            continue
        members = group_members(mesh_shape, axes)
        if _joins(held, needed, members, joined) and _cuts(
            held, needed, members, cut, mesh_shape.linear(axes)
        ):
            return Regular("all_to_all", (CollectiveCall(axes, joined, cut),))
    return None


def _gathered(plan: CopyPlan, held: np.ndarray, needed: np.ndarray, mesh_shape: MeshShape) -> Regular | None:
    """Return the all-gathers that join one dimension after the other, the first one last."""
    steps = []
    for joined in reversed(np.flatnonzero((held != needed).any(axis=(0, 2))).tolist()):
        axes = _released(plan.middle, plan.needed, joined)
        if not axes or axes != mesh_shape.in_order(axes):
            return None
        if not _joins(held, needed, group_members(mesh_shape, axes), joined):
            return None
        held = held.copy()
        held[:, joined] = needed[:, joined]
        steps.append(CollectiveCall(axes, joined, -1))
    return Regular("all_gather", tuple(steps)) if steps else None


def _fetched(transfers: tuple[Transfer, ...], count: int) -> list[int]:
    """Count the elements that each of `count` devices receives from others."""
    found = [0] * count
    for t in transfers:
        found[t.target] += t.end - t.start if t.source != t.target else 0
    return found


def regular_scatter(plan: CopyPlan, shape: tuple[int, ...], mesh_shape: MeshShape) -> Regular | None:
    """Return the even reduce-scatters that the scatter step of a plan is, if there is one step and it is even.

    What replicas on other sub-axes keep of a dimension, each cuts out of every part before it is sent.
    """
    if len(plan.scatter) != 1:
        return None
    ((_, scattered),) = plan.scatter
    held, middle = boxes(plan.source, shape, mesh_shape), boxes(plan.middle, shape, mesh_shape)
    steps = []
    for cut in np.flatnonzero((held != middle).any(axis=(0, 2))).tolist():
        axes = _released(plan.middle, plan.source, cut)
        count = sum(a in scattered for a in axes)
        members = group_members(mesh_shape, axes)
        if axes[:count] != mesh_shape.in_order(set(axes) & set(scattered)) or not count:
            return None
        if not _cuts(held, middle, members, cut, mesh_shape.linear(axes)):
            return None
        steps.append(CollectiveCall(axes[:count], -1, cut, axes[count:]))
    every = [a for step in steps for a in step.axes]
    return Regular("reduce_scatter", tuple(steps)) if sorted(every) == sorted(scattered) else None


def _released(held: Spec, needed: Spec, dim: int) -> tuple[str, ...]:
    """Return the sub-axes that split a dimension of what is held and not of what is needed."""
    kept = needed.dims[dim].axes
    return tuple(a for a in held.dims[dim].axes if a not in kept)


def _joins(held: np.ndarray, needed: np.ndarray, members: np.ndarray, dim: int) -> bool:
    """Return whether what is needed along a dimension is what the members hold there, one after the other, evenly."""
    parts = held[members][:, :, dim]
    sizes = parts[:, :, 1] - parts[:, :, 0]
    even = (sizes == sizes[0, 0]).all() and sizes[0, 0] > 0
    adjacent = (parts[:, 1:, 0] == parts[:, :-1, 1]).all()
    ends = (parts[:, 0, 0] == needed[:, dim, 0]).all() and (parts[:, -1, 1] == needed[:, dim, 1]).all()
    same = all((held[members][:, :, k] == held[:, None, k]).all() for k in range(held.shape[1]) if k != dim)
    return bool(even and adjacent and ends and same)


def _cuts(held: np.ndarray, needed: np.ndarray, members: np.ndarray, dim: int, position: np.ndarray) -> bool:
    """Return whether each device needs, along a dimension, the part of what it holds that has its position."""
    count = members.shape[1]
    size = held[:, dim, 1] - held[:, dim, 0]
    start = held[:, dim, 0] + position * (size // count)
    fits = (needed[:, dim, 0] == start) & (needed[:, dim, 1] == start + size // count)
    alike = (held[members][:, :, dim] == held[:, None, dim]).all()
    return bool((size > 0).all() and (size % count == 0).all() and fits.all() and alike)


def _shares_outside(transfers: tuple[Transfer, ...], members: np.ndarray) -> bool:
    """Return whether replicas outside the groups share a slow transfer, which a collective would do twice."""
    return any(t.gathered and t.source not in members[t.target] for t in transfers)
