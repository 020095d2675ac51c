"""Tables of copy costs: the cost of bringing a tensor from each producer spec to each consumer spec.

A copy first combines partial terms in a *holding* that the consumer spec determines, then fetches what is missing
there. Few pairs differ in their reductions, and few holdings differ, so both are costed once and looked up per pair.
The reference cost model (`costmodel.reference`) computes the same values slowly and is what tests compare with. One
table serves all tensors of equal shape, type and spec lists. Traffic and sizes follow the convention "received bytes"
of `docs/sharding.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tapestry.costmodel.exchange_times import exchange_ticks, queue_bits, rounds_of
from tapestry.costmodel.fetch_loops import fetch_rounds, fetches, lie_inside, teams
from tapestry.costmodel.kernel_arrays import (
    PAIR_COLUMNS,
    PAIR_ENERGY,
    PAIR_LANDING,
    PAIR_QUEUES,
    PAIR_STAGING,
    PAIR_TICKS,
    PAIR_TRAFFIC,
)
from tapestry.costmodel.lowered_specs import LoweredSpecs, lowered
from tapestry.costmodel.packing_loops import most_sent, packed
from tapestry.costmodel.range_tables import folds_of, range_tables
from tapestry.costmodel.reduction_loops import reductions
from tapestry.costmodel.resharding_loops import (
    SEND,
    MeshArrays,
    distinct_rows,
    lay_all,
    made_holdings,
    middles,
    requests,
)
from tapestry.hardware.mesh import Mesh
from tapestry.hardware.timing import energy_pj, move_ticks
from tapestry.teg.sharding.copies import Round
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import Spec, volumes
from tapestry.teg.sharding.stages import Route


@dataclass(frozen=True)
class ReshardingTable:
    """The costs of copies per pair of specs, and which of them are views of other copies.

    Few pairs differ: `pairs` `(made, needed)`, int32, are rows of `rows` `(distinct, 6)`, whose columns are those of
    `costmodel.kernel_arrays`. Staging, and landing on another stage, is a row of the distinct `staging_bytes` `(rows,
    devices)`, the first of which is zero; buffer sizes `made_bytes` and `needed_bytes` `(specs, devices)`. `inside[m,
    n]` `(needed, needed)`: on every device, the part of spec n lies in that of spec m.
    """

    pairs: np.ndarray
    rows: np.ndarray
    staging_bytes: np.ndarray
    made_bytes: np.ndarray
    needed_bytes: np.ndarray
    inside: np.ndarray

    @property
    def ticks(self) -> np.ndarray:
        """The ticks of every pair `(made, needed)`, -1 for a view."""
        return self._column(PAIR_TICKS)

    @property
    def traffic_bytes(self) -> np.ndarray:
        """The bytes received of every pair, `(made, needed)`."""
        return self._column(PAIR_TRAFFIC)

    @property
    def energy_pj(self) -> np.ndarray:
        """The energy of every pair, `(made, needed)`."""
        return self._column(PAIR_ENERGY)

    @property
    def queues(self) -> np.ndarray:
        """The communication queues that every pair takes, a bit each, `(made, needed)`."""
        return self._column(PAIR_QUEUES)

    @property
    def staging_ids(self) -> np.ndarray:
        """The row of `staging_bytes` of every pair, `(made, needed)`."""
        return self._column(PAIR_STAGING)

    @property
    def landing_ids(self) -> np.ndarray:
        """The row of `staging_bytes` of every pair on another stage, `(made, needed)`."""
        return self._column(PAIR_LANDING)

    def _column(self, column: int) -> np.ndarray:
        return np.asarray(self.rows[self.pairs, column])


def copy_table(
    shape: tuple[int, ...],
    item: int,
    made: Sequence[Spec],
    needed: Sequence[Spec],
    mesh: Mesh,
    mesh_shape: MeshShape,
    route: Route | None = None,
) -> ReshardingTable:
    """Build the table of tensors of `shape`, of `item` bytes an element; with a `route`, of copies to another stage."""
    held, wanted = lowered(made, shape, mesh_shape), lowered(needed, shape, mesh_shape)
    reduced, fetched, ids, holding = _phases(shape, item, held, wanted, mesh, mesh_shape, route)
    reduces = reduced.request >= 0

    # arrays of requests get a last row of zeros, which is what -1 reads
    at, device = (holding, np.arange(len(needed))), mesh.device
    exact = np.array([spec.exact for spec in needed], dtype=np.bool_)
    is_view = ~reduces & fetched.nested[at] & (fetched.same[at] | ~exact) & (route is None)
    moves = _moves(item, reduced, fetched, wanted, at, mesh)
    ticks = np.append(reduced.ticks, 0)[reduced.request] + fetched.ticks[at]
    ticks = np.where(is_view, -1, np.maximum(ticks, moves.kept_ticks) + moves.packing_ticks)
    queues = np.append(reduced.queues, 0)[reduced.request] | fetched.queues[at]
    queues = np.where(queues == 0, queue_bits(mesh, ()), queues)
    traffic = (np.append(reduced.traffic, 0)[reduced.request] + fetched.traffic[at]) * item
    energy = traffic * 0
    if device.missing_energy_figure is None:
        moved_bytes = np.where(is_view, 0, 2 * moves.elements * item)
        energy = energy_pj(device, "float32", 0, 0, traffic, kind="vector")
        energy = energy + energy_pj(device, "float32", 0, moved_bytes, 0, kind="vector")
    # what is reduced and then fetched from is staged itself: a second row for every request
    also = reduced.staging + fetched.volume[ids[len(made) :]]
    staged = np.concatenate([np.zeros((1, mesh_shape.device_count), np.int64), reduced.staging, also])
    row = np.where(reduces, 1 + reduced.request + len(reduced.ticks) * ~fetched.same[at], 0)
    needed_volume = volumes(wanted.boxes)
    before = ((staged, row), (fetched.packed, fetched.sent[at]))
    after = (needed_volume, np.where(fetched.landed[at], at[1], -1))
    if route is None:
        staging_ids, staging = _staging(*before, after)
        landing_ids = np.zeros_like(staging_ids)
    else:
        staging_ids, staging = _staging(*before)
        landing_ids, landing = _staging(after)
        landing_ids, staging = landing_ids + len(staging), np.concatenate([staging, landing])
    columns = np.empty((ticks.size, PAIR_COLUMNS), dtype=np.int64)
    for k, column in (
        (PAIR_TICKS, ticks),
        (PAIR_TRAFFIC, traffic),
        (PAIR_ENERGY, energy),
        (PAIR_QUEUES, queues),
        (PAIR_STAGING, staging_ids),
        (PAIR_LANDING, landing_ids),
    ):
        columns[:, k] = column.ravel()
    first, number = distinct_rows(columns)
    return ReshardingTable(
        number.astype(np.int32).reshape(ticks.shape),
        columns[first],
        staging * item,
        volumes(held.boxes) * item,
        needed_volume * item,
        _inside(wanted.boxes, needed_volume, exact),
    )


def copy_rounds(
    shape: tuple[int, ...],
    item: int,
    made: Spec,
    needed: Spec,
    mesh: Mesh,
    mesh_shape: MeshShape,
    route: Route | None = None,
) -> tuple[tuple[tuple[Round, int], ...], int, int]:
    """Return the rounds of one copy, each with the most bytes that a device receives, the ticks of all of them, and
    those of the moves of what devices have already, which go on beside them.
    """
    held, wanted = lowered([made], shape, mesh_shape), lowered([needed], shape, mesh_shape)
    reduced, fetched, _, holding = _phases(shape, item, held, wanted, mesh, mesh_shape, route)
    at = (holding, np.arange(1))
    moved, codes = fetched.rounds
    rounds = rounds_of(moved[at][0, 0], codes[at][0, 0], mesh)
    ticks = int(fetched.ticks[at][0, 0])
    if reduced.request[0, 0] >= 0:
        moved, codes = reduced.rounds
        rounds += rounds_of(moved[0], codes[0], mesh)
        ticks += int(reduced.ticks[0])
    kept_ticks = int(_moves(item, reduced, fetched, wanted, at, mesh).kept_ticks[0, 0])
    return tuple(rounds), ticks, kept_ticks


def _phases(
    shape: tuple[int, ...],
    item: int,
    held: LoweredSpecs,
    wanted: LoweredSpecs,
    mesh: Mesh,
    mesh_shape: MeshShape,
    route: Route | None,
) -> tuple[_Reduced, _Fetched, np.ndarray, np.ndarray]:
    """Return the reductions and the fetches of all pairs, the holdings by producer spec and by request, and that of
    every pair.
    """
    sizes, arrays, count = np.array(shape, dtype=np.int64), mesh_arrays(mesh_shape), len(held.boxes)
    request, of, middle, scattered = _requested(sizes, held, wanted, arrays)
    rows = np.concatenate([made_holdings(held.places, held.granules), middle])
    first, ids = distinct_rows(rows)
    rows = rows[first]
    boxes = lay_all(sizes, rows, arrays)
    reduced = _reduced(item, (request, of), scattered, held, (boxes, ids[count:]), mesh, arrays)
    holding = ids[np.where(request >= 0, count + request, np.arange(count)[:, None])]
    across = None
    if route is not None:
        names = [axis.name for axis in mesh.axes]
        across = (names.index(route.axis), (SEND << 40) | (2 << 20) | route.distance)
    fetched = _fetched(sizes, item, rows, boxes, holding, wanted, mesh, arrays, across or (-1, 0))
    return reduced, fetched, ids, holding


def _inside(boxes: np.ndarray, sizes: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Find the pairs [m, n] of specs of which a copy in m serves n: around it, or equal to it where n is exact."""
    inside: np.ndarray = lie_inside(boxes)
    for n in np.flatnonzero(exact):
        inside[:, n] &= (sizes == sizes[n]).all(axis=1)
    return inside


