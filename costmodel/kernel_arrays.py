"""Arrays of the kernel: a compiled space, the state of the plan costed last, and their columns.

The columns of a plan's costs are named here too. `costmodel.plan_space` fills a space, `costmodel.kernel` reads it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Columns of `pair_rows`; `ticks` is -1 where the needed spec is a view of the made one.
# Staging of a copy between stages is that of the sending one, and `landing` is that of the other one.
PAIR_TICKS, PAIR_TRAFFIC, PAIR_ENERGY, PAIR_QUEUES, PAIR_STAGING, PAIR_LANDING = 0, 1, 2, 3, 4, 5
PAIR_COLUMNS = 6
# Columns of `relayout_rows`; `ticks` is -1 where a tensor is read in the order in which it is stored.
RELAYOUT_TICKS, RELAYOUT_ENERGY = 0, 1
# Columns of `host_rows`: a copy of the part to or from the host, and whether the part lies there.
HOST_TICKS, HOST_ENERGY, ON_HOST = 0, 1, 2
# Columns of `spec_ids`: the number of a spec in its order, of the spec, of the order.
PLACED, SPEC, ORDER = 0, 1, 2
# Columns of `block_rows` before the flops per class, which the program's own resources follow, each per class.
BLOCK_TICKS, BLOCK_ENERGY, BLOCK_FLOPS = 0, 1, 2

# The integer costs of every plan. Whoever needs one finds it by its name; its position means nothing.
COLUMNS = (
    "time_ticks",
    "peak_memory_bytes",
    "total_memory_bytes",
    "compute_flops",
    "peak_compute_flops",
    "traffic_bytes",
    "memory_waste_bytes",
    "compute_waste_flops",
    "energy_pj",
)
TIME = COLUMNS.index("time_ticks")
PEAK = COLUMNS.index("peak_memory_bytes")
TOTAL = COLUMNS.index("total_memory_bytes")
FLOPS = COLUMNS.index("compute_flops")
PEAK_FLOPS = COLUMNS.index("peak_compute_flops")
TRAFFIC = COLUMNS.index("traffic_bytes")
MEMORY_WASTE = COLUMNS.index("memory_waste_bytes")
FLOPS_WASTE = COLUMNS.index("compute_waste_flops")
ENERGY = COLUMNS.index("energy_pj")
# Behind them follow two per resource of the program: its sum over devices and the largest of one device.
COSTS = len(COLUMNS)

# Columns of `pieces` and of `turns`.
PIECE_FIRST, PIECE_END, PIECE_STAGE, PIECE_ROW, PIECE_LAPS = 0, 1, 2, 3, 4
TURN_PIECE, TURN_ROUND, TURN_LAP = 0, 1, 2

FOREVER = np.int64(1) << 40


class CompiledSpace(NamedTuple):
    """A compiled graph x mesh x view, for numba. Offsets point into the flat tables.

    Slots are blocks in schedule order; genes are the slots' strategies, then the sources'. Tensors count the
    sources' first. Sizes in bytes, time in ticks, energy in pJ; `classes` counts devices per class.
    """

    slot_count: int
    source_count: int
    base_flops: int  # of the unsharded program, as far as an integer of 64 bits counts
    exact_flops: float
    energy_shift: (
        int  # energies are in units of 2^shift pJ: above 0 where a sum of all could be more than is counted
    )
    cores: np.ndarray  # (stages,), of a device
    communication_cores: np.ndarray  # (stages,), of those, taken by copies while they run
    communication_queues: int
    queue_count: int  # with those of the host's link, to it and from it, where something may lie there
    has_host: bool  # whether something may
    host_memory_bytes: int  # of one device
    classes: np.ndarray  # (classes,)
    # per gene
    strategy_count: np.ndarray
    repeats: np.ndarray  # how often its block runs
    gene_stage: np.ndarray
    state_gene: np.ndarray  # the equal gene of the other end of carried state, source or sink; -1: none
    block_offset: np.ndarray  # row in block_rows of the gene's first strategy
    made_start: np.ndarray  # (genes + 1,): tensors made by the gene's block
    made_tensor: np.ndarray
    # rounds: how many, the laps in which memory is scanned, and the rounds between the second and the third of them
    round_count: int
    laps: int
    skipped: int
    loops: np.ndarray  # (loops, 2): slots [first, end)
    slot_at: np.ndarray  # (positions,): the slot
    # stages: how many; where there are several, their pieces, and a row for each lap of each
    stage_count: int
    pieces: np.ndarray  # (pieces, 5): first and end of the slots, stage, the row of the first lap, laps
    turns: np.ndarray  # (turns, 3): piece, round, lap
    first_before: (
        np.ndarray
    )  # (pieces, stages): the first piece of a stage in a round, if before this one; else -1
    row_start: np.ndarray  # (rows,): the first position
    row_length: np.ndarray  # positions, with the one behind the slots
    row_laps: np.ndarray
    # per slot
    position: np.ndarray  # in the scans, in the first lap
    lap: np.ndarray  # the slots of its loop; 0 outside of loops
    first_slot: np.ndarray  # of its part of the schedule, before which no copy is issued
    slot_piece: np.ndarray
    order_first: np.ndarray  # of its first turn among all turns, and that of its last one
    order_last: np.ndarray
    edge_start: np.ndarray  # (slots + 1,)
    is_sink: np.ndarray
    # per tensor
    made_at: np.ndarray  # slot, -1 for sources
    made_gene: np.ndarray
    made_offset: np.ndarray  # into spec_ids: gene value -> made spec
    pair_offset: np.ndarray  # into pair_ids, of (made spec 0, needed spec 0)
    needed_specs: np.ndarray
    relayout_offset: np.ndarray  # row in relayout_rows of (made order 0, placed need 0)
    needed_count: np.ndarray  # placed needs: specs in their orders
    made_bytes_offset: np.ndarray  # row in size_rows
    needed_bytes_offset: np.ndarray
    inside_offset: np.ndarray  # into `inside` of (needed spec 0, needed spec 0)
    key_offset: np.ndarray  # first shared-copy key of the tensor
    logical_bytes: np.ndarray
    is_of_round: np.ndarray  # each round has one of its own: a slice, or a term
    is_persistent: np.ndarray  # parameters and the like: live throughout
    reader_start: np.ndarray  # (tensors + 1,)
    reader_edge: np.ndarray  # edges by tensor, in slot order
    # per edge
    edge_tensor: np.ndarray
    edge_slot: np.ndarray
    edge_needed: np.ndarray  # into spec_ids: gene value -> needed spec
    edge_pairs: np.ndarray  # into pair_ids, of (made spec 0, needed spec 0), by the way from stage to stage
    edge_keys: np.ndarray  # first shared-copy key of the tensor on the reader's stage
    edge_number: np.ndarray  # among edges between stages; -1: the reader is on the tensor's stage
    # tables
    has_dimension_orders: bool  # without, nothing is stored in another order than it is read in
    spec_ids: np.ndarray  # (rows, 3)
    inside: np.ndarray  # per pair of needed specs [m, n]: the part of n lies in that of m on all devices
    relayout_rows: np.ndarray  # (rows, 2)
    pair_ids: np.ndarray  # per pair of a made and a needed spec: a row of pair_rows, int32
    pair_rows: (
        np.ndarray
    )  # (rows, 6), distinct in each class of tensors, the last two columns rows of staging_rows
    staging_rows: np.ndarray  # (rows, classes); row 0 is zero
    size_rows: np.ndarray  # (rows, classes)
    host_rows: np.ndarray  # (rows, 3), as `size_rows`; empty if nothing may lie on the host
    host_bytes: np.ndarray  # (rows, classes), likewise
    block_rows: np.ndarray  # (rows, 2 + classes * (1 + resources))


class EvaluationState(NamedTuple):
    """The plan costed last and the sums of its contributions.

    `before[v]` changes the live bytes up to the copies of the slot at position v, `during[v]` from there to its
    outputs. Copies due at a slot form a list in edge order: `first_due[slot]`, `next_due[edge]`; likewise copies
    between stages: those `sent` at the end of a piece, those `begun` with one, and those that one waits for. Of such
    copies, and of what pieces free on other stages, `sent`, `begun` and `freed` are changes of bytes by lap of a piece.
    """

    filled: np.ndarray  # (1,): whether a plan is held
    genes: np.ndarray
    prefetch: np.ndarray
    regather: np.ndarray
    totals: np.ndarray  # (COSTS,): traffic and energy
    flops: np.ndarray  # (stages * classes,)
    host: np.ndarray  # (stages * classes,): bytes on the host
    resources: np.ndarray  # (resources, stages * classes)
    slot_ticks: np.ndarray
    before: np.ndarray  # (positions + 1, classes)
    during: np.ndarray
    logical_before: np.ndarray
    logical_during: np.ndarray
    first_due: np.ndarray
    next_due: np.ndarray
    copy_ticks: np.ndarray  # per edge that starts a copy
    copy_queues: np.ndarray  # likewise: the queues that it takes, a bit each
    is_once: np.ndarray  # likewise: whether it is made in the first round only
    is_again: np.ndarray  # likewise: whether each round makes it again, of a tensor that is there for all
    queue_ticks: np.ndarray  # (queues,): when each is free
    queue_waits: np.ndarray  # (queues,): how long after the begin of a round each is free
    ready: np.ndarray
    peaks: np.ndarray  # (classes,)
    peak_samples: np.ndarray
    live: np.ndarray  # (classes,): bytes, as far as memory is scanned
    live_before: np.ndarray  # likewise, at the begin of a piece of the scan
    # stages
    initial: np.ndarray  # (stages, classes): bytes of sources
    logical_initial: np.ndarray  # (1,)
    sent: np.ndarray  # (rows, stages, classes)
    begun: np.ndarray
    freed: np.ndarray
    first_sent: np.ndarray  # per piece
    first_begun: np.ndarray
    first_waited: np.ndarray
    next_sent: np.ndarray  # per edge
    next_waited: np.ndarray
    sent_ends: np.ndarray  # (edges between stages, rounds)
    stage_now: np.ndarray  # (stages,)
    stage_link: np.ndarray
    stage_queues: np.ndarray  # (stages, queues)
    lane_since: np.ndarray  # (stages, stages)
    lane_until: np.ndarray
    known_turns: np.ndarray  # (2 * pieces, 4 + 2 * queues)
    stage_live: np.ndarray  # (stages, classes)
    stage_peaks: np.ndarray
    row_peaks: np.ndarray  # (rows, classes)
    row_samples: np.ndarray
    row_changes: np.ndarray
    row_logical: np.ndarray  # (rows,)
    # work space
    generation: np.ndarray  # (1,)
    stamp: np.ndarray  # generation << 32 | edge, per shared-copy key
    touched: np.ndarray  # per tensor
    affected: np.ndarray
    segment_last: np.ndarray
    segments: np.ndarray


def new_state(space: CompiledSpace) -> EvaluationState:
    """Build a state that holds no plan yet."""
    slots, edges, tensors = space.slot_count, len(space.edge_tensor), len(space.made_at)
    positions = len(space.slot_at)
    genes, classes = len(space.strategy_count), len(space.classes)
    keys = int((space.edge_keys + space.needed_count[space.edge_tensor]).max(initial=0))
    stages, pieces, rows = space.stage_count, len(space.pieces), len(space.row_start)
    between = int(space.edge_number.max(initial=-1)) + 1

    def zeros(*shape: int) -> np.ndarray:
        return np.zeros(shape, dtype=np.int64)

    return EvaluationState(
        filled=zeros(1),
        genes=zeros(genes),
        prefetch=zeros(edges),
        regather=zeros(edges),
        totals=zeros(COSTS),
        flops=zeros(stages * classes),
        host=zeros(stages * classes),
        resources=zeros((space.block_rows.shape[1] - BLOCK_FLOPS) // classes - 1, stages * classes),
        slot_ticks=zeros(slots),
        before=zeros(positions + 1, classes),
        during=zeros(positions + 1, classes),
        logical_before=zeros(positions + 1),
        logical_during=zeros(positions + 1),
        first_due=np.full(slots, -1, dtype=np.int64),
        next_due=zeros(edges),
        copy_ticks=zeros(edges),
        copy_queues=zeros(edges),
        is_once=np.zeros(edges, dtype=np.bool_),
        is_again=np.zeros(edges, dtype=np.bool_),
        queue_ticks=zeros(space.queue_count),
        queue_waits=zeros(space.queue_count),
        ready=zeros(slots),
        peaks=zeros(classes),
        peak_samples=zeros(classes),
        live=zeros(classes),
        live_before=zeros(classes),
        initial=zeros(stages, classes),
        logical_initial=zeros(1),
        sent=zeros(rows, stages, classes),
        begun=zeros(rows, stages, classes),
        freed=zeros(rows, stages, classes),
        first_sent=np.full(pieces, -1, dtype=np.int64),
        first_begun=np.full(pieces, -1, dtype=np.int64),
        first_waited=np.full(pieces, -1, dtype=np.int64),
        next_sent=zeros(edges),
        next_waited=zeros(edges),
        sent_ends=zeros(between, space.round_count),
        stage_now=zeros(stages),
        stage_link=zeros(stages),
        stage_queues=zeros(stages, space.queue_count),
        lane_since=zeros(stages, stages),
        lane_until=zeros(stages, stages),
        known_turns=zeros(2 * pieces, 4 + 2 * space.queue_count),
        stage_live=zeros(stages, classes),
        stage_peaks=zeros(stages, classes),
        row_peaks=zeros(rows, classes),
        row_samples=zeros(rows, classes),
        row_changes=zeros(rows, classes),
        row_logical=zeros(rows),
        generation=zeros(1),
        stamp=zeros(keys),
        touched=zeros(tensors),
        affected=zeros(tensors),
        segment_last=zeros(edges),
        segments=zeros(edges),
    )
