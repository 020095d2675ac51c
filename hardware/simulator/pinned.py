"""Simulation of an explicit graph as it is: blocks run where they are pinned, tensors are fetched where they are
read.

Blocks take their turn in program order; a block starts when its device is free, its inputs are available and the
blocks it must follow are done. A tensor from another device is received once per reading device, and stays until
its last reader there. Views are free and keep the tensors they view alive. Sources are available from the start;
those that outlive a step, and the values observed by sinks, are kept to the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil

import numpy as np

from tapestry.hardware.layouts.native import accessed_bytes, native_named, stored_bytes
from tapestry.hardware.mesh import Mesh, MeshAxis
from tapestry.hardware.timing import block_ticks, step_ticks
from tapestry.teg.brief import counted, shown
from tapestry.teg.costs import Amount, total
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.evaluate import evaluate
from tapestry.teg.graph import Block, Graph, index_sizes
from tapestry.teg.operators import catalog, operator_named
from tapestry.teg.operators.operator import Work, flops_of, part_amounts, work_dtype, work_of
from tapestry.teg.sharding.materialize import origin_of

PERSISTENT_ROLES = ("parameter", "buffer", "constant", "optimizer_state")
Place = tuple[str, int]
"""A tensor on a device."""


@dataclass(frozen=True, eq=False)
class PinnedRun:
    """The values and counts of a run. `outputs`: by the sites of the graph's own sinks; empty after a dry run.

    `flops`, `peak_memory_bytes`, `received_bytes`, `busy_ticks` `(devices,)`, int64. `makespan_ticks`: when the
    last block is done, in ticks of 1 ps. `resources`: the named costs supplied with the program, summed.
    """

    outputs: Mapping[str, np.ndarray]
    flops: np.ndarray
    peak_memory_bytes: np.ndarray
    received_bytes: np.ndarray
    busy_ticks: np.ndarray
    makespan_ticks: int
    resources: Mapping[str, Amount]

    def __repr__(self) -> str:
        sizes = (counted(len(self.flops), "device"), counted(len(self.outputs), "output"))
        return shown("PinnedRun", (f"{self.makespan_ticks / 1e12:.4g} s", *sizes))

    @property
    def traffic_bytes(self) -> int:
        """The bytes received from other devices, summed over devices."""
        return int(self.received_bytes.sum())


def run_pinned(
    graph: Graph,
    mesh: Mesh,
    inputs: Mapping[str, np.ndarray] | None = None,
    *,
    dry: bool = False,
    compute_dtype: str | None = None,
) -> PinnedRun:
    """Run a valid explicit graph on `mesh`; blocks without a device run where their first input is, else on device 0.

    `inputs` gives values by source, each a part as the graph holds it. A `dry` run counts without computing.

    Raises:
        ValueError: a device is not on the mesh, or inputs do not fit.
    """
    devices = _devices(graph, mesh)
    outputs = {} if dry else evaluate(graph, inputs or {})
    return _Run(graph, mesh, devices, compute_dtype).execute(outputs)


def _devices(graph: Graph, mesh: Mesh) -> dict[str, int]:
    """Return the device of each block; raise `ValueError` for devices that are not on the mesh."""
    found: dict[str, int] = {}
    wrong = []
    for block in graph.blocks:
        device = block.device
        if device is None:
            device = found[graph.producers[block.inputs[0]].site] if block.inputs else 0
        elif device >= mesh.device_count:
            wrong.append(f"{block.site!r} on device {device}")
        found[block.site] = device
    if wrong:
        shown = ", ".join(wrong[:5]) + (f" and {len(wrong) - 5} more" if len(wrong) > 5 else "")
        raise ValueError(
            f"mesh {mesh.name!r} has devices 0 to {mesh.device_count - 1}, but the graph pins {shown}"
        )
    return found


@dataclass
class _Run:
    graph: Graph
    mesh: Mesh
    devices: Mapping[str, int]
    compute_dtype: str | None
    live: dict[Place, int] = field(default_factory=dict)
    ready: dict[Place, int] = field(default_factory=dict)
    waiting: Counter[Place] = field(default_factory=Counter)
    roots: dict[Place, Place] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = self.mesh.device_count
        self.native = native_named(self.mesh.device.layouts[0])
        self.flops, self.received, self.busy, self.held, self.peak, self.clock, self.link = (
            np.zeros(count, dtype=np.int64) for _ in range(7)
        )

    def execute(self, outputs: Mapping[str, np.ndarray]) -> PinnedRun:
        for block in self.graph.blocks:
            device = self.devices[block.site]
            self.waiting.update((t, device) for t in block.inputs)
        self._keep()
        for source in self.graph.sources:
            self._allocate((source.outputs[0], self.devices[source.site]))
        done: dict[str, int] = {}
        for block in self.graph.blocks:
            if block.operator != "source":
                done[block.site] = self._block(block, max((done.get(s, 0) for s in block.after), default=0))
        costs = ((b.definition.costs, index_sizes(b)) for b in self.graph.blocks)
        named = total(table.price(sizes) for table, sizes in costs if table is not None)
        return PinnedRun(
            outputs, self.flops, self.peak, self.received, self.busy, max(done.values(), default=0), named
        )

    def _keep(self) -> None:
        """Add a permanent reader to all that stays to the end, and one reader at the origin per remote reader."""
        carried = {s.definition.get("carries") for s in self.graph.sinks}
        for block in self.graph.blocks:
            device = self.devices[block.site]
            lasts = block.definition.get("role") in PERSISTENT_ROLES and not carried & {
                block.site,
                origin_of(block.site),
            }
            if block.operator == "source" and lasts:
                self.waiting[block.outputs[0], device] += 1
            if block.operator == "sink":
                self.waiting[block.inputs[0], device] += 1
        for tensor, device in list(self.waiting):
            home = self.devices[self.graph.producers[tensor].site]
            if device != home:
                self.waiting[tensor, home] += 1

    def _block(self, block: Block, after: int) -> int:
        """Run one block; return its end time."""
        device = self.devices[block.site]
        start = max(int(self.clock[device]), after)
        for t in dict.fromkeys(block.inputs):
            start = max(start, self._obtain(t, device))
        view = (
            block.signature is not None
            and block.operator in catalog()
            and operator_named(block.operator).view
        )
        for t in block.outputs:
            if view:
                self.roots[t, device] = self._root((block.inputs[0], device))
                self.waiting[self.roots[t, device]] += self.waiting[t, device]
            else:
                self._allocate((t, device))
        ticks = 0 if view else self._work(block, device)
        end = start + ticks
        self.clock[device] = end if not view else self.clock[device]
        self.busy[device] += ticks
        for t in block.outputs:
            self.ready[t, device] = end
        for t in block.inputs:
            self._release((t, device))
        for t in block.outputs:
            if not view and self.waiting[t, device] == 0:
                self._free((t, device))
        return end

    def _obtain(self, tensor: str, device: int) -> int:
        """Return the time at which the tensor is on the device; receive it if it is not there."""
        place = (tensor, device)
        home = (tensor, self.devices[self.graph.producers[tensor].site])
        if place == home or place in self.ready:
            return self.ready.get(place, 0)
        size = self._size(tensor)
        self._allocate(place)
        axis = self._crossed(home[1], device)
        begin = max(self.ready.get(home, 0), int(self.link[device]))
        self.link[device] = begin + int(step_ticks(axis, "fetch", 2, size))
        self.received[device] += size
        self.ready[place] = int(self.link[device])
        self._release(home)
        return self.ready[place]

    def _crossed(self, a: int, b: int) -> MeshAxis:
        """Return the slowest axis along which two devices differ."""
        shape = [axis.size for axis in self.mesh.axes]
        places = zip(np.unravel_index(a, shape), np.unravel_index(b, shape), self.mesh.axes, strict=True)
        return next(axis for x, y, axis in places if x != y)

    def _work(self, block: Block, device: int) -> int:
        inputs, outputs = self.graph.input_types(block), self.graph.output_types(block)
        work = work_of(operator_named(block.operator), block.definition, inputs, outputs)
        sizes = index_sizes(block)
        given = {} if block.definition.costs is None else block.definition.costs.price(sizes)
        names, extents = list(sizes), np.array(list(sizes.values()), dtype=np.int64)
        flops = ceil(given["flops"]) if "flops" in given else int(flops_of(work, names, extents))
        moved = ceil(given["bytes"]) if "bytes" in given else self._moved(block, work, sizes)
        self.flops[device] += flops
        tiles = _tiles(work, sizes)
        dtype = work_dtype(inputs, outputs)
        ticks = block_ticks(
            self.mesh.device,
            work.kind,
            flops,
            moved,
            dtype,
            compute_dtype=self.compute_dtype,
            parts=part_amounts(work, names, extents),
            **tiles,
        )
        return int(ticks)

    def _moved(self, block: Block, work: Work, sizes: Mapping[str, int]) -> int:
        if work.kind == "none":
            return 0
        read = 0
        for k, t in enumerate(block.inputs):
            size = self._stored(t)
            if k in work.reads:
                elements = int(np.prod([sizes[d] for d in work.reads[k]], dtype=np.int64))
                moved = elements * item_bytes(self.graph.tensors[t].dtype)
                size = int(accessed_bytes(np.array(moved), np.array(size), np.array(self._size(t))))
            read += size
        return read + sum(self._stored(t) for t in block.outputs)

    def _size(self, tensor: str) -> int:
        return self.graph.tensors[tensor].type.size_bytes

    def _stored(self, tensor: str) -> int:
        """Compute the bytes of a local tensor in its device's native layout: explicit graphs name no others."""
        kind = self.graph.tensors[tensor]
        return int(stored_bytes(self.native, "", np.array(kind.shape, dtype=np.int64), kind.dtype))

    def _root(self, place: Place) -> Place:
        return self.roots.get(place, place)

    def _allocate(self, place: Place) -> None:
        size = self._stored(place[0])
        self.live[place] = size
        self.held[place[1]] += size
        self.peak[place[1]] = max(self.peak[place[1]], self.held[place[1]])

    def _release(self, place: Place) -> None:
        """Remove one reader, and free the underlying buffer with its last one."""
        root = self._root(place)
        self.waiting[root] -= 1
        if self.waiting[root] == 0:
            self._free(root)

    def _free(self, place: Place) -> None:
        self.held[place[1]] -= self.live.pop(place, 0)


def _tiles(work: Work, sizes: Mapping[str, int]) -> dict[str, int]:
    """Compute m, n, k and batch of a contraction."""
    if work.kind != "contraction" or not work.roles:
        return {}
    found = dict.fromkeys(("m", "n", "k", "batch"), 1)
    for dim, role in work.roles.items():
        found[role] *= sizes[dim]
    found["k"] *= work.k_factor
    return found