def _staging(*parts: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Find the distinct staging sizes `(rows, devices)`, the first of them zero, and their rows `(made, needed)`.

    Each part is a table of sizes `(k, devices)` and the row that a copy stages, `(made, needed)`; -1: nothing.
    """
    nothing = np.zeros((1, parts[0][0].shape[1]), np.int64)
    key, tables = np.zeros(1 + parts[0][1].size, np.int64), []
    for sizes, row in parts:
        padded = np.concatenate([nothing, sizes])
        first, number = distinct_rows(padded)
        tables.append(padded[first])
        key = key * len(first) + number[np.append(-1, row.ravel()) + 1]
    at, number = distinct_rows(key[:, None])
    keys, sorted_place = np.unique(key[at], return_inverse=True)
    place = sorted_place[number]
    total = np.repeat(nothing, len(keys), axis=0)
    for sizes in reversed(tables):
        keys, row = np.divmod(keys, len(sizes))
        total += sizes[row]
    kept, number = distinct_rows(total)
    return number[place[1:]].reshape(parts[0][1].shape), total[kept]


@dataclass(frozen=True)
class _Moves:
    """Moves within the memories of devices, `(made, needed)` each: the ticks of moving what a device has already, which
    goes on beside the rounds, those of packing before and after them, and all elements moved.
    """

    kept_ticks: np.ndarray
    packing_ticks: np.ndarray
    elements: np.ndarray


def _moves(
    item: int,
    reduced: _Reduced,
    fetched: _Fetched,
    wanted: LoweredSpecs,
    at: tuple[np.ndarray, np.ndarray],
    mesh: Mesh,
) -> _Moves:
    """Compute the moves of every pair; `at` are its holding and its consumer spec."""
    needed, sent, landed = volumes(wanted.boxes), fetched.sent[at], fetched.landed[at]
    keeps = ~landed & ~fetched.same[at]
    sending, landing = (
        move_ticks(mesh.device, sizes.max(axis=1) * item) for sizes in (fetched.packed, needed)
    )
    packing = np.append(reduced.packing_ticks, 0)[reduced.request] + landed * landing
    packing += np.append(sending, 0)[sent]
    elements = np.append(reduced.packed, 0)[reduced.request] + keeps * fetched.kept[..., 1][at]
    elements += np.append(fetched.packed.sum(axis=1), 0)[sent] + landed * needed.sum(axis=1)
    kept_ticks = keeps * move_ticks(mesh.device, fetched.kept[..., 0] * item)[at]
    return _Moves(kept_ticks, packing, elements)


@dataclass(frozen=True)
class _Reduced:
    """Reductions: the request of every pair (-1: nothing is partial) and, per request, its costs (`traffic`,
    `staging` and what is `packed` in elements, `queues` a bit each).

    `rounds` are bytes and codes of the rounds, see `exchange_ticks`.
    """

    request: np.ndarray
    ticks: np.ndarray
    queues: np.ndarray
    traffic: np.ndarray
    staging: np.ndarray
    packing_ticks: np.ndarray
    packed: np.ndarray
    rounds: tuple[np.ndarray, np.ndarray]


def _requested(
    shape: np.ndarray, held: LoweredSpecs, wanted: LoweredSpecs, arrays: MeshArrays
) -> tuple[np.ndarray, ...]:
    """Return the request of every pair, a pair of each request, the holding that it leaves, and what it scatters."""
    preference, preferred_granule = _preferences(wanted)
    whole = ~(held.places[:, :, None] == np.arange(len(shape))).any(axis=1)
    preferred = (preference, preferred_granule)
    request, of = requests(held.places, whole, *preferred, wanted.constant)
    made = (held.boxes, held.places, held.granules)
    return request, of, *middles(shape, *made, of, *preferred, whole, wanted.constant, arrays)


def _reduced(
    item: int,
    requested: tuple[np.ndarray, np.ndarray],
    scattered: np.ndarray,
    held: LoweredSpecs,
    left: tuple[np.ndarray, np.ndarray],
    mesh: Mesh,
    arrays: MeshArrays,
) -> _Reduced:
    """Compute the reductions of requests; `left` are the boxes of all holdings, and which of these each leaves."""
    request, of = requested
    traffic, staging, moved, codes, packed_elements = reductions(
        *left, scattered, held.boxes, held.places, of, arrays
    )
    packing_ticks = move_ticks(mesh.device, packed_elements[:, 0] * item)
    rounds = (moved * item, codes)
    ticks, queues = exchange_ticks(*rounds, mesh)
    return _Reduced(request, ticks, queues, traffic, staging, packing_ticks, packed_elements[:, 1], rounds)


@dataclass(frozen=True)
class _Fetched:
    """Fetches per holding and consumer spec.

    `nested` and `same`: the spec is within, or equal to, the holding; ticks; the `queues` taken, a bit each; elements
    moved. `volume` `(holdings, devices)`. `landed`: what arrives is no run of the spec. `sent`: the row of `packed`
    `(rows, devices)`, what devices pack where what they send is no run of the holding, or -1. `kept`: what devices have
    already. `rounds` are as in `_Reduced`.
    """

    nested: np.ndarray
    same: np.ndarray
    ticks: np.ndarray
    queues: np.ndarray
    traffic: np.ndarray
    volume: np.ndarray
    packed: np.ndarray
    sent: np.ndarray
    landed: np.ndarray
    kept: np.ndarray
    rounds: tuple[np.ndarray, np.ndarray]


def _fetched(
    shape: np.ndarray,
    item: int,
    rows: np.ndarray,
    boxes: np.ndarray,
    holding: np.ndarray,
    wanted: LoweredSpecs,
    mesh: Mesh,
    arrays: MeshArrays,
    across: tuple[int, int],
) -> _Fetched:
    """Compute the fetches from holdings, `rows` laid in `boxes`, for the pairs that use them by `holding`.

    `across` are the position of the mesh axis to another stage and the code of what goes there; -1: there is none.
    """
    used = np.zeros((len(rows), holding.shape[1]), dtype=np.bool_)
    used[holding, np.arange(holding.shape[1])] = True
    held_volume, wanted_volume = volumes(boxes), volumes(wanted.boxes)
    sharing = teams(wanted.boxes, arrays.block)
    tables, *partitions = range_tables(shape, rows, boxes, wanted, arrays)
    folds = folds_of(tables, used, *partitions, *sharing)
    nested, same, traffic, moved, kept = fetches(
        tables, folds, used, held_volume, wanted_volume, *sharing, across[0]
    )
    is_sent, landed = packed(tables, folds, used, len(arrays.coordinates), across[0] >= 0)
    places = (np.ascontiguousarray(rows[:, : len(arrays.sizes)]), wanted.places)
    most = most_sent(is_sent, tables, folds, *places, arrays, held_volume, across[0] >= 0)
    packs, sent = _packed_rows(most, held_volume)
    split = (wanted.places, wanted.granules, wanted.halo, wanted.is_constant)
    codes = fetch_rounds(rows, used, *split, tables, folds, arrays, *across)
    rounds = (moved * item, codes)
    ticks, queues = exchange_ticks(*rounds, mesh)
    return _Fetched(nested, same, ticks, queues, traffic, held_volume, packs, sent, landed, kept, rounds)


def _packed_rows(most: np.ndarray, volume: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct rows of what devices pack, `(rows, devices)`, and that of each pair, `(holdings, needed)`.

    They pack `most` `(holdings, needed)`, and no more than their parts, `volume` `(holdings, devices)`; -1: nothing.
    """
    holding, _ = np.nonzero(most)
    sent = most[most > 0]
    first, number = distinct_rows(np.column_stack([distinct_rows(volume)[1][holding], sent]))
    row = np.full(most.shape, -1, dtype=np.int64)
    row[most > 0] = number
    return np.minimum(volume[holding[first]], sent[first, None]), row


def mesh_arrays(mesh_shape: MeshShape) -> MeshArrays:
    """Convert the mesh shape to arrays for compiled loops."""
    sizes = np.array([s.size for s in mesh_shape.sub_axes], dtype=np.int64)
    strides = np.array([int(np.prod(sizes[k + 1 :])) for k in range(len(sizes))], dtype=np.int64)
    names = [n for n, _ in mesh_shape.axes]
    axis_sizes = np.array([n for _, n in mesh_shape.axes], dtype=np.int64)
    block = np.array([int(np.prod(axis_sizes[k:])) for k in range(len(names) + 1)], dtype=np.int64)
    owner = np.array([names.index(s.axis) for s in mesh_shape.sub_axes], dtype=np.int64)
    # in the order of the memory that one axis has as well: otherwise all loops are compiled for two types
    coordinates = np.ascontiguousarray(mesh_shape.coordinates, np.int64)
    return MeshArrays(sizes, strides, owner, coordinates, axis_sizes, block)


def _preferences(wanted: LoweredSpecs) -> tuple[np.ndarray, np.ndarray]:
    """Return per consumer spec and sub-axis the dimension split without a window (else -1) and its granule (else 1)."""
    split = np.maximum(wanted.places, 0)
    if wanted.window.shape[1] == 0:
        return np.full_like(split, -1), np.ones_like(split)
    counts = (wanted.places >= 0) & ~np.take_along_axis(wanted.window, split, axis=1)
    granule = np.take_along_axis(wanted.granules, split, axis=1)
    return np.where(counts, wanted.places, -1), np.where(counts, granule, 1)
