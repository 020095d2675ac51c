"""An expansion written out as nodes: one block per shard on its device, and the blocks that move elements between.

A *shard* is a block of the abstract graph on one device: it keeps its definition, says by `index` which part
of the index space it computes (the empty box of rank 0 for a fixed block) and reads and makes local tensors.
Views are shards too, written where they are read. All other blocks have no `index`; they slice, join and
combine local tensors and hold no operator of the program.

Sites: the shard of block `b` on device 3 is `b@3` (a second one of a view `b@3.1`), and so are tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tapestry.teg.graph import Block, Graph, Tensor
from tapestry.teg.sharding.collect import Local, as_range, write_copy
from tapestry.teg.sharding.copies import CopyPlan
from tapestry.teg.sharding.expand import ComputeStep, ExplicitGraph, InputRead
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.nodes import Node, NodeWriter, TooManyNodes
from tapestry.teg.zspace import ZRange

NODE_LIMIT = 2_000_000
FIXED = ZRange((), ())
NOTHING = ".nothing"


@dataclass(frozen=True, eq=False)
class MaterializedGraph:
    """An explicit graph as nodes, and the box of its abstract tensor that each local tensor is.

    Slices of flattened shards have no box. A sink's shard observes the box of its input.
    """

    graph: Graph
    boxes: Mapping[str, ZRange]
    mesh_shape: MeshShape


def origin_of(site: str) -> str:
    """Return the site in the abstract graph that a shard's or a local tensor's site was made from."""
    return site.rpartition("@")[0]


def materialize(explicit: ExplicitGraph, limit: int = NODE_LIMIT) -> MaterializedGraph:
    """Write out the nodes of an expansion, in execution order.

    Raises:
        TooManyNodes: they are more than `limit`.
        ValueError: a block has no index points at all, or the plan has rounds or stages.
    """
    explicit.check_no_rounds("an explicit graph")
    least = least_nodes(explicit)
    if least > limit:
        raise TooManyNodes(limit, least)
    blocks: list[Block] = []
    tensors: dict[str, Tensor] = {}
    boxes: dict[str, ZRange] = {}
    for node in ExplicitNodes(explicit, limit):
        blocks.append(node.block)
        tensors.update((tensor.site, tensor) for tensor in node.outputs)
        places = zip(node.outputs, node.boxes, strict=True)
        boxes.update((tensor.site, box) for tensor, box in places if box is not None)
    abstract = explicit.abstract
    sources = [block.outputs[0] for block in blocks if block.operator == "source"]
    data = {t: part_of(v, boxes[t]) for t in sources if (v := abstract.data.get(origin_of(t))) is not None}
    external = {t: named.part(boxes[t]) for t in sources if (named := abstract.external.get(origin_of(t)))}
    graph = Graph(abstract.name, tuple(blocks), tensors, data, external)
    return MaterializedGraph(graph, boxes, explicit.mesh_shape)


def part_of(value: np.ndarray, box: ZRange) -> np.ndarray:
    """Return the part of an array in a box."""
    return value[tuple(map(slice, box.start, box.end))]


def least_nodes(explicit: ExplicitGraph) -> int:
    """Compute a lower bound of the nodes: a shard per device and block, a node per term of each reduction."""
    mesh_shape = explicit.mesh_shape
    total = 0
    for slot in explicit.slots:
        index = slot.step.index
        total += int((index[..., 1] > index[..., 0]).all(axis=1).sum())
        for copy in slot.issued:
            groups = [mesh_shape.size_of(names) for _, names in (*copy.plan.scatter, *copy.plan.reduce)]
            size = explicit.buffers[copy.source].boxes
            if groups and int(np.prod(size[0, :, 1] - size[0, :, 0])) >= mesh_shape.device_count:
                total += mesh_shape.device_count * sum(groups)
    return total


class ExplicitNodes:
    """The nodes of an expansion in execution order, written slot by slot as they are taken.

    Local tensors are known (`tensors`, `devices`) from their node to the end of the slot that reads them last, so that
    the memory needed does not grow with the number of slots.

    Raises:
        ValueError: a block has no index points at all.
        TooManyNodes: while they are taken, there are more than `limit`.
    """

    def __init__(self, explicit: ExplicitGraph, limit: int | None = None) -> None:
        explicit.check_no_rounds("an explicit graph")
        for block in explicit.abstract.blocks:
            if block.signature is not None and block.signature.index_range.is_empty:
                raise ValueError(
                    f"block {block.site!r} ({block.operator}) has no index points, so it has no shards: "
                    "fold tensors without elements away first"
                )
        self.explicit, self.abstract = explicit, explicit.abstract
        self.writer = NodeWriter(limit)
        self.local: dict[str, Local] = {}
        # By site, the shards of blocks that others wait for.
        self.awaited: dict[str, list[str]] = {site: [] for b in self.abstract.blocks for site in b.after}

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """The local tensors that may still be read."""
        return self.writer.tensors

    @property
    def devices(self) -> Mapping[str, int]:
        """The devices of the local tensors that may still be read."""
        return self.writer.devices

    def __iter__(self) -> Iterator[Node]:
        for block in self.abstract.sources:
            self.writer.site = block.site
            self._write_source(block)
            yield from self.writer.take()
        slots = self.explicit.slots
        released = self._released()
        for k, slot in enumerate(slots):
            for copy in slot.issued:
                self.writer.site = slots[copy.wait].step.site
                self.local[copy.result] = self._write_copy(copy.result, copy.source, copy.plan)
            self.writer.site = slot.step.site
            self._write_step(slot.step)
            yield from self.writer.take()
            for key in released.get(k, ()):
                self.local.pop(key, None)
                self.writer.release(key)

    def _released(self) -> dict[int, list[str]]:
        """Return the buffers that nothing reads any more, by the slot after which that is so."""
        last: dict[str, int] = {}
        for k, slot in enumerate(self.explicit.slots):
            last.update((copy.source, k) for copy in slot.issued)
            last.update((read.buffer, k) for read in slot.step.reads)
            last.update((f"{tensor}{NOTHING}", k) for tensor in self.abstract.by_site[slot.step.site].inputs)
            last.update((site, k) for site in slot.step.outputs)
        released: dict[int, list[str]] = {}
        for key, k in last.items():
            released.setdefault(k, []).append(key)
        return released

    def _write_source(self, block: Block) -> None:
        buffer = self.explicit.buffers[self.explicit.sources[block.outputs[0]]]
        for device in range(self.explicit.mesh_shape.device_count):
            box = as_range(buffer.boxes[device])
            if not box.is_empty:
                self._write_shard(block, device, box, ())

    def _write_copy(self, key: str, source: str, plan: CopyPlan) -> Local:
        shape = self.abstract.tensors[self.explicit.buffers[source].tensor].shape
        return write_copy(self.writer, key, plan, shape, self.explicit.mesh_shape, self.local[source])

    def _write_step(self, step: ComputeStep) -> None:
        block = self.abstract.by_site[step.site]
        # A sequence point is one for all devices: whoever comes after it comes after all that it waits for.
        devices = 1 if block.operator == "sequence_point" else self.explicit.mesh_shape.device_count
        for device in range(devices):
            index = FIXED if block.signature is None else as_range(step.index[device])
            if index.is_empty:
                self._write_identity(block, device)
                continue
            inputs = [self._read(t, r, device) for t, r in zip(block.inputs, step.reads, strict=True)]
            self._write_shard(block, device, index, tuple(inputs))

    def _outputs(self, block: Block, device: int) -> list[tuple[Tensor, ZRange]]:
        """Return the local output tensors of a block on one device, with their boxes."""
        result = []
        for site in block.outputs:
            box = as_range(self.explicit.buffers[site].boxes[device])
            tensor = Tensor(
                f"{site}@{device}",
                box.shape,
                self.abstract.tensors[site].dtype,
                self.abstract.tensors[site].names,
            )
            result.append((tensor, box))
        return result

    def _write_shard(self, block: Block, device: int, index: ZRange, inputs: tuple[str, ...]) -> None:
        outputs = self._outputs(block, device)
        for site, (tensor, _) in zip(block.outputs, outputs, strict=True):
            self.local.setdefault(site, {})[device] = tensor.site
        names = tuple(tensor.site for tensor, _ in outputs)
        site, after = f"{block.site}@{device}", self._after(block)
        shard = Block(site, block.definition, inputs, names, index, device, after, block.repetition)
        self.writer.add(shard, [tensor for tensor, _ in outputs], [box for _, box in outputs], block.outputs)
        if block.site in self.awaited:
            self.awaited[block.site].append(site)

    def _after(self, block: Block) -> tuple[str, ...]:
        """Return all shards of the blocks that `block` waits for."""
        return tuple(shard for site in block.after for shard in self.awaited[site])

    def _write_identity(self, block: Block, device: int) -> None:
        """Write the identity as a reduction share of a device without index points; other outputs are empty there."""
        for site, (tensor, box) in zip(block.outputs, self._outputs(block, device), strict=True):
            monoid = self.explicit.buffers[site].spec.monoid
            if not box.is_empty and monoid is not None:
                held = self.writer.constant(site, device, box, tensor.dtype, monoid)
                self.local.setdefault(site, {})[device] = held

    def _read(self, tensor: str, read: InputRead, device: int) -> str:
        """Write the local tensor that is exactly what a shard reads: a slice of a buffer, then the program's views."""
        wanted = as_range(read.wanted[device])
        if wanted.is_empty:
            dtype = self.abstract.tensors[tensor].dtype
            return self.writer.constant(f"{tensor}{NOTHING}", device, wanted, dtype)
        chain = []
        while (producer := self.abstract.producers[tensor]).is_view:
            chain.append((producer, wanted))
            assert producer.signature is not None
            wanted = producer.signature.inputs[0].project(wanted)
            tensor = producer.inputs[0]
        local = self.local[read.buffer][device]
        local = self.writer.slice(read.buffer, device, local, wanted)
        for view, index in reversed(chain):
            local = self._write_view(view, device, local, index)
        return local

    def _write_view(self, view: Block, device: int, local: str, index: ZRange) -> str:
        def write(buffer: str) -> str:
            (tensor,) = view.outputs
            site, name = self.writer.free(view.site, device), self.writer.free(tensor, device)
            whole = self.abstract.tensors[tensor]
            made = Tensor(name, index.shape, whole.dtype, whole.names)
            shard = Block(
                site, view.definition, (local,), (name,), index, device, self._after(view), view.repetition
            )
            self.writer.add(shard, (made,), (index,), (buffer,))
            if view.site in self.awaited:
                self.awaited[view.site].append(site)
            return name

        return self.writer.once(local, (device, view.site, index), write)
