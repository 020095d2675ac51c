"""PlanSpace: one graph structure x one mesh x one view, compiled to arrays.

Blocks of one class share their strategies and costs, tensors of one class their copy tables, so equal
layers cost nothing twice. Sources and sinks follow the convention "chosen boundaries" of
`docs/sharding.md`. `evaluate` costs a plan stated as genes; `placements` and `genes_of` translate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tapestry.costmodel.block_cost import BlockCosts, base_flops, block_costs
from tapestry.costmodel.classes import device_classes
from tapestry.costmodel.kernel import evaluate
from tapestry.costmodel.kernel_arrays import COSTS, CompiledSpace, EvaluationState, new_state
from tapestry.costmodel.layout_choices import DimensionOrders
from tapestry.costmodel.resources import LARGEST, Resource, resources_of, too_much
from tapestry.costmodel.storage_choice import BlockKinds, StorageChoice
from tapestry.costmodel.strategies import StrategyFamily, aligned_granules, pins_of_state
from tapestry.costmodel.table_rows import TableCache, TableRows
from tapestry.costmodel.view import View, default_view
from tapestry.hardware.layouts.native import native_named
from tapestry.hardware.mesh import Mesh
from tapestry.teg.graph import Block, Graph
from tapestry.teg.sharding.boundary import stays_whole, viewed_state, with_boundary
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements, scheduled_blocks
from tapestry.teg.sharding.strategy import Read, Strategy, read_of
from tapestry.teg.stopping import CheckStop, never_stop

LIVES_ON = ("parameter", "buffer", "constant", "optimizer_state")


@dataclass(frozen=True)
class Genes:
    """A plan of one space: `strategies` `(genes,)`, `prefetch` and `regather` `(edges,)`."""

    strategies: np.ndarray
    prefetch: np.ndarray
    regather: np.ndarray


# Strategies and orders of one block, where they are known beforehand.
Given = tuple[tuple[Strategy, ...], tuple[DimensionOrders, ...]]


class PlanSpace:
    """All plans of `graph` on `mesh` over one view, and their costs; of a block in `given` only the pairs listed
    there.

    `resources` are those of the program's own that are counted: by default all that its cost tables name. `check_stop`
    is called for each block and each tensor while the space is compiled; what it raises ends that.

    Raises:
        ResourceError: amounts of a resource add up to more than can be counted.

    Attributes: `slots` (blocks in schedule order), `sources`, `families` per gene (slots, then sources),
    `edges` as `(slot, input position, root tensor)`.
    """

    def __init__(
        self,
        graph: Graph,
        mesh: Mesh,
        view: View | None = None,
        *,
        schedule_order: str = "program",
        inputs: str = "chosen",
        outputs: str = "sharded",
        compute_dtype: str | None = None,
        pins: Mapping[str, str] | None = None,
        layouts: str = "chosen",
        cache: TableCache | None = None,
        given: Mapping[str, Given] | None = None,
        resources: Sequence[Resource] | None = None,
        check_stop: CheckStop = never_stop,
    ) -> None:
        self.graph, self.mesh, self.schedule_order, self.compute_dtype = (
            graph,
            mesh,
            schedule_order,
            compute_dtype,
        )
        self.mesh_shape = MeshShape(mesh.axis_sizes)
        self.storage = StorageChoice(native_named(mesh.device.layouts[0]), self.mesh_shape, layouts)
        self.view = view or default_view(self.mesh_shape)
        self.cache = cache or TableCache()
        self.pins, self.given = pins_of_state(graph, pins or {}), given or {}
        self.inputs, self.outputs = inputs, outputs
        self.resources = resources_of(graph) if resources is None else tuple(resources)
        self.slots = scheduled_blocks(graph, schedule_order)
        self.sources = graph.sources
        self.blocks: tuple[Block, ...] = (*self.slots, *self.sources)
        self.gene_of = {b.site: g for g, b in enumerate(self.blocks)}
        self.state_genes = np.array(
            [(self.gene_of[sink], self.gene_of[source.site]) for sink, source in graph.carriers.items()],
            dtype=np.int64,
        ).reshape(-1, 2)
        self.families: list[StrategyFamily] = []
        self._costs: list[BlockCosts] = []
        self._granules, self._viewed = aligned_granules(graph), viewed_state(graph)
        self.class_of: list[object] = []
        for block in self.blocks:
            check_stop()
            key, family, costs = self._family(block)
            self.class_of.append(key)
            self.families.append(family)
            self._costs.append(costs)
        self.space, self.device_class = _Compiler(self, check_stop).compile()
        self.state: EvaluationState = new_state(self.space)

    def _family(self, block: Block) -> tuple[object, StrategyFamily, BlockCosts]:
        graph = self.graph
        reads = tuple((graph.tensors[r.root].shape, r) for r in self._reads(block))
        inputs, outputs = graph.input_types(block), graph.output_types(block)
        pin = self.pins.get(block.site)
        whole = stays_whole(graph, block, self.inputs, self.outputs)
        given, granules = self._given(block), self._granules.get(block.site, ())
        kind = (block.definition, tuple((shape, r.rows) for shape, r in reads), inputs, outputs, granules)
        key = (*kind, pin, whole, block.site in self._viewed, self.storage.layouts, given, self.resources)
        if key not in self.cache.families:
            kinds = BlockKinds(block.definition, reads, inputs, outputs)
            strategies, orders = given or ((), self.storage.dimension_orders(kinds))
            if block.site in self._viewed:
                orders = orders[:1]
            ranks = tuple(len(t.shape) for t in outputs)
            family = StrategyFamily(block.definition, reads, ranks, granules, self.view, orders, strategies)
            if whole:
                family.keep([0])
            if pin is not None:
                family.keep_pinned(block.site, pin)
            costs = block_costs(
                block.definition,
                inputs,
                outputs,
                family.strategies,
                self.mesh_shape,
                self.mesh.device,
                self.compute_dtype,
                self.storage.of_block(kinds, family),
                self.resources,
            )
            self.cache.families[key] = (family, costs)
        family, costs = self.cache.families[key]
        return key, family, costs

    def _reads(self, block: Block) -> list[Read]:
        return [read_of(self.graph, block.site, k) for k in range(len(block.inputs))]

    def _given(self, block: Block) -> Given | None:
        """Return the strategies and orders that are known beforehand: a sink that carries state has its source's."""
        source = self.graph.carriers.get(block.site)
        if source is None:
            return self.given.get(block.site)
        _, family, _ = self._family(source)
        orders = tuple(DimensionOrders(o.makes, ()) for o in family.dimension_orders)
        return tuple(family.strategies), orders

    @property
    def gene_count(self) -> int:
        return len(self.blocks)

    @property
    def edge_count(self) -> int:
        return len(self.space.edge_tensor)

    @property
    def cost_count(self) -> int:
        """The number of a plan's integer costs."""
        return COSTS + 2 * len(self.resources)

    def abstract_genes(self) -> Genes:
        """Return the plan of the abstract graph, in which every device computes everything."""
        return Genes(
            np.zeros(self.gene_count, dtype=np.int64),
            np.zeros(self.edge_count, dtype=np.int64),
            np.zeros(self.edge_count, dtype=np.int64),
        )

    def with_state(self, strategies: np.ndarray) -> np.ndarray:
        """Return strategy genes `(..., genes)` in which sinks that carry state have the genes of their sources."""
        sinks, sources = self.state_genes.T
        found = strategies.copy()
        found[..., sinks] = strategies[..., sources]
        return found

    def evaluate(self, genes: Genes) -> np.ndarray:
        """Compute the integer costs `(columns,)`: those of `costmodel.kernel_arrays`, then two per resource."""
        cost = np.zeros(self.cost_count, dtype=np.int64)
        strategies = self.with_state(genes.strategies)
        evaluate(self.space, self.state, strategies, genes.prefetch, genes.regather, cost)
        return cost

    def placements(self, genes: Genes) -> Placements:
        """Convert the plan to placements by site."""
        strategies = self.with_state(genes.strategies)
        blocks = {}
        edge = 0
        for g, block in enumerate(self.blocks):
            strategy, orders = self.families[g].at(int(strategies[g]))
            layouts = orders.makes if any(orders.makes) else ()
            if g < len(self.slots):
                n = len(block.inputs)
                prefetch = tuple(int(v) for v in genes.prefetch[edge : edge + n])
                regather = tuple(bool(v) for v in genes.regather[edge : edge + n])
                edge += n
                blocks[block.site] = Placement(
                    strategy,
                    prefetch if any(prefetch) else (),
                    regather if any(regather) else (),
                    layouts=layouts,
                    read_layouts=orders.reads if any(orders.reads) else (),
                )
            else:
                blocks[block.site] = Placement(strategy, layouts=layouts)
        return Placements(
            blocks, schedule_order=self.schedule_order, inputs=self.inputs, outputs=self.outputs
        )

    def genes_of(self, placements: Placements) -> Genes:
        """Convert placements to genes.

        Raises:
            ValueError: a placement's strategy, or its layouts, are not among those of this view.
        """
        placements = with_boundary(self.graph, placements)
        genes = self.abstract_genes()
        edge = 0
        for g, block in enumerate(self.blocks):
            placement = placements.of(block)
            reads = tuple(placement.read_layout_of(k) for k in range(len(block.inputs)))
            makes = tuple(placement.layout_of(k) for k in range(len(block.outputs)))
            known = self.families[g].positions.get((placement.strategy, DimensionOrders(reads, makes)))
            if known is None:
                stored = f" with layouts {reads} and {makes}" if any((*reads, *makes)) else ""
                raise ValueError(
                    f"block {block.site!r}: strategy {placement.strategy}{stored} is not one of this view's"
                )
            genes.strategies[g] = known
            if g < len(self.slots):
                for k in range(len(block.inputs)):
                    genes.prefetch[edge] = placement.prefetch_of(k)
                    genes.regather[edge] = placement.regather_of(k)
                    edge += 1
        return genes


