"""Seconds of blocks: launch, and the roofline of arithmetic and memory by the figures of the kernel's class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Concatenate, NamedTuple, ParamSpec

import numpy as np
from numpy.typing import ArrayLike

from tapestry.hardware.device import Device
from tapestry.hardware.kernels import KernelFigures
from tapestry.hardware.timing.quantiles import quantile_factor
from tapestry.hardware.timing.units import Floats, Ticks, ticks
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.operators.kernel_classes import KERNEL_OF_KIND, WINDOW_CLASSES
from tapestry.teg.operators.operator import PartAmounts

Given = ParamSpec("Given")
BLOCK_KINDS = tuple(KERNEL_OF_KIND)
SPLITS = (1, 2, 4, 8, 16)  # parts of a reduction that libraries compute side by side
ROW_SHARPNESS = 2.5  # of the time of one row and that of all rows together
HOST_SHARPNESS = 3.0  # of a kernel and of the host that prepares the next one
GROUPED = "grouped_convolution"
WIDE_COLUMNS = 20_000  # where `wide_columns` is half of its full effect
Sizes = tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike]


def _of_slowest_kind(
    of_one: Callable[Concatenate[Device, Given], Ticks],
) -> Callable[Concatenate[Device, Given], Ticks]:
    """Decorate a function of a device so that one which stands for several kinds takes as long as the slowest."""

    @wraps(of_one)
    def of_all(device: Device, /, *args: Given.args, **options: Given.kwargs) -> Ticks:
        if not device.kinds:
            return of_one(device, *args, **options)
        found: Ticks = np.maximum.reduce([of_one(kind, *args, **options) for kind in device.kinds])
        return found

    return of_all


@_of_slowest_kind
def block_ticks(
    device: Device,
    kind: str,
    flops: ArrayLike,
    memory_bytes: ArrayLike,
    dtype: str,
    *,
    kernel: str | None = None,
    row: ArrayLike = 1,
    m: ArrayLike | None = None,
    n: ArrayLike | None = None,
    k: ArrayLike | None = None,
    batch: ArrayLike | None = None,
    kernels: ArrayLike = 1,
    separate_elements: ArrayLike = 0,
    cold_bytes: ArrayLike = 0,
    written_bytes: ArrayLike = 0,
    compute_dtype: str | None = None,
    parts: Sequence[PartAmounts] = (),
    supplied_s: ArrayLike | None = None,
) -> Ticks:
    """Compute the ticks that one device takes for one block: launch, and the longer of arithmetic and memory.

    `kind` is `contraction` (matrix units, at `compute_dtype` or else at the device's precision for
    `dtype`), `vector` (vector units), `move` (memory only), `none` (no work at all: a view) or `fused`
    (`parts` beside one stream of bytes and with one launch). `kernel` is the class whose figures count, by default
    that of the kind. `flops` and `memory_bytes` (read + written) are per device. Of these bytes, `cold_bytes` are read
    from memory even where the cache could hold them, and `written_bytes` are the outputs', which the operating system
    may allocate anew; `row` is the length of the rows that a
    kernel works along, each on one core. A contraction that gives its output `m` x `n`, reduction `k` and `batch`
    (default 1) pays for padding to the device's tiles and for waves of tiles that do not fill the cores; the best tile
    and the best split of the reduction are taken; a `grouped_convolution` is such a product for each group, or computed
    directly on the vector units, whichever takes less time. Where functions are not fused, a cell of several is so many
    `kernels`, which move `separate_elements` in all. A `gated` activation takes no longer than two kernels, one of the
    activation and one of the product. A device without work, zero flops and zero bytes, takes 0 ticks.
    Times are medians, or the device's `quantile`. The program's own seconds, `supplied_s`, replace all of that.
    More work never takes less time, and no block is faster than the rates of the arithmetic units and of the memory
    it works in.

    Returns:
        int64 array of the broadcast shape of all array arguments.

    Raises:
        ValueError: unknown kind, or some but not all of m, n, k.
        MissingFigureError: the device has no peak for this precision.

    Source: roofline, Williams et al., CACM 2009; waves and tiles, NVIDIA's Matrix Multiplication Background
    guide; classes of kernels with a rate each, docs/timing.md.
    """
    if kind not in BLOCK_KINDS:
        raise ValueError(f"expected a block kind among {', '.join(BLOCK_KINDS)}, not {kind!r}")
    work, moved = np.broadcast_arrays(np.asarray(flops, np.float64), np.asarray(memory_bytes, np.float64))
    if supplied_s is not None:
        return ticks(np.broadcast_to(np.asarray(supplied_s, np.float64), work.shape))
    if kind == "none":
        return np.zeros(work.shape, np.int64)
    figures = kernel_figures(device, kind, dtype, kernel, compute_dtype, parts)
    if kind == "contraction":
        sizes = None
        if m is not None and n is not None and k is not None:
            sizes = (m, n, k, 1 if batch is None else batch)
        elif (m, n, k, batch) != (None, None, None, None):
            raise ValueError("a contraction gives all of m, n and k, or none of m, n, k and batch")
        compute_s = _contraction_s(device, figures, kernel or "", compute_dtype or dtype, work, sizes)
    elif kind == "vector":
        compute_s = work / (device.vector_flops_per_s * figures.efficiency)
    elif kind == "fused":
        compute_s = _parts_s(device, figures, parts, compute_dtype, work.shape)
    else:
        compute_s = np.zeros_like(work)
    launches = np.asarray(kernels if device.launch == "unfused" else 1, np.float64)
    if device.launch == "unfused":
        moved = np.maximum(moved, np.asarray(separate_elements, np.float64) * item_bytes(dtype))
    written = np.asarray(written_bytes, np.float64)
    streams = _Streams(moved, np.asarray(cold_bytes, np.float64), np.asarray(row, np.float64), dtype)
    busy_s = _launched_s(device, figures, compute_s, streams, launches) + _fresh_s(device, written)
    if kernel == "gated":
        apart_s = _apart_s(device, device.figures("elementwise", dtype, kind), work, streams, written)
        busy_s = np.where(written > 0, np.minimum(busy_s, apart_s), busy_s)
    return ticks(np.where((work == 0) & (moved == 0), 0.0, busy_s))


class _Streams(NamedTuple):
    """The bytes that a block reads and writes, those of them that no cache holds, and the length of its rows."""

    moved: Floats
    cold: Floats
    row: Floats
    dtype: str


def _apart_s(
    device: Device, figures: KernelFigures, flops: Floats, streams: _Streams, written: Floats
) -> Floats:
    """Compute the seconds of an activation and a product that it hands a tensor to, as large as what is written."""
    once = np.ones_like(written)
    compute_s = flops / (device.vector_flops_per_s * figures.efficiency)
    activation = streams._replace(moved=2.0 * written, cold=np.minimum(streams.cold, written))
    busy_s = _launched_s(device, figures, compute_s, activation, once)
    busy_s = busy_s + _launched_s(device, figures, np.zeros_like(compute_s), streams, once)
    return busy_s + 2.0 * _fresh_s(device, written)


def _launched_s(
    device: Device, figures: KernelFigures, compute_s: Floats, streams: _Streams, launches: Floats
) -> Floats:
    """Compute the seconds of so many kernels, launches included, that do this arithmetic and move these bytes."""
    moved, cold = streams.moved / launches, streams.cold / launches
    stream_s = launches * memory_s(device, figures, moved, streams.row, cold)
    if figures.row_bytes_per_s is not None:
        one_row_s = 2.0 * streams.row * item_bytes(streams.dtype) / figures.row_bytes_per_s
        stream_s = _joined(stream_s, one_row_s, ROW_SHARPNESS)
    busy_s = _joined(compute_s, stream_s, figures.sharpness)
    busy_s = busy_s + launches * (device.launch_overhead_s + figures.overhead_s)
    if device.launch == "eager":
        own = (figures.eager_s, figures.dispatch_s)
        eager_s, dispatch_s = own if any(own) else device.host_times
        busy_s = _joined(busy_s + eager_s, np.asarray(dispatch_s), HOST_SHARPNESS)
    return np.asarray(busy_s * quantile_factor(device.quantile, figures.error))


def kernel_figures(
    device: Device,
    kind: str,
    dtype: str,
    kernel: str | None,
    compute_dtype: str | None,
    parts: Sequence[PartAmounts],
) -> KernelFigures:
    """Return what the kernel of a block reaches on a device; the arguments are those of `block_ticks`."""
    name, precision, contracts = requested_kernel(device, kind, dtype, kernel, compute_dtype, parts)
    return device.figures(name, precision, kind, contracts)


def requested_kernel(
    device: Device,
    kind: str,
    dtype: str,
    kernel: str | None,
    compute_dtype: str | None,
    parts: Sequence[PartAmounts],
) -> tuple[str, str, bool]:
    """Return the class of kernel that a block requests, at which precision, and whether it contracts."""
    contracts = kind == "contraction" or any(part.kind == "contraction" for part in parts)
    precision = device.contraction_dtype(compute_dtype or dtype) if contracts else dtype
    usual = "fused_product" if contracts and kind == "fused" else KERNEL_OF_KIND[kind]
    return kernel or usual, precision, contracts


def move_ticks(device: Device, size_bytes: ArrayLike) -> Ticks:
    """Compute the ticks of reading so many bytes, any shape, and writing them elsewhere in the memory of one device."""
    return block_ticks(device, "move", 0, 2 * np.asarray(size_bytes, np.int64), "float32")


def memory_s(
    device: Device,
    figures: KernelFigures,
    moved_bytes: ArrayLike,
    row: ArrayLike = 1,
    cold_bytes: ArrayLike = 0,
) -> Floats:
    """Compute the seconds of reading and writing so many bytes, in the level of memory that holds them.

    Bytes up to the size of the cache come from there; from twice its size on none do, for a stream evicts what it
    will read again. `cold_bytes` among them never do.
    """
    moved = np.asarray(moved_bytes, np.float64)
    rate = device.memory_bytes_per_s * figures.memory_efficiency
    cached_rate, cached = rate, np.zeros_like(moved)
    if figures.cache_efficiency and device.cache_bytes is not None and device.cache_bytes_per_s is not None:
        cached_rate = max(rate, device.cache_bytes_per_s * figures.cache_efficiency)
        warm = np.maximum(moved - np.asarray(cold_bytes, np.float64), 0.0)
        cached = np.minimum(warm, np.clip(2.0 * device.cache_bytes - moved, 0.0, device.cache_bytes))
    busy_s = (moved - cached) / rate + cached / cached_rate
    if figures.rows:
        lengths, shares = np.log(np.array(figures.rows)).T
        busy_s = busy_s / np.exp(np.interp(np.log(np.maximum(row, 1)), lengths, shares))
    return np.asarray(busy_s)


def _fresh_s(device: Device, written: Floats) -> Floats:
    """Compute the seconds in which the operating system allocates outputs of so many bytes anew, if it does."""
    if device.fresh_bytes is None or device.fresh_bytes_per_s is None:
        return np.zeros_like(written)
    return np.where(written >= device.fresh_bytes, written / device.fresh_bytes_per_s, 0.0)


def _joined(one_s: Floats, other_s: Floats, sharpness: float | None) -> Floats:
    """Compute the time of two streams of work side by side: the longer one, and more where both take long."""
    longer = np.maximum(one_s, other_s)
    if sharpness is None:
        return longer
    share = np.minimum(one_s, other_s) / np.where(longer > 0, longer, 1.0)
    return np.asarray(longer * (1.0 + share**sharpness) ** (1.0 / sharpness))


def _contraction_s(
    device: Device, figures: KernelFigures, kernel: str, precision: str, flops: Floats, sizes: Sizes | None
) -> Floats:
    """Compute the seconds of arithmetic of a contraction: a product's, or less if vector units are faster by groups."""
    if kernel != GROUPED:
        return _product_s(device, figures, precision, flops, sizes)
    products = device.figures("convolution", device.contraction_dtype(precision), "contraction", True)
    padded_s = _product_s(device, products, precision, flops, sizes)
    return np.asarray(np.minimum(padded_s, flops / _vector_rate(device, kernel)))


