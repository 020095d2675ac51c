"""The compiler of a plan space: from blocks with their strategies and costs to the flat arrays of `CompiledSpace`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tapestry.costmodel.block_cost import BlockCosts, base_flops
from tapestry.costmodel.classes import device_classes
from tapestry.costmodel.kernel_arrays import (
    BLOCK_ENERGY,
    HOST_ENERGY,
    PAIR_ENERGY,
    RELAYOUT_ENERGY,
    CompiledSpace,
)
from tapestry.costmodel.resources import LARGEST, Resource, too_much
from tapestry.costmodel.strategies import StrategyFamily
from tapestry.costmodel.table_rows import TableRows
from tapestry.teg.graph import Block, Graph, TensorType
from tapestry.teg.sharding.rounds import TimeAxis
from tapestry.teg.sharding.stages import Pipeline
from tapestry.teg.sharding.strategy import read_of
from tapestry.teg.sharding.turns import TurnTable
from tapestry.teg.stopping import CheckStop

LIVES_ON = ("parameter", "buffer", "constant", "optimizer_state")


@dataclass(frozen=True)
class SpaceBlocks:
    """The blocks of a space, slots before sources, and per block its class, strategies and costs.

    `state_genes` are pairs `(pairs, 2)` of genes that are equal: a sink that carries state, and its source. `time` are
    the rounds, by which the slots are in order of their segments. With a `pipeline`, they are in order of the pieces in
    `turns`.
    """

    graph: Graph
    slots: tuple[Block, ...]
    sources: tuple[Block, ...]
    classes: Sequence[object]
    families: Sequence[StrategyFamily]
    costs: Sequence[BlockCosts]
    state_genes: np.ndarray
    resources: Sequence[Resource]
    time: TimeAxis | None = None
    pipeline: Pipeline | None = None
    turns: TurnTable | None = None

    @cached_property
    def stages(self) -> np.ndarray:
        """The stage of every block, `(genes,)`."""
        if self.pipeline is None:
            return np.zeros(len(self.all), dtype=np.int64)
        return np.array([stage_of(self.graph, self.pipeline, b.site) for b in self.all], dtype=np.int64)

    @cached_property
    def all(self) -> tuple[Block, ...]:
        return (*self.slots, *self.sources)


def stage_of(graph: Graph, pipeline: Pipeline | None, site: str) -> int:
    """Return the stage of a block; a sink that carries state is on that of its source."""
    carried = graph.carriers.get(site)
    return 0 if pipeline is None else pipeline.stage_of(site if carried is None else carried.site)


class SpaceCompiler:
    """A compiler of the flat arrays of a space; tables are appended once per class."""

    def __init__(self, blocks: SpaceBlocks, rows: TableRows, check_stop: CheckStop) -> None:
        self.blocks, self.rows, self.check_stop = blocks, rows, check_stop
        self.block_known: dict[object, int] = {}
        self.block_parts: list[BlockCosts] = []
        self.block_row_count = 0

    def compile(self) -> tuple[CompiledSpace, np.ndarray]:
        """Return the arrays, and the class of each device `(devices,)`.

        Raises:
            ResourceError: amounts of a resource add up to more than can be counted.
        """
        blocks = self.blocks
        graph, slot_count = blocks.graph, len(blocks.slots)
        tensors = [t for b in blocks.sources for t in b.outputs] + [
            t for b in blocks.slots for t in b.outputs
        ]
        number = {t: k for k, t in enumerate(tensors)}
        producers = {t: (g, k) for g, b in enumerate(blocks.all) for k, t in enumerate(b.outputs)}
        edges = [
            (slot, k, number[read_of(graph, b.site, k).root])
            for slot, b in enumerate(blocks.slots)
            for k in range(len(b.inputs))
        ]
        readers: list[list[int]] = [[] for _ in tensors]
        for e, (_, _, t) in enumerate(edges):
            readers[t].append(e)
        columns = {name: np.zeros(len(tensors), dtype=np.int64) for name in _TENSOR_COLUMNS}
        edge_needed, edge_pairs, edge_keys = (np.zeros(len(edges), dtype=np.int64) for _ in range(3))
        keys, stages = 0, blocks.stages
        for t, site in enumerate(tensors):
            self.check_stop()
            gene, position = producers[site]
            tensor = graph.tensors[site]
            family = blocks.families[gene]
            makes = [o.makes[position] for o in family.dimension_orders]
            made = self.rows.placed([family.made[position]], makes)
            reading = [(blocks.families[edges[e][0]], edges[e][1]) for e in readers[t]]
            needed = self.rows.placed(
                [reader.needed[k] for reader, k in reading],
                [o.reads[k] for reader, k in reading for o in reader.dimension_orders],
            )
            kind, is_of_round = tensor.type, blocks.time is not None and blocks.time.has_of_round(site)
            if blocks.time is not None:
                kind = TensorType(blocks.time.shape_of(site, tensor.shape), tensor.dtype)
            offsets = self.rows.table(kind, made, needed, int(stages[gene]))
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
                kind.size_bytes,
                is_of_round,
                gene >= slot_count
                and blocks.all[gene].definition.get("role") in LIVES_ON
                and site not in graph.carried,
            )
            for name, value in zip(_TENSOR_COLUMNS, row, strict=True):
                columns[name][t] = value
            ways: dict[int, tuple[int, int]] = {int(stages[gene]): (offsets[0], keys)}
            keys += needed.count
            for e, (reader, k) in zip(readers[t], reading, strict=True):
                edge_needed[e] = self.rows.ids(
                    reader.needed[k], [o.reads[k] for o in reader.dimension_orders], needed
                )
                stage = int(stages[edges[e][0]])
                if stage not in ways and blocks.pipeline is not None:
                    both = (int(stages[gene]), stage)
                    route = blocks.pipeline.layout.route(*both)
                    ways[stage] = (self.rows.sent(kind, made, needed, route, *both), keys)
                    keys += needed.count
                edge_pairs[e], edge_keys[e] = ways[stage]
        for name in ("is_of_round", "is_persistent"):
            columns[name] = columns[name].astype(np.bool_)
        made_on = np.array([stages[producers[t][0]] for t in tensors], dtype=np.int64)
        between = np.array([made_on[t] != stages[slot] for slot, _, t in edges], dtype=np.bool_)
        by_edge: dict[str, Any] = {
            "edge_needed": edge_needed,
            "edge_pairs": edge_pairs,
            "edge_keys": edge_keys,
            "edge_number": np.where(between, np.cumsum(between) - 1, -1).astype(np.int64),
        }
        return self._space(columns, edges, by_edge, number)

    def _block(self, gene: int) -> int:
        key = self.blocks.classes[gene]
        if key not in self.block_known:
            self.block_known[key] = self.block_row_count
            self.block_parts.append(self.blocks.costs[gene])
            self.block_row_count += len(self.blocks.costs[gene].ticks)
        return self.block_known[key]

    def _space(
        self,
        columns: dict[str, Any],
        edges: list[tuple[int, int, int]],
        by_edge: dict[str, Any],
        number: dict[str, int],
    ) -> tuple[CompiledSpace, np.ndarray]:
        blocks = self.blocks
        self._check_amounts()
        slot_count, devices = len(blocks.slots), self.rows.mesh_shape.device_count
        block_offset = np.array([self._block(g) for g in range(len(blocks.all))], dtype=np.int64)
        classes, representative, label = device_classes(
            self.rows.tables, self.block_parts, devices, self.rows.sent_tables
        )
        staging_rows, staging_ids = self.rows.staging(representative)
        pair_ids, pair_rows = self.rows.pairs(staging_ids)
        uses_host, (host_rows, host_bytes) = self.rows.uses_host, self.rows.on_host(representative)
        relayout_rows, block_rows = self.rows.relayouts(), self._block_rows(representative)
        rounds: dict[str, Any] = _round_arrays(blocks) if blocks.turns is None else _stage_arrays(blocks)
        copies = [pair_rows[:, PAIR_ENERGY], relayout_rows[:, RELAYOUT_ENERGY], host_rows[:, HOST_ENERGY]]
        most = sum(float(costs.energy_pj.max(initial=0)) for costs in blocks.costs)
        most += len(edges) * sum(float(energy.max(initial=0)) for energy in copies)
        shift = _shift_of(most * rounds["round_count"])
        for energy in (block_rows[:, BLOCK_ENERGY], *copies) if shift else ():
            energy[:] = -(-energy >> shift)
        flops, common = base_flops(blocks.graph), self.rows.meshes.common
        of_stages = [self.rows.meshes.of(stage) for stage in range(len(self.rows.meshes.kind_of))]
        space = CompiledSpace(
            slot_count=slot_count,
            source_count=len(blocks.sources),
            base_flops=min(flops, LARGEST),
            exact_flops=float(flops),
            energy_shift=shift,
            cores=np.array([mesh.device.cores for mesh in of_stages], dtype=np.int64),
            communication_cores=np.array([m.device.communication_cores for m in of_stages], dtype=np.int64),
            communication_queues=common.queue_count,
            queue_count=common.queue_count + (len(common.host_queues) if uses_host else 0),
            has_host=uses_host,
            host_memory_bytes=common.device.host_memory_bytes or 0,
            classes=classes,
            strategy_count=np.array([f.count for f in blocks.families], dtype=np.int64),
            state_gene=_other_genes(blocks.state_genes, len(blocks.all)),
            block_offset=block_offset,
            **rounds,
            made_start=np.concatenate([[0], np.cumsum([len(b.outputs) for b in blocks.all])]).astype(
                np.int64
            ),
            made_tensor=np.array([number[t] for b in blocks.all for t in b.outputs], dtype=np.int64),
            is_sink=np.array([b.operator == "sink" for b in blocks.slots], dtype=np.bool_),
            gene_stage=blocks.stages,
            **by_edge,
            **_edge_arrays(edges, slot_count, len(number)),
            **columns,
            has_dimension_orders=uses_host or any(map(_reorders, blocks.families)),
            spec_ids=np.concatenate(self.rows.spec_ids),
            inside=self.rows.inside(),
            relayout_rows=relayout_rows,
            pair_ids=pair_ids,
            pair_rows=pair_rows,
            staging_rows=staging_rows,
            size_rows=self.rows.sizes(representative),
            host_rows=host_rows,
            host_bytes=host_bytes,
            block_rows=block_rows,
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
        for r, resource in enumerate(self.blocks.resources):
            most = sum(int(costs.resources[r].max(initial=0)) for costs in self.blocks.costs)
            if most * self.rows.mesh_shape.device_count > LARGEST:
                raise too_much(resource)


def _reorders(family: StrategyFamily) -> bool:
    """Return whether a block may read or produce tensors in another dimension order than the program's."""
    return any(text for orders in family.dimension_orders for text in (*orders.reads, *orders.makes))


