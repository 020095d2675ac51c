"""Devices: what one has of memory, rates, power and cost. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from tapestry.hardware.kernels import KernelFigures, figures_of, host_times
from tapestry.teg.brief import brief, shown

# Element types as graphs write them -> as device files write them. Other integers keep their own names.
SHORT_DTYPES = {
    "float64": "fp64",
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
    "float8_e4m3fnuz": "fp8",
    "float8_e5m2fnuz": "fp8",
    "float8_e8m0fnu": "fp8",
    "float4_e2m1fn": "fp4",
}
# In a graph that the device runs through; one by one by the host; or so, and each function of a cell as one.
LAUNCHES = ("captured", "eager", "unfused")
VECTOR = "vector"  # a contraction dtype that a device computes on its vector units


class MissingFigureError(ValueError):
    """Error raised when a device lacks a requested figure; the message names the device, the figure and the remedy."""


@dataclass(frozen=True)
class MatrixTile:
    """A block of a contraction's output that one core computes at a time, over steps of `k`.

    `efficiency` is the rate of this block size relative to the device's best (1.0).
    """

    m: int
    n: int
    k: int
    efficiency: float = 1.0


@dataclass(frozen=True)
class Device:
    """A device: its memory, rates, power and cost. None means not known.

    Tables are keyed by short dtype names (`fp32`, `bf16`, `bfp8`, ...), `joules_per_flop` also by `vector`.
    `compute_dtype_default` gives the precision (or `vector`, the vector units) that the vendor uses for contractions
    of a dtype that has no peak. The efficiencies are the shares that kernels reach: contractions of their peak,
    contractions and moves of the memory's rate, vector kernels of both their rates; the tables `kernels`, keyed by
    class or `class.precision`, say more (`hardware/kernels.py`) and count instead. `cache_bytes` is the last cache
    before the memory, shared by all cores and filled by the hardware, and `cache_bytes_per_s` the rate of reads that
    hit it; scratchpads that a compiler fills are no cache. Outputs of `fresh_bytes` and more are allocated anew by the
    operating system each time, at `fresh_bytes_per_s`. `communication_cores` of the `cores` are taken by
    collectives while they run; `communication_queues` is how many copies over links of their own run side by side.
    A process holds memory beside its tensors: `context_bytes` for driver, runtime and code, `workspace_bytes` for the
    scratch memory of libraries, `allocator_bytes` lost to rounding at most, `communicator_bytes` for the buffers of the
    collectives along one axis of a mesh. The link to the host carries `host_bytes_per_s` each way at once, and
    `host_memory_bytes` of the host's memory are for this device. `layouts` names the physical layouts that its kernels
    work in, the default one first. Times are medians, or the `quantile` of each class of kernels by its error. `kinds`
    are those that a device stands for, if it does (`hardware.slowest`): what it does takes as long as with the one that
    takes longest. `sources` gives the origin of every figure by field name. A device has one memory: a board with two
    chips is two devices.
    """

    name: str
    vendor: str
    memory_bytes: int
    memory_bytes_per_s: float
    peak_flops_per_s: Mapping[str, float] = field(hash=False)
    vector_flops_per_s: float
    cores: int
    tiles: tuple[MatrixTile, ...]
    layouts: tuple[str, ...]
    launch_overhead_s: float
    communication_cores: int = 0
    communication_queues: int = 1
    contraction_overhead_s: float = 0.0
    contraction_efficiency: float = 1.0
    memory_efficiency: float = 1.0
    vector_efficiency: float = 1.0
    cache_bytes: int | None = None
    cache_bytes_per_s: float | None = None
    fresh_bytes: int | None = None
    fresh_bytes_per_s: float | None = None
    kernels: Mapping[str, KernelFigures] = field(default_factory=dict, hash=False)
    compute_dtype_default: Mapping[str, str] = field(default_factory=dict, hash=False)
    context_bytes: int | None = None
    workspace_bytes: int | None = None
    allocator_bytes: int | None = None
    communicator_bytes: int | None = None
    host_bytes_per_s: float | None = None
    host_memory_bytes: int | None = None
    tdp_w: float | None = None
    idle_power_w: float | None = None
    joules_per_flop: Mapping[str, float] | None = field(default=None, hash=False)
    joules_per_memory_byte: float | None = None
    joules_per_link_byte: float | None = None
    price_usd_per_hour: float | None = None
    architecture: str = ""
    launch: str = LAUNCHES[0]
    quantile: float | None = None
    aliases: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict, hash=False)
    kinds: tuple[Device, ...] = ()

    @property
    def has_host(self) -> bool:
        """True if tensors may be stored in the memory of the host: its link and its memory are known."""
        return self.host_bytes_per_s is not None and self.host_memory_bytes is not None

    def __repr__(self) -> str:
        return shown(
            "Device", (repr(brief(self.name)), brief(self.vendor), f"{self.memory_bytes / 1e9:,.4g} GB")
        )

    def require(self, name: str) -> float:
        """Return the number in field `name`.

        Raises:
            MissingFigureError: the field is None, so an objective that needs it must be refused by name.
        """
        value = getattr(self, name)
        if value is None:
            raise MissingFigureError(
                f"device {self.name!r} has no {name}: give one in the device file, "
                "or leave out the objectives that need it"
            )
        if not isinstance(value, (int, float)):
            raise TypeError(f"Device.{name} is a {type(value).__name__}, not one number")
        return float(value)

    @property
    def missing_energy_figure(self) -> str | None:
        """The name of the first missing figure needed for the energy of work on this device; None if none is missing.

        Flops need one for the vector units and for every precision with a peak.
        """
        for name in ("idle_power_w", "joules_per_flop", "joules_per_memory_byte", "joules_per_link_byte"):
            if getattr(self, name) is None:
                return name
        for precision in (VECTOR, *self.peak_flops_per_s):
            if precision not in (self.joules_per_flop or {}):
                return f"joules_per_flop.{precision}"
        return None

    def contraction_dtype(self, dtype: str) -> str:
        """Return the precision at which a contraction of `dtype` runs: its own, else the vendor's default.

        `dtype` may be spelled as in graphs (`float32`) or in device files (`fp32`). The answer is a key of
        `peak_flops_per_s`, or `vector`.

        Raises:
            MissingFigureError: the device neither computes `dtype` nor states a default for it.
        """
        short = SHORT_DTYPES.get(dtype, dtype)
        if short in self.peak_flops_per_s or short == VECTOR:
            return short
        if short in self.compute_dtype_default:
            return self.compute_dtype_default[short]
        known = sorted({*self.peak_flops_per_s, *self.compute_dtype_default})
        raise MissingFigureError(
            f"device {self.name!r} has no peak for contractions in {dtype!r} and states no default; "
            f"choose a compute dtype among {', '.join(known)}"
        )

    def contraction_flops_per_s(self, dtype: str) -> float:
        """Return the peak rate of contractions of `dtype`, flop/s; errors as `contraction_dtype`."""
        precision = self.contraction_dtype(dtype)
        return self.vector_flops_per_s if precision == VECTOR else self.peak_flops_per_s[precision]

    def figures(
        self, kernel: str, dtype: str, kind: str = "vector", contracts: bool = False
    ) -> KernelFigures:
        """Return what kernels of a class reach at the precision `dtype`; by the device's efficiencies without a table.

        `kind` and `contracts` are those of the work: they decide among the efficiencies.
        """
        found = figures_of(self.kernels, kernel, SHORT_DTYPES.get(dtype, dtype))
        if found is not None:
            return found
        if contracts:
            efficiencies = (self.contraction_efficiency, self.memory_efficiency)
            return KernelFigures(*efficiencies, overhead_s=self.contraction_overhead_s)
        reached = self.memory_efficiency if kind == "move" else self.vector_efficiency
        return KernelFigures(self.vector_efficiency, reached)

    def launched(self, launch: str) -> Device:
        """Return the device with kernels launched in one of the ways of `LAUNCHES`."""
        return replace(self, launch=launch, kinds=tuple(kind.launched(launch) for kind in self.kinds))

    def at_quantile(self, quantile: float) -> Device:
        """Return the device with times at a quantile in (0, 1) of each class of kernels."""
        return replace(
            self, quantile=quantile, kinds=tuple(kind.at_quantile(quantile) for kind in self.kinds)
        )

    @cached_property
    def host_times(self) -> tuple[float, float]:
        """The time that the host adds to a kernel of a class that does not say so, and takes for it, s."""
        return host_times(self.kernels)

    def flop_joules(self, dtype: str) -> float:
        """Return the energy of one flop of a contraction in `dtype`, or on the vector units if `dtype` is `vector`,
        J.

        Raises:
            MissingFigureError: no figure for that precision.
        """
        precision = self.contraction_dtype(dtype)
        if self.joules_per_flop is None or precision not in self.joules_per_flop:
            raise MissingFigureError(
                f"device {self.name!r} has no joules_per_flop.{precision}: "
                "give one in the device file, or leave out energy_j"
            )
        return self.joules_per_flop[precision]
