"""Seconds, joules and dollars: the one module that converts work to time, for cost model and simulator alike.

Pure functions over numpy arrays, which broadcast. Rates are computed in float64 and rounded up once: time
to integer ticks of 1 ps, energy to integer pJ. More work never takes less time.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tapestry.hardware.mesh import VECTOR, Device, MeshAxis
from tapestry.teg.operators.operator import PartAmounts

Ticks: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

TICKS_PER_S = 10**12
PICOJOULES_PER_J = 10**12
LARGEST = 2**62  # room for one addition of two totals in int64; as time, 53 days
FLOAT_NOISE = 2.0**-50  # what a few float64 operations add: 3.0000000000000004 ticks are 3 ticks, not 4

BLOCK_KINDS = ("contraction", "vector", "move", "none", "fused")
RAMPS = {"all_gather": 1, "reduce_scatter": 1, "all_reduce": 2, "all_to_all": 0, "fetch": 0}  # bulk phases
STEP_KINDS = tuple(RAMPS)


def _rounded_up(value: ArrayLike, unit: str) -> Ticks:
    exact = np.asarray(value, dtype=np.float64)
    if not np.all((exact >= 0) & (exact <= LARGEST)):
        raise ValueError(f"expected between 0 and {LARGEST} {unit}, not {exact.min()} to {exact.max()}")
    nearest = np.rint(exact)
    is_whole = np.abs(exact - nearest) <= exact * FLOAT_NOISE
    return np.where(is_whole, nearest, np.ceil(exact)).astype(np.int64)


def ticks(time_s: ArrayLike) -> Ticks:
    """Convert seconds, any shape, to whole ticks of 1 ps, rounded up, int64.

    Raises:
        ValueError: negative, not a number, or beyond 53 days.
    """
    return _rounded_up(np.asarray(time_s, dtype=np.float64) * TICKS_PER_S, "ticks of 1 ps")


def seconds(time_ticks: ArrayLike) -> Floats:
    """Convert ticks of 1 ps, any shape, to seconds, float64."""
    return np.asarray(np.asarray(time_ticks, dtype=np.float64) / TICKS_PER_S)


def _contraction_s(
    device: Device,
    precision: str,
    flops: Floats,
    sizes: tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike] | None,
) -> Floats:
    """Compute seconds of arithmetic. With sizes (m, n, k, batch): whole tiles, in whole waves over the cores."""
    rate = device.contraction_flops_per_s(precision) * device.contraction_efficiency
    plain = flops / rate
    if sizes is None:
        return plain
    m, n, k, batch = (np.asarray(size, dtype=np.float64) for size in sizes)
    shapes = []
    for tile in device.tiles:
        blocks = batch * np.ceil(m / tile.m) * np.ceil(n / tile.n)
        tile_flops = 2.0 * tile.m * tile.n * (np.ceil(k / tile.k) * tile.k)
        waves = np.ceil(blocks / device.cores)
        shapes.append(waves * (tile_flops * device.cores) / (rate * tile.efficiency))
    return np.maximum(plain, np.minimum.reduce(shapes))


def block_ticks(
    device: Device,
    kind: str,
    flops: ArrayLike,
    memory_bytes: ArrayLike,
    dtype: str,
    *,
    m: ArrayLike | None = None,
    n: ArrayLike | None = None,
    k: ArrayLike | None = None,
    batch: ArrayLike | None = None,
    compute_dtype: str | None = None,
    parts: Sequence[PartAmounts] = (),
) -> Ticks:
    """Compute the ticks that one device takes for one block: roofline max(arithmetic, memory) plus launch overhead.

    `kind` is `contraction` (matrix units, at `compute_dtype` or else at the device's precision for
    `dtype`), `vector` (vector units), `move` (memory only), `none` (no work at all: a view) or `fused`
    (`parts` whose arithmetic takes turns, beside one stream of bytes and with one launch). `flops` and
    `memory_bytes` (read + written) are per device. A contraction that gives its output `m` x `n`, reduction
    `k` and `batch` (default 1) pays for padding to the device's tiles and for waves of tiles that do not
    fill the cores; the best tile shape is taken. A device without work, zero flops and zero bytes, takes 0
    ticks.

    Returns:
        int64 array of the broadcast shape of all array arguments.

    Raises:
        ValueError: unknown kind, or some but not all of m, n, k.
        MissingFigureError: the device has no peak for this precision.

    Source: roofline, Williams et al., CACM 2009; waves and tiles, NVIDIA's Matrix Multiplication Background
    guide.
    """
    if kind not in BLOCK_KINDS:
        raise ValueError(f"expected a block kind among {', '.join(BLOCK_KINDS)}, not {kind!r}")
    work, moved = np.broadcast_arrays(np.asarray(flops, np.float64), np.asarray(memory_bytes, np.float64))
    if kind == "none":
        return np.zeros(work.shape, np.int64)
    contracts = kind == "contraction" or any(part.kind == "contraction" for part in parts)
    is_vector = kind == "vector" or (kind == "fused" and not contracts)
    reached = device.vector_efficiency if is_vector else device.memory_efficiency
    memory_s = moved / (device.memory_bytes_per_s * reached)
    overhead_s = device.launch_overhead_s + (device.contraction_overhead_s if contracts else 0.0)
    if kind == "contraction":
        sizes = None
        if m is not None and n is not None and k is not None:
            sizes = (m, n, k, 1 if batch is None else batch)
        elif (m, n, k, batch) != (None, None, None, None):
            raise ValueError("a contraction gives all of m, n and k, or none of m, n, k and batch")
        compute_s = _contraction_s(device, compute_dtype or dtype, work, sizes)
    elif kind == "vector":
        compute_s = work / (device.vector_flops_per_s * reached)
    elif kind == "fused":
        compute_s = sum((_part_s(device, part, compute_dtype) for part in parts), np.zeros_like(work))
    else:
        compute_s = np.zeros_like(work)
    busy_s = np.maximum(compute_s, memory_s) + overhead_s
    return ticks(np.where((work == 0) & (moved == 0), 0.0, busy_s))


def move_ticks(device: Device, size_bytes: ArrayLike) -> Ticks:
    """Compute the ticks of reading so many bytes, any shape, and writing them elsewhere in the memory of one device."""
    return block_ticks(device, "move", 0, 2 * np.asarray(size_bytes, np.int64), "float32")


def _part_s(device: Device, part: PartAmounts, compute_dtype: str | None) -> Floats:
    """Compute the seconds of arithmetic of one part of a fused block."""
    flops = np.asarray(part.flops, np.float64)
    if part.kind != "contraction":
        return np.asarray(flops / (device.vector_flops_per_s * device.vector_efficiency))
    tiles = part.tiles
    sizes = (tiles["m"], tiles["n"], tiles["k"], tiles["batch"]) if tiles else None
    busy_s = _contraction_s(device, compute_dtype or part.dtype, flops, sizes)
    return np.asarray(np.where(flops > 0, busy_s, 0.0))


def _rounds_and_load(axis: MeshAxis, kind: str, members: int, stride: int) -> tuple[int, float]:
    """Return (latencies paid in sequence, bytes on the busiest link per byte received), by topology."""
    scattered = kind in {"all_to_all", "fetch"}  # who sends to whom is not a ring's neighborhood
    phases = 2 if kind == "all_reduce" else 1
    if axis.topology == "switch":
        return phases, 1.0
    if axis.topology == "tree":
        rounds = phases * ceil(np.log2(members))
        return rounds, members / (members - 1) if kind == "all_reduce" else 1.0
    closed = (
        members * stride == axis.size
    )  # a group around the whole axis; its neighbors' groups share the links
    if axis.topology == "ring":
        shared = (
            1 if closed else 2
        )  # the way back from the last member to the first takes the other direction
        return phases * (members - 1) * stride, shared * stride * (members / 2 if scattered else 1.0)
    across = (members // 2) * ((members + 1) // 2) / (members - 1)
    if (
        axis.topology == "torus" and closed
    ):  # both directions: half of what a line carries, at half its distance
        return phases * ceil(members / 2) * stride, stride * (across / 2 if scattered else 0.5)
    return phases * (members - 1) * stride, stride * (across if scattered else 1.0)


def step_ticks(
    axis: MeshAxis, kind: str, members: int, max_received_bytes: ArrayLike, stride: int = 1
) -> Ticks:
    """Compute the ticks of one step of a collective or fetch among groups of `members` devices on one mesh axis.

    `max_received_bytes`, any shape, is the most that any device receives in the step. For n bytes of full
    tensor that is (p-1)/p n for `all_gather` and `reduce_scatter`, and 2(p-1)/p n for `all_reduce`, which
    is both phases. In `all_to_all` and `fetch` the senders are not known here: the bytes are taken as
    coming evenly from all members. `stride` is the distance on the axis between neighbors of a group (2
    for every second device); the groups in between share the links of a ring, torus or line. Zero bytes, or
    one member, take 0 ticks.

    alpha-beta: latency per round + bytes on the busiest link / bandwidth; rounds and load per topology:
    switch: one round per phase (fits measurements better than log2 p or p-1). ring, one way: p-1 rounds,
    scattered load p/2. line: p-1 rounds, scattered load floor(p/2) ceil(p/2) / (p-1). torus, two ways: half
    of a line's loads, p/2 rounds. tree: log2 p rounds, all-reduce 2n. A group that does not reach around the
    axis (members x stride < size) is a line on a torus; one that does, whatever its stride, is a ring.

    Returns:
        int64 array of the shape of `max_received_bytes`.

    Raises:
        ValueError: unknown kind, or a group that does not fit on the axis.

    Sources: Thakur et al. 2005 section 5; nccl-tests PERFORMANCE.md (bytes); scaling-book, sharding chapter
    (torus); tt-metal CCL_bandwidth report (line, and a ring that halves it).
    """
    if kind not in STEP_KINDS:
        raise ValueError(f"expected a step kind among {', '.join(STEP_KINDS)}, not {kind!r}")
    if members < 1 or stride < 1 or members * stride > axis.size:
        raise ValueError(
            f"{members} members at distance {stride} do not fit on axis {axis.name!r} of size {axis.size}"
        )
    received = np.asarray(max_received_bytes, dtype=np.float64)
    if members == 1:
        return np.zeros(received.shape, np.int64)
    rounds, load = _rounds_and_load(axis, kind, members, stride)
    efficiency = axis.efficiency
    if kind == "all_reduce" and members == axis.size and axis.all_reduce_efficiency is not None:
        efficiency = axis.all_reduce_efficiency
    busy_s = RAMPS[kind] * axis.ramp_s + load * received / (axis.bandwidth_bytes_per_s * efficiency)
    if axis.small_message_bytes_per_s is not None:
        busy_s = np.minimum(busy_s, load * received / axis.small_message_bytes_per_s)
    return ticks(np.where(received == 0, 0.0, rounds * axis.latency_s + busy_s))


def energy_pj(
    device: Device,
    dtype: str,
    flops: ArrayLike,
    memory_bytes: ArrayLike,
    link_bytes: ArrayLike,
    *,
    kind: str = "contraction",
    parts: Sequence[PartAmounts] = (),
) -> Ticks:
    """Compute the energy of work in pJ, rounded up, without idle power: flops, memory bytes, bytes received.

    `dtype` is the compute dtype of a `contraction`; other kinds of blocks count at the vector units' figure, and
    the `parts` of a `fused` one each at its own.

    Returns:
        int64 array of the broadcast shape of the three amounts.

    Raises:
        MissingFigureError: the device lacks one of the three figures; `energy_j` is to be refused.
    """
    arithmetic_j: ArrayLike
    if kind == "fused":
        arithmetic_j = sum(
            (_flop_joules(device, dtype, p.kind) * np.asarray(p.flops, np.float64) for p in parts),
            np.zeros(()),
        )
    else:
        arithmetic_j = _flop_joules(device, dtype, kind) * np.asarray(flops, np.float64)
    memory_j = device.require("joules_per_memory_byte")
    link_j = device.require("joules_per_link_byte")
    energy_j = (
        arithmetic_j
        + memory_j * np.asarray(memory_bytes, np.float64)
        + link_j * np.asarray(link_bytes, np.float64)
    )
    return _rounded_up(energy_j * PICOJOULES_PER_J, "pJ")


def _flop_joules(device: Device, dtype: str, kind: str) -> float:
    return device.flop_joules(dtype if kind == "contraction" else VECTOR)
