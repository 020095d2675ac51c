"""Storage costs of a tensor where devices have several dimension orders: padded sizes, and local copies between
orders.

Kept apart from resharding (`costmodel.resharding_tables`), so that dimension orders do not multiply its tables. A
copy into another dimension order reads and writes the part that is needed once more, on the link stream like all
copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tapestry.costmodel.lowered_specs import lowered
from tapestry.costmodel.resharding_tables import ReshardingTable
from tapestry.hardware.device import Device
from tapestry.hardware.layouts.native import Native, stored_bytes
from tapestry.hardware.timing import block_ticks, energy_pj
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.graph import TensorType
from tapestry.teg.sharding.host import HOST
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import Spec


@dataclass(frozen=True)
class SpecsWithDimensionOrders:
    """Specs and dimension orders of a tensor; `s * len(dimension_orders) + o` is spec `s` in order `o`."""

    specs: tuple[Spec, ...]
    dimension_orders: tuple[str, ...]

    @property
    def count(self) -> int:
        return len(self.specs) * len(self.dimension_orders)


def part_shapes(specs: Sequence[Spec], shape: tuple[int, ...], mesh_shape: MeshShape) -> np.ndarray:
    """Compute the shapes of the parts that devices hold or need in each spec, `(specs, devices, rank)`."""
    boxes = lowered(specs, shape, mesh_shape).boxes
    found: np.ndarray = np.maximum(boxes[..., 1] - boxes[..., 0], 0)
    return found


@dataclass(frozen=True)
class StorageTable:
    """Resharding between specs, sizes of stored parts, and local copies between dimension orders.

    `made_bytes` and `needed_bytes` `(placed, devices)` are those of specs in their dimension orders. `relayout_ticks`
    (-1: the same order) and `relayout_energy_pj` `(made orders, placed needs)` are of storing the needed part in a new
    order; zero for a copy to or from the host. Of that, `host_bytes` `(placed, devices)`, those made before those
    needed, are what the host's memory has of each part, or its link carries; empty where nothing lies on the host.
    """

    between: ReshardingTable
    made_bytes: np.ndarray
    needed_bytes: np.ndarray
    relayout_ticks: np.ndarray
    relayout_energy_pj: np.ndarray
    host_bytes: np.ndarray
    is_on_host: np.ndarray

    @property
    def staging_bytes(self) -> np.ndarray:
        """The distinct staging sizes `(rows, devices)`: parts in transit are not stored."""
        return self.between.staging_bytes


def stored_table(
    between: ReshardingTable,
    kind: TensorType,
    made: SpecsWithDimensionOrders,
    needed: SpecsWithDimensionOrders,
    native: Native,
    device: Device,
    mesh_shape: MeshShape,
) -> StorageTable:
    """Build the table for tensors of a type, whose resharding costs `between`."""
    same = np.full((len(made.dimension_orders), needed.count), -1, dtype=np.int64)
    uses_host = HOST in (*made.dimension_orders, *needed.dimension_orders)
    if native.tiles is None and not uses_host:
        plain = between.made_bytes, between.needed_bytes, same, np.zeros_like(same)
        return StorageTable(between, *plain, *_NOTHING_ON_HOST)
    has = part_shapes(made.specs, kind.shape, mesh_shape)
    have = _sizes(native, made.dimension_orders, has, kind).reshape(made.count, -1)
    if not needed.count:
        on_host = _on_host(kind, made, has) if uses_host else _NOTHING_ON_HOST
        return StorageTable(between, have, between.needed_bytes, same, same, *on_host)
    want = part_shapes(needed.specs, kind.shape, mesh_shape)
    reads = _sizes(native, made.dimension_orders, want, kind)
    writes = _sizes(native, needed.dimension_orders, want, kind)
    # (made orders, needed specs, needed orders, devices)
    moved = reads.transpose(1, 0, 2)[:, :, None] + writes[None]
    pairs = [[(a, b) for b in needed.dimension_orders] for a in made.dimension_orders]
    other = np.array([[a != b for a, b in row] for row in pairs])[:, None]
    stays = np.array([[HOST not in pair for pair in row] for row in pairs])[:, None]
    ticks = np.where(stays, block_ticks(device, "move", 0, moved, kind.dtype).max(axis=-1), 0)
    energy = np.zeros_like(ticks)
    if device.missing_energy_figure is None:
        energy = np.where(stays, energy_pj(device, kind.dtype, 0, moved, 0, kind="vector").sum(axis=-1), 0)
    on_host = _NOTHING_ON_HOST
    if uses_host:
        there, wanted = _on_host(kind, made, has), _on_host(kind, needed, want)
        on_host = np.concatenate([there[0], wanted[0]]), np.concatenate([there[1], wanted[1]])
    return StorageTable(
        between,
        have,
        writes.reshape(needed.count, -1),
        np.where(other, ticks, -1).reshape(same.shape),
        np.where(other, energy, 0).reshape(same.shape),
        *on_host,
    )


_NOTHING_ON_HOST: tuple[np.ndarray, np.ndarray] = (
    np.zeros((0, 0), dtype=np.int64),
    np.zeros(0, dtype=np.bool_),
)


def _on_host(
    kind: TensorType, placed: SpecsWithDimensionOrders, shapes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the bytes of parts of `shapes` on the host, `(placed, devices)`, and which of them lie there."""
    orders = placed.dimension_orders
    size_bytes = np.repeat(shapes.prod(axis=-1, dtype=np.int64) * item_bytes(kind.dtype), len(orders), axis=0)
    return size_bytes, np.tile([order == HOST for order in orders], len(placed.specs))


def _sizes(native: Native, orders: Sequence[str], shapes: np.ndarray, kind: TensorType) -> np.ndarray:
    """Compute the stored bytes of parts in every dimension order, `(specs, orders, devices)`."""
    return np.stack([stored_bytes(native, order, shapes, kind.dtype) for order in orders], axis=1)