def _vector_rate(device: Device, kernel: str) -> float:
    """Return the flops per second that kernels of a class reach on the vector units."""
    return device.vector_flops_per_s * device.figures(kernel, "fp32").efficiency


def _product_s(
    device: Device, figures: KernelFigures, precision: str, flops: Floats, sizes: Sizes | None
) -> Floats:
    """Compute the seconds of arithmetic of a product; with sizes (m, n, k, batch), of whole tiles in waves."""
    rate = device.contraction_flops_per_s(precision) * figures.efficiency
    plain = flops / rate
    if sizes is None:
        return plain
    m, n, k, batch = (_without_repeats(np.asarray(size, dtype=np.float64)) for size in sizes)
    best = None
    for tile in device.tiles:
        step = figures.k_step or tile.k
        blocks = batch * np.ceil(m / tile.m) * np.ceil(n / tile.n)
        flops_per_step = 2.0 * tile.m * tile.n * device.cores
        tile_rate = rate * tile.efficiency**figures.tile_exponent
        for parts in (split for split in SPLITS if split <= figures.split_k):
            steps = np.ceil(k / (parts * step)) * step + figures.k_prologue
            taken = _waves(blocks * parts / device.cores, figures.wave_share) * steps * flops_per_step
            taken = taken / tile_rate
            if parts > 1:  # partial sums are written, and read to be added
                taken = taken + 8.0 * parts * m * n * batch / device.memory_bytes_per_s
            best = taken if best is None else np.minimum(best, taken)
    assert best is not None
    if figures.wide_columns:
        best = best * (1.0 + figures.wide_columns / (1.0 + (WIDE_COLUMNS / np.maximum(n, 1.0)) ** 4))
    return np.asarray(np.maximum(plain, best))


