"""Seconds of blocks: a roofline of arithmetic and memory, plus launch overhead."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from tapestry.hardware.mesh import Device
from tapestry.hardware.timing.units import Floats, Ticks, ticks
from tapestry.teg.operators.operator import PartAmounts

BLOCK_KINDS = ("contraction", "vector", "move", "none", "fused")


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
