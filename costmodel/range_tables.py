"""Tables of single dimensions, and folds: devices that no table of a copy distinguishes, counted by one of them.

What devices hold of a tensor and what they need of it are products of ranges. So all that a fetch costs is a product
or a sum of what `costmodel.range_loops` tabulates per dimension, and devices for which all factors are equal cost the
same. There are few such classes of devices, however large a mesh is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tapestry.costmodel.fold_loops import fold_keys, representatives, team_labels
from tapestry.costmodel.lowered_specs import LoweredSpecs
from tapestry.costmodel.range_loops import all_owners, cuts, demands, labels, likes, overlaps
from tapestry.costmodel.resharding_loops import MeshArrays, distinct_rows


class RangeTables(NamedTuple):
    """The tables of all dimensions, flat, as compiled loops read them, and which of their rows a pair reads.

    For dimension k, `held` range i and `wanted` range j, a row begins at `base[k, 0] + i * base[k, 1] + j * base[k, 2]`
    times the length of a row: one number per device in `flags` and `demand`, per device and level in `lengths`, per
    mesh axis and device in `owned`. `kept` is read by `variant` in place of `held`, with `variant_base`.
    """

    lengths: np.ndarray
    flags: np.ndarray
    demand: np.ndarray
    owned: np.ndarray
    kept: np.ndarray
    base: np.ndarray
    variant_base: np.ndarray
    held: np.ndarray
    variant: np.ndarray
    wanted: np.ndarray


class Folds(NamedTuple):
    """The classes of devices that a pair of a holding and a consumer spec distinguishes.

    `of` `(holdings, needed)` is the fold of every pair that is used; class c of fold f has `weight[start[f] + c]`
    devices, one of which is `device[start[f] + c]`.
    """

    of: np.ndarray
    start: np.ndarray
    device: np.ndarray
    weight: np.ndarray


def range_tables(
    shape: np.ndarray, rows: np.ndarray, boxes: np.ndarray, wanted: LoweredSpecs, mesh: MeshArrays
) -> tuple[RangeTables, np.ndarray, np.ndarray]:
    """Build the tables of every dimension for holdings stated as `rows`, which are laid in `boxes`.

    Returns: the tables; distinct labels of devices `(partitions, devices)`; the partition by row of `kept`.
    """
    subs, rank, devices = len(mesh.sizes), boxes.shape[2], len(mesh.coordinates)
    held = np.zeros((len(rows), rank), dtype=np.int64)
    variant, needed = np.zeros_like(held), np.zeros((len(wanted.boxes), rank), dtype=np.int64)
    base, variant_base = np.zeros((rank, 3), dtype=np.int64), np.zeros((rank, 3), dtype=np.int64)
    parts: list[tuple[np.ndarray, ...]] = [
        tuple(np.zeros(0, t) for t in (np.int64, np.uint8, np.int64, np.uint8, np.int64))
    ]
    numbers = [np.zeros((0, devices), dtype=np.int64)]
    splits_any = rows[:, :subs] >= 0
    for k in range(rank):
        constant = rows[:, subs + rank + 2 * k : subs + rank + 2 * k + 2]
        kinds = np.column_stack([rows[:, :subs] == k, rows[:, subs + k], constant]).astype(np.int64)
        first, held[:, k] = distinct_rows(kinds)
        some, variant[:, k] = distinct_rows(np.column_stack([held[:, k], splits_any]).astype(np.int64))
        at, needed[:, k] = distinct_rows(wanted.ranges[:, k : k + 1])
        have, need = (
            np.ascontiguousarray(boxes[:, :, k][first]),
            np.ascontiguousarray(wanted.boxes[:, :, k][at]),
        )
        split, need_split = rows[first, :subs] == k, wanted.places[at] == k
        shares = np.where(need_split, mesh.sizes, 1).prod(axis=1)
        alike = likes(split, need_split, mesh)
        lengths = overlaps(have, need, mesh.block)
        owned = all_owners(
            *(lengths, shape[k], rows[first, subs + k], split, need, need_split),
            *(wanted.is_constant[at, k], alike, mesh),
        )
        tables = (lengths, cuts(have, need), demands(have, need, shares), owned)
        kept, number = labels(tables, held[some, k], splits_any[some], have, need, need_split, alike, mesh)
        base[k] = sum(len(p[1]) for p in parts) // devices, len(at), 1
        variant_base[k] = sum(map(len, numbers)), len(at), 1
        parts.append(tuple(t.ravel() for t in (*tables, kept)))
        numbers.append(number.reshape(-1, devices))
    lengths, flags, demand, owned, kept = (np.concatenate(p) for p in zip(*parts, strict=True))
    partitions = np.concatenate(numbers)
    first, partition = distinct_rows(partitions)
    rows_of = (base, variant_base, held, variant, needed)
    found = RangeTables(lengths, flags, demand, owned, kept, *rows_of)
    return found, partitions[first], partition


def folds_of(
    tables: RangeTables,
    used: np.ndarray,
    partitions: np.ndarray,
    partition: np.ndarray,
    team: np.ndarray,
    crossing: np.ndarray,
) -> Folds:
    """Fold the devices for the pairs `used` `(holdings, needed)`.

    `partitions` and `partition` are those of `range_tables`, `team` and `crossing` those of `fetch_loops.teams`.
    """
    by_team = team_labels(team, crossing)
    first, team_number = distinct_rows(by_team)
    of, keys = fold_keys(tables.variant, tables.wanted, tables.variant_base, partition, team_number, used)
    return Folds(of, *representatives(keys, partitions, by_team[first]))
