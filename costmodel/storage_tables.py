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
from tapestry.hardware.layouts.native import Native, stored_bytes
from tapestry.hardware.mesh import Device
from tapestry.hardware.timing import block_ticks, energy_pj
from tapestry.teg.graph import TensorType
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
    order.
    """

    between: ReshardingTable
    made_bytes: np.ndarray
    needed_bytes: np.ndarray
    relayout_ticks: np.ndarray
    relayout_energy_pj: np.ndarray

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
    if native.tiles is None:
        return StorageTable(between, between.made_bytes, between.needed_bytes, same, np.zeros_like(same))
    have = _sizes(
        native, made.dimension_orders, part_shapes(made.specs, kind.shape, mesh_shape), kind
    ).reshape(made.count, -1)
    if not needed.count:
        return StorageTable(between, have, between.needed_bytes, same, same)
    want = part_shapes(needed.specs, kind.shape, mesh_shape)
    reads = _sizes(native, made.dimension_orders, want, kind)
    writes = _sizes(native, needed.dimension_orders, want, kind)
    # (made orders, needed specs, needed orders, devices)
    moved = reads.transpose(1, 0, 2)[:, :, None] + writes[None]
    other = np.array([[a != b for b in needed.dimension_orders] for a in made.dimension_orders])[:, None]
    ticks = block_ticks(device, "move", 0, moved, kind.dtype).max(axis=-1)
    energy = np.zeros_like(ticks)
    if device.missing_energy_figure is None:
        energy = energy_pj(device, kind.dtype, 0, moved, 0, kind="vector").sum(axis=-1)
    return StorageTable(
        between,
        have,
        writes.reshape(needed.count, -1),
        np.where(other, ticks, -1).reshape(same.shape),
        np.where(other, energy, 0).reshape(same.shape),
    )


def _sizes(native: Native, orders: Sequence[str], shapes: np.ndarray, kind: TensorType) -> np.ndarray:
    """Compute the stored bytes of parts in every dimension order, `(specs, orders, devices)`."""
    return np.stack([stored_bytes(native, order, shapes, kind.dtype) for order in orders], axis=1)
