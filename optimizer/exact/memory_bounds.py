"""A proven lower bound of the peak memory of any plan of a space.

At any sample, after the copies or after the outputs of a slot, what lives on the devices in the mean is no more than
the peak. How much lives there at least follows from the specs in which tensors are made and read, whenever copies
begin: a pairwise problem of few edges, whose dual value is a bound. Of a loop it is that of the first round, in which
at least that lives which would without rounds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tapestry.costmodel.kernel import evaluate
from tapestry.costmodel.kernel_arrays import PAIR_STAGING, EvaluationState
from tapestry.optimizer.exact.additive import AdditiveCosts, EdgeLayout
from tapestry.optimizer.exact.pairwise import Edge, Pairwise, pairwise
from tapestry.optimizer.exact.trws import solve

SAMPLES = 8  # samples that are tried, each the peak of the plan that is best at the one before


class _Live(NamedTuple):
    """The bytes `(made, needed)` that live of a tensor at least at a sample, by the specs of one edge."""

    layout: EdgeLayout
    bytes: np.ndarray


def memory_bound(costs: AdditiveCosts, state: EvaluationState, known: np.ndarray) -> float:
    """Return bytes that the peak of every plan of the space reaches, on the device that holds most.

    `known` `(genes,)` are the strategies of a plan of little memory: its peak is where the search for a bound begins.
    """
    space = costs.space
    nothing = np.zeros((2, space.edge_tensor.size), np.int8)
    raw = np.zeros(_column_count(state), np.int64)
    bound, tried, genes = 0.0, set[int](), np.asarray(known, np.int64)
    for _ in range(SAMPLES):
        evaluate(space, state, genes.astype(np.int16), nothing[0], nothing[1], raw)
        sample = int(state.peak_samples[np.argmax(state.peaks)])
        sample = 2 * int(space.slot_at[sample >> 1]) + (sample & 1)
        if sample in tried:
            break
        tried.add(sample)
        solution = solve(live_problem(costs, sample))
        bound, genes = max(bound, solution.bound), costs.genes(solution.labels)
    return bound


def _column_count(state: EvaluationState) -> int:
    return len(state.totals) + 2 * len(state.resources)


def live_problem(costs: AdditiveCosts, sample: int) -> Pairwise:
    """Build the problem of what lives at least at a sample, in bytes, on the devices in the mean.

    Samples count as in `costmodel.kernel_scans.memory`.
    """
    unary = np.zeros(int(costs.label_start[-1]))
    edges, tables, size = list[Edge](), list[np.ndarray](), 0
    for t in range(len(costs.space.made_at)):
        live = _live(costs, t, sample)
        if isinstance(live, np.ndarray):
            _add(costs, unary, t, live)
            continue
        if _is_always_live(costs, t):
            _add(costs, unary, t, costs.copies(t).made_bytes)
        if live is None:
            continue
        layout, table = live
        if layout.maker == layout.reader:
            node = slice(*costs.label_start[layout.maker : layout.maker + 2])
            length = node.stop - node.start
            made, needed = (costs.maps[at : at + length] for at in (layout.made_map, layout.needed_map))
            unary[node] += table[made, needed]
            continue
        ends, maps = (layout.maker, layout.reader), (layout.made_map, layout.needed_map)
        if layout.maker > layout.reader:
            table, ends, maps = table.T, ends[::-1], maps[::-1]
        edges.append(Edge(*ends, *maps, size, *table.shape))
        tables.append(table.ravel())
        size += table.size
    counts = np.diff(costs.label_start).tolist()
    return pairwise(counts, unary, edges, costs.maps, np.concatenate([*tables, np.zeros(0)]))


def _add(costs: AdditiveCosts, unary: np.ndarray, t: int, size: np.ndarray) -> None:
    """Add the bytes `(made,)` of a tensor's own buffer to its maker's labels."""
    space = costs.space
    gene = int(space.made_gene[t])
    node = int(costs.nodes[gene])
    made = space.spec_ids[space.made_offset[t] + np.arange(space.strategy_count[gene]), 0]
    unary[costs.label_start[node] : costs.label_start[node + 1]] += size[made]


def _is_always_live(costs: AdditiveCosts, t: int) -> bool:
    """Return whether a tensor lives throughout: parameters and the like, and inputs that nothing reads."""
    space = costs.space
    is_read = space.reader_start[t] < space.reader_start[t + 1]
    return bool(space.made_at[t] < 0 and (space.is_persistent[t] or not is_read))


def _live(costs: AdditiveCosts, t: int, sample: int) -> np.ndarray | _Live | None:
    """Return what lives at least of a tensor at a sample, beside what always does; None: maybe nothing.

    Its own buffer alone where it is made; else it, or a copy, by the edge of a reader in the slot or of the last one.
    """
    space, slot = costs.space, sample >> 1
    made_at = int(space.made_at[t])
    if made_at == slot and sample & 1:
        return costs.copies(t).made_bytes
    readers = range(int(space.reader_start[t]), int(space.reader_start[t + 1]))
    slots = [int(space.edge_slot[space.reader_edge[r]]) for r in readers]
    if made_at >= slot or not slots:
        return None
    if slot in slots:
        return _read(
            costs, t, readers[slots.index(slot)], is_alone=len(slots) == 1, is_before=sample % 2 == 0
        )
    is_kept = [bool(space.is_sink[k]) for k in slots]
    if space.is_persistent[t] and made_at < 0:
        return None
    if any(is_kept):
        last = is_kept.index(True)
    elif max(slots) > slot:
        last = slots.index(max(slots))
    else:
        return None
    copies = costs.copies(t)
    least = np.minimum(copies.made_bytes[:, None], _copied_bytes(costs, t))
    return _Live(costs.layouts[readers[last]], np.where(copies.moved, least, copies.made_bytes[:, None]))


def _read(costs: AdditiveCosts, t: int, edge: int, is_alone: bool, is_before: bool) -> _Live:
    """Return what lives of a tensor that a slot's block reads: before it runs, a copy beside what it comes from."""
    copies = costs.copies(t)
    made = np.zeros_like(copies.made_bytes) if _is_always_live(costs, t) else copies.made_bytes
    copied = _copied_bytes(costs, t)
    if is_before and is_alone:
        staging = costs.mean_staging(copies.pairs[:, :, PAIR_STAGING])
        copied = copied + made[:, None] + np.where(copies.pairs[:, :, 0] >= 0, staging, 0.0)
    return _Live(costs.layouts[edge], np.where(copies.moved, copied, made[:, None]))


def _copied_bytes(costs: AdditiveCosts, t: int) -> np.ndarray:
    """Return the least bytes of a copy that holds what a reader needs `(made, needed)`."""
    copies = costs.copies(t)
    needed = np.broadcast_to(copies.needed_bytes, copies.moved.shape)
    return costs.least_holding(t, needed.astype(np.float64), copies.moved)
