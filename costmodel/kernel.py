"""The fast path of the cost model: the cost of one plan from arrays, without a Python object per candidate.

A plan is an integer vector of genes (strategy per slot and per source) plus a prefetch distance and a
regather flag per edge. A plan's cost is a sum of the contributions of its tensors and its blocks, plus
two scans over the slots (clocks, memory). `evaluate` therefore moves from the plan it costed last to the
next by subtracting and adding the contributions that differ: integers, so the result is that of a full
pass, bit for bit. `costmodel.reference` computes the same slowly.
"""

from __future__ import annotations

import numpy as np

from tapestry.costmodel.compiled import njit
from tapestry.costmodel.kernel_arrays import (
    BLOCK_ENERGY,
    BLOCK_FLOPS,
    BLOCK_TICKS,
    COSTS,
    ENERGY,
    FLOPS,
    FLOPS_WASTE,
    FOREVER,
    ORDER,
    PAIR_STAGING,
    PAIR_TICKS,
    PEAK_FLOPS,
    PLACED,
    RELAYOUT_TICKS,
    SPEC,
    TIME,
)
from tapestry.costmodel.kernel_copies import (
    add_on_host,
    add_overflow,
    around,
    count_copy,
    enlist,
    host_staging,
)
from tapestry.costmodel.kernel_scans import clock, memory
from tapestry.costmodel.resources import LARGEST
from tapestry.costmodel.round_loops import clock_in_rounds, tensors_in_rounds
from tapestry.costmodel.stage_loops import begin_stages, tensors_in_stages
from tapestry.costmodel.stage_scans import clock_in_stages, memory_in_stages

MOST = float(LARGEST)


