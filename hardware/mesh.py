"""Devices and meshes: a device with its rates, and a mesh of devices with named axes. Values only."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

from tapestry.hardware.collective_tables import CollectiveTable
from tapestry.hardware.kernels import KernelFigures, figures_of, host_times
from tapestry.hardware.slowest import slowest_device
from tapestry.teg.brief import brief, counted, listed, shown
from tapestry.teg.html_table import html_table

TOPOLOGIES = ("switch", "fully_connected", "ring", "torus", "line", "tree")

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
    A process holds memory beside its tensors: `context_bytes` for driver, runtime and code, `workspace_bytes` for
    the scratch memory of libraries, `allocator_bytes` lost to rounding at most, `communicator_bytes` for the
    buffers of the collectives along one axis of a mesh. The link to the host carries `host_bytes_per_s` each way at
    once, and `host_memory_bytes` of the host's memory are for this device. `layouts` names the physical layouts that
    its kernels work in, the default one first. Times are medians, or the `quantile` of each class of kernels by its
    error. `sources` gives the origin of every figure by field name. A device has one memory: a board with two chips is
    two devices.
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
        return replace(self, launch=launch)

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


@dataclass(frozen=True)
class MeshAxis:
    """An axis of a mesh: `size` devices along one named direction, and the links between them.

    `bandwidth_bytes_per_s` is per direction: on `switch`, `tree` and `ring` all that one device can receive at
    once; on `torus` and `line` one link, of which a device has two; on `fully_connected` one link, of which a
    device has one to each other. `latency_s` is paid per round of a
    collective. `ramp_s` is the extra time per phase of a collective's bulk protocol (direct sends have none),
    `small_message_bytes_per_s` the rate of the protocol without it; the faster one is used.
    `all_reduce_efficiency` replaces `efficiency` where the links themselves reduce, for the whole axis only.
    `collectives` are measurements, from which times follow where there are any. Where links that can reduce are told
    not to (`in_switch` is false), neither that efficiency nor measurements of such links are kept. Times are medians,
    or the `quantile` of each kind by its error. `part_of` is the axis that this one is a part of; `inner` the next
    faster axis of its mesh, at the median: groups go over it whose tables have devices `inside`, and kinds not measured
    are no faster.
    """

    name: str
    size: int
    topology: str
    bandwidth_bytes_per_s: float
    latency_s: float
    efficiency: float = 1.0
    all_reduce_efficiency: float | None = None
    ramp_s: float = 0.0
    small_message_bytes_per_s: float | None = None
    collectives: tuple[CollectiveTable, ...] = ()
    in_switch: bool = True
    quantile: float | None = None
    part_of: MeshAxis | None = None
    inner: MeshAxis | None = None
    sources: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.in_switch:
            return
        kept = tuple(table for table in self.collectives if table.algorithm != "in_switch")
        whole = None if self.part_of is None else replace(self.part_of, in_switch=False)
        for name, value in (("all_reduce_efficiency", None), ("collectives", kept), ("part_of", whole)):
            object.__setattr__(self, name, value)

    @property
    def whole(self) -> MeshAxis:
        """The axis that this one is a part of, or itself."""
        return self.part_of or self

    def __repr__(self) -> str:
        rate = f"{self.bandwidth_bytes_per_s / 1e9:,.4g} GB/s"
        return shown("MeshAxis", (repr(brief(self.name)), f"size={self.size}", self.topology, rate))


@dataclass(frozen=True)
class Mesh:
    """A mesh of devices on named axes, slowest axis first.

    `network` is the axis between several such meshes, of size 1, with the figures of one device's share of the links;
    None where it is not known. `systems` are names of the machine, or of its network, in reports of measurements.
    Devices are equal unless there are `nodes` (`Mesh.of_nodes`): meshes of one shape, one for each place along the
    slowest axis, with devices and links of their own. Then `device` and `axes` are in no figure better than any.
    """

    name: str
    device: Device
    axes: tuple[MeshAxis, ...]
    network: MeshAxis | None = None
    systems: tuple[str, ...] = ()
    nodes: tuple[Mesh, ...] = ()

    def __post_init__(self) -> None:
        faster = (*self.axes[1:], None)
        object.__setattr__(self, "axes", tuple(map(_with_inner, self.axes, faster)))

    @classmethod
    def of_nodes(cls, name: str, nodes: Sequence[Mesh], network: MeshAxis) -> Mesh:
        """Return the mesh of these nodes in this order, joined by an axis with the figures of `network`.

        Raises:
            ValueError: there are no nodes, or their shapes, or the first of their devices' layouts differ.
        """
        if not nodes:
            raise ValueError("expected at least one node")
        for node in nodes:
            if node.axis_sizes != nodes[0].axis_sizes:
                shapes = " and ".join(_shape_text(each) for each in (nodes[0], node))
                raise ValueError(f"nodes must have axes of the same names and sizes, not {shapes}")
            if node.device.layouts[0] != nodes[0].device.layouts[0]:
                layouts = f"{nodes[0].device.layouts[0]!r} and {node.device.layouts[0]!r}"
                raise ValueError(f"devices of all nodes must work in one layout, not {layouts}")
        joined = replace(network, size=len(nodes))
        if all(_are_alike(node, nodes[0]) for node in nodes):
            return cls(name, nodes[0].device, (joined, *nodes[0].axes))
        device = slowest_device([node.device for node in nodes])
        inner = [_slowest_axis(axes) for axes in zip(*(node.axes for node in nodes), strict=True)]
        queues = device.communication_queues  # copies of all nodes go through the same queues
        own = tuple(
            replace(node, device=replace(node.device, communication_queues=queues), network=None)
            for node in nodes
        )
        return cls(name, device, (joined, *inner), nodes=own)

    def __repr__(self) -> str:
        axes = listed([f"{axis.name}={axis.size}" for axis in self.axes], 5)
        kind = f"{counted(self.device_count, 'device')} {brief(self.device.name)}"
        return shown("Mesh", (repr(brief(self.name)), axes, kind))

    def _repr_html_(self) -> str:
        """Show the axes as a table in a notebook."""
        device = self.device
        title = f"Mesh {self.name}: {counted(self.device_count, 'device')} {device.name} of {device.memory_bytes:,} B"
        head = ("axis", "size", "topology", "bandwidth (bytes/s)", "latency (s)")
        rows = [
            (
                axis.name,
                str(axis.size),
                axis.topology,
                f"{axis.bandwidth_bytes_per_s:g}",
                f"{axis.latency_s:g}",
            )
            for axis in self.axes
        ]
        return html_table(title, head, rows)

    @property
    def axis_sizes(self) -> tuple[tuple[str, int], ...]:
        """The pairs (name, size) of the axes, slowest first: the mesh shape that sharding works with."""
        return tuple((axis.name, axis.size) for axis in self.axes)

    @property
    def device_count(self) -> int:
        """The number of devices: the product of the axes' sizes."""
        return prod(axis.size for axis in self.axes)

    @property
    def queue_count(self) -> int:
        """The number of communication queues in use: one per axis, as far as the device has them, and at least one."""
        return max(1, min(self.device.communication_queues, len(self.axes)))

    def queues_of(self, axes: Collection[str]) -> tuple[int, ...]:
        """Return the communication queues that a copy over mesh axes takes until it ends, ascending.

        The fastest axes have a queue each; the slower ones share the first. What crosses no links takes the last queue,
        that of the fastest axis: moves within a memory follow each other.
        """
        shared = len(self.axes) - self.queue_count
        taken = {max(k - shared, 0) for k, axis in enumerate(self.axes) if axis.name in axes}
        return tuple(sorted(taken)) or (self.queue_count - 1,)

    @property
    def host_queues(self) -> tuple[int, int]:
        """The queues of copies to the host, and of copies from it, behind those of communication."""
        return self.queue_count, self.queue_count + 1

    def queue_name(self, queue: int) -> str:
        """Return the name of a queue: where there are several for communication, with the axes that it serves."""
        if queue in self.host_queues:
            return ("to the host", "from the host")[self.host_queues.index(queue)]
        served = [axis.name for axis in self.axes if queue in self.queues_of((axis.name,))]
        return "communication" if self.queue_count == 1 else f"communication ({', '.join(served)})"

    def by_count(self, count: int) -> Mesh:
        """Return the mesh of `count` nodes, each of them this mesh, joined by its network.

        Raises:
            ValueError: a count below 1, or no network is stated.
        """
        if count < 1:
            raise ValueError(f"expected at least 1 node, not {count}")
        if self.network is None:
            raise ValueError(f"mesh {self.name!r} states no network between nodes")
        axes = (replace(self.network, size=count), *self.axes)
        return Mesh(f"{count}x-{self.name}", self.device, axes, systems=self.systems)

    def part(self, axis_sizes: tuple[tuple[str, int], ...], first: int = 0) -> Mesh:
        """Return the submesh used by a plan that leaves the rest idle: the same axes with fewer devices.

        Along the slowest axis it begins at place `first`. Part of a torus is a line: its ends are not joined. Links
        that reduce are for whole axes.
        """
        if axis_sizes == self.axis_sizes:
            return self
        sizes = dict(axis_sizes)
        if not self.nodes:
            return replace(self, axes=tuple(_shortened(axis, sizes[axis.name]) for axis in self.axes))
        outer = _shortened(self.axes[0], sizes[self.axes[0].name])
        nodes = [node.part(axis_sizes[1:]) for node in self.nodes[first : first + outer.size]]
        return Mesh.of_nodes(self.name, nodes, outer)

    @property
    def evened(self) -> Mesh:
        """The mesh with `device` and `axes` in the place of all nodes, which are in no figure worse."""
        return replace(self, nodes=()) if self.nodes else self

    def launched(self, launch: str | None) -> Mesh:
        """Return the mesh with kernels launched in one of the ways of `LAUNCHES`; as it is for None."""
        if launch is None:
            return self
        nodes = tuple(node.launched(launch) for node in self.nodes)
        return replace(self, device=self.device.launched(launch), nodes=nodes)

    def at_quantile(self, quantile: float | None) -> Mesh:
        """Return the mesh with times of kernels and exchanges at a quantile in (0, 1) of each; as it is for None.

        The slowest times of all classes so come together, which overstates how late a plan may be.
        """
        if quantile is None:
            return self
        axes = tuple(_axis_at(axis, quantile) for axis in self.axes)
        network = None if self.network is None else _axis_at(self.network, quantile)
        nodes = tuple(node.at_quantile(quantile) for node in self.nodes)
        device = replace(self.device, quantile=quantile)
        return replace(self, device=device, axes=axes, network=network, nodes=nodes)

    def axis(self, name: str) -> MeshAxis:
        """Return the axis called `name`.

        Raises:
            KeyError: there is none; the message lists the axes.
        """
        for axis in self.axes:
            if axis.name == name:
                return axis
        raise KeyError(
            f"mesh {self.name!r} has no axis {name!r}; it has {', '.join(a.name for a in self.axes)}"
        )