class _Compiler:
    """A compiler of the flat arrays of a space; tables are appended once per class."""

    def __init__(self, owner: PlanSpace, check_stop: CheckStop) -> None:
        self.owner, self.check_stop = owner, check_stop
        self.rows = TableRows(owner.mesh, owner.mesh_shape, owner.storage, owner.cache)
        self.block_known: dict[object, int] = {}
        self.block_parts: list[BlockCosts] = []
        self.block_row_count = 0

    def compile(self) -> tuple[CompiledSpace, np.ndarray]:
        owner = self.owner
        graph = owner.graph
        slot_count = len(owner.slots)
        tensors = [t for b in owner.sources for t in b.outputs] + [t for b in owner.slots for t in b.outputs]
        number = {t: k for k, t in enumerate(tensors)}
        producers = {t: (g, k) for g, b in enumerate(owner.blocks) for k, t in enumerate(b.outputs)}
        edges = [
            (slot, k, number[read_of(graph, b.site, k).root])
            for slot, b in enumerate(owner.slots)
            for k in range(len(b.inputs))
        ]
        readers: list[list[int]] = [[] for _ in tensors]
        for e, (_, _, t) in enumerate(edges):
            readers[t].append(e)
        columns = {name: np.zeros(len(tensors), dtype=np.int64) for name in _TENSOR_COLUMNS}
        edge_needed = np.zeros(len(edges), dtype=np.int64)
        keys = 0
        for t, site in enumerate(tensors):
            self.check_stop()
            gene, position = producers[site]
            tensor = graph.tensors[site]
            family = owner.families[gene]
            makes = [o.makes[position] for o in family.dimension_orders]
            made = self.rows.placed([family.made[position]], makes)
            reading = [(owner.families[edges[e][0]], edges[e][1]) for e in readers[t]]
            needed = self.rows.placed(
                [reader.needed[k] for reader, k in reading],
                [o.reads[k] for reader, k in reading for o in reader.dimension_orders],
            )
            offsets = self.rows.table(tensor.type, made, needed)
            row = (
                -1 if gene >= slot_count else gene,
                gene,
                self.rows.ids(family.made[position], makes, made),
                offsets[0],
                len(needed.specs),
                offsets[3],
                needed.count,
                offsets[1],
                offsets[2],
                offsets[4],
                keys,
                tensor.type.size_bytes,
                gene >= slot_count
                and owner.blocks[gene].definition.get("role") in LIVES_ON
                and site not in graph.carried,
            )
            for name, value in zip(_TENSOR_COLUMNS, row, strict=True):
                columns[name][t] = value
            keys += needed.count
            for e, (reader, k) in zip(readers[t], reading, strict=True):
                edge_needed[e] = self.rows.ids(
                    reader.needed[k], [o.reads[k] for o in reader.dimension_orders], needed
                )
        columns["is_persistent"] = columns["is_persistent"].astype(np.bool_)
        return self._space(columns, edges, edge_needed, number)

    def _block(self, gene: int) -> int:
        key = self.owner.class_of[gene]
        if key not in self.block_known:
            self.block_known[key] = self.block_row_count
            self.block_parts.append(self.owner._costs[gene])
            self.block_row_count += len(self.owner._costs[gene].ticks)
        return self.block_known[key]

    def _space(
        self,
        columns: dict[str, np.ndarray],
        edges: list[tuple[int, int, int]],
        edge_needed: np.ndarray,
        number: dict[str, int],
    ) -> tuple[CompiledSpace, np.ndarray]:
        owner = self.owner
        self._check_amounts()
        slot_count, devices = len(owner.slots), owner.mesh_shape.device_count
        block_offset = np.array([self._block(g) for g in range(len(owner.blocks))], dtype=np.int64)
        classes, representative, label = device_classes(self.rows.tables, self.block_parts, devices)
        staging_rows, staging_ids = self.rows.staging(representative)
        space = CompiledSpace(
            slot_count=slot_count,
            source_count=len(owner.sources),
            base_flops=base_flops(owner.graph),
            classes=classes,
            strategy_count=np.array([f.count for f in owner.families], dtype=np.int64),
            state_gene=_other_genes(owner.state_genes, len(owner.blocks)),
            block_offset=block_offset,
            made_start=np.concatenate([[0], np.cumsum([len(b.outputs) for b in owner.blocks])]).astype(
                np.int64
            ),
            made_tensor=np.array([number[t] for b in owner.blocks for t in b.outputs], dtype=np.int64),
            is_sink=np.array([b.operator == "sink" for b in owner.slots], dtype=np.bool_),
            edge_needed=edge_needed,
            **_edge_arrays(edges, slot_count, len(number)),
            **columns,
            has_dimension_orders=any(len(f.dimension_orders) > 1 for f in owner.families),
            spec_ids=np.concatenate(self.rows.spec_ids),
            inside=self.rows.inside(),
            relayout_rows=self.rows.relayouts(),
            pair_rows=np.column_stack([self.rows.pairs(), staging_ids]),
            staging_rows=staging_rows,
            size_rows=self.rows.sizes(representative),
            block_rows=self._block_rows(representative),
        )
        # One memory order for all: numba compiles every loop again for another one.
        ordered: list[Any] = [np.ascontiguousarray(v) if isinstance(v, np.ndarray) else v for v in space]
        return CompiledSpace(*ordered), label

    def _block_rows(self, representative: np.ndarray) -> np.ndarray:
        """Build the table of the blocks' costs: per strategy and device class, of which devices are given."""
        return np.concatenate(
            [
                np.column_stack(
                    [c.ticks, c.energy_pj, *(a[:, representative] for a in (c.flops, *c.resources))]
                )
                for c in self.block_parts
            ]
        )

    def _check_amounts(self) -> None:
        """Check that no plan's resources can exceed what an integer holds."""
        for r, resource in enumerate(self.owner.resources):
            most = sum(int(costs.resources[r].max(initial=0)) for costs in self.owner._costs)
            if most * self.owner.mesh_shape.device_count > LARGEST:
                raise too_much(resource)


