"""The schedule that the cost model predicts of a plan: when each block and copy runs, and what decides the end."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tapestry.costmodel.kernel import evaluate
from tapestry.costmodel.kernel_arrays import PAIR_TRAFFIC, SPEC, EvaluationState, new_state
from tapestry.costmodel.plan_space import Genes, PlanSpace
from tapestry.costmodel.span_loops import critical_spans, span_count, timeline_of
from tapestry.costmodel.table_rows import CopiedForm
from tapestry.costmodel.time_estimates import copied_edges, copied_form, copy_classes, time_class_of_slot

MOVES = "moves within devices"


class TooManySpans(ValueError):
    """Error raised for a plan that has more spans than were asked for."""

    def __init__(self, spans: int, limit: int) -> None:
        super().__init__(f"the schedule has up to {spans:,} blocks and copies; at most {limit:,} are listed")
        self.spans, self.limit = spans, limit


class ScheduledBlock(NamedTuple):
    """A block of a schedule: its site, its operator, the class of kernels that its time is of, and its stage."""

    site: str
    operator: str
    kind: str
    stage: int


class ScheduledCopy(NamedTuple):
    """A copy of a schedule: of which tensor, for which reader, of which kind, from stage to stage, in which queues, and
    the bytes that all devices receive each time. Its kind are its exchanges (`all_gather on gpu`), or where it moves
    what devices have; `form` is what it brings into which form.
    """

    tensor: str
    reader: str
    kind: str
    stage: int
    to_stage: int
    queues: tuple[int, ...]
    traffic_bytes: int
    form: CopiedForm


class Wait(NamedTuple):
    """The ticks of a stage: in blocks, waiting for copies within the stage, and waiting for other stages."""

    computes_ticks: int
    copies_ticks: int
    stages_ticks: int


class Schedule(NamedTuple):
    """The spans of a plan in the order of issue, in ticks of 1 ps.

    `what` `(spans,)` is the place of a block in `blocks`, or -1 - that of a copy in `copies`; `round` that in which it
    runs, 0 for what runs once; `critical` the numbers of the spans that make up the time of the plan, one after the
    other. `waits` `(stages,)` add up to `end_ticks` each.
    """

    blocks: tuple[ScheduledBlock, ...]
    copies: tuple[ScheduledCopy, ...]
    what: np.ndarray
    round: np.ndarray
    start_ticks: np.ndarray
    end_ticks: np.ndarray
    critical: np.ndarray
    waits: tuple[Wait, ...]
    queue_names: tuple[str, ...]

    @property
    def makespan_ticks(self) -> int:
        """The ticks after which the last block is done."""
        return sum(self.waits[0]) if self.waits else 0


def schedule(space: PlanSpace, genes: Genes, most: int) -> Schedule:
    """Return the schedule of a plan of a space, by the times that plans are ranked by.

    Raises:
        TooManySpans: it may have more than `most` spans.
    """
    state, cost = new_state(space.space), np.zeros(space.cost_count, dtype=np.int64)
    strategies = space.with_state(genes.strategies)
    evaluate(space.space, state, *space.compiled_genes(genes), cost)
    if (spans := span_count(space.space, state)) > most:
        raise TooManySpans(spans, most)
    timeline = timeline_of(space.space, state, state.slot_ticks, state.copy_ticks)
    count = int(timeline.count[0])
    edges = sorted(set(copied_edges(space, state)))
    place = np.zeros(space.edge_count, dtype=np.int64)
    place[edges] = np.arange(len(edges))
    what = timeline.what[:count].astype(np.int64)
    what = np.where(what >= 0, what, -1 - place[np.maximum(-1 - what, 0)])
    blocks = tuple(
        ScheduledBlock(
            block.site, block.operator, time_class_of_slot(space, k).name, int(space.space.gene_stage[k])
        )
        for k, block in enumerate(space.slots)
    )
    copies = tuple(_copy(space, strategies, state, edge) for edge in edges)
    start, end = timeline.start[:count].copy(), timeline.end[:count].copy()
    return Schedule(
        blocks,
        copies,
        what,
        timeline.round[:count].copy(),
        start,
        end,
        critical_spans(timeline),
        _waits(space, copies, what, start, end),
        tuple(space.mesh.queue_name(q) for q in range(space.space.queue_count)),
    )


def _copy(space: PlanSpace, strategies: np.ndarray, state: EvaluationState, edge: int) -> ScheduledCopy:
    arrays = space.space
    slot, tensor = int(arrays.edge_slot[edge]), int(arrays.edge_tensor[edge])
    producer, ticks = int(arrays.made_gene[tensor]), int(state.copy_ticks[edge])
    *exchanges, _ = copy_classes(space, strategies, edge, ticks)
    kinds = list(dict.fromkeys(each.name for each, spent in exchanges if spent))
    stage, to_stage = arrays.gene_stage[[producer, slot]].tolist()
    queues = [q for q in range(arrays.queue_count) if int(state.copy_queues[edge]) >> q & 1]
    own = next((space.mesh.queue_name(q) for q in queues if q in space.mesh.host_queues), MOVES)
    site = space.blocks[producer].outputs[tensor - int(arrays.made_tensor[arrays.made_start[producer]])]
    return ScheduledCopy(
        site,
        space.slots[slot].site,
        " + ".join(kinds) or own,
        stage,
        to_stage,
        tuple(queues) if arrays.queue_count > 1 else (0,),
        traffic_of(space, strategies, edge),
        copied_form(space, strategies, edge),
    )


def traffic_of(space: PlanSpace, strategies: np.ndarray, edge: int) -> int:
    """Return the bytes that all devices receive when the copy of an edge is made once."""
    arrays = space.space
    tensor = int(arrays.edge_tensor[edge])
    made = arrays.made_offset[tensor] + strategies[arrays.made_gene[tensor]]
    need = arrays.edge_needed[edge] + strategies[arrays.edge_slot[edge]]
    row = arrays.edge_pairs[edge] + arrays.spec_ids[made, SPEC] * arrays.needed_specs[tensor]
    pair = arrays.pair_ids[row + arrays.spec_ids[need, SPEC]]
    return int(arrays.pair_rows[pair, PAIR_TRAFFIC])


def _waits(
    space: PlanSpace,
    copies: tuple[ScheduledCopy, ...],
    what: np.ndarray,
    start: np.ndarray,
    end: np.ndarray,
) -> tuple[Wait, ...]:
    """Return what each stage spends its time on.

    Before a block it waits for its own copies as long as one of them is under way, and else for other stages.
    """
    makespan = int(end[what >= 0].max(initial=0))
    stage_of_slot = space.space.gene_stage[: len(space.slots)]
    found = []
    for stage in range(space.space.stage_count):
        mine = np.flatnonzero(what >= 0)
        mine = mine[stage_of_slot[what[mine]] == stage]
        own = np.array([c.stage == c.to_stage == stage for c in copies], dtype=np.bool_)
        copied = np.flatnonzero(what < 0)
        copied = copied[own[-1 - what[copied]]] if len(copied) else copied
        gaps = np.stack([np.concatenate([[0], end[mine]]), np.concatenate([start[mine], [makespan]])], axis=1)
        idle = int((gaps[:, 1] - gaps[:, 0]).sum())
        waited = _overlap(gaps, np.stack([start[copied], end[copied]], axis=1))
        found.append(Wait(makespan - idle, waited, idle - waited))
    return tuple(found)


def _overlap(gaps: np.ndarray, spans: np.ndarray) -> int:
    """Return how long at least one of some spans `(n, 2)` is under way within gaps `(m, 2)` that do not overlap."""
    if not len(spans) or not len(gaps):
        return 0
    spans = spans[np.argsort(spans[:, 0], kind="stable")]
    latest = np.maximum.accumulate(spans[:, 1])
    opens = np.concatenate([[True], spans[1:, 0] > latest[:-1]])
    first = np.flatnonzero(opens)
    joined = np.stack([spans[first, 0], np.concatenate([latest[first[1:] - 1], latest[-1:]])], axis=1)
    moments = np.unique(np.concatenate([gaps.ravel(), joined.ravel()]))
    return int((np.diff(moments) * (_inside(gaps, moments) & _inside(joined, moments))).sum())


def _inside(intervals: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """Return for each two moments that follow each other whether an interval, `(n, 2)`, covers the time between."""
    covered = np.zeros(len(moments), dtype=np.int64)
    np.add.at(covered, np.searchsorted(moments, intervals[:, 0]), 1)
    np.add.at(covered, np.searchsorted(moments, intervals[:, 1]), -1)
    return np.cumsum(covered)[:-1] > 0
