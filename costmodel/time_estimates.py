"""The time of a plan of a space with its error: the blocks and copies that decide it, by what has one error in common.

The simulator finds the same by code of its own (`hardware.simulator.critical_path`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tapestry.costmodel.block_cost import time_class_of
from tapestry.costmodel.kernel import evaluate
from tapestry.costmodel.kernel_arrays import (
    PIECE_FIRST,
    PIECE_LAPS,
    CompiledSpace,
    EvaluationState,
    new_state,
)
from tapestry.costmodel.plan_space import Genes, PlanSpace
from tapestry.costmodel.resharding_tables import copy_rounds
from tapestry.costmodel.table_rows import CopyPhases
from tapestry.hardware.timing import (
    TimeClass,
    TimeEstimate,
    move_class,
    round_weights,
    shared_ticks,
)
from tapestry.hardware.timing.quantiles import quantile_factor
from tapestry.teg.dtypes import item_bytes


class TimedSpan(NamedTuple):
    """A block, by its slot, or a copy, by its edge (-1: a block): from one tick to another; `before` is the span that
    ended when it began, -1 at the start.
    """

    slot: int
    edge: int
    start_ticks: int
    end_ticks: int
    before: int


def estimate_time(space: PlanSpace, genes: Genes) -> TimeEstimate:
    """Return the median time of a plan with its error, also where the space ranks plans by a quantile of the time."""
    state, cost = new_state(space.space), np.zeros(space.cost_count, dtype=np.int64)
    strategies = space.with_state(genes.strategies)
    # the types of the archives, for which the loops are compiled
    plan = (strategies.astype(np.int16), genes.prefetch.astype(np.int8), genes.regather.astype(np.int8))
    evaluate(space.space, state, *plan, cost)
    found: Counter[TimeClass] = Counter()
    for span in _critical_spans(space, strategies, state):
        for time_class, ticks in _classes(space, strategies, span):
            found[time_class] += ticks
    return TimeEstimate.of({each: ticks for each, ticks in found.items() if ticks})


def _critical_spans(space: PlanSpace, strategies: np.ndarray, state: EvaluationState) -> Iterator[TimedSpan]:
    """Yield the spans that follow each other without a gap up to the end of a plan, the last one first."""
    in_stages = space.space.stage_count > 1
    spans = (_issued_in_stages if in_stages else _issued)(space, strategies, state)
    at = max(range(len(spans)), key=lambda k: (spans[k].end_ticks, k), default=-1)
    while at >= 0:
        yield spans[at]
        at = spans[at].before


def _issued(space: PlanSpace, strategies: np.ndarray, state: EvaluationState) -> list[TimedSpan]:
    """Return all blocks and copies in the order of issue, with the clocks of `kernel_scans.clock`."""
    arrays, now = space.space, 0
    free, ready = [0] * arrays.queue_count, [0] * arrays.slot_count
    first_due, next_due = state.first_due.tolist(), state.next_due.tolist()
    taken, left = arrays.communication_cores, arrays.cores - arrays.communication_cores
    spans: list[TimedSpan] = []
    ended: dict[int, int] = {}

    def issue(slot: int, edge: int, start: int, end: int) -> None:
        spans.append(TimedSpan(slot, edge, start, end, ended.get(start, -1)))
        if end > 0:
            ended[end] = len(spans) - 1

    for slot, is_first in _turns(arrays):
        edge = first_due[slot]
        while edge >= 0:
            if not is_first and state.is_once[edge]:
                edge = next_due[edge]
                continue
            bits = int(state.copy_queues[edge])
            queues = [q for q in range(len(free)) if bits >> q & 1 or len(free) == 1]
            start = max(now, *(free[q] for q in queues))
            end = start + _copy_ticks(space, strategies, edge, int(state.copy_ticks[edge]))
            for q in queues:
                free[q] = end
            reader = int(arrays.edge_slot[edge])
            ready[reader] = max(ready[reader], end)
            issue(slot, edge, start, end)
            edge = next_due[edge]
        now, ready[slot] = max(now, ready[slot]), 0
        ticks, link = (
            _block_ticks(space, slot, int(state.slot_ticks[slot])),
            max(free[: arrays.communication_queues]),
        )
        if link > now and taken > 0:
            ticks += min(ticks * taken // left, (link - now) * taken // arrays.cores)
        issue(slot, -1, now, now + ticks)
        now += ticks
    return spans


def _issued_in_stages(space: PlanSpace, strategies: np.ndarray, state: EvaluationState) -> list[TimedSpan]:
    """Return all blocks and copies of all stages, with the clocks of `stage_loops.clock_in_stages`."""
    arrays, clocks = space.space, _StageClocks(space, strategies, state)
    before: tuple[int, int] | None = None
    for piece, number, _ in arrays.turns.tolist():
        if before is not None:
            maker, made_in = before
            is_last = made_in == arrays.round_count - 1 or arrays.pieces[maker, PIECE_LAPS] == 1
            for edge in _listed(state.first_sent[maker], state.next_sent):
                is_alike = bool(arrays.lap[arrays.edge_slot[edge]]) and not state.is_once[edge]
                if is_alike or is_last:
                    clocks.send(edge, made_in if is_alike else 0)
        for edge in _listed(state.first_begun[piece], state.next_sent):
            if number == 0 or not state.is_once[edge]:
                clocks.send(edge, number)
        for edge in _listed(state.first_waited[piece], state.next_waited):
            if number == 0 or not state.is_once[edge]:
                clocks.wait(edge, number, piece)
        clocks.run(piece, number)
        before = (piece, number)
    return clocks.spans


def _listed(first: int, following: np.ndarray) -> Iterator[int]:
    """Yield the edges of a list."""
    edge = int(first)
    while edge >= 0:
        yield edge
        edge = int(following[edge])


class _StageClocks:
    """The clocks of all stages, and of copies between them."""

    def __init__(self, space: PlanSpace, strategies: np.ndarray, state: EvaluationState) -> None:
        arrays = space.space
        self.space, self.strategies, self.state = space, strategies, state
        self.now = [0] * arrays.stage_count
        self.free = [[0] * arrays.queue_count for _ in self.now]
        self.lanes: dict[tuple[int, int], tuple[int, int]] = {}
        self.sent: dict[tuple[int, int], int] = {}
        self.ready: dict[int, int] = {}
        self.spans: list[TimedSpan] = []
        self.ended: dict[int, int] = {}

    def _issue(self, slot: int, edge: int, start: int, end: int) -> None:
        self.spans.append(TimedSpan(slot, edge, start, end, self.ended.get(start, -1)))
        if end > start:
            self.ended[end] = len(self.spans) - 1

    def _queues(self, edge: int) -> list[int]:
        bits, count = int(self.state.copy_queues[edge]), self.space.space.queue_count
        return [q for q in range(count) if bits >> q & 1 or count == 1]

    def _ticks(self, edge: int) -> int:
        return _copy_ticks(self.space, self.strategies, edge, int(self.state.copy_ticks[edge]))

    def _stages(self, edge: int) -> tuple[int, int]:
        arrays = self.space.space
        maker = arrays.made_gene[arrays.edge_tensor[edge]]
        return int(arrays.gene_stage[maker]), int(arrays.gene_stage[arrays.edge_slot[edge]])

    def send(self, edge: int, number: int) -> None:
        """Begin a copy to another stage, of a round."""
        pair = self._stages(edge)
        start = max(max(self.now[s], *(self.free[s][q] for q in self._queues(edge))) for s in pair)
        start = max(start, self.lanes.get(pair, (0, 0))[1])
        near = [lane for (a, b), lane in self.lanes.items() if a == pair[0] or b == pair[1]]
        while running := [end for begin, end in near if begin <= start < end]:
            start = max(running)
        end = start + self._ticks(edge)
        self.lanes[pair], self.sent[edge, number] = (start, end), end
        self._issue(int(self.space.space.edge_slot[edge]), edge, start, end)

    def wait(self, edge: int, number: int, piece: int) -> None:
        """Have a piece wait for a copy, and its sender as well."""
        end, first = self.sent[edge, number], int(self.space.space.pieces[piece, PIECE_FIRST])
        sender, _ = self._stages(edge)
        self.ready[first] = max(self.ready.get(first, 0), end)
        self.now[sender] = max(self.now[sender], end)

    def run(self, piece: int, number: int) -> None:
        """Run the blocks of a piece in a round, and the copies within its stage."""
        arrays, state = self.space.space, self.state
        first, end, stage = arrays.pieces[piece, :3].tolist()
        taken, left = arrays.communication_cores, arrays.cores - arrays.communication_cores
        free, now = self.free[stage], self.now[stage]
        for slot in range(first, end):
            for edge in _listed(state.first_due[slot], state.next_due):
                if number and state.is_once[edge]:
                    continue
                queues = self._queues(edge)
                start = max(now, *(free[q] for q in queues))
                done = start + self._ticks(edge)
                for q in queues:
                    free[q] = done
                reader = int(arrays.edge_slot[edge])
                self.ready[reader] = max(self.ready.get(reader, 0), done)
                self._issue(slot, edge, start, done)
            now = max(now, self.ready.pop(slot, 0))
            ticks, link = (
                _block_ticks(self.space, slot, int(state.slot_ticks[slot])),
                max(free[: arrays.communication_queues]),
            )
            if link > now and taken > 0:
                ticks += min(ticks * taken // left, (link - now) * taken // arrays.cores)
            self._issue(slot, -1, now, now + ticks)
            now += ticks
        self.now[stage] = now


def _turns(arrays: CompiledSpace) -> Iterator[tuple[int, bool]]:
    """Yield the slots in the order in which they run, those of loops once per round, and whether it is the first."""
    begin = 0
    for first, end in arrays.loops.tolist():
        yield from ((slot, True) for slot in range(begin, first))
        for number in range(arrays.round_count):
            yield from ((slot, number == 0) for slot in range(first, end))
        begin = end
    yield from ((slot, True) for slot in range(begin, arrays.slot_count))


def _block_ticks(space: PlanSpace, slot: int, ticks: int) -> int:
    """Return the median of the time of a block, given that in the space."""
    return ticks if space.mesh.device.quantile is None else _median(space, _block_class(space, slot), ticks)


def _copy_ticks(space: PlanSpace, strategies: np.ndarray, edge: int, ticks: int) -> int:
    """Return the median of the time of a copy, given that in the space: rounds beside moves, then other moves."""
    if space.mesh.device.quantile is None:
        return ticks
    phases = _phases(space, strategies, edge)
    return phases.longer_ticks + _median(space, move_class(space.mesh.device), ticks - phases.late_ticks)


def _median(space: PlanSpace, time_class: TimeClass, ticks: int) -> int:
    return round(ticks / quantile_factor(space.mesh.device.quantile, time_class.error))


def _classes(space: PlanSpace, strategies: np.ndarray, span: TimedSpan) -> Iterator[tuple[TimeClass, int]]:
    """Yield what the time of a span has its error in common with, and the ticks of that."""
    ticks = span.end_ticks - span.start_ticks
    if not ticks:
        return
    if span.edge < 0:
        yield _block_class(space, span.slot), ticks
        return
    phases = _phases(space, strategies, span.edge)
    shares = shared_ticks(phases.weights, phases.round_ticks)
    yield from shares
    yield move_class(space.mesh.device), ticks - sum(share for _, share in shares)


def _block_class(space: PlanSpace, slot: int) -> TimeClass:
    known, key = space.cache.time_classes, space.class_of[slot]
    if key not in known:
        block, graph = space.slots[slot], space.graph
        types = (graph.input_types(block), graph.output_types(block))
        known[key] = time_class_of(block.definition, *types, space.mesh.device, space.compute_dtype)
    return known[key]


def _phases(space: PlanSpace, strategies: np.ndarray, edge: int) -> CopyPhases:
    """Return what the time of a copy consists of, apart from moves before and after its rounds."""
    arrays = space.space
    slot, tensor = int(arrays.edge_slot[edge]), int(arrays.edge_tensor[edge])
    producer = int(arrays.made_gene[tensor])
    made = arrays.made_tensor[arrays.made_start[producer] : arrays.made_start[producer + 1]].tolist()
    output, read = made.index(tensor), edge - int(arrays.edge_start[slot])
    kind = space.made_types(space.blocks[producer])[output]
    makes, needs = space.families[producer], space.families[slot]
    specs = (
        makes.made[output][int(strategies[producer]) // len(makes.dimension_orders)],
        needs.needed[read][int(strategies[slot]) // len(needs.dimension_orders)],
    )
    route = None
    if space.pipeline is not None and arrays.edge_number[edge] >= 0:
        route = space.pipeline.layout.route(int(arrays.gene_stage[producer]), int(arrays.gene_stage[slot]))
    known, key = space.cache.phases, (kind.shape, item_bytes(kind.dtype), *specs, route)
    if key not in known:
        median = space.mesh if space.mesh.device.quantile is None else space.mesh.at_quantile(0.5)
        rounds, ticks, kept_ticks = copy_rounds(*key[:4], median, space.mesh_shape, route)
        weights = round_weights(median, rounds)
        longer = late = max(ticks, kept_ticks)
        if median is not space.mesh:
            late = max(copy_rounds(*key[:4], space.mesh, space.mesh_shape, route)[1:])
        known[key] = CopyPhases(weights, ticks if ticks >= kept_ticks else 0, longer, late)
    return known[key]