def _other_genes(pairs: np.ndarray, count: int) -> np.ndarray:
    """Return the other gene of every gene that is in a pair, `(count,)`; -1 for those in none."""
    other = np.full(count, -1, dtype=np.int64)
    other[pairs] = pairs[:, ::-1]
    return other


_TENSOR_COLUMNS = (
    "made_at",
    "made_gene",
    "made_offset",
    "pair_offset",
    "needed_specs",
    "relayout_offset",
    "needed_count",
    "made_bytes_offset",
    "needed_bytes_offset",
    "inside_offset",
    "key_offset",
    "logical_bytes",
    "is_persistent",
)


def _edge_arrays(edges: Sequence[tuple[int, int, int]], slots: int, tensors: int) -> dict[str, np.ndarray]:
    """Build the columns of edges `(slot, input, tensor)`, in slot order, with their ranges by slot and by tensor."""
    edge_slot = np.array([s for s, _, _ in edges], dtype=np.int64)
    edge_tensor = np.array([t for _, _, t in edges], dtype=np.int64)
    readers = np.argsort(edge_tensor, kind="stable").astype(np.int64)
    return {
        "edge_slot": edge_slot,
        "edge_tensor": edge_tensor,
        "edge_start": np.searchsorted(edge_slot, np.arange(slots + 1)).astype(np.int64),
        "reader_edge": readers,
        "reader_start": np.searchsorted(edge_tensor[readers], np.arange(tensors + 1)).astype(np.int64),
    }
