"""The size of an explicit graph's document, estimated without writing it: nodes, and bytes of text.

Shards are counted per device. Of copies alike, as those of equal layers are, the nodes of one are written and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tapestry.teg.document_members import block_member, compact, definition_member, tensor_member
from tapestry.teg.graph import Block, Definition, Tensor
from tapestry.teg.sharding.collect import as_range, write_copy
from tapestry.teg.sharding.copies import CopyPlan
from tapestry.teg.sharding.expand import ComputeStep, CopyStep, ExplicitGraph
from tapestry.teg.sharding.explicit_parts import GraphPart
from tapestry.teg.sharding.materialize import FIXED, NODE_LIMIT, least_nodes
from tapestry.teg.sharding.nodes import Node, NodeWriter, TooManyNodes

COPY_NODES = 5000  # of one copy that are written to be counted
DEFINITION_NUMBER = 1000


class ExplicitSize(NamedTuple):
    """The estimated number of nodes of an explicit graph, and of bytes of its document."""

    nodes: int
    size_bytes: int


def explicit_size(explicit: ExplicitGraph, part: GraphPart) -> ExplicitSize:
    """Estimate the size of the document of a part of an explicit graph.

    Raises:
        TooManyNodes: the whole graph has more nodes than are ever written.
        PartError: a device, layer or block of the part does not exist.
        ValueError: the plan has rounds.
    """
    explicit.check_no_rounds("an explicit graph")
    least = least_nodes(explicit)
    if least > NODE_LIMIT:
        raise TooManyNodes(NODE_LIMIT, least)
    return _Estimate(explicit, part).run()


@dataclass
class _Estimate:
    explicit: ExplicitGraph
    part: GraphPart
    nodes: int = 0
    size_bytes: int = 0
    # By what makes copies alike: the number of nodes per device, and the mean bytes of one.
    copies: dict[tuple[CopyPlan, tuple[int, ...]], tuple[np.ndarray, float]] = field(default_factory=dict)
    slices: set[tuple[str, str, bytes]] = field(default_factory=set)
    definitions: set[Definition] = field(default_factory=set)

    def run(self) -> ExplicitSize:
        explicit, devices = self.explicit, self.explicit.mesh_shape.device_count
        sites = self.part.sites(explicit.abstract, devices)
        self.chosen = np.array([self.part.has(device) for device in range(devices)])
        for block in explicit.abstract.sources:
            if block.site in sites:
                boxes = explicit.buffers[explicit.sources[block.outputs[0]]].boxes
                self._add(_nonempty(boxes), self._shard_bytes(block, boxes))
        slots = explicit.slots
        for slot in slots:
            for copy in slot.issued:
                if slots[copy.wait].step.site in sites:
                    self._add(*self._copy(copy))
            if slot.step.site in sites:
                self._step(slot.step)
        self.size_bytes += sum(map(_definition_bytes, self.definitions))
        return ExplicitSize(self.nodes, self.size_bytes)

    def _add(self, counts: np.ndarray, mean_bytes: float) -> None:
        """Count nodes by their number per device, `(devices,)`."""
        count = int(counts[self.chosen].sum())
        self.nodes += count
        self.size_bytes += round(count * mean_bytes)

    def _step(self, step: ComputeStep) -> None:
        explicit, block = self.explicit, self.explicit.abstract.by_site[step.site]
        is_point = block.operator == "sequence_point"
        index = step.index[:1] if is_point else step.index
        counts = np.zeros(len(self.chosen), np.int64)
        counts[: len(index)] = _nonempty(index)
        shard_bytes = self._shard_bytes(block, index)
        self._add(counts, shard_bytes)
        for tensor, read in zip(block.inputs, step.reads, strict=True):
            key = (read.buffer, tensor, read.wanted.tobytes())
            if key in self.slices:
                continue
            self.slices.add(key)
            wanted = _nonempty(read.wanted) & counts.astype(bool)
            producer = explicit.abstract.producers[tensor]
            while producer.is_view:
                self._add(wanted, shard_bytes)
                producer = explicit.abstract.producers[producer.inputs[0]]
            # Through views, what is read is compared as a whole: it is one part of the buffer or another.
            held = explicit.buffers[read.buffer].boxes
            self._add(wanted & (read.part != held).any(axis=(1, 2)), shard_bytes)

    def _shard_bytes(self, block: Block, index: np.ndarray) -> float:
        """Return the bytes of the shard of a block on the device in the middle."""
        self.definitions.add(block.definition)
        device = len(index) // 2
        box = FIXED if block.signature is None else as_range(index[device])
        names = tuple(f"{tensor}@{device}.1" for tensor in block.inputs)
        outputs = []
        for site in block.outputs:
            whole = self.explicit.abstract.tensors[site]
            held = (
                as_range(self.explicit.buffers[site].boxes[device]).shape
                if not block.is_view
                else whole.shape
            )
            outputs.append(Tensor(f"{site}@{device}", held, whole.dtype, whole.names))
        made = tuple(tensor.site for tensor in outputs)
        return _node_bytes(
            Block(f"{block.site}@{device}", block.definition, names, made, box, device), outputs
        )

    def _copy(self, copy: CopyStep) -> tuple[np.ndarray, float]:
        source = self.explicit.buffers[copy.source]
        whole = self.explicit.abstract.tensors[source.tensor]
        key = (copy.plan, whole.shape)
        if key not in self.copies:
            self.copies[key] = self._written_copy(copy, whole)
        return self.copies[key]

    def _written_copy(self, copy: CopyStep, whole: Tensor) -> tuple[np.ndarray, float]:
        """Write the nodes of a copy aside; return their number per device and the mean bytes of one."""
        writer, local = NodeWriter(COPY_NODES), {}
        for device, box in enumerate(map(as_range, self.explicit.buffers[copy.source].boxes)):
            if not box.is_empty:
                local[device] = writer.hold(copy.source, device, box, whole.dtype)
        mesh_shape = self.explicit.mesh_shape
        try:
            write_copy(writer, copy.result, copy.plan, whole.shape, mesh_shape, local)
        except TooManyNodes:
            return self._large_copy(copy, writer.take())
        nodes = writer.take()
        self.definitions.update(n.block.definition for n in nodes if self.chosen[n.block.device or 0])
        counts = np.bincount([node.block.device or 0 for node in nodes], minlength=mesh_shape.device_count)
        return counts, _mean_bytes(nodes)

    def _large_copy(self, copy: CopyStep, some: Sequence[Node]) -> tuple[np.ndarray, float]:
        """Estimate a copy of which only some nodes were written: two per term and per pair of devices at most."""
        mesh_shape, plan = self.explicit.mesh_shape, copy.plan
        terms = sum(mesh_shape.size_of(names) for _, names in (*plan.scatter, *plan.reduce))
        most = 2 * (terms + (mesh_shape.device_count if plan.fetch else 0))
        definitions = {node.block.definition for node in some}
        defined = sum(map(_definition_bytes, definitions)) / len(some)
        return np.full(mesh_shape.device_count, most), _mean_bytes(some) + defined


def _nonempty(boxes: np.ndarray) -> np.ndarray:
    """Return which boxes of `(devices, rank, 2)` have points, `(devices,)`."""
    return np.asarray((boxes[..., 1] > boxes[..., 0]).all(axis=1))


def _node_bytes(block: Block, outputs: Sequence[Tensor]) -> int:
    members = [
        block_member(block, DEFINITION_NUMBER, "$"),
        *(tensor_member(tensor, "$") for tensor in outputs),
    ]
    return sum(len(compact(member)) + len(",\n ") for member in members)


def _mean_bytes(nodes: Sequence[Node]) -> float:
    return sum(_node_bytes(node.block, node.outputs) for node in nodes) / max(len(nodes), 1)


def _definition_bytes(definition: Definition) -> int:
    return len(compact(definition_member(definition, "$")))
