"""Meshes of devices with named axes. Values only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from tapestry.hardware.collective_tables import CollectiveTable
from tapestry.hardware.device import Device
from tapestry.hardware.mesh_card import mesh_card
from tapestry.hardware.slowest import slowest_device
from tapestry.teg.brief import brief, counted, listed, shown

TOPOLOGIES = ("switch", "fully_connected", "ring", "torus", "line", "tree")


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

    def device_rate(self, members: int | None = None) -> float:
        """Return the bytes/s that a device receives over all of its links to so many members, or to all."""
        links = {"fully_connected": (members or self.size) - 1, "line": 2, "torus": 2}.get(self.topology, 1)
        return max(links, 1) * self.bandwidth_bytes_per_s

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
            ValueError: there are no nodes, one has nodes or an axis called like the network, or their shapes or the
                layouts that kernels work in differ.
        """
        if not nodes:
            raise ValueError("expected at least one node")
        if network.name in dict(nodes[0].axis_sizes) or any(node.nodes for node in nodes):
            raise ValueError(f"a node has an axis {network.name!r} or nodes of its own already")
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

        def with_queues(node: Mesh) -> Mesh:
            return replace(node, device=replace(node.device, communication_queues=queues), network=None)

        return cls(name, device, (joined, *inner), nodes=changed_nodes(nodes, with_queues))

    def __repr__(self) -> str:
        axes = listed([f"{axis.name}={axis.size}" for axis in self.axes], 5)
        kind = f"{counted(self.device_count, 'device')} {brief(self.device.name)}"
        return shown("Mesh", (repr(brief(self.name)), axes, kind))

    def _repr_html_(self) -> str:
        """Show the figures, the devices and the links of the axes in a notebook."""
        kinds = tuple(dict.fromkeys(node.device.name for node in self.nodes))
        return mesh_card(self.name, self.device, self.axes, kinds)

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
    def homogeneous(self) -> Mesh:
        """The mesh with `device` and `axes` in the place of all nodes, which are in no figure worse."""
        return replace(self, nodes=()) if self.nodes else self

    def launched(self, launch: str | None) -> Mesh:
        """Return the mesh with kernels launched in one of the ways of `LAUNCHES`; as it is for None."""
        if launch is None:
            return self
        nodes = changed_nodes(self.nodes, lambda node: node.launched(launch))
        return replace(self, device=self.device.launched(launch), nodes=nodes)

    def at_quantile(self, quantile: float | None) -> Mesh:
        """Return the mesh with times of kernels and exchanges at a quantile in (0, 1) of each; as it is for None.

        The slowest times of all classes so come together, which overstates how late a plan may be.
        """
        if quantile is None:
            return self
        axes = tuple(_axis_at(axis, quantile) for axis in self.axes)
        network = None if self.network is None else _axis_at(self.network, quantile)
        nodes = changed_nodes(self.nodes, lambda node: node.at_quantile(quantile))
        device = self.device.at_quantile(quantile)
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


def changed_nodes(nodes: Sequence[Mesh], change: Callable[[Mesh], Mesh]) -> tuple[Mesh, ...]:
    """Return the nodes as `change` makes them, which it is asked for once for equal ones."""
    made = {node: change(node) for node in dict.fromkeys(nodes)}
    return tuple(made[node] for node in nodes)


def _are_alike(one: Mesh, other: Mesh) -> bool:
    """Return whether two meshes have the same devices and links, whatever they are called."""
    return one.device == other.device and one.axes == other.axes


def _shape_text(mesh: Mesh) -> str:
    return f"{mesh.name} ({', '.join(f'{name}: {size}' for name, size in mesh.axis_sizes)})"


def _slowest_axis(axes: Sequence[MeshAxis]) -> MeshAxis:
    """Return the axis along which a device receives least, at the longest of the latencies."""
    return replace(slower_links(axes), latency_s=max(axis.latency_s for axis in axes))


def slower_links(axes: Sequence[MeshAxis]) -> MeshAxis:
    """Return the axis along which a device receives the fewest bytes in a second, of links as they are reached."""
    return min(axes, key=lambda axis: (axis.device_rate() * axis.efficiency, -axis.latency_s))


def _shortened(axis: MeshAxis, size: int) -> MeshAxis:
    if size == axis.size:
        return axis
    topology = "line" if axis.topology == "torus" else axis.topology
    return replace(axis, size=size, topology=topology, all_reduce_efficiency=None, part_of=axis.whole)


def _axis_at(axis: MeshAxis, quantile: float) -> MeshAxis:
    whole = None if axis.part_of is None else _axis_at(axis.part_of, quantile)
    return replace(axis, quantile=quantile, part_of=whole)
