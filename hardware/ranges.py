"""The plausible values of every figure of a device or mesh file: a value outside is a wrong unit, not a machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

LEAST_PERCENT = 2.5  # shares up to here are taken for shares of a rate that is too low, above for percent


class Range(NamedTuple):
    """The plausible values of one figure, bounds included, and a phrase that says what the figure is.

    Of a share, `rate` names the figure that it is a share of.

    The bounds are an order of magnitude and more beyond what is built: they catch percent for shares, milliseconds
    for microseconds and gigabytes for bytes, and leave room for small and for future machines. What two figures say
    together is checked in `hardware.relations`.
    """

    least: float
    most: float
    unit: str
    about: str
    rate: str = ""

    @property
    def expected(self) -> str:
        """The range as the object of "expected": `a number from 0 to 1 s`."""
        if self.unit == "share":
            return f"a share above 0 and at most {self.most:g}"
        return f"a number from {self.least:g} to {self.most:g} {self.unit}".rstrip()

    def holds(self, value: float) -> bool:
        """Return whether a value is plausible; a share is above zero."""
        return self.least <= value <= self.most and (self.unit != "share" or value > 0)

    def text_hint(self, text: str, is_whole: bool = False) -> str:
        """Return what to write instead of a text with a unit, as the end of a message."""
        found, scales = _QUANTITY.fullmatch(text), _TEXTS.get(self.unit, {})
        if found is None:
            return ""
        if found[2] and found[2] not in scales:
            known = f" (known are {', '.join(scales)})" if scales else ""
            return f"; unknown unit {found[2]!r}{known}"
        try:
            meant = float(found[1]) * scales.get(found[2], 1.0)
            return f"; write {f'{meant:.0f}' if is_whole else f'{meant:g}'}, without quotes"
        except ValueError:
            return ""

    def hint(self, value: float) -> str:
        """Return the likely mistake behind an implausible value, as the end of a message; empty if none stands out."""
        if self.unit == "share":
            if self.rate and self.most < value <= LEAST_PERCENT:
                rate = f"{self.rate} {value / self.most:g} times as high"
                return f"; if that was measured, the rate is stated too low: write {rate}, and {self.most:g} here"
            return f"; {value:g} % is {value / 100:g}" if self.most < value <= 100 else ""
        factor, meant = _MISTAKEN.get(self.unit, (1.0, ""))
        is_meant = (value > self.most if factor < 1 else value < self.least) and self.holds(value * factor)
        return f"; {value:g} {meant} is {value * factor:g}" if is_meant and value else ""


# Unit of a figure -> the texts of its multiples, as people write them behind a number.
_TEXTS: Mapping[str, Mapping[str, float]] = {
    "s": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9},
    "bytes": {"B": 1.0, "MB": 1e6, "GB": 1e9, "TB": 1e12, "MiB": 2.0**20, "GiB": 2.0**30},
    "bytes/s": {"MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12, "Gb/s": 1.25e8, "Gbps": 1.25e8},
    "flop/s": {"Gflop/s": 1e9, "Tflop/s": 1e12, "TFLOP/s": 1e12, "TFLOPS": 1e12, "Pflop/s": 1e15},
    "J": {"pJ": 1e-12, "nJ": 1e-9, "J": 1.0},
    "W": {"W": 1.0, "kW": 1e3, "mW": 1e-3},
    "USD/h": {"USD/h": 1.0},
    "share": {"%": 0.01},
}
_QUANTITY = re.compile(r"\s*([0-9.]+(?:[eE][-+]?[0-9]+)?)\s*(\S*)\s*")

# The unit that a figure was probably written in, and its size in the file's unit.
_MISTAKEN = {
    "s": (1e-6, "us"),
    "bytes": (1e9, "GB"),
    "bytes/s": (1e9, "GB/s"),
    "flop/s": (1e12, "Tflop/s"),
    "J": (1e-12, "pJ"),
}


def _share(about: str, rate: str = "", most: float = 1.0) -> Range:
    return Range(0.0, most, "share", about, rate)


RANGES: Mapping[str, Range] = {
    # Devices.
    "memory_bytes": Range(1e3, 1e15, "bytes", "memory of one device"),
    "memory_bytes_per_s": Range(1e6, 1e16, "bytes/s", "rate of its memory"),
    "cache_bytes": Range(1e3, 1e12, "bytes", "last cache before the memory"),
    "cache_bytes_per_s": Range(1e6, 1e17, "bytes/s", "rate of reads that hit the cache"),
    "fresh_bytes": Range(1e3, 1e14, "bytes", "outputs from this size on are allocated anew each time"),
    "fresh_bytes_per_s": Range(1e6, 1e17, "bytes/s", "rate at which the operating system allocates them"),
    "peak_flops_per_s": Range(1e6, 1e19, "flop/s", "peak rate of contractions, by precision"),
    "vector_flops_per_s": Range(1e6, 1e18, "flop/s", "peak rate of the vector units"),
    "cores": Range(1, 1e7, "", "cores that compute tiles side by side"),
    "communication_cores": Range(0.0, 1e7, "", "cores that collectives take while they run"),
    "communication_queues": Range(1, 1e3, "", "copies over links of their own that run side by side"),
    "launch_overhead_s": Range(0.0, 1e-3, "s", "time to start a kernel"),
    "contraction_overhead_s": Range(0.0, 1e-3, "s", "further time to start a contraction"),
    "contraction_efficiency": _share("share of the peak that contractions reach", "peak_flops_per_s"),
    "memory_efficiency": _share("share of the memory's rate that kernels reach", "memory_bytes_per_s"),
    "vector_efficiency": _share(
        "share of both rates that vector kernels reach", "memory_bytes_per_s and vector_flops_per_s"
    ),
    "context_bytes": Range(0.0, 1e12, "bytes", "memory that driver, runtime and code take"),
    "workspace_bytes": Range(0.0, 1e12, "bytes", "scratch memory of the libraries"),
    "allocator_bytes": Range(0.0, 1e12, "bytes", "memory lost to the allocator's rounding, at most"),
    "communicator_bytes": Range(0.0, 1e12, "bytes", "buffers of collectives, per axis of a mesh"),
    "host_bytes_per_s": Range(1e5, 1e15, "bytes/s", "rate of one device's link to its host, each way"),
    "host_memory_bytes": Range(1e3, 1e16, "bytes", "memory of the host that is for one device"),
    "tdp_w": Range(1e-3, 1e6, "W", "thermal design power"),
    "idle_power_w": Range(0.0, 1e6, "W", "power drawn without work"),
    "joules_per_flop": Range(1e-20, 1e-3, "J", "energy of one operation, by precision"),
    "joules_per_memory_byte": Range(0.0, 1e-3, "J", "energy of one byte read or written"),
    "joules_per_link_byte": Range(0.0, 1e-3, "J", "energy of one byte sent"),
    "price_usd_per_hour": Range(0.0, 1e5, "USD/h", "price of one device"),
    # Classes of kernels, whose efficiency and memory_efficiency are shares as above.
    "cache_efficiency": _share("share of the cache's rate that kernels reach", "cache_bytes_per_s"),
    "overhead_s": Range(0.0, 1e-3, "s", "further time of a kernel beside its launch"),
    "eager_s": Range(0.0, 1e-2, "s", "what the host adds where it launches kernels one by one"),
    "row_bytes_per_s": Range(1e3, 1e15, "bytes/s", "rate at which one core works along a row"),
    "dispatch_s": Range(
        0.0, 1e-2, "s", "the host's time for each kernel that it launches while the device works"
    ),
    "k_step": Range(1, 1e6, "", "granularity of a product's reduction"),
    "k_prologue": Range(0.0, 1e6, "", "steps that filling a tile's pipeline is worth"),
    "wave_share": Range(0.0, 1.0, "", "share of an unfilled last wave that is lost"),
    "wide_columns": Range(0.0, 100.0, "", "further time of very wide outputs"),
    "tile_exponent": Range(1e-3, 10.0, "", "power of the relative rates of small tiles"),
    "split_k": Range(1, 16, "", "most parts of a split reduction"),
    "sharpness": Range(1.0, 100.0, "", "exponent that joins arithmetic and memory"),
    # Tiles of contractions.
    "m": Range(1, 1e6, "", "rows of a tile"),
    "n": Range(1, 1e6, "", "columns of a tile"),
    "k": Range(1, 1e6, "", "steps of a tile"),
    # Axes of meshes; a tile has an efficiency too.
    "efficiency": _share(
        "share of the rate that is reached", "bandwidth_bytes_per_s (of a device: peak_flops_per_s)"
    ),
    "bandwidth_bytes_per_s": Range(
        1e5, 1e15, "bytes/s", "rate of one device's links along the axis, one way"
    ),
    "latency_s": Range(0.0, 1.0, "s", "time before the first byte of a round of a collective"),
    # Above 1 where the links reduce: then fewer bytes are sent than the formula counts.
    "all_reduce_efficiency": _share(
        "share for all-reduce, where the links themselves reduce", "bandwidth_bytes_per_s", 2.0
    ),
    "ramp_s": Range(0.0, 1e-2, "s", "further time per phase of a collective's bulk protocol"),
    # Of devices and axes.
    "quantile": Range(0.5, 0.999, "", "quantile of times that plans are ranked by; the median if left out"),
    # Measured collectives.
    "message_bytes": Range(1, 1e15, "bytes", "size of a collective"),
    "collective_s": Range(1e-7, 1e5, "s", "time of a collective"),
    "error": Range(0.0, 1.5, "", "standard deviation of the logarithm of measured over predicted times"),
    "small_message_bytes_per_s": Range(1e3, 1e15, "bytes/s", "rate of the protocol without a ramp"),
}
