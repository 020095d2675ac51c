"""Figures of kernels: what one class of kernels reaches of a device's rates, and from where a class inherits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot, log
from typing import NamedTuple

import numpy as np

from tapestry.teg.operators.kernel_classes import PARENTS, PRODUCT_CLASSES

# Precisions of at most two bytes, and what matrix units multiply as fast: tables of `fp16` count for all of them,
# those of `fp32` for the others.
HALF = frozenset({"fp16", "bf16", "tf32", "fp8", "fp4", "int8", "bfp8", "bfp4"})
# Fields of a device that say in short what its tables of kernels say; a device that states them inherits none.
EFFICIENCIES = ("contraction_efficiency", "memory_efficiency", "vector_efficiency")
# Figures whose means are meaningful.
AVERAGED = (
    *("efficiency", "memory_efficiency", "overhead_s", "eager_s", "dispatch_s", "k_prologue", "wave_share"),
    *("wide_columns", "tile_exponent", "error"),
)
LAUNCHES = ("overhead_s", "eager_s", "dispatch_s")  # what a launch adds to the time of a kernel
NEAR = 0.3  # the distance at which devices are about as good as the nearest
# Of products outside matrix units:
MOST_OF_PEAK = 0.95  # what a device with power to spare reaches of its peak
POWER_EXPONENT = 0.5  # of sustained clocks by power, for voltage falls with the clock
STREAMED = 0.93  # the most that kernels stream of a memory's rate
CHIP_SHARPNESS = 8.0  # of the memory's time and that of the chip's own stores, which its arithmetic sets
UNKNOWN_ERROR = 0.35  # of a class that no measurement of any device informs: a factor of 1.4 either way
INHERITED_ERROR = 0.15  # what another kind or group adds to the error of a collective, in the same unit
# What inheritance adds to the error of a kernel: from the same architecture, vendor, from others; leave-one-device-out
# by benchmarks/fit.py.
KINSHIP_ERRORS = (0.12, 0.18, 0.3)


@dataclass(frozen=True)
class KernelFigures:
    """The figures of one class of kernels on a device; shares are of the device's own rates.

    `efficiency`: share of the arithmetic rate (the peak of the precision for products, else the vector rate);
    `memory_efficiency`, `cache_efficiency`: shares of the rates of memory and cache, None where kernels do not live
    in the cache. `overhead_s`: further time beside the launch, `eager_s`: what the host adds where it launches
    kernels one by one, and `dispatch_s`: what it takes for each while the device works. `rows`: pairs of row length
    and share of the memory's rate, interpolated log-log, for classes that work along rows; `row_bytes_per_s`: the
    rate at which one core reads and writes a row, None where rows do not matter. `error`: the standard deviation of
    the logarithm of measured over predicted time. `origin`: the devices that the figures are inherited from, empty
    for a device's own.

    Of products: `k_step` is the granularity of the reduction (None: the tile's own), `k_prologue` the steps that
    filling and draining a tile's pipeline is worth, `wave_share` how much of an unfilled last wave is lost,
    `wide_columns` the further time of outputs far wider than the cache, `tile_exponent` the power of the relative
    rates of small tiles, `split_k` the most parts in which a reduction is computed side by side, `sharpness` the
    exponent p of (arithmetic^p + memory^p)^(1/p), None for their maximum. `overlaps`: the matrix units and the vector
    units of a fused kernel work at the same time.
    """

    efficiency: float = 1.0
    memory_efficiency: float = 1.0
    cache_efficiency: float | None = None
    overhead_s: float = 0.0
    eager_s: float = 0.0
    dispatch_s: float = 0.0
    rows: tuple[tuple[float, float], ...] = ()
    row_bytes_per_s: float | None = None
    k_step: int | None = None
    k_prologue: float = 0.0
    wave_share: float = 1.0
    wide_columns: float = 0.0
    tile_exponent: float = 1.0
    split_k: int = 1
    sharpness: float | None = None
    overlaps: bool = False
    error: float = UNKNOWN_ERROR
    origin: str = ""

    def row_fault(self) -> str:
        """Return what is wrong with `rows`: lengths that fall, longer rows that take less time; empty if nothing."""
        for (short, low), (long, high) in zip(self.rows, self.rows[1:], strict=False):
            if long <= short:
                return f"row length {long:g} follows {short:g}: let them rise"
            if high * short > low * long * (1 + 1e-9):
                return f"a row of {long:g} elements would take less time than one of {short:g}"
        return ""


def figures_of(kernels: Mapping[str, KernelFigures], kernel: str, precision: str) -> KernelFigures | None:
    """Return a class's figures: those of the precision's family, the class's, or those of its nearest ancestor."""
    key = key_of(kernels, kernel, precision)
    return None if key is None else kernels[key]


def key_of(kernels: Mapping[str, KernelFigures], kernel: str, precision: str) -> str | None:
    """Return the key of the table in which a class finds its figures, such as `softmax.fp32`; None without any.

    A class that is bound by memory reaches about the same share of its rate at another precision.
    """
    family, other = ("fp16", "fp32") if precision in HALF else ("fp32", "fp16")
    name: str | None = kernel
    while name is not None:
        keys = [f"{name}.{family}", name]
        if name not in PRODUCT_CLASSES:
            keys.append(f"{name}.{other}")
        for key in keys:
            if key in kernels:
                return key
        name = PARENTS[name]
    return None


def host_times(kernels: Mapping[str, KernelFigures]) -> tuple[float, float]:
    """Return what the host adds to a kernel, and takes for it, in the median of the classes that state either, s.

    A class whose figures come from kernels in graphs alone says nothing of the host, which needs time for it too.
    """
    known = [(each.eager_s, each.dispatch_s) for each in kernels.values() if each.eager_s or each.dispatch_s]
    if not known:
        return 0.0, 0.0
    eager_s, dispatch_s = np.median(known, axis=0)
    return float(eager_s), float(dispatch_s)


class Relative(NamedTuple):
    """The figures that say how alike two devices are: vendor, architecture, memory rate in bytes/s, power in W.

    `single_flops_per_s` is the peak of products in fp32, 0 where the device states none.
    """

    vendor: str
    architecture: str
    memory_bytes_per_s: float
    tdp_w: float
    single_flops_per_s: float = 0.0

    def kinship(self, other: Relative) -> int:
        """Return 0 for devices of one architecture, 1 for those of one vendor, else 2."""
        if self.vendor != other.vendor:
            return 2
        return int(self.architecture != other.architecture or not self.architecture)

    def distance(self, other: Relative) -> float:
        """Return the logarithms of the ratios of power and of power per peak: such devices throttle alike.

        The memory's rate has no part in it, so that a device with a faster memory inherits the same shares.
        """
        ratios = [self.tdp_w / other.tdp_w]
        if self.single_flops_per_s and other.single_flops_per_s:
            ratios.append(self.power_per_peak / other.power_per_peak)
        return sum(abs(log(ratio)) for ratio in ratios)

    @property
    def power_per_peak(self) -> float:
        """The power in J per flop at the peak outside matrix units."""
        return self.tdp_w / self.single_flops_per_s


class Donor(NamedTuple):
    """A device with measured kernels, from which others inherit."""

    name: str
    relative: Relative
    kernels: Mapping[str, KernelFigures]


def completed(
    own: Mapping[str, KernelFigures], relative: Relative, donors: Iterable[Donor]
) -> dict[str, KernelFigures]:
    """Complete a device's classes by those of donors; shares are of the device's own rates.

    Of one architecture, the nearest donor's figures are taken; else those of its vendor, or of all, are averaged, with
    weights that fall with distance. What is inherited is less certain: variances add up.
    """
    found = dict(own)
    known = sorted(donors, key=lambda d: (relative.kinship(d.relative), relative.distance(d.relative)))
    for key in dict.fromkeys(key for donor in known for key in donor.kernels):
        if key in found or key.split(".")[0] in found:
            continue
        having = [donor for donor in known if key in donor.kernels]
        kinship = relative.kinship(having[0].relative)
        kin = [donor for donor in having if relative.kinship(donor.relative) == kinship]
        kin = kin if kinship else kin[:1]
        weights = [1.0 / (NEAR + relative.distance(donor.relative)) ** 2 for donor in kin]
        figures = averaged([_carried(key, relative, donor) for donor in kin], weights)
        error = hypot(figures.error, KINSHIP_ERRORS[kinship])
        found[key] = replace(figures, error=error, origin=", ".join(donor.name for donor in kin))
    return _launched_alike(found)


def _carried(key: str, relative: Relative, donor: Donor) -> KernelFigures:
    """Return a donor's figures of a class as shares of the rates of another device.

    Outside matrix units, products reach more of their peak the more power there is for it, and write as fast as their
    arithmetic allows where that is slower than the memory.
    """
    figures, known = donor.kernels[key], donor.relative
    if key.split(".", maxsplit=1)[0] not in PRODUCT_CLASSES or not key.endswith(".fp32"):
        return figures
    if not relative.single_flops_per_s or not known.single_flops_per_s:
        return figures
    power = relative.power_per_peak / known.power_per_peak
    most = max(figures.efficiency, MOST_OF_PEAK)
    efficiency = min(most, figures.efficiency * power**POWER_EXPONENT)
    intensity = relative.single_flops_per_s * efficiency / relative.memory_bytes_per_s
    intensity /= known.single_flops_per_s * figures.efficiency / known.memory_bytes_per_s
    streamed = STREAMED**-CHIP_SHARPNESS
    chip = max(figures.memory_efficiency**-CHIP_SHARPNESS - streamed, 0.0)
    memory = (chip * intensity**-CHIP_SHARPNESS + streamed) ** (-1 / CHIP_SHARPNESS)
    return replace(figures, efficiency=efficiency, memory_efficiency=memory)


def _launched_alike(found: Mapping[str, KernelFigures]) -> dict[str, KernelFigures]:
    """Return classes in which no kernel takes longer to launch than in fp32: what is inherited yields.

    Where both are inherited, the host's share is the shorter one, and a kernel's own overhead, which rows at fp32 say
    little of, the longer one.
    """
    agreed = dict(found)
    for key, short in found.items():
        kernel, _, family = key.partition(".")
        long = found.get(f"{kernel}.fp32")
        if family != "fp16" or long is None:
            continue
        pairs = {name: (getattr(short, name), getattr(long, name)) for name in LAUNCHES}
        longer = {name: max(pair) for name, pair in pairs.items() if long.origin}
        shorter = {name: min(pair) for name, pair in pairs.items() if short.origin}
        if long.origin and short.origin:
            longer = {"overhead_s": longer["overhead_s"]}
            del shorter["overhead_s"]
        agreed[f"{kernel}.fp32"] = replace(long, **longer)
        agreed[key] = replace(short, **shorter)
    return agreed


def averaged(figures: Sequence[KernelFigures], weights: Sequence[float]) -> KernelFigures:
    """Return weighted means of figures; what has no mean is that of the first."""
    total, first = sum(weights), figures[0]
    if len(figures) == 1:
        return first
    numbers = {
        name: sum(w * getattr(each, name) for w, each in zip(weights, figures, strict=True)) / total
        for name in AVERAGED
    }
    with_rows = [(w, each.rows) for w, each in zip(weights, figures, strict=True) if each.rows]
    return replace(first, **numbers, rows=_averaged_rows(with_rows))


def _averaged_rows(
    rows: Sequence[tuple[float, tuple[tuple[float, float], ...]]],
) -> tuple[tuple[float, float], ...]:
    """Return the weighted geometric means of shares at all row lengths that occur; rows stay monotone."""
    if not rows:
        return ()
    lengths = sorted({length for _, pairs in rows for length, _ in pairs})
    total = sum(weight for weight, _ in rows)
    mean = np.zeros(len(lengths))
    for weight, pairs in rows:
        mean += weight / total * np.interp(np.log(lengths), *np.log(np.array(pairs)).T)
    return tuple((length, float(share)) for length, share in zip(lengths, np.exp(mean), strict=True))
