"""Simulation of an explicit graph as it is: blocks run where they are pinned, tensors are fetched where they are
read.

Blocks take their turn in program order; a block starts when its device is free, its inputs are available and the blocks
it must follow are done. A tensor from another device is received once per reading device, in the queue of the slowest
mesh axis that it crosses, and stays until its last reader there - but for a block that takes its inputs in one by one
(`Operator.staging`): it receives each into its result, or into the staging that its operator states. A view that is no
run of the memory of its tensor is packed by the device that sends it, once, and what it packed stays until the last
device has received it. Views are free and keep the tensors they view alive, and so do assemblies that continue another
one in place. Sources are available from the start; those that outlive a step, and the values observed by sinks, are
kept to the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil

import numpy as np

from tapestry.hardware.layouts.native import accessed_bytes, native_named, stored_bytes
from tapestry.hardware.mesh import Mesh, MeshAxis
from tapestry.hardware.timing import block_ticks, cold_tensors, move_ticks, step_ticks
from tapestry.teg.arrays import NUMPY, ArrayNamespace
from tapestry.teg.brief import counted, shown
from tapestry.teg.costs import Amount, supplied_seconds, total
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.evaluate import evaluate
from tapestry.teg.graph import Block, Definition, Graph, index_sizes
from tapestry.teg.operators import catalog, operator_named
from tapestry.teg.operators.collecting import continues, is_continuation
from tapestry.teg.operators.operator import Work, flops_of, kernel_sizes, part_amounts, work_dtype, work_of
from tapestry.teg.sharding.materialize import origin_of
from tapestry.teg.sharding.partition import is_run
from tapestry.teg.signature import rows_of

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
    xp: ArrayNamespace = NUMPY,
) -> PinnedRun:
    """Run a valid explicit graph on `mesh`; blocks without a device run where their first input is, else on device 0.

    `inputs` gives values by source, each a part as the graph holds it. A `dry` run counts without computing. `xp` is
    the array library that computes, numpy or torch.

    Raises:
        ValueError: a device is not on the mesh, or inputs do not fit.
    """
    devices = _devices(graph, mesh)
    outputs = {} if dry else evaluate(graph, inputs or {}, xp=xp)
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
    staged: dict[Definition, int | None] = field(default_factory=dict)
    packed: dict[str, int] = field(default_factory=dict)
    targets: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        count = self.mesh.device_count
        self.continued = _continued(self.graph)
        self.cold = cold_tensors(self.graph, self.mesh.device, count)
        self.native = native_named(self.mesh.device.layouts[0])
        self.flops, self.received, self.busy, self.held, self.peak, self.clock, self.packing = (
            np.zeros(count, dtype=np.int64) for _ in range(7)
        )
        self.queues = np.zeros((self.mesh.queue_count, count), dtype=np.int64)

    def execute(self, outputs: Mapping[str, np.ndarray]) -> PinnedRun:
        for block in self.graph.blocks:
            device = self.devices[block.site]
            taken = self._taken_in(block)
            self.targets.update(taken.keys())
            self.waiting.update((t, device) for t in block.inputs if t not in taken)
            self.waiting.update((t, self._home(t)) for t in taken)
        self._keep()
        for source in self.graph.sources:
            self._allocate((source.outputs[0], self.devices[source.site]))
        for source in self.graph.sources:
            self._free_unread((source.outputs[0], self.devices[source.site]))
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
        """Add a permanent reader to all that stays to the end, and one at the origin per time a tensor is received."""
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
            home = self._home(tensor)
            if device != home:
                self.waiting[tensor, home] += 1
                self.targets[tensor] += 1

    def _block(self, block: Block, after: int) -> int:
        """Run one block; return its end time."""
        device = self.devices[block.site]
        start = max(int(self.clock[device]), after)
        taken = self._taken_in(block)
        for t in dict.fromkeys(block.inputs):
            start = max(start, self._receive(t, device) if t in taken else self._obtain(t, device))
        view = (
            block.signature is not None
            and block.operator in catalog()
            and operator_named(block.operator).view
        )
        for t in block.outputs:
            if view or block.site in self.continued:
                self.roots[t, device] = self._root((block.inputs[0], device))
                self.waiting[self.roots[t, device]] += self.waiting[t, device]
            else:
                self._allocate((t, device))
        self._stage(block, device)
        ticks = 0 if view else self._work(block, device)
        end = start + ticks
        self.clock[device] = end if not view else self.clock[device]
        self.busy[device] += ticks
        for t in block.outputs:
            self.ready[t, device] = end
        for t in block.inputs:
            if t not in taken:
                self._release((t, device))
        for t in block.outputs:
            self._free_unread((t, device))
        return end

    def _obtain(self, tensor: str, device: int) -> int:
        """Return the time at which the tensor is on the device; receive it if it is not there."""
        place = (tensor, device)
        if device == self._home(tensor) or place in self.ready:
            return self.ready.get(place, 0)
        self._allocate(place)
        self.ready[place] = self._receive(tensor, device)
        return self.ready[place]

    def _receive(self, tensor: str, device: int) -> int:
        """Move a tensor to another device, into memory that is there; return the time at which it has come."""
        home = (tensor, self._home(tensor))
        size = self._size(tensor)
        axis = self._crossed(home[1], device)
        (queue,) = self.mesh.queues_of((axis.name,))
        begin = max(self._packed(tensor), int(self.queues[queue, device]))
        end = begin + int(step_ticks(axis, "fetch", 2, size))
        self.queues[queue, device] = end
        self.received[device] += size
        self.targets[tensor] -= 1
        if self.targets[tensor] == 0 and tensor in self.packed:
            self.held[home[1]] -= size
        self._release(home)
        return end

    def _packed(self, tensor: str) -> int:
        """Return the time from which on a tensor can be sent: pack it first, if it is no run of memory at home."""
        home = self._home(tensor)
        begin = self.ready.get((tensor, home), 0)
        if _is_sent_as_it_is(self.graph, tensor):
            return begin
        if tensor not in self.packed:
            size = self._size(tensor)
            begin = max(begin, int(self.packing[home]))
            self.packed[tensor] = begin + int(move_ticks(self.mesh.device, size))
            self.packing[home] = self.packed[tensor]
            self.held[home] += size
            self.peak[home] = max(self.peak[home], self.held[home])
        return self.packed[tensor]

    def _taken_in(self, block: Block) -> dict[str, None]:
        """Return the inputs that a block takes in from other devices by itself, each as it comes."""
        if self._staged(block.definition) is None:
            return {}
        device = self.devices[block.site]
        return {t: None for t in self._pieces(block) if self._home(t) != device}

    def _pieces(self, block: Block) -> tuple[str, ...]:
        """Return the inputs that a block writes to its result, without what is there already."""
        return block.inputs[1:] if block.site in self.continued else block.inputs

    def _staged(self, definition: Definition) -> int | None:
        if definition not in self.staged:
            self.staged[definition] = _staged_elements(definition)
        return self.staged[definition]

    def _stage(self, block: Block, device: int) -> None:
        """Count the staging of a block that takes its inputs in, beside its result."""
        staged_bytes = (self._staged(block.definition) or 0) * self._item_bytes(block)
        self.peak[device] = max(self.peak[device], self.held[device] + staged_bytes)

    def _item_bytes(self, block: Block) -> int:
        return item_bytes(work_dtype(self.graph.input_types(block), self.graph.output_types(block)))

    def _home(self, tensor: str) -> int:
        """Return the device on which a tensor is made."""
        return self.devices[self.graph.producers[tensor].site]

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
        dtype = work_dtype(inputs, outputs)
        ticks = block_ticks(
            self.mesh.device,
            work.kind,
            flops,
            moved,
            dtype,
            compute_dtype=self.compute_dtype,
            cold_bytes=0 if "bytes" in given else self._cold_bytes(block, work, sizes),
            written_bytes=0 if "bytes" in given or not moved else sum(map(self._stored, block.outputs)),
            parts=part_amounts(work, names, extents),
            **kernel_sizes(work, names, extents),
            kernel=work.kernel_class,
            supplied_s=supplied_seconds(block.definition.costs, names, extents),
        )
        return int(ticks)

    def _moved(self, block: Block, work: Work, sizes: Mapping[str, int]) -> int:
        if work.kind == "none":
            return 0
        staged = self._staged(block.definition)
        if staged is not None and work.kind == "move":
            taken = self._taken_in(block)
            here = sum(self._stored(t) for t in self._pieces(block) if t not in taken)
            # What lands in its place is written by the link.
            return 2 * (staged * self._item_bytes(block) or here)
        return sum(self._read(block, work, sizes)) + sum(map(self._stored, block.outputs))

    def _read(self, block: Block, work: Work, sizes: Mapping[str, int]) -> Iterator[int]:
        """Yield the bytes that a block reads of each input."""
        for k, t in enumerate(block.inputs):
            size = self._stored(t)
            if k in work.reads:
                elements = int(np.prod([sizes[d] for d in work.reads[k]], dtype=np.int64))
                moved = elements * item_bytes(self.graph.tensors[t].dtype)
                size = int(accessed_bytes(np.array(moved), np.array(size), np.array(self._size(t))))
            yield size

    def _cold_bytes(self, block: Block, work: Work, sizes: Mapping[str, int]) -> int:
        """Count the bytes that a block reads from the memory of a device, whatever the cache holds."""
        if work.kind == "none" or self._staged(block.definition) is not None:
            return 0
        read = zip(block.inputs, self._read(block, work, sizes), strict=True)
        return sum(size for t, size in read if t in self.cold)

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

    def _free_unread(self, place: Place) -> None:
        """Free a tensor without a reader, if it has a buffer of its own."""
        if self.waiting[self._root(place)] == 0:
            self._free(self._root(place))

    def _free(self, place: Place) -> None:
        self.held[place[1]] -= self.live.pop(place, 0)


def _staged_elements(definition: Definition) -> int | None:
    """Return the elements a block stages where it takes its inputs in one by one; None where all must be there."""
    operator = catalog().get(definition.operator)
    return None if operator is None or operator.staging is None else operator.staging(definition)


def _is_sent_as_it_is(graph: Graph, tensor: str) -> bool:
    """Return whether a local tensor is a run of memory: no view that skips or reorders elements of its tensor.

    What has landed in an open assembly, others read as it landed.
    """
    in_order = True
    while (block := graph.producers[tensor]).is_view or block.operator == "flat_slice":
        piece, (tensor,) = graph.tensors[tensor].shape, block.inputs
        if block.is_view and block.signature is not None:
            rows, shape = rows_of(block.signature.inputs[0]), graph.tensors[tensor].shape
            in_order &= len(piece) == len(shape) and bool(is_run(np.array(piece), np.array(shape)))
            in_order &= all(row is not None and (row.dim, row.stride) == (k, 1) for k, row in enumerate(rows))
    return in_order or bool(block.operator == "assemble" and block.definition.get("open"))


def _continued(graph: Graph) -> frozenset[str]:
    """Return the assemblies that write what is missing into their first input, which becomes their result."""
    found = Counter(b.inputs[0] for b in graph.blocks if is_continuation(b.definition))
    return frozenset(
        b.site
        for b in graph.blocks
        if is_continuation(b.definition)
        and found[b.inputs[0]] == 1
        and b.device == graph.producers[b.inputs[0]].device
        and continues(graph.producers[b.inputs[0]].definition, b.definition)
    )
