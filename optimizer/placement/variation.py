"""Placement moves on gene arrays, in numba: each rule changes a plan in place and keeps its hash current."""

from __future__ import annotations

import numpy as np

from tapestry.costmodel.compiled import njit
from tapestry.costmodel.kernel_arrays import ORDER, PAIR_TICKS, PLACED, RELAYOUT_TICKS, SPEC
from tapestry.optimizer.placement.rng import between, unit
from tapestry.optimizer.placement.search_space import PLACE_CLASSES

RULES = (
    "reshard",
    "turn-axis",
    "shard-group",
    "follow-maker",
    "lead-maker",
    "place-source",
    "follow-reader",
    "prefetch",
    "regather",
    "relayout",
    "crossover",
)
(
    RESHARD,
    TURN,
    GROUP,
    FOLLOW,
    LEAD,
    PLACE_SOURCE,
    FOLLOW_READER,
    PREFETCH,
    REGATHER,
    RELAYOUT,
    CROSSOVER,
) = range(len(RULES))
# What moves act on: a tied class of slots, of sources or of edges; the others act on the whole program.
SLOT_RULES = (RESHARD, TURN, FOLLOW, LEAD)
SOURCE_RULES = (PLACE_SOURCE, FOLLOW_READER)
EDGE_RULES = (PREFETCH, REGATHER)
PROGRAM = PLACE_CLASSES.index("program")

LONGEST_PREFETCH = 4
TIED_SHARE = 0.75
SOURCES_FOLLOW_SHARE = 0.85


@njit(_nrt=False)
def mix(position, value):
    """Compute a 64-bit hash of one gene's value (splitmix64)."""
    z = np.uint64(position) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(value + 1) * np.uint64(
        0xD1B54A32D192ED03
    )
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(_nrt=False)
def hash_plan(genes, prefetch, regather):
    """Compute the hash of a whole plan; `vary` keeps it current change by change."""
    h = np.uint64(0)
    n, m = genes.shape[0], prefetch.shape[0]
    for g in range(n):
        h ^= mix(g, np.int64(genes[g]))
    for e in range(m):
        h ^= mix(n + e, np.int64(prefetch[e])) ^ mix(n + m + e, np.int64(regather[e]))
    return h


@njit(_nrt=False)
def hash_plans(genes, prefetch, regather, digests):
    """Fill `digests` with the hashes of plans given as rows."""
    for i in range(genes.shape[0]):
        digests[i] = hash_plan(genes[i], prefetch[i], regather[i])


@njit(_nrt=False)
def put(values, position, value, offset, digest):
    """Set one gene and update the plan's hash."""
    old = np.int64(values[position])
    if old != value:
        digest[0] ^= mix(offset + position, old) ^ mix(offset + position, np.int64(value))
        values[position] = value


@njit(_nrt=False)
def put_strategy(space, genes, g, value, digest):
    """Set a strategy gene; the source and the sink of carried state change together."""
    put(genes, g, value, 0, digest)
    if space.state_gene[g] >= 0:
        put(genes, space.state_gene[g], value, 0, digest)


@njit(_nrt=False)
def members_of(random_state, start, members, c):
    """Choose a range of `members`: the whole tied class, or for the smaller share a run of it (untied)."""
    low, high = start[c], start[c + 1]
    if high - low > 1 and unit(random_state) > TIED_SHARE:
        first = low + between(random_state, 0, high - low)
        last = first + 1 if unit(random_state) < 0.5 else first + 1 + between(random_state, 0, high - first)
        return first, last
    return low, high


@njit(_nrt=False)
def draw_place(rule, random_state, search):
    """Draw a place for a move of `rule` evenly: a tied class of slots, sources or edges; -1 for the whole program.

    It is -1 as well where the program has none.
    """
    classes = search.slot_classes
    if rule in SOURCE_RULES:
        classes = search.source_classes
    elif rule in EDGE_RULES:
        count = search.edge_start.shape[0] - 1
        return between(random_state, 0, count) if count > 0 else np.int64(-1)
    elif rule not in SLOT_RULES:
        return np.int64(-1)
    return classes[between(random_state, 0, classes.shape[0])] if classes.shape[0] > 0 else np.int64(-1)


@njit(_nrt=False)
def class_at(rule, place, search):
    """Find the class of a place of a move of `rule`, an index of `PLACE_CLASSES`."""
    if place < 0:
        return np.int64(PROGRAM)
    if rule in EDGE_RULES:
        return search.place_class[search.edge_slot[search.edge_members[search.edge_start[place]]]]
    return search.place_class[search.gene_members[search.gene_start[place]]]


@njit(_nrt=False)
def vary(rule, random_state, space, search, genes, prefetch, regather, digest):
    """Apply one random move of `rule` at a random place; the plan may come out unchanged, as by a crossover."""
    place = draw_place(rule, random_state, search)
    vary_at(rule, place, random_state, space, search, genes, prefetch, regather, digest)