def _shift_of(most: float) -> int:
    """Return by how many bits energies of at most so many picojoules together are to be shifted to be counted."""
    return max(0, math.ceil(math.log2(max(most, 1.0) / LARGEST)))


def _other_genes(pairs: np.ndarray, count: int) -> np.ndarray:
    """Return the other gene of every gene that is in a pair, `(count,)`; -1 for those in none."""
    other = np.full(count, -1, dtype=np.int64)
    other[pairs] = pairs[:, ::-1]
    return other


MOST_LAPS = 4


def _round_arrays(blocks: SpaceBlocks) -> dict[str, Any]:
    """Build what the loops need to know of rounds: how often blocks run, and the positions of slots in the scans."""
    count, time = len(blocks.slots), blocks.time
    segments = [blocks.slots] if time is None else time.segments(blocks.slots)
    rounds = 1 if time is None else time.count
    laps = min(rounds, MOST_LAPS)
    repeats = np.ones(len(blocks.all), dtype=np.int64)
    position, lap, first_slot = (np.zeros(count, dtype=np.int64) for _ in range(3))
    slot_at: list[int] = []
    loops = []
    slot = 0
    for level, segment in enumerate(segments):
        numbers = range(slot, slot + len(segment))
        slot = numbers.stop
        own = slice(numbers.start, numbers.stop)
        position[own], first_slot[own] = np.arange(len(segment)) + len(slot_at), numbers.start
        if level % 2 and segment:
            lap[own], repeats[own] = len(segment), rounds
            loops.append((numbers.start, numbers.stop))
        slot_at += [*numbers] * (laps if level % 2 else 1)
    if time is not None:
        for k, source in enumerate(blocks.sources):
            repeats[count + k] = time.runs_of(source)
    return {
        "repeats": repeats,
        "round_count": rounds,
        "laps": laps,
        "skipped": rounds - laps,
        "loops": np.array(loops, dtype=np.int64).reshape(-1, 2),
        "slot_at": np.array(slot_at, dtype=np.int64),
        "position": position,
        "lap": lap,
        "first_slot": first_slot,
        **_NO_STAGES,
        **{name: np.zeros(count, dtype=np.int64) for name in ("slot_piece", "order_first", "order_last")},
    }


