"""The bytes moved by the phases of a copy: received per device, round by round, as counted by either backend.

What counts as traffic is the convention "received bytes" of `docs/sharding.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from tapestry.hardware.mesh import Mesh
from tapestry.hardware.timing import copy_ticks, move_ticks
from tapestry.teg.sharding.copies import CopyPlan, Round, fetch_round, reduce_round, send_round
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import Spec

NOTHING_SLOW: Mapping[str, float] = MappingProxyType({})


class Exchange(NamedTuple):
    """A round and the bytes that each device received in it from others, `(devices,)`."""

    round: Round
    received_bytes: np.ndarray


class CopyCounts(NamedTuple):
    """The counts of one copy: sizes of result and staging `(devices,)`, its rounds in order, bytes per link.

    The devices are those of its stage. Of a copy between stages they are those of the sending one, then the others;
    `result_bytes` are those of the latter alone.

    `link_bytes` `(devices, devices)` is by `[source, target]`; None where it was counted by device class.
    `packed_bytes` are what devices move within their memories before and after rounds, one array `(devices,)` for each
    time, and `kept_bytes` `(devices,)` what they move meanwhile: what they hold already of the result.
    """

    result_bytes: np.ndarray
    staging_bytes: np.ndarray
    exchanges: tuple[Exchange, ...]
    link_bytes: np.ndarray | None
    packed_bytes: tuple[np.ndarray, ...]
    kept_bytes: np.ndarray

    @property
    def received_bytes(self) -> np.ndarray:
        """The bytes received in all rounds, `(devices,)`."""
        total = np.zeros_like(self.staging_bytes)
        for exchange in self.exchanges:
            total += exchange.received_bytes
        return total

    @property
    def busiest(self) -> tuple[tuple[Round, int], ...]:
        """The rounds, and the most bytes that a device receives in each."""
        return tuple((each.round, int(each.received_bytes.max(initial=0))) for each in self.exchanges)

    def ticks(self, mesh: Mesh, slow: Mapping[str, float] = NOTHING_SLOW) -> int:
        """Compute the duration: that of the rounds, each as long as its busiest receiver takes, beside them the move of
        what devices keep, and in addition what is packed. `slow` lengthens what crosses the links of mesh axes.
        """
        return sum(self.phases_ticks(mesh, slow))

    def phases_ticks(self, mesh: Mesh, slow: Mapping[str, float] = NOTHING_SLOW) -> tuple[int, int]:
        """Compute the two parts of the duration: of the rounds, and of what devices move within their memories."""
        busiest = self.busiest
        rounds = int(copy_ticks(mesh, [each for each, _ in busiest], [most for _, most in busiest], slow))
        kept = int(move_ticks(mesh.device, self.kept_bytes).max())
        packed = sum(int(move_ticks(mesh.device, packed).max()) for packed in self.packed_bytes)
        return (rounds, packed) if rounds >= kept else (0, kept + packed)


def fetch_exchanges(
    plan: CopyPlan,
    shape: tuple[int, ...],
    mesh_shape: MeshShape,
    direct_bytes: np.ndarray,
    gathered_bytes: np.ndarray,
) -> tuple[Exchange, ...]:
    """Build the rounds of a fetch: the bytes crossing each mesh axis, then the local gathers of split slow transfers.

    Both byte counts are `(axes, devices)`, axes slowest first; rounds that move nothing are left out.
    """
    names = [name for name, _ in mesh_shape.axes]
    direct = [
        Exchange(direct_round(plan, shape, name, mesh_shape), received_bytes)
        for name, received_bytes in zip(names, direct_bytes, strict=True)
        if received_bytes.any()
    ]
    gathers = [
        Exchange(replica_round(plan.needed, name, mesh_shape), received_bytes)
        for name, received_bytes in zip(names, gathered_bytes, strict=True)
        if received_bytes.any()
    ]
    return (*direct, *gathers)


def joined_counts(
    reduced: CopyCounts, fetched: CopyCounts, between_bytes: np.ndarray | None, is_between_stages: bool
) -> CopyCounts:
    """Join the counts of the two phases of a copy, which follow each other: on the same devices, or from stage to
    stage.

    `between_bytes` `(devices, devices)` is what the second phase fetches directly, by `[source, target]`.
    """
    if not is_between_stages:
        links = None
        if reduced.link_bytes is not None and fetched.link_bytes is not None and between_bytes is not None:
            links = reduced.link_bytes + fetched.link_bytes + between_bytes
        return CopyCounts(
            fetched.result_bytes,
            reduced.staging_bytes + fetched.staging_bytes,
            (*reduced.exchanges, *fetched.exchanges),
            links,
            (*reduced.packed_bytes, *fetched.packed_bytes),
            fetched.kept_bytes,
        )
    size = len(reduced.result_bytes)
    none = np.zeros(size, dtype=np.int64)

    def of_sender(amounts: np.ndarray) -> np.ndarray:
        return np.concatenate([amounts, none])

    def of_receiver(amounts: np.ndarray) -> np.ndarray:
        return np.concatenate([none, amounts])

    links = None
    if reduced.link_bytes is not None and fetched.link_bytes is not None and between_bytes is not None:
        links = np.block(
            [[reduced.link_bytes, between_bytes], [np.zeros_like(between_bytes), fetched.link_bytes]]
        )
    return CopyCounts(
        fetched.result_bytes,
        np.concatenate([reduced.staging_bytes, fetched.staging_bytes]),
        (
            *(Exchange(e.round, of_sender(e.received_bytes)) for e in reduced.exchanges),
            *(Exchange(e.round, of_receiver(e.received_bytes)) for e in fetched.exchanges),
        ),
        links,
        (*map(of_sender, reduced.packed_bytes), *map(of_receiver, fetched.packed_bytes)),
        of_receiver(fetched.kept_bytes),
    )


def direct_round(plan: CopyPlan, shape: tuple[int, ...], axis: str, mesh_shape: MeshShape) -> Round:
    """Build the round of what comes directly over one mesh axis."""
    if plan.route is not None and plan.route.axis == axis:
        return send_round(plan.route)
    return fetch_round(plan.middle, plan.needed, shape, axis, mesh_shape)


def replica_round(needed: Spec, axis: str, mesh_shape: MeshShape) -> Round:
    """Build the all-gather among the devices of one mesh axis that need the same elements."""
    used = {name for split in needed.dims for name in split.axes}
    mine = tuple(s.name for s in mesh_shape.sub_axes if s.axis == axis)
    free = tuple(name for name in mine if name not in used)
    # Windows may be equal by accident, along sub-axes that the spec does use.
    return reduce_round((axis, free or mine), "all_gather", mesh_shape)


def no_links(devices: int) -> np.ndarray:
    """Return zero bytes for every link, `(devices, devices)`."""
    return np.zeros((devices, devices), dtype=np.int64)


def per_device(values: Sequence[int]) -> np.ndarray:
    """Convert counts, one for each device, to an array `(devices,)`."""
    return np.array(values, dtype=np.int64)
