"""The systems that questions are about: devices by id or name, and meshes of the catalog by what the inputs state."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import NamedTuple

from benchmarks.measurements.rows import Question
from benchmarks.measurements.workload import UnpredictedError, whole
from tapestry.hardware import Device, Mesh, device_names, load_device, load_mesh, mesh_names
from tapestry.hardware.device import LAUNCHES
from tapestry.hardware.mesh import TOPOLOGIES, MeshAxis

MAKERS = {"nvidia", "amd", "intel", "google", "tenstorrent", "instinct", "geforce", "tesla"}
# How questions name topologies -> the topologies of axes that are one.
TOPOLOGY_WORDS = {
    "line": ("line",),
    "ring": ("ring", "torus"),
    "torus": ("torus",),
    "fully connected": ("fully_connected",),
    "nvswitch": ("switch",),
}


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z0-9]+", text.lower())) - MAKERS


@dataclass(frozen=True)
class RankGroup:
    """The devices that take part in an exchange: so many nodes with so many ranks each."""

    nodes: int
    ranks_per_node: int


def group_of(question: Question) -> RankGroup:
    """Return the nodes and ranks that the inputs state: as numbers, or in words as the placement.

    Raises:
        UnpredictedError: no ranks, or ranks that the nodes do not share evenly.
    """
    inputs = question.inputs
    ranks, placement = whole(inputs, "ranks"), str(inputs.get("placement", ""))
    counted = re.search(r"(\d+) nodes", placement)
    if inputs.get("nodes") is not None:
        nodes = whole(inputs, "nodes")
    elif inputs.get("ranks_per_node") is not None:
        nodes = -(-ranks // whole(inputs, "ranks_per_node"))
    elif counted:
        nodes = int(counted[1])
    else:
        nodes = 2 if "across nodes" in placement else 1
    if ranks % nodes:
        raise UnpredictedError(f"{ranks} ranks on {nodes} nodes are not the same number on each")
    return RankGroup(nodes, ranks // nodes)


def reduces_in_switch(question: Question) -> bool | None:
    """Return whether the inputs state that links reduce (NVLS), or that they do not; None if they do neither."""
    used, algorithm = question.inputs.get("nvls_used"), str(question.inputs.get("algo", "")).lower()
    if isinstance(used, bool):
        return used
    if re.search(r"nvls off|no nvls|^ring|^tree", algorithm):
        return False
    return True if "nvls" in algorithm else None


@dataclass(frozen=True)
class Systems:
    """The devices and meshes that questions may be about, by name."""

    devices: Mapping[str, Device]
    meshes: Mapping[str, Mesh]

    @staticmethod
    def of_catalog(devices: Iterable[Device] = (), meshes: Iterable[Mesh] = ()) -> Systems:
        """Return the catalog's, with these in place of those of the same names.

        A device replaces its namesake in the meshes too.
        """
        own = {device.name: device for device in devices}
        known = {name: own.get(name) or load_device(name) for name in device_names()}
        shipped = {name: load_mesh(name) for name in mesh_names()}
        placed = {name: replace(mesh, device=known[mesh.device.name]) for name, mesh in shipped.items()}
        return Systems(known | own, placed | {mesh.name: mesh for mesh in meshes})

    @cached_property
    def _by_words(self) -> dict[frozenset[str], Device]:
        named = {alias: d for d in self.devices.values() for alias in (*d.aliases, d.name)}
        return {_words(name): device for name, device in named.items()}

    def device(self, question: Question) -> Device:
        """Return the device with the question's id, or else with the name that its inputs state.

        Raises:
            UnpredictedError: the catalog has neither.
        """
        names = [str(n) for n in (question.device_id, question.inputs.get("device")) if n]
        for name in names:
            if (device := self._by_words.get(_words(name))) is not None:
                return device
        if question.device_id is None and names:  # `4x A100-SXM4-80GB, NVLink`: the longest name in the text
            words = _words(names[0])
            found = sorted((w for w in self._by_words if w <= words), key=len, reverse=True)
            if found and {self._by_words[w].name for w in found if len(w) == len(found[0])} == {
                self._by_words[found[0]].name
            }:
                return self._by_words[found[0]]
        raise UnpredictedError(f"unknown device {names[0]!r}" if names else "no device is stated")

    def alone(self, question: Question) -> Mesh:
        """Return the mesh of one device that the question is about."""
        if question.launch not in LAUNCHES:
            raise UnpredictedError(f"unknown launch {question.launch!r}; known are {', '.join(LAUNCHES)}")
        device = self.device(question).launched(question.launch)
        return Mesh(device.name, device, (_alone(),))

    def joined(self, question: Question, group: RankGroup) -> Mesh:
        """Return the mesh of a group's devices: of the nodes of the catalog the one that fits what is stated.

        A node that is known by names of its own, such as a provider's, fits where the inputs state one of them. A
        network whose rate per node is stated has that rate.

        Raises:
            UnpredictedError: unknown device, or no node that fits.
        """
        device = self.device(question)
        topologies = _topologies(str(question.inputs.get("topology", "")))
        words = _words(" ".join(str(value) for value in question.inputs.values()))
        if (slice_ := self._slice(device, group, str(question.inputs.get("topology", "")))) is not None:
            return slice_
        fitting = [
            NodePart(-named, axis.topology not in (topologies or TOPOLOGIES), axis.size, mesh.name, part)
            for mesh in self.meshes.values()
            if mesh.device.name == device.name
            and (named := _named(mesh, words)) is not None
            and (group.nodes == 1 or mesh.network is not None)
            for axis in mesh.axes
            if (part := _part(mesh, axis, group.ranks_per_node, topologies)) is not None
        ]
        if not fitting:
            linked = f" joined as a {' or '.join(topologies)}" if topologies else ""
            several = f", and a network for {group.nodes} of them" if group.nodes > 1 else ""
            raise UnpredictedError(f"no node with {group.ranks_per_node} {device.name}{linked}{several}")
        unnamed, _, _, name, part = min(fitting, key=lambda candidate: candidate[:4])
        if reduces_in_switch(question) is False:
            part = without_in_switch(part)
        if group.nodes == 1:
            return part
        rate = None if unnamed else _bytes_per_s(str(question.inputs.get("network", "")))
        if rate is not None and part.network is not None:
            share = rate / self.meshes[name].device_count
            network = replace(part.network, bandwidth_bytes_per_s=share, collectives=())
            part = replace(part, network=network)
        return part.by_count(group.nodes)

    def _slice(self, device: Device, group: RankGroup, topology: str) -> Mesh | None:
        """Return the part of a mesh that a topology such as `4x8` states; None if it states none, or none has it."""
        shape = [int(size) for size in re.findall(r"(?<=x)\d+|\d+(?=x\d)", topology)]
        if len(shape) < 2 or prod(shape) != group.ranks_per_node or group.nodes > 1:
            return None
        found = [
            mesh
            for mesh in self.meshes.values()
            if mesh.device.name == device.name
            and len(mesh.axes) == len(shape)
            and all(axis.size >= size for axis, size in zip(mesh.axes, shape, strict=True))
        ]
        if not found:
            return None
        mesh = min(found, key=lambda m: (m.device_count, m.name))
        return mesh.part(tuple((axis.name, n) for axis, n in zip(mesh.axes, shape, strict=True)))


def without_in_switch(mesh: Mesh) -> Mesh:
    """Return the mesh as its file has it with `in_switch = false`, as where the library is told so."""
    return replace(mesh, axes=tuple(replace(axis, in_switch=False) for axis in mesh.axes))


def _alone() -> MeshAxis:
    return MeshAxis("device", 1, "switch", 1.0, 0.0)


def _topologies(text: str) -> tuple[str, ...]:
    """Return the topologies of axes that a text means; none if it states none."""
    lower = text.lower()
    return next((names for word, names in TOPOLOGY_WORDS.items() if word in lower), ())


class NodePart(NamedTuple):
    """A part of a node that fits a group; better ones come first.

    `unnamed` falls with the words of its name that are stated; `unlike` ones are joined otherwise, but for this part.
    """

    unnamed: int
    unlike: bool
    size: int
    name: str
    part: Mesh


def _part(mesh: Mesh, axis: MeshAxis, ranks: int, topologies: tuple[str, ...]) -> Mesh | None:
    """Return the part of a node that is so many ranks along one axis, joined in a topology; None if there is none.

    A part of a torus is a line, and so is a whole one whose ends are not joined. Two rows of an axis close to a ring.
    """
    if axis.size < ranks:
        return None
    part = mesh.part(tuple((other.name, ranks if other is axis else 1) for other in mesh.axes))
    (kept,) = (other for other in part.axes if other.name == axis.name)
    part = replace(part, axes=(kept,))
    if not topologies or kept.topology in topologies:
        return part
    if topologies == TOPOLOGY_WORDS["line"] and kept.topology == "torus":
        return replace(part, axes=(replace(kept, topology="line"),))
    is_closed = topologies == TOPOLOGY_WORDS["ring"] and axis.topology == "torus" and ranks % 2 == 0
    return replace(part, axes=(replace(axis, size=ranks),)) if is_closed else None


def _named(mesh: Mesh, words: frozenset[str]) -> int | None:
    """Count the words of the longest name of a system that are all stated; 0 without names, None if none is stated."""
    stated = [len(_words(name)) for name in mesh.systems if _words(name) <= words]
    return max(stated) if stated else None if mesh.systems else 0


def _bytes_per_s(text: str) -> float | None:
    """Return the rate of a node's links that a text states, such as `8x200 Gb/s`; None if it states none."""
    found = re.search(r"(\d+) ?x ?(\d+) ?Gb/s", text)
    return int(found[1]) * int(found[2]) * 1e9 / 8 if found else None
