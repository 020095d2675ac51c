"""PlanSpace: one graph structure x one mesh x one view, compiled to arrays.

Blocks of one class share their strategies and costs, tensors of one class their copy tables, so equal
layers cost nothing twice. Sources and sinks follow the convention "chosen boundaries" of
`docs/sharding.md`. `evaluate` costs a plan stated as genes; `placements` and `genes_of` translate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from tapestry.costmodel.block_cost import BlockCosts, block_costs
from tapestry.costmodel.degrees import NO_DEGREES, BatchedBlock, FixedDegrees
from tapestry.costmodel.kernel import evaluate
from tapestry.costmodel.kernel_arrays import COSTS, EvaluationState, new_state
from tapestry.costmodel.layout_choices import DimensionOrders
from tapestry.costmodel.resources import Resource, resources_of
from tapestry.costmodel.space_compiler import SpaceBlocks, SpaceCompiler, stage_of
from tapestry.costmodel.storage_choice import BlockKinds, StorageChoice
from tapestry.costmodel.strategies import StrategyFamily, aligned_granules, pins_of_state
from tapestry.costmodel.table_rows import TableCache, TableRows
from tapestry.costmodel.view import View, default_view
from tapestry.hardware.layouts.native import native_named
from tapestry.hardware.mesh import Mesh
from tapestry.hardware.stage_meshes import meshes_of_stages
from tapestry.hardware.timing import cold_tensors
from tapestry.teg.graph import Block, Definition, Graph, TensorType
from tapestry.teg.sharding.boundary import stays_whole, with_boundary
from tapestry.teg.sharding.host import is_on_host, may_begin_on_host
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements, scheduled_blocks
from tapestry.teg.sharding.possible_rounds import batch_dims
from tapestry.teg.sharding.rounds import Rounds, time_axis
from tapestry.teg.sharding.stages import Pipeline
from tapestry.teg.sharding.strategy import Read, Strategy, read_of
from tapestry.teg.sharding.turns import TurnTable, turn_table
from tapestry.teg.stopping import CheckStop, never_stop
from tapestry.teg.stored_state import check_state_is_stored


@dataclass(frozen=True)
class Genes:
    """A plan of one space: `strategies` `(genes,)`, `prefetch` and `regather` `(edges,)`."""

    strategies: np.ndarray
    prefetch: np.ndarray
    regather: np.ndarray


# On more devices, strategies that have them read unlike things are not taken: what is counted grows with their classes.
MOST_UNLIKE = 16
# Strategies and orders of one block, where they are known beforehand.
Given = tuple[tuple[Strategy, ...], tuple[DimensionOrders, ...]]


class PlanSpace:
    """All plans of `graph` on `mesh` over one view, and their costs; of a block in `given` only the pairs listed
    there.

    With `rounds`, a part of the program runs several times, on slices of the data. With a `pipeline`, blocks are on its
    stages, which lie in `mesh`.

    `resources` are those of the program's own that are counted: by default all that its cost tables name. `check_stop`
    is called for each block and each tensor while the space is compiled; what it raises ends that.

    Raises:
        ResourceError: amounts of a resource add up to more than can be counted.
        ValueError: a sink that carries state reads a view (see `teg.stored_state`).

    Attributes: `mesh` (that of a stage: of stages with different devices, one no better than any), `slots` (blocks in
    schedule order), `sources`, `families` per gene (slots, then sources). Edges are the inputs of the slots, in their
    order.
    """

    def __init__(
        self,
        graph: Graph,
        mesh: Mesh,
        view: View | None = None,
        *,
        schedule_order: str = "program",
        rounds: Rounds | None = None,
        pipeline: Pipeline | None = None,
        inputs: str = "chosen",
        outputs: str = "sharded",
        compute_dtype: str | None = None,
        pins: Mapping[str, str] | None = None,
        degrees: FixedDegrees = NO_DEGREES,
        layouts: str = "chosen",
        cache: TableCache | None = None,
        given: Mapping[str, Given] | None = None,
        resources: Sequence[Resource] | None = None,
        check_stop: CheckStop = never_stop,
    ) -> None:
        check_state_is_stored(graph)
        self.graph, self.schedule_order, self.compute_dtype = graph, schedule_order, compute_dtype
        self.meshes = meshes_of_stages(mesh, None if pipeline is None else pipeline.layout)
        self.mesh = self.meshes.common
        self.mesh_shape = MeshShape(self.mesh.axis_sizes)
        layout = self.mesh.device.layouts[0]
        self.storage = StorageChoice(native_named(layout), self.mesh_shape, layouts)
        self._uses_host = any(map(is_on_host, graph.blocks))
        self.view = view or default_view(self.mesh_shape)
        self.cache = cache or TableCache()
        self.pins, self.given = pins_of_state(graph, pins or {}), given or {}
        self.degrees = degrees
        self._batch = batch_dims(graph) if degrees else {}
        self.inputs, self.outputs = inputs, outputs
        self.resources = resources_of(graph) if resources is None else tuple(resources)
        self.rounds = rounds
        self.time = None if rounds is None else time_axis(graph, rounds)
        self.pipeline = pipeline
        self.slots = scheduled_blocks(graph, schedule_order)
        self.turns: TurnTable | None = None
        if pipeline is not None:
            self.turns = turn_table(graph, self.slots, self.time, pipeline.stages, pipeline.parts)
            self.slots = tuple(chain.from_iterable(piece.blocks for piece in self.turns.pieces))
        elif self.time is not None:
            self.slots = tuple(chain.from_iterable(self.time.segments(self.slots)))
        self.sources = graph.sources
        self.blocks: tuple[Block, ...] = (*self.slots, *self.sources)
        self.gene_of = {b.site: g for g, b in enumerate(self.blocks)}
        self.state_genes = np.array(
            [(self.gene_of[sink], self.gene_of[source.site]) for sink, source in graph.carriers.items()],
            dtype=np.int64,
        ).reshape(-1, 2)
        self.families: list[StrategyFamily] = []
        all_costs: list[BlockCosts] = []
        self._granules = aligned_granules(graph)
        devices = mesh.device_count if pipeline is None else pipeline.layout.device_count
        self._cold = [cold_tensors(graph, each.device, devices) for each in self.meshes.kinds]
        self.class_of: list[object] = []
        for block in self.blocks:
            check_stop()
            key, family, costs = self._family(block)
            self.class_of.append(key)
            self.families.append(family)
            all_costs.append(costs)
        blocks = SpaceBlocks(
            graph,
            self.slots,
            self.sources,
            self.class_of,
            self.families,
            all_costs,
            self.state_genes,
            self.resources,
            self.time,
            pipeline,
            self.turns,
        )
        rows = TableRows(self.meshes, self.mesh_shape, self.storage, self.cache)
        self.space, self.device_class = SpaceCompiler(blocks, rows, check_stop).compile()
        self.state: EvaluationState = new_state(self.space)

    def _family(self, block: Block) -> tuple[object, StrategyFamily, BlockCosts]:
        graph = self.graph
        reads, definition, accumulates = self._reads(block), block.definition, False
        if self.time is not None:
            definition, accumulates = self.time.definition_of(block), bool(self.time.monoid_of(block))
        inputs, outputs = graph.input_types(block), graph.output_types(block)
        pin = self.pins.get(block.site)
        whole = stays_whole(graph, block, self.inputs, self.outputs)
        source = graph.carriers.get(block.site)
        known = self.given.get(block.site) if source is None else self._family(source)[1]
        granules = self._granules.get(block.site, ())
        shapes = tuple((shape, r.rows) for shape, r in reads)
        number = self.meshes.kind_of[stage_of(graph, self.pipeline, block.site)]
        cold = tuple(k for k, tensor in enumerate(block.inputs) if tensor in self._cold[number])
        may_wait = self._uses_host and may_begin_on_host(graph, block)
        stored = self.storage.layouts, may_wait
        batch = self._batch.get(block.site)
        choices = (pin, whole, block.definition.carries, *stored, known, self.resources, cold, batch, number)
        kind = (shapes, inputs, outputs, granules, accumulates, *choices)
        key = (_without_state(definition), *kind)
        if key not in self.cache.families:
            kinds = BlockKinds(block.definition, reads, inputs, self.made_types(block))
            given = _of_source(known) if isinstance(known, StrategyFamily) else known
            strategies, orders = given or ((), self.storage.dimension_orders(kinds, may_wait))
            ranks = tuple(len(t.shape) for t in outputs)
            family = StrategyFamily(definition, reads, ranks, granules, self.view, orders, strategies)
            if accumulates:
                family.keep_one_monoid(self.time.monoid_of(block) if self.time is not None else "")
            if whole:
                family.keep([0])
            elif self.degrees and not (given or pin):
                batched = BatchedBlock(definition.signature, batch, batch is None and bool(self._batch))
                family.keep(self.degrees.kept(family.strategies, batched, self.mesh_shape))
            if self.mesh_shape.device_count > MOST_UNLIKE and not (given or pin):
                family.keep_where_all_read([shape for shape, _ in reads])
            if pin is not None:
                family.keep_pinned(block.site, pin, outputs[0].shape if outputs else reads[0][0])
            costs = block_costs(
                block.definition,
                inputs,
                outputs,
                family.strategies,
                self.mesh_shape,
                self.meshes.kinds[number].device,
                self.compute_dtype,
                self.storage.of_block(kinds, family),
                self.resources,
                cold,
                definition.signature,
                accumulates,
            )
            self.cache.families[key] = (family, costs)
        family, costs = self.cache.families[key]
        return (definition, *kind), family, costs

    def _reads(self, block: Block) -> tuple[tuple[tuple[int, ...], Read], ...]:
        """Return how a block reads its roots, each with the shape of the root: what a round has of it."""
        reads = [read_of(self.graph, block.site, k) for k in range(len(block.inputs))]
        shapes = [self.graph.tensors[read.root].shape for read in reads]
        if self.time is None:
            return tuple(zip(shapes, reads, strict=True))
        time = self.time
        return tuple(
            (time.shape_of(read.root, shape), time.read_in(read, shape))
            for shape, read in zip(shapes, reads, strict=True)
        )

    def made_types(self, block: Block) -> tuple[TensorType, ...]:
        """Return the types of what a block makes in a round."""
        tensors = [self.graph.tensors[site] for site in block.outputs]
        if self.time is None:
            return tuple(tensor.type for tensor in tensors)
        return tuple(TensorType(self.time.shape_of(t.site, t.shape), t.dtype) for t in tensors)

    def mesh_of(self, gene: int) -> Mesh:
        """Return the mesh of the stage that a block is on."""
        return self.meshes.of(int(self.space.gene_stage[gene]))

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
        evaluate(self.space, self.state, *self.compiled_genes(genes), cost)
        return cost

    def compiled_genes(self, genes: Genes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Convert a plan to arrays of the types of the archives, for which the loops are compiled."""
        strategies = self.with_state(genes.strategies)
        return strategies.astype(np.int16), genes.prefetch.astype(np.int8), genes.regather.astype(np.int8)

    def placements(self, genes: Genes) -> Placements:
        """Convert the plan to placements by site."""
        strategies = self.with_state(genes.strategies)
        parts = {} if self.pipeline is None else self.pipeline.parts
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
                    part=parts.get(block.site, 0),
                )
            else:
                blocks[block.site] = Placement(strategy, layouts=layouts, part=parts.get(block.site, 0))
        return Placements(
            blocks,
            schedule_order=self.schedule_order,
            inputs=self.inputs,
            outputs=self.outputs,
            rounds=self.rounds,
            stages=None if self.pipeline is None else self.pipeline.stages,
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


def _without_state(definition: Definition) -> Definition:
    """Return the definition without the state that it names: sinks that carry state differ in nothing else."""
    if not definition.carries:
        return definition
    attributes = tuple(a for a in definition.attributes if a[0] != "carries")
    return Definition(definition.operator, attributes, definition.signature, definition.costs)


def _of_source(family: StrategyFamily) -> Given:
    """Return the strategies and orders of a sink that carries state: those of its source."""
    return tuple(family.strategies), tuple(DimensionOrders(o.makes, ()) for o in family.dimension_orders)
