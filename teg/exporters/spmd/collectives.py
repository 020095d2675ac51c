"""Detection of collectives: copies that are even on all devices, by the boxes that each one holds and needs.

A form that is even on all devices is one call of the library. Everything else is an exchange of pieces that every rank
computes from the specs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tapestry.teg.sharding.copies import CopyPlan, group_members
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import Spec, boxes
from tapestry.teg.sharding.transfers import Transfer, fetch_transfers


class Regular(NamedTuple):
    """An even collective: its kind, the sub-axes of its groups, the dimensions that are joined and cut."""

    kind: str
    axes: tuple[str, ...]
    joined: int
    cut: int


def is_local(plan: CopyPlan, shape: tuple[int, ...], mesh_shape: MeshShape) -> bool:
    """Return whether the fetch of a plan moves nothing between devices."""
    return all(t.axis < 0 for t in fetch_transfers(plan, shape, mesh_shape))


def regular_fetch(plan: CopyPlan, shape: tuple[int, ...], mesh_shape: MeshShape) -> Regular | None:
    """Return the all-gather or all-to-all that a fetch is; None where it is neither on all devices alike."""
    held, needed = boxes(plan.middle, shape, mesh_shape), boxes(plan.needed, shape, mesh_shape)
    different = [k for k in range(len(shape)) if (held[:, k] != needed[:, k]).any()]
    if not 1 <= len(different) <= 2:
        return None
    for joined in different:
        (cut,) = [k for k in different if k != joined] or (-1,)
        axes = _released(plan.middle, plan.needed, joined)
        if not axes or axes != mesh_shape.in_order(axes):
            continue
        members = group_members(mesh_shape, axes)
        if _joins(held, needed, members, joined) and (
            cut < 0 or _cuts(held, needed, members, cut, mesh_shape.linear(axes))
        ):
            if _shares_outside(fetch_transfers(plan, shape, mesh_shape), members):
                return None
            return Regular("all_gather" if cut < 0 else "all_to_all", axes, joined, cut)
    return None


def regular_scatter(plan: CopyPlan, shape: tuple[int, ...], mesh_shape: MeshShape) -> Regular | None:
    """Return the even reduce-scatter that the scatter steps of a plan are, if there is one step and it is even."""
    if len(plan.scatter) != 1:
        return None
    ((_, axes),) = plan.scatter
    held, middle = boxes(plan.source, shape, mesh_shape), boxes(plan.middle, shape, mesh_shape)
    different = [k for k in range(len(shape)) if (held[:, k] != middle[:, k]).any()]
    if len(different) != 1 or axes != mesh_shape.in_order(axes):
        return None
    (cut,) = different
    members = group_members(mesh_shape, axes)
    if not _cuts(held, middle, members, cut, mesh_shape.linear(axes)):
        return None
    return Regular("reduce_scatter", axes, -1, cut)


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