def _without_repeats(sizes: Floats) -> Floats:
    """Return sizes that are equal on all devices, the last axis, as one; they broadcast to the same."""
    repeats = sizes.ndim > 1 and sizes.shape[-1] > 1 and bool(np.all(sizes == sizes[..., :1]))
    return sizes[..., :1] if repeats else sizes


def _waves(filled: Floats, wave_share: float) -> Floats:
    """Compute the waves that so many fillings of all cores take: the last one costs `wave_share` of what it lacks."""
    whole = np.ceil(filled)
    return np.asarray(np.maximum(np.minimum(whole, 1.0), wave_share * whole + (1.0 - wave_share) * filled))


def _parts_s(
    device: Device,
    figures: KernelFigures,
    parts: Sequence[PartAmounts],
    compute_dtype: str | None,
    shape: tuple[int, ...],
) -> Floats:
    """Compute the seconds of arithmetic of a fused block: its parts take turns, unless its units overlap."""
    products_s, vectors_s = np.zeros(shape), np.zeros(shape)
    for part in parts:
        flops = np.asarray(part.flops, np.float64)
        if part.kind != "contraction":
            kernel = part.kernel if part.kernel in WINDOW_CLASSES else "elementwise"
            vectors_s = vectors_s + flops / _vector_rate(device, kernel)
            continue
        tiles = part.tiles
        sizes = (tiles["m"], tiles["n"], tiles["k"], tiles["batch"]) if tiles else None
        busy_s = _contraction_s(device, figures, part.kernel, compute_dtype or part.dtype, flops, sizes)
        products_s = products_s + np.where(flops > 0, busy_s, 0.0)
    return np.maximum(products_s, vectors_s) if figures.overlaps else products_s + vectors_s


def slowed_ticks(device: Device, block_ticks: Ticks | int, copying_ticks: Ticks | int) -> Ticks:
    """Return the time of blocks, any shape, while copies run for the first `copying_ticks` of it, in ticks.

    Copies take `communication_cores` of the cores; blocks work on the others until the copies are done.
    """
    taken, cores = device.communication_cores, device.cores
    throughout = np.multiply(block_ticks, taken) // (cores - taken)
    until_done = np.maximum(copying_ticks, 0) * taken // cores
    return np.asarray(block_ticks + np.minimum(throughout, until_done), dtype=np.int64)