@njit(_nrt=False)
def evaluate(space, state, genes, prefetch, regather, cost):
    """Fill `cost` `(columns,)` int64 with the plan's time (ticks), bytes, flops, dynamic energy (pJ) and resources.

    Flops and energy of all devices together are at most `LARGEST`.
    """
    if state.filled[0] and _near(state, genes):
        _advance(space, state, genes, prefetch, regather)
    else:
        _fill(space, state, genes, prefetch, regather)
    for j in range(COSTS):
        cost[j] = state.totals[j]
    if space.stage_count > 1:
        cost[TIME] = clock_in_stages(space, state)
        memory_in_stages(space, state, cost)
    else:
        cost[TIME] = clock_in_rounds(space, state) if space.round_count > 1 else clock(space, state)
        memory(space, state, cost)
    if space.has_host:
        add_overflow(space, state, cost)
    classes, flops = space.classes.shape[0], 0.0
    for c in range(state.flops.shape[0]):
        flops += float(state.flops[c]) * space.classes[c % classes]
        cost[FLOPS] += state.flops[c] * space.classes[c % classes]
        cost[PEAK_FLOPS] = max(cost[PEAK_FLOPS], state.flops[c])
    cost[FLOPS_WASTE] = cost[FLOPS] - space.base_flops
    if flops > MOST:
        cost[FLOPS] = LARGEST
        cost[FLOPS_WASTE] = (
            LARGEST if flops - space.exact_flops > MOST else np.int64(flops - space.exact_flops)
        )
    if space.energy_shift > 0:
        cost[ENERGY] = min(cost[ENERGY], LARGEST >> space.energy_shift) << space.energy_shift
    for r in range(min(state.resources.shape[0], (cost.shape[0] - COSTS) // 2)):
        total, most = np.int64(0), np.int64(0)
        for c in range(state.flops.shape[0]):
            total += state.resources[r, c] * space.classes[c % classes]
            most = max(most, state.resources[r, c])
        cost[COSTS + 2 * r] = total
        cost[COSTS + 2 * r + 1] = most


@njit(_nrt=False)
def _near(state, genes):
    """Return whether so few genes differ that replacing contributions beats adding them all up again."""
    changed = 0
    for g in range(genes.shape[0]):
        changed += genes[g] != state.genes[g]
    return 4 * changed < genes.shape[0]


@njit(_nrt=False)
def _fill(space, state, genes, prefetch, regather):
    """Add the contributions of all blocks and tensors, starting from zero."""
    state.totals[:] = 0
    state.flops[:] = 0
    state.host[:] = 0
    state.resources[:] = 0
    state.before[:] = 0
    state.during[:] = 0
    state.logical_before[:] = 0
    state.logical_during[:] = 0
    state.first_due[:] = -1
    if space.stage_count > 1:
        begin_stages(state)
    for g in range(genes.shape[0]):
        state.genes[g] = genes[g]
    for e in range(prefetch.shape[0]):
        state.prefetch[e] = prefetch[e]
        state.regather[e] = regather[e]
    for k in range(space.slot_count):
        _block(space, state, k, 1)
    for g in range(genes.shape[0]):
        _resources(space, state, g, 1)
    for t in range(space.made_at.shape[0]):
        state.affected[t] = t
    _tensors(space, state, space.made_at.shape[0], np.int64(1))
    state.filled[0] = 1


@njit(_nrt=False)
def _advance(space, state, genes, prefetch, regather):
    """Replace the contributions of the tensors and blocks around changed genes."""
    state.generation[0] += 1
    mark = state.generation[0]
    count = np.int64(0)
    for g in range(genes.shape[0]):
        if genes[g] == state.genes[g]:
            continue
        for r in range(space.made_start[g], space.made_start[g + 1]):
            count = _touch(state, space.made_tensor[r], mark, count)
        if g < space.slot_count:
            for e in range(space.edge_start[g], space.edge_start[g + 1]):
                count = _touch(state, space.edge_tensor[e], mark, count)
            _block(space, state, g, -1)
        _resources(space, state, g, -1)
    is_retimed = _is_retimed(state, prefetch, regather)
    for e in range(prefetch.shape[0] if is_retimed else 0):
        if prefetch[e] != state.prefetch[e] or regather[e] != state.regather[e]:
            count = _touch(state, space.edge_tensor[e], mark, count)
    _tensors(space, state, count, np.int64(-1))  # a literal would be compiled apart
    for g in range(genes.shape[0]):
        if genes[g] != state.genes[g]:
            state.genes[g] = genes[g]
            if g < space.slot_count:
                _block(space, state, g, 1)
            _resources(space, state, g, 1)
    for e in range(prefetch.shape[0] if is_retimed else 0):
        state.prefetch[e] = prefetch[e]
        state.regather[e] = regather[e]
    _tensors(space, state, count, np.int64(1))


@njit(_nrt=False)
def _is_retimed(state, prefetch, regather):
    """Return whether any edge differs, without a branch per edge: most moves leave all edges as they are."""
    differences = np.int64(0)
    for e in range(prefetch.shape[0]):
        differences |= (prefetch[e] ^ state.prefetch[e]) | (regather[e] ^ state.regather[e])
    return differences != 0


@njit(_nrt=False, inline="always")
def _touch(state, t, mark, count):
    if state.touched[t] != mark:
        state.touched[t] = mark
        state.affected[count] = t
        count += 1
    return count


@njit(_nrt=False, inline="always")
def _block(space, state, k, sign):
    """Add (or take back) the work of the block in slot `k`."""
    row = space.block_offset[k] + state.genes[k]
    state.slot_ticks[k] = space.block_rows[row, BLOCK_TICKS]
    times, classes = sign * space.repeats[k], space.classes.shape[0]
    state.totals[ENERGY] += times * space.block_rows[row, BLOCK_ENERGY]
    for c in range(classes):
        state.flops[space.gene_stage[k] * classes + c] += times * space.block_rows[row, BLOCK_FLOPS + c]


@njit(_nrt=False, inline="always")
def _resources(space, state, g, sign):
    """Add (or take back) what the program's own cost table says of the block, or source, of gene `g`."""
    classes = space.classes.shape[0]
    row = space.block_offset[g] + state.genes[g]
    times = sign * space.repeats[g]
    for r in range(state.resources.shape[0]):
        for c in range(classes):
            amount = space.block_rows[row, BLOCK_FLOPS + (r + 1) * classes + c]
            state.resources[r, space.gene_stage[g] * classes + c] += times * amount


@njit(_nrt=False)
def _tensors(space, state, count, sign):
    """Add (or take back) the first `count` affected tensors."""
    if space.stage_count > 1:
        tensors_in_stages(space, state, count, sign)
    elif space.round_count > 1:
        tensors_in_rounds(space, state, count, sign)
    else:
        for r in range(count):
            _tensor(space, state, state.affected[r], sign)


@njit(_nrt=False, inline="always")
def _tensor(space, state, t, sign):
    """Add (or take back) a tensor: its buffer, the copies its readers share, and their lifetimes.

    It follows the conventions "shared copies" and "lifetimes" of `docs/sharding.md`.
    Lifetimes end at 2 * slot while waiting, or at 2 * slot + 1 after the slot's block; FOREVER is added to those of
    sinks, whose slot still identifies the last reader.
    """
    classes = space.classes.shape[0]
    made_at = space.made_at[t]
    made = space.made_offset[t] + state.genes[space.made_gene[t]]
    made_row = space.made_bytes_offset[t] + space.spec_ids[made, PLACED]
    pairs = space.pair_offset[t] + space.spec_ids[made, SPEC] * space.needed_specs[t]
    relayouts = space.relayout_offset[t] + space.spec_ids[made, ORDER] * space.needed_count[t]
    state.generation[0] += 1
    generation = state.generation[0] << 32
    last_use, last_seen = np.int64(-1), np.int64(-1)
    segments = 0
    for r in range(space.reader_start[t], space.reader_start[t + 1]):
        e = space.reader_edge[r]
        k = space.edge_slot[e]
        after = 2 * k + 1 + (FOREVER if space.is_sink[k] else 0)
        last_seen = max(last_seen, after)
        need = space.edge_needed[e] + state.genes[k]
        n = space.spec_ids[need, PLACED]
        pair = space.pair_ids[pairs + space.spec_ids[need, SPEC]]
        relayout = relayouts + n if space.has_dimension_orders else 0
        if space.pair_rows[pair, PAIR_TICKS] < 0 and space.relayout_rows[relayout, RELAYOUT_TICKS] < 0:
            last_use = max(last_use, after)
            continue
        key = space.key_offset[t] + n
        known = state.stamp[key] - generation
        same = known >= 0
        if not same:
            known = around(space, state, t, need, segments)
        read = (state.segment_last[known] & (FOREVER - 1)) >> 1 if known >= 0 else np.int64(-1)
        if known >= 0 and not (state.regather[e] and read < k):
            state.segment_last[known] = (state.segment_last[known] & FOREVER) | after
            continue
        issue = max(made_at + 1, k - state.prefetch[e])
        if same:
            issue = max(issue, read + 1)
        last_use = max(last_use, 2 * k)
        state.stamp[key] = generation + e
        state.segment_last[e] = after
        state.segments[segments] = e
        segments += 1
        size = space.needed_bytes_offset[t] + n
        _copy(space, state, pair, relayout, made_row, size, issue, k, e, sign)
    for r in range(segments):
        e = state.segments[r]
        if state.segment_last[e] < FOREVER:
            n = space.spec_ids[space.edge_needed[e] + state.genes[space.edge_slot[e]], PLACED]
            row = space.needed_bytes_offset[t] + n
            for c in range(classes):
                state.before[(state.segment_last[e] >> 1) + 1, c] -= sign * space.size_rows[row, c]
    if space.has_host:
        add_on_host(space, state, made_row, np.int64(0), sign)
    _buffer(space, state, t, made_row, last_use, last_seen, sign)


@njit(_nrt=False, inline="always")
def _copy(space, state, row, relayout, made, size, issue, k, e, sign):
    """Add or subtract one copy: its bytes from its issue on, staging until its reader's slot `k`, its queue place."""
    count_copy(space, state, row, relayout, made, size, e, sign)
    staging = space.pair_rows[row, PAIR_STAGING]
    for c in range(space.classes.shape[0]):
        state.before[issue, c] += sign * space.size_rows[size, c]
    if staging > 0:
        for c in range(space.classes.shape[0]):
            state.before[issue, c] += sign * space.staging_rows[staging, c]
            state.during[k, c] -= sign * space.staging_rows[staging, c]
    if space.has_host and space.pair_rows[row, PAIR_TICKS] >= 0:
        for c in range(space.classes.shape[0]):
            coming, going = host_staging(space, made, size, c)
            state.before[issue, c] += sign * (coming + going)
            state.during[k, c] -= sign * (coming + going)
    enlist(state, issue, e, sign)


@njit(_nrt=False, inline="always")
def _buffer(space, state, t, row, last_use, last_seen, sign):
    """Add (or take back) the tensor's own buffer, from its producer (sources: from the start) to its last use."""
    classes = space.classes.shape[0]
    made_at = space.made_at[t]
    if made_at < 0:
        for c in range(classes):
            state.before[0, c] += sign * space.size_rows[row, c]
        state.logical_before[0] += sign * space.logical_bytes[t]
        if space.is_persistent[t] or last_seen < 0:
            return
    else:
        for c in range(classes):
            state.during[made_at, c] += sign * space.size_rows[row, c]
        state.logical_during[made_at] += sign * space.logical_bytes[t]
        if last_seen < 0:
            last_use = last_seen = 2 * made_at + 1
    if last_use < FOREVER:
        k = last_use >> 1
        for c in range(classes):
            if last_use & 1:
                state.before[k + 1, c] -= sign * space.size_rows[row, c]
            else:
                state.during[k, c] -= sign * space.size_rows[row, c]
    if last_seen < FOREVER:
        state.logical_before[(last_seen >> 1) + 1] -= sign * space.logical_bytes[t]