def _with_inner(axis: MeshAxis, faster: MeshAxis | None) -> MeshAxis:
    """Return the axis with the next faster one, whose own is left out."""
    inner = None if faster is None else replace(faster.whole, inner=None, quantile=None)
    return axis if axis.inner == inner else replace(axis, inner=inner)


def _are_alike(one: Mesh, other: Mesh) -> bool:
    """Return whether two meshes have the same devices and links, whatever they are called."""
    return one.device == other.device and one.axes == other.axes


def _shape_text(mesh: Mesh) -> str:
    return f"{mesh.name} ({', '.join(f'{name}: {size}' for name, size in mesh.axis_sizes)})"


def _slowest_axis(axes: Sequence[MeshAxis]) -> MeshAxis:
    """Return the axis with the least bandwidth, at the longest of the latencies."""
    slowest = min(axes, key=lambda axis: (axis.bandwidth_bytes_per_s, -axis.latency_s))
    return replace(slowest, latency_s=max(axis.latency_s for axis in axes))


def _shortened(axis: MeshAxis, size: int) -> MeshAxis:
    if size == axis.size:
        return axis
    topology = "line" if axis.topology == "torus" else axis.topology
    return replace(axis, size=size, topology=topology, all_reduce_efficiency=None, part_of=axis.whole)


def _axis_at(axis: MeshAxis, quantile: float) -> MeshAxis:
    whole = None if axis.part_of is None else _axis_at(axis.part_of, quantile)
    return replace(axis, quantile=quantile, part_of=whole)