@njit(_nrt=False)
def vary_at(rule, c, random_state, space, search, genes, prefetch, regather, digest):
    """Apply one random move of `rule` at a place that `draw_place` gave; a crossover, which needs a front, is none."""
    if rule in SLOT_RULES:
        if c < 0:
            return
        low, high = members_of(random_state, search.gene_start, search.gene_members, c)
        follow = unit(random_state) < SOURCES_FOLLOW_SHARE
        if rule == RESHARD:
            _reshard(random_state, space, search, genes, low, high, follow, digest)
        elif rule == TURN:
            _turn(random_state, space, search, genes, low, high, follow, digest)
        elif rule == FOLLOW:
            _follow(random_state, space, search, genes, low, high, follow, digest)
        else:
            _lead(random_state, space, search, genes, low, high, digest)
    elif rule == GROUP:
        _group(random_state, space, search, genes, digest)
    elif rule == RELAYOUT:
        if search.policies.shape[0] > 1:
            _relayout(random_state, space, search, genes, digest)
    elif rule in SOURCE_RULES:
        if c < 0:
            return
        low, high = members_of(random_state, search.gene_start, search.gene_members, c)
        if rule == PLACE_SOURCE:
            s = between(random_state, 0, space.strategy_count[search.gene_members[low]])
            for r in range(low, high):
                put_strategy(space, genes, search.gene_members[r], s, digest)
        else:
            for r in range(low, high):
                source_follows(
                    space,
                    search,
                    genes,
                    search.gene_members[r] - space.slot_count,
                    unit(random_state),
                    digest,
                )
    elif rule in EDGE_RULES and c >= 0:
        low, high = members_of(random_state, search.edge_start, search.edge_members, c)
        n, m = genes.shape[0], prefetch.shape[0]
        if rule == PREFETCH:
            distance = between(random_state, 0, LONGEST_PREFETCH + 1)
            for r in range(low, high):
                put(prefetch, search.edge_members[r], distance, n, digest)
        else:
            flag = 1 - np.int64(regather[search.edge_members[low]])
            for r in range(low, high):
                put(regather, search.edge_members[r], flag, n + m, digest)


@njit(_nrt=False, inline="always")
def _set_slot(space, search, genes, g, s, follow, digest):
    put_strategy(space, genes, g, s, digest)
    if follow:
        for e in range(space.edge_start[g], space.edge_start[g + 1]):
            t = space.edge_tensor[e]
            if t < space.source_count:
                source_fits(space, search, genes, t, e, digest)


@njit(_nrt=False, inline="always")
def source_fits(space, search, genes, t, e, digest):
    """Set the source of tensor `t` to the spec that edge `e` needs."""
    s = fitting(space, search, genes, t, e)
    if s >= 0:
        put_strategy(space, genes, space.made_gene[t], s, digest)


@njit(_nrt=False, inline="always")
def fitting(space, search, genes, t, e):
    """Find the gene value of the producer of tensor `t` that makes the spec that edge `e` needs, or -1."""
    n = space.spec_ids[space.edge_needed[e] + genes[search.edge_slot[e]], PLACED]
    return search.fit[space.key_offset[t] + n]


@njit(_nrt=False)
def source_follows(space, search, genes, t, at, digest):
    """Set a source to the consumer spec of one of its readers; `at` in [0, 1) chooses which."""
    low, high = search.reader_start[t], search.reader_start[t + 1]
    if high > low:
        source_fits(space, search, genes, t, search.reader_edge[low + np.int64(at * (high - low))], digest)


@njit(_nrt=False)
def _reshard(random_state, space, search, genes, low, high, follow, digest):
    s = between(random_state, 0, space.strategy_count[search.gene_members[low]])
    for r in range(low, high):
        _set_slot(space, search, genes, search.gene_members[r], s, follow, digest)


@njit(_nrt=False, inline="always")
def with_digit(space, search, g, s, axis, dim):
    """Find the gene value that differs from `s` in one digit, or -1 where there is none; its orders stay."""
    base, choices = search.dim_count[g] + 1, search.choices[g]
    row = space.block_offset[g] + s
    code, count = np.int64(0), np.int64(1)
    for a in range(search.axes):
        digit = dim if a == axis else search.digits[row, a]
        code = code * base + digit + 1
        count *= base
    if search.aligned[row]:
        found = search.lookup[search.lookup_offset[g] + count + code]
        if found >= 0:
            return found * choices + s % choices
    found = search.lookup[search.lookup_offset[g] + code]
    return found * choices + s % choices if found >= 0 else found


@njit(_nrt=False)
def _turn(random_state, space, search, genes, low, high, follow, digest):
    axis = between(random_state, 0, search.axes)
    dim = between(random_state, -1, search.dim_count[search.gene_members[low]])
    for r in range(low, high):
        g = search.gene_members[r]
        s = with_digit(space, search, g, genes[g], axis, dim)
        if s >= 0:
            _set_slot(space, search, genes, g, s, follow, digest)


