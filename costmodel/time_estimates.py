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
from tapestry.costmodel.kernel_arrays import CompiledSpace, EvaluationState, new_state
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
    spans = _issued(space, strategies, state)
    at = len(spans) - 1
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
        ticks, link = _block_ticks(space, slot, int(state.slot_ticks[slot])), max(free)
        if link > now and taken > 0:
            ticks += min(ticks * taken // left, (link - now) * taken // arrays.cores)
        issue(slot, -1, now, now + ticks)
        now += ticks
    return spans


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
    known, key = space.cache.phases, (kind.shape, item_bytes(kind.dtype), *specs)
    if key not in known:
        median = space.mesh if space.mesh.device.quantile is None else space.mesh.at_quantile(0.5)
        rounds, ticks, kept_ticks = copy_rounds(*key, median, space.mesh_shape)
        weights = round_weights(median, rounds)
        longer = late = max(ticks, kept_ticks)
        if median is not space.mesh:
            late = max(copy_rounds(*key, space.mesh, space.mesh_shape)[1:])
        known[key] = CopyPhases(weights, ticks if ticks >= kept_ticks else 0, longer, late)
    return known[key]
