"""An expansion written out as nodes: one block per shard on its device, and the blocks that move elements between.

A *shard* is a block of the abstract graph on one device: it keeps its definition, says by `index` which part
of the index space it computes (the empty box of rank 0 for a fixed block) and reads and makes local tensors.
Views are shards too, written where they are read. All other blocks have no `index`; they slice, join and
combine local tensors and hold no operator of the program.

Sites: the shard of block `b` on device 3 is `b@3` (a second one of a view `b@3.1`), and so are tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tapestry.teg.graph import Block, Graph, Tensor
from tapestry.teg.sharding.collect import Local, as_range, write_copy
from tapestry.teg.sharding.copies import CopyPlan
from tapestry.teg.sharding.expand import ComputeStep, ExplicitGraph, InputRead
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.nodes import NodeWriter, too_large
from tapestry.teg.zspace import ZRange

NODE_LIMIT = 2_000_000
FIXED = ZRange((), ())


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
        ValueError: they are more than `limit`, or a block has no index points at all.
    """
    for block in explicit.abstract.blocks:
        if block.signature is not None and block.signature.index_range.is_empty:
            raise ValueError(
                f"block {block.site!r} ({block.operator}) has no index points, so it has no shards: "
                "fold tensors without elements away first"
            )
    least = _least_nodes(explicit)
    if least > limit:
        raise too_large(limit, least)
    return _Materialization(explicit, limit).run()


def _least_nodes(explicit: ExplicitGraph) -> int:
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


class _Materialization:
    def __init__(self, explicit: ExplicitGraph, limit: int) -> None:
        self.explicit, self.abstract = explicit, explicit.abstract
        self.writer = NodeWriter(limit)
        self.local: dict[str, Local] = {}
        self.views: dict[tuple[int, str, str, ZRange], str] = {}
        self.data: dict[str, np.ndarray] = {}

    def run(self) -> MaterializedGraph:
        for block in self.abstract.sources:
            self._write_source(block)
        for slot in self.explicit.slots:
            for copy in slot.issued:
                self.local[copy.result] = self._write_copy(copy.result, copy.source, copy.plan)
            self._write_step(slot.step)
        writer = self.writer
        graph = Graph(self.abstract.name, tuple(writer.blocks), writer.tensors, self.data)
        return MaterializedGraph(graph, writer.boxes, self.explicit.mesh_shape)

    def _write_source(self, block: Block) -> None:
        tensor = block.outputs[0]
        buffer = self.explicit.buffers[self.explicit.sources[tensor]]
        value = self.abstract.data.get(tensor)
        for device in range(self.explicit.mesh_shape.device_count):
            box = as_range(buffer.boxes[device])
            if box.is_empty:
                continue
            self._write_shard(block, device, box, ())
            if value is not None:
                self.data[f"{tensor}@{device}"] = value[tuple(map(slice, box.start, box.end))]

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
        shard = Block(site, block.definition, inputs, names, index, device, after)
        self.writer.add(shard, [tensor for tensor, _ in outputs], [box for _, box in outputs])

    def _after(self, block: Block) -> tuple[str, ...]:
        """Return all shards of the blocks that `block` waits for."""
        devices = range(self.explicit.mesh_shape.device_count)
        shards = (f"{site}@{device}" for site in block.after for device in devices)
        return tuple(s for s in shards if self.writer.knows(s))

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
            return self.writer.constant(f"{tensor}.nothing", device, wanted, dtype)
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
        key = (device, view.site, local, index)
        if key not in self.views:
            (tensor,) = view.outputs
            site, name = self.writer.free(view.site, device), self.writer.free(tensor, device)
            whole = self.abstract.tensors[tensor]
            made = Tensor(name, index.shape, whole.dtype, whole.names)
            after = self._after(view)
            shard = Block(site, view.definition, (local,), (name,), index, device, after)
            self.writer.add(shard, (made,), (index,))
            self.views[key] = name
        return self.views[key]
