"""Layout choices of a class of blocks for its tensors, and the storage of its parts under every choice.

Between `costmodel.layout_choices` (the dimension orders) and `costmodel.block_cost` (their costs); used by PlanSpace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tapestry.costmodel.block_cost import BlockStorage
from tapestry.costmodel.layout_choices import (
    DimensionOrders,
    dimension_order_choices,
    program_dimension_orders,
)
from tapestry.costmodel.storage_tables import part_shapes
from tapestry.costmodel.strategies import StrategyFamily
from tapestry.hardware.layouts.native import Native, stored_bytes
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.graph import Definition, TensorType
from tapestry.teg.operators import operator_named
from tapestry.teg.operators.operator import work_of
from tapestry.teg.sharding.host import HOST, is_waypoint_on_host
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import Spec
from tapestry.teg.sharding.strategy import Read


class BlockKinds(NamedTuple):
    """The common properties of all blocks of a class: definition, roots' shapes and how they are read, types."""

    definition: Definition
    reads: tuple[tuple[tuple[int, ...], Read], ...]
    inputs: Sequence[TensorType]
    outputs: Sequence[TensorType]


@dataclass(frozen=True)
class StorageChoice:
    """A device's native layout on a mesh; `layouts` is "chosen", or "native" for the program's order everywhere."""

    native: Native
    mesh_shape: MeshShape
    layouts: str = "chosen"

    def dimension_orders(self, kinds: BlockKinds, may_begin_on_host: bool = False) -> list[DimensionOrders]:
        """List the choices of dimension orders, the program's own first; of what may begin on the host, that last."""
        if is_waypoint_on_host(kinds.definition):
            return [DimensionOrders((HOST,), (HOST,))]
        found = self._on_device(kinds)
        return [*found, DimensionOrders((), (HOST,))] if may_begin_on_host else found

    def _on_device(self, kinds: BlockKinds) -> list[DimensionOrders]:
        definition, reads, inputs, outputs = kinds
        if self.layouts != "chosen":
            return [program_dimension_orders(len(inputs), len(outputs))]
        work = work_of(operator_named(definition.operator), definition, inputs, outputs)
        rows = [(shape, read.rows) for shape, read in reads]
        return dimension_order_choices(definition, work, rows, inputs, outputs, self.native)

    def of_block(self, kinds: BlockKinds, family: StrategyFamily) -> list[BlockStorage]:
        """Compute the storage of the parts of inputs and outputs; empty where all choices take the bytes of rows."""
        is_plain = self.native.tiles is None and len(family.dimension_orders) == 1
        if is_plain or not (kinds.inputs or kinds.outputs):
            return []
        stored = []
        for k, (kind, (shape, _)) in enumerate(zip(kinds.inputs, kinds.reads, strict=True)):
            chosen = tuple(o.reads[k] for o in family.dimension_orders)
            stored.append(self._of_parts(family.needed[k], shape, kind.dtype, chosen))
        for k, kind in enumerate(kinds.outputs):
            chosen = tuple(o.makes[k] for o in family.dimension_orders)
            stored.append(self._of_parts(family.made[k], kind.shape, kind.dtype, chosen))
        return stored

    def _of_parts(
        self, specs: Sequence[Spec], shape: tuple[int, ...], dtype: str, chosen: tuple[str, ...]
    ) -> BlockStorage:
        distinct = {spec: n for n, spec in enumerate(dict.fromkeys(specs))}
        place = np.array([distinct[spec] for spec in specs])
        shapes = part_shapes(list(distinct), shape, self.mesh_shape)
        logical = np.prod(shapes, axis=-1, dtype=np.int64) * item_bytes(dtype)
        sizes = {o: stored_bytes(self.native, o, shapes, dtype)[place] for o in dict.fromkeys(chosen)}
        return BlockStorage(logical[place], sizes, chosen)
