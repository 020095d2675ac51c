"""The tables of a space, concatenated: copies, local copies between orders, sizes; each class of tensors once.

Used by `costmodel.space_compiler`; the offsets that it returns point into the arrays it builds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tapestry.costmodel.block_cost import BlockCosts
from tapestry.costmodel.kernel_arrays import PAIR_LANDING, PAIR_STAGING
from tapestry.costmodel.resharding_loops import ascending, distinct_rows
from tapestry.costmodel.resharding_tables import ReshardingTable, copy_table
from tapestry.costmodel.storage_choice import StorageChoice
from tapestry.costmodel.storage_tables import SpecsWithDimensionOrders, StorageTable, stored_table
from tapestry.costmodel.strategies import StrategyFamily
from tapestry.hardware.device import Device
from tapestry.hardware.stage_meshes import StageMeshes
from tapestry.hardware.timing import TimeClass, Weights, host_energy_pj, host_ticks
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.graph import TensorType
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import Spec
from tapestry.teg.sharding.stages import Route


class CopiedForm(NamedTuple):
    """The two forms of a tensor between which a copy brings it: its shape, the bytes of an element, the spec that is
    made and the one that is needed; the `route` is that to another stage.
    """

    shape: tuple[int, ...]
    item: int
    made: Spec
    needed: Spec
    route: Route | None


class CopyPhases(NamedTuple):
    """The parts of a copy's time: median ticks of its rounds, shared as `weights`, and of the longer of them
    and of what devices move meanwhile; of the latter also the ticks by the mesh, which may be at a quantile.

    `round_ticks` is 0 where the moves take longer.
    """

    weights: Weights
    round_ticks: int
    longer_ticks: int
    late_ticks: int


@dataclass
class TableCache:
    """Families, costs and tables by class, shared by the spaces of one mesh, with stages at the same places, and view.

    `time_classes` of blocks and `phases` of copies are those that estimates of times have asked for so far.
    """

    families: dict[object, tuple[StrategyFamily, BlockCosts]] = field(default_factory=dict)
    tables: dict[object, ReshardingTable] = field(default_factory=dict)
    stored: dict[object, StorageTable] = field(default_factory=dict)
    time_classes: dict[object, TimeClass] = field(default_factory=dict)
    phases: dict[object, CopyPhases] = field(default_factory=dict)


class TableRows:
    """A collector of the tables of tensor classes: it numbers specs and dimension orders, and writes the tables out."""

    def __init__(
        self, meshes: StageMeshes, mesh_shape: MeshShape, storage: StorageChoice, cache: TableCache
    ) -> None:
        self.meshes, self.mesh_shape, self.storage, self.cache = meshes, mesh_shape, storage, cache
        self.distinct_known: dict[tuple[int, ...], tuple[Spec, ...]] = {}
        self.interned: dict[tuple[Spec, ...], tuple[Spec, ...]] = {}
        self.placed_known: dict[tuple[int, tuple[str, ...]], SpecsWithDimensionOrders] = {}
        self.spec_ids: list[np.ndarray] = []
        self.spec_id_count = 0
        self.spec_id_known: dict[tuple[int, int, tuple[str, ...]], int] = {}
        self.table_known: dict[tuple[TensorType, int, int, int], tuple[int, int, int, int, int]] = {}
        self.sent_known: dict[tuple[object, ...], int] = {}
        self.tables: list[StorageTable] = []
        self.devices: list[Device] = []  # of `tables`
        self.sent_tables: list[ReshardingTable] = []  # of copies between stages
        self.between: list[ReshardingTable] = []  # of `tables` and `sent_tables`, as their pairs are numbered
        self.pair_count = 0
        self.size_row_count = 0
        self.relayout_row_count = 0
        self.inside_count = 0

    def _distinct(self, lists: Sequence[list[Spec]]) -> tuple[Spec, ...]:
        """Return the specs of lists that families own, each once; equal tuples are one object."""
        key = tuple(dict.fromkeys(id(specs) for specs in lists))
        if key not in self.distinct_known:
            found = tuple(dict.fromkeys(s for specs in lists for s in specs))
            self.distinct_known[key] = self.interned.setdefault(found, found)
        return self.distinct_known[key]

    def placed(self, lists: Sequence[list[Spec]], orders: Sequence[str]) -> SpecsWithDimensionOrders:
        """Return the specs of lists with their dimension orders, each once; equal ones are one object."""
        specs, known = self._distinct(lists), tuple(dict.fromkeys(orders))
        return self.placed_known.setdefault((id(specs), known), SpecsWithDimensionOrders(specs, known))

    def ids(self, specs: Sequence[Spec], orders: Sequence[str], among: SpecsWithDimensionOrders) -> int:
        """Return the offset of the map gene value -> number among `among`; equal maps are stored once."""
        known = (id(specs), id(among), tuple(orders))
        if known not in self.spec_id_known:
            position = {s: k for k, s in enumerate(among.specs)}
            of_spec = np.array([position[s] for s in specs], dtype=np.int64)
            of_order = np.array([among.dimension_orders.index(o) for o in orders], dtype=np.int64)
            self.spec_id_known[known] = self.spec_id_count
            columns = np.broadcast_arrays(
                of_spec[:, None] * len(among.dimension_orders) + of_order, of_spec[:, None], of_order
            )
            self.spec_ids.append(np.stack(columns, axis=-1).reshape(-1, 3))
            self.spec_id_count += len(specs) * len(orders)
        return self.spec_id_known[known]

    def table(
        self,
        kind: TensorType,
        made: SpecsWithDimensionOrders,
        needed: SpecsWithDimensionOrders,
        stage: int = 0,
    ) -> tuple[int, int, int, int, int]:
        """Return the offsets of the pairs, producer sizes, consumer sizes, relayout rows and pairs of consumer
        specs of a tensor class that a stage makes.
        """
        mesh, number = self.meshes.of(stage), self.meshes.kind_of[stage]
        known = (kind, id(made), id(needed), number)
        if known not in self.table_known:
            cache, key = self.cache, (kind, made, needed, number)
            if key not in cache.stored:
                item, specs = item_bytes(kind.dtype), (made.specs, needed.specs)
                between = (kind.shape, item, *specs, number)
                if between not in cache.tables:
                    cache.tables[between] = copy_table(kind.shape, item, *specs, mesh, self.mesh_shape)
                cache.stored[key] = stored_table(
                    cache.tables[between],
                    kind,
                    made,
                    needed,
                    self.storage.native,
                    mesh.device,
                    self.mesh_shape,
                )
            self.tables.append(cache.stored[key])
            self.devices.append(mesh.device)
            self.between.append(cache.stored[key].between)
            self.table_known[known] = (
                self.pair_count,
                self.size_row_count,
                self.size_row_count + made.count,
                self.relayout_row_count,
                self.inside_count,
            )
            self.pair_count += len(made.specs) * len(needed.specs)
            self.relayout_row_count += len(made.dimension_orders) * needed.count
            self.inside_count += len(needed.specs) ** 2
            self.size_row_count += made.count + needed.count
        return self.table_known[known]

    def sent(
        self,
        kind: TensorType,
        made: SpecsWithDimensionOrders,
        needed: SpecsWithDimensionOrders,
        route: Route,
        source: int,
        target: int,
    ) -> int:
        """Return the offset of the pairs of a tensor class for copies from one stage to another."""
        kinds = self.meshes.kind_of[source], self.meshes.kind_of[target]
        known = (kind, id(made), id(needed), route, kinds)
        if known not in self.sent_known:
            what = (kind.shape, item_bytes(kind.dtype), made.specs, needed.specs)
            key = (what, route, kinds)
            if key not in self.cache.tables:
                mesh = self.meshes.between(source, target)
                self.cache.tables[key] = copy_table(*what, mesh, self.mesh_shape, route)
            self.between.append(self.cache.tables[key])
            self.sent_tables.append(self.cache.tables[key])
            self.sent_known[known] = self.pair_count
            self.pair_count += len(made.specs) * len(needed.specs)
        return self.sent_known[known]

    def relayouts(self) -> np.ndarray:
        """Collect ticks and energy of local copies between dimension orders, `(rows, 2)`."""
        rows = [np.stack([t.relayout_ticks, t.relayout_energy_pj], axis=-1) for t in self.tables]
        return np.concatenate([r.reshape(-1, 2) for r in rows])

    def inside(self) -> np.ndarray:
        """Collect which parts lie in which, for every pair of consumer specs."""
        return np.concatenate([t.between.inside.ravel() for t in self.tables])

    def pairs(self, staging_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Collect the row of each pair, int32, and the rows: ticks, traffic, energy, queues and rows of staging.

        `staging_ids` `(2, rows)` are the rows of staging, and of landing, by row.
        """
        rows = np.concatenate([t.rows for t in self.between])
        rows[:, PAIR_STAGING], rows[:, PAIR_LANDING] = staging_ids
        ids = np.empty(self.pair_count, dtype=np.int32)
        at, first = 0, 0
        for table in self.between:
            mine = table.pairs
            np.add(mine.ravel(), first, out=ids[at : at + mine.size])
            at += mine.size
            first += len(table.rows)
        return ids, rows

    def sizes(self, representative: np.ndarray) -> np.ndarray:
        """Collect the stored bytes of produced and consumed parts, `(rows, classes)`."""
        rows = [np.concatenate([t.made_bytes, t.needed_bytes]) for t in self.tables]
        return np.concatenate([r[:, representative] for r in rows])

    @property
    def uses_host(self) -> bool:
        """True if something may lie on the host."""
        return any(t.is_on_host.any() for t in self.tables)

    def on_host(self, representative: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Collect for produced and consumed parts what their copies to or from the host are, and their bytes.

        Returns: ticks, energy and whether they lie there, `(rows, 3)`, and bytes `(rows, classes)`; empty if nothing
        may lie there.
        """
        if not self.uses_host:
            return np.zeros((0, 3), dtype=np.int64), np.zeros((0, len(representative)), dtype=np.int64)
        rows, sizes = list[np.ndarray](), list[np.ndarray]()
        for table, device in zip(self.tables, self.devices, strict=True):
            count = len(table.made_bytes) + len(table.needed_bytes)
            size = np.zeros((count, self.mesh_shape.device_count), dtype=np.int64)
            is_there = np.zeros(count, dtype=np.int64)
            if table.is_on_host.any():
                size, is_there = table.host_bytes, table.is_on_host.astype(np.int64)
            energy = host_energy_pj(device, size).sum(axis=1)
            rows.append(
                np.stack([host_ticks(device, size.max(axis=1, initial=0)), energy, is_there], axis=-1)
            )
            sizes.append(size[:, representative])
        return np.concatenate(rows), np.concatenate(sizes)

    def staging(self, representative: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Collect the distinct staging sizes `(rows, classes)`, the first all zero, and those of every row of pairs,
        `(2, pair rows)`: of staging and of landing.
        """
        devices = len(representative)
        begins = np.cumsum([1, *(len(t.staging_bytes) for t in self.between)])
        total = np.zeros((begins[-1], devices), dtype=np.int64)
        for table, at in zip(self.between, begins[:-1], strict=True):
            total[at : at + len(table.staging_bytes)] = table.staging_bytes[:, representative]
        first, ids = distinct_rows(total)
        order = ascending(total, first)
        number = np.empty(len(order), dtype=np.int64)
        number[order] = np.arange(len(order))
        ids = number[ids]
        per_row = [
            ids[at + table.rows[:, [PAIR_STAGING, PAIR_LANDING]].T]
            for table, at in zip(self.between, begins[:-1], strict=True)
        ]
        # sizes are not negative, so the zero row sorts first
        return total[first[order]], np.concatenate(per_row, axis=1)