_NO_STAGES: Mapping[str, Any] = {
    "stage_count": 1,
    "pieces": np.zeros((0, 5), dtype=np.int64),
    "turns": np.zeros((0, 3), dtype=np.int64),
    "first_before": np.zeros((0, 1), dtype=np.int64),
    "row_start": np.zeros(0, dtype=np.int64),
    "row_length": np.zeros(0, dtype=np.int64),
    "row_laps": np.zeros(0, dtype=np.int64),
}
MOST_LAPS_OF_PIECES = 3


def _first_before(table: TurnTable, stages: int) -> np.ndarray:
    """Return the first piece that each stage does in a round before another one, `(pieces, stages)`; -1 for none."""
    found = np.full((len(table.pieces), stages), -1, dtype=np.int64)
    first: dict[tuple[int, int], int] = {}
    for k, piece in enumerate(table.pieces):
        for stage in range(stages):
            found[k, stage] = first.get((table.levels[k], stage), -1)
        first.setdefault((table.levels[k], piece.part % stages), k)
    return found


def _stage_arrays(blocks: SpaceBlocks) -> dict[str, Any]:
    """Build what the loops need to know of pieces and turns, and of rounds."""
    table, pipeline, time = blocks.turns, blocks.pipeline, blocks.time
    assert table is not None and pipeline is not None
    count, rounds = len(blocks.slots), 1 if time is None else time.count
    laps = min(rounds, MOST_LAPS_OF_PIECES)
    repeats = np.ones(len(blocks.all), dtype=np.int64)
    slot_arrays = {name: np.zeros(count, dtype=np.int64) for name in _SLOT_ARRAYS}
    first_turn, last_turn = dict[int, int](), dict[int, int]()
    longest = 2 * max(len(piece.blocks) for piece in table.pieces) + 2
    for n, (k, _) in enumerate(table.order):
        first_turn.setdefault(k, n)
        last_turn[k] = n
    slot_at: list[int] = []
    pieces: list[tuple[int, int, int, int, int]] = []
    rows: list[tuple[int, int, int]] = []
    slot = 0
    for k, piece in enumerate(table.pieces):
        size, looped = len(piece.blocks), table.levels[k] % 2 == 1
        mine, places = slice(slot, slot + size), np.arange(size)
        slot_arrays["position"][mine] = places + len(slot_at)
        slot_arrays["first_slot"][mine], slot_arrays["slot_piece"][mine] = slot, k
        slot_arrays["order_first"][mine] = first_turn[k] * longest + 2 * places
        slot_arrays["order_last"][mine] = last_turn[k] * longest + 2 * places
        own_laps = laps if looped else 1
        if looped:
            slot_arrays["lap"][mine], repeats[mine] = size + 1, rounds
        pieces.append((slot, slot + size, piece.part % pipeline.stages.count, len(rows), own_laps))
        for _ in range(own_laps):
            rows.append((len(slot_at), size + 1, own_laps))
            slot_at += [*range(slot, slot + size), slot + size - 1]
        slot += size
    if time is not None:
        for k, source in enumerate(blocks.sources):
            repeats[count + k] = time.runs_of(source)
    turns = [
        (k, number, 0 if number == 0 else pieces[k][4] - 1 if number == rounds - 1 else 1)
        for k, number in table.order
    ]
    by_row = np.array(rows, dtype=np.int64).T.copy()
    return {
        "repeats": repeats,
        "round_count": rounds,
        "laps": laps,
        "skipped": 0,
        "loops": np.zeros((0, 2), dtype=np.int64),
        "slot_at": np.array(slot_at, dtype=np.int64),
        "stage_count": pipeline.stages.count,
        "pieces": np.array(pieces, dtype=np.int64),
        "turns": np.array(turns, dtype=np.int64),
        "first_before": _first_before(table, pipeline.stages.count),
        "row_start": by_row[0],
        "row_length": by_row[1],
        "row_laps": by_row[2],
        **slot_arrays,
    }


_SLOT_ARRAYS = ("position", "lap", "first_slot", "slot_piece", "order_first", "order_last")


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
    "is_of_round",
    "is_persistent",
)


def _edge_arrays(edges: Sequence[tuple[int, int, int]], slots: int, tensors: int) -> dict[str, Any]:
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