@njit(_nrt=False)
def _group(random_state, space, search, genes, digest):
    """Assign an axis to one dimension group, or remove it, over all slots or a run of them."""
    group = between(random_state, -1, search.group_dim.shape[1])
    axis = between(random_state, 0, search.axes)
    everything = unit(random_state) < 0.2
    all_axes = unit(random_state) < 0.3
    first, last = np.int64(0), np.int64(space.slot_count)
    if unit(random_state) > TIED_SHARE:
        first = between(random_state, 0, space.slot_count)
        last = first + 1 + between(random_state, 0, min(np.int64(64), space.slot_count - first))
    for g in range(first, last):
        dim = np.int64(-1)
        if group >= 0:
            dim = search.group_dim[search.class_of[g], group]
            if dim < 0 and not everything:
                continue
        for a in range(search.axes):
            if a == axis or all_axes:
                s = with_digit(space, search, g, genes[g], a, dim)
                if s >= 0:
                    _set_slot(space, search, genes, g, s, True, digest)


@njit(_nrt=False)
def store_as(space, search, genes, low, high, o, digest):
    """Set the choice of orders of a range of `gene_members` to `o`; their sources follow."""
    for r in range(low, high):
        g = search.gene_members[r]
        _set_slot(space, search, genes, g, genes[g] - genes[g] % search.choices[g] + o, True, digest)


@njit(_nrt=False)
def _relayout(random_state, space, search, genes, digest):
    """Store tensors in other orders: a policy over all blocks or a run of them, or any choice for a tied class."""
    kind = unit(random_state)
    policy = between(random_state, 0, search.policies.shape[0])
    if kind < 0.6:
        first, last = np.int64(0), np.int64(space.slot_count)
        if kind > 0.15:
            first = between(random_state, 0, space.slot_count)
            last = first + 1 + between(random_state, 0, min(np.int64(64), space.slot_count - first))
        for g in range(first, last):
            o = genes[g] - genes[g] % search.choices[g] + search.policies[policy, g]
            _set_slot(space, search, genes, g, o, True, digest)
        return
    c = search.slot_classes[between(random_state, 0, search.slot_classes.shape[0])]
    low, high = members_of(random_state, search.gene_start, search.gene_members, c)
    o = between(random_state, 0, search.choices[search.gene_members[low]])
    store_as(space, search, genes, low, high, o, digest)


@njit(_nrt=False)
def _is_view(space, genes, t, need):
    """Return whether the spec that gene value `need` (a row of `spec_ids`) needs of tensor `t` requires no copy."""
    made = space.made_offset[t] + genes[space.made_gene[t]]
    pair = (
        space.pair_offset[t] + space.spec_ids[made, SPEC] * space.needed_specs[t] + space.spec_ids[need, SPEC]
    )
    if space.pair_rows[space.pair_ids[pair], PAIR_TICKS] >= 0:
        return False
    if not space.has_dimension_orders:
        return True
    relayouts = space.relayout_offset[t] + space.spec_ids[made, ORDER] * space.needed_count[t]
    return space.relayout_rows[relayouts + space.spec_ids[need, PLACED], RELAYOUT_TICKS] < 0


@njit(_nrt=False, inline="always")
def _input_of(random_state, space, g):
    """Choose an input of block `g`; -1 if it has none."""
    inputs = space.edge_start[g + 1] - space.edge_start[g]
    return between(random_state, 0, inputs) if inputs > 0 else np.int64(-1)


@njit(_nrt=False)
def _follow(random_state, space, search, genes, low, high, follow, digest):
    """Shard blocks so that they read one input without a copy: the strategy that splits most among those possible."""
    position = _input_of(random_state, space, search.gene_members[low])
    if position < 0:
        return
    for r in range(low, high):
        g = search.gene_members[r]
        e = space.edge_start[g] + position
        t = space.edge_tensor[e]
        best, most = np.int64(-1), np.int64(-1)
        offset = between(random_state, 0, space.strategy_count[g])
        for k in range(space.strategy_count[g]):
            s = (k + offset) % space.strategy_count[g]
            if not _is_view(space, genes, t, space.edge_needed[e] + s):
                continue
            used = np.int64(0)
            for a in range(search.axes):
                if search.digits[space.block_offset[g] + s, a] >= 0:
                    used += 1
            if used > most:
                best, most = s, used
        if best >= 0:
            _set_slot(space, search, genes, g, best, follow, digest)


@njit(_nrt=False)
def _lead(random_state, space, search, genes, low, high, digest):
    """Set the producers of one input to the consumer spec of the block."""
    position = _input_of(random_state, space, search.gene_members[low])
    if position < 0:
        return
    for r in range(low, high):
        e = space.edge_start[search.gene_members[r]] + position
        t = space.edge_tensor[e]
        s = fitting(space, search, genes, t, e)
        if s < 0:
            continue
        producer = space.made_gene[t]
        if producer < space.slot_count:
            _set_slot(space, search, genes, producer, s, True, digest)
        else:
            put_strategy(space, genes, producer, s, digest)
