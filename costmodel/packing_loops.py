"""The compiled loops of packing: which pieces of a fetch are no runs of memory, and how much devices pack of them.

Used by `costmodel.resharding_tables`, with the encoding of `costmodel.resharding_loops`. Counts follow the convention
"staging" of `docs/sharding.md`. Pieces are products of intervals, so what matters is tabulated per dimension.
"""

from __future__ import annotations

import numpy as np

from tapestry.costmodel.compiled import njit
from tapestry.costmodel.fetch_loops import row_of
from tapestry.costmodel.range_loops import CUT, EMPTY, OTHER, SHORT, SHORT_OTHER, WIDE, WIDE_OTHER


@njit()
def packed(tables, folds, used, devices, is_sent):
    """Find the pairs `(holdings, needed)` in which devices fetch pieces that are no runs: of what some device holds, of
    what some device needs.

    A piece is a run unless it is cut along a dimension, and has more than one row before it. `tables` and `folds` are
    those of `range_tables`. If the pieces are sent from another stage, all of them are others'.
    """
    rank = tables.held.shape[1]
    sent, landed = np.zeros(used.shape, np.bool_), np.zeros(used.shape, np.bool_)
    at, flag = np.empty(rank, np.int64), np.empty(rank, np.uint8)
    for h in range(used.shape[0]):
        for n in range(used.shape[1]):
            if not used[h, n]:
                continue
            for k in range(rank):
                at[k] = row_of(tables, h, n, k) * devices
            fold = folds.of[h, n]
            for c in range(folds.start[fold], folds.start[fold + 1]):
                for k in range(rank):
                    flag[k] = tables.flags[at[k] + folds.device[c]]
                    if is_sent:
                        flag[k] = _of_others(flag[k])
                sent[h, n] |= _is_packed(flag)
                landed[h, n] |= _is_repacked(flag)
                if sent[h, n] and landed[h, n]:
                    break
    return sent, landed


@njit()
def _of_others(flag):
    """Return flags by which all pieces are others'."""
    if flag & EMPTY:
        return flag
    wide, short = flag & WIDE != 0, flag & SHORT != 0
    return np.uint8((flag & CUT) | OTHER | (WIDE_OTHER if wide else 0) | (SHORT_OTHER if short else 0))


@njit()
def _is_packed(flag):
    """Return whether a device needs a piece of another one's chunk that is no run of this chunk; `flag` `(rank,)`.

    Chunks form a grid, so one of each dimension's pieces may be chosen freely, if only one of them is another's.
    """
    others = 0
    for k in range(len(flag)):
        if flag[k] & EMPTY:
            return False
        others += flag[k] & OTHER != 0
    if others == 0:
        return False
    for k in range(len(flag)):
        for j in range(k):
            if flag[j] & WIDE == 0 or flag[k] & SHORT == 0:
                continue
            here = (flag[j] & OTHER != 0) + (flag[k] & OTHER != 0)
            if others > here or flag[j] & WIDE_OTHER != 0 or flag[k] & SHORT_OTHER != 0:
                return True
    return False


@njit()
def _is_repacked(flag):
    """Return whether what a device needs lands in pieces that are no runs of it; `flag` `(rank,)`."""
    wide, several = False, False
    for k in range(len(flag)):
        if flag[k] & EMPTY:
            return False
        several |= wide and flag[k] & CUT != 0
        wide |= flag[k] & WIDE != 0
    return several


@njit()
def most_sent(sent, tables, folds, held_places, wanted_places, mesh, volume, is_sent):
    """Count the most that devices with other parts need of any device's, for the pairs `sent` `(holdings, needed)`.

    Devices that hold the same part share what is needed of it; none sends more than the part. Ranges of two dimensions
    depend on different sub-axes, which `held_places` `(holdings, sub-axes)` and `wanted_places` state, so that what is
    needed in all is a product. `tables` and `folds` are those of `range_tables`; `volume` `(holdings, devices)`. On
    another stage, `is_sent`, devices with the same part need it too.

    Returns: elements `(holdings, needed)`, 0 for other pairs.
    """
    most, devices = np.zeros(sent.shape, np.int64), volume.shape[1]
    rank, subs = tables.held.shape[1], len(mesh.sizes)
    at, kept_at = np.empty(rank, np.int64), np.empty(rank, np.int64)
    for h in range(sent.shape[0]):
        for n in range(sent.shape[1]):
            if not sent[h, n]:
                continue
            # devices that need the same, that hold the same, and that hold and need the same
            repeated, holders, alike = 1, 1, 1
            for s in range(subs):
                size = mesh.sizes[s]
                repeated *= size if wanted_places[n, s] < 0 else 1
                holders *= size if held_places[h, s] < 0 else 1
                alike *= size if held_places[h, s] < 0 and wanted_places[n, s] < 0 else 1
            for k in range(rank):
                at[k] = row_of(tables, h, n, k) * devices
                base = tables.variant_base[k]
                kept_at[k] = (base[0] + tables.variant[h, k] * base[1] + tables.wanted[n, k]) * devices
            fold = folds.of[h, n]
            for c in range(folds.start[fold], folds.start[fold + 1]):
                d = folds.device[c]
                needed, kept = repeated, 0 if is_sent else alike
                for k in range(rank):
                    needed *= tables.demand[at[k] + d]
                    kept *= tables.kept[kept_at[k] + d]
                if volume[h, d] > most[h, n] and needed - kept > most[h, n] * holders:
                    share = -(-(needed - kept) // holders)
                    most[h, n] = max(most[h, n], min(volume[h, d], share))
    return most
