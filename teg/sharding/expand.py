"""Expansion: a graph with placements on a mesh becomes an explicit program in execution order.

`expand` decides nothing new: specs follow from strategies, copies from specs, slots from the schedule order
and the prefetch genes. The result is stored as arrays over devices; `teg.sharding.materialize` writes it
out as nodes on demand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tapestry.teg.brief import brief, counted, shown
from tapestry.teg.graph import Block, Definition, Graph
from tapestry.teg.issues import listing
from tapestry.teg.sharding.boundary import with_boundary
from tapestry.teg.sharding.check import check_placements
from tapestry.teg.sharding.copies import CopyPlan, local_copy, plan_copy
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements, scheduled_blocks
from tapestry.teg.sharding.spec import Spec, boxes
from tapestry.teg.sharding.strategy import consumer_spec, index_boxes, producer_spec, read_of
from tapestry.teg.views import ViewMap, root_of


@dataclass(frozen=True, eq=False)
class Buffer:
    """One tensor in one spec on all devices: `boxes` `(devices, rank, 2)`; empty boxes are held by no device.

    `layout` is the text of the physical layout in which the devices store them; empty for their default.
    """

    key: str
    tensor: str
    spec: Spec
    boxes: np.ndarray
    dtype: str
    layout: str = ""


@dataclass(frozen=True, eq=False)
class CopyStep:
    """A copy that makes buffer `result` from buffer `source`, issued at slot `issue`, waited for at slot `wait`."""

    result: str
    source: str
    plan: CopyPlan
    issue: int
    wait: int


@dataclass(frozen=True, eq=False)
class InputRead:
    """A read of a block: buffer, view of its tensor, and per device the range of the view, `(devices, rank, 2)`.

    `part` is the box of the tensor behind that range, as the block's consumer spec states it.
    """

    buffer: str
    view: ViewMap
    wanted: np.ndarray
    part: np.ndarray


@dataclass(frozen=True, eq=False)
class ComputeStep:
    """One block on all devices: `index` `(devices, dims, 2)` is the part of its index space each computes."""

    site: str
    definition: Definition
    index: np.ndarray
    reads: tuple[InputRead, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Slot:
    """Copies issued (in order), copies waited for, then one block."""

    issued: tuple[CopyStep, ...]
    waited: tuple[str, ...]
    step: ComputeStep


@dataclass(frozen=True, eq=False)
class ExplicitGraph:
    """An expanded program: buffers by key, slots in execution order, sources by tensor site."""

    abstract: Graph
    mesh_shape: MeshShape
    buffers: Mapping[str, Buffer]
    sources: Mapping[str, str]
    slots: tuple[Slot, ...]

    def __repr__(self) -> str:
        sizes = (counted(len(self.slots), "slot"), counted(len(self.buffers), "buffer"))
        return shown("ExplicitGraph", (repr(brief(self.abstract.name)), *sizes, str(self.mesh_shape.axes)))


def expand(graph: Graph, placements: Placements, mesh_shape: MeshShape) -> ExplicitGraph:
    """Expand `graph` on the mesh, or on the submesh that the placements use (`ExplicitGraph.mesh_shape`).

    Raises:
        ValueError: a placement names an unknown block or sub-axis, splits a dimension that may not be split,
            or uses a sub-axis twice; all issues of `check_placements` are listed.
    """
    issues = check_placements(graph, placements, mesh_shape)
    if issues:
        raise ValueError(listing("the placements do not fit the graph and the mesh", issues))
    return _Expansion(graph, with_boundary(graph, placements), mesh_shape.part(placements.devices)).run()


@dataclass
class _Segment:
    """A copy shared by the readers since its last cut."""

    key: str
    needed: Spec
    layout: str
    source: str
    plan: CopyPlan
    issue: int
    wait: int
    position: tuple[int, int]
    last_read: int


@dataclass
class _Expansion:
    graph: Graph
    placements: Placements
    mesh_shape: MeshShape
    buffers: dict[str, Buffer] = field(default_factory=dict)
    made_at: dict[str, int] = field(default_factory=dict)
    segments: dict[str, list[_Segment]] = field(default_factory=dict)

    def run(self) -> ExplicitGraph:
        sources = {}
        for block in self.graph.sources:
            tensor = block.outputs[0]
            sources[tensor] = self._make(block, self.placements.of(block), slot=-1)[0]
        blocks = scheduled_blocks(self.graph, self.placements.schedule_order)
        steps = [self._step(slot, block) for slot, block in enumerate(blocks)]
        issued: list[list[_Segment]] = [[] for _ in blocks]
        waited: list[list[_Segment]] = [[] for _ in blocks]
        for segments in self.segments.values():
            for s in segments:
                issued[s.issue].append(s)
                waited[s.wait].append(s)
        slots = []
        for k, step in enumerate(steps):
            due = sorted(issued[k], key=lambda s: s.position)
            waits = sorted(waited[k], key=lambda s: s.position)
            copies = tuple(CopyStep(s.key, s.source, s.plan, s.issue, s.wait) for s in due)
            slots.append(Slot(copies, tuple(s.key for s in waits), step))
        return ExplicitGraph(self.graph, self.mesh_shape, self.buffers, sources, tuple(slots))

    def _make(self, block: Block, placement: Placement, slot: int) -> tuple[str, ...]:
        keys = []
        for k, site in enumerate(block.outputs):
            tensor = self.graph.tensors[site]
            spec = producer_spec(block.signature, k, len(tensor.shape), placement.strategy)
            part, layout = boxes(spec, tensor.shape, self.mesh_shape), placement.layout_of(k)
            self.buffers[site] = Buffer(site, site, spec, part, tensor.dtype, layout)
            self.made_at[site] = slot
            keys.append(site)
        return tuple(keys)

    def _step(self, slot: int, block: Block) -> ComputeStep:
        placement = self.placements.of(block)
        index = index_boxes(block.signature, placement.strategy, self.mesh_shape)
        reads = []
        for k, tensor in enumerate(block.inputs):
            read = read_of(self.graph, block.site, k)
            shape = self.graph.tensors[read.root].shape
            needed = consumer_spec(read.rows, shape, block.signature, placement.strategy)
            buffer = self._obtain(slot, placement, k, read.root, needed)
            _, view = root_of(self.graph, tensor)
            part = boxes(needed, shape, self.mesh_shape)
            reads.append(InputRead(buffer, view, view_ranges(block, k, view.shape, index), part))
        outputs = self._make(block, placement, slot)
        return ComputeStep(block.site, block.definition, index, tuple(reads), outputs)

    def _obtain(self, slot: int, placement: Placement, position: int, tensor: str, needed: Spec) -> str:
        """Return the buffer from which a block reads this input; make or share a copy where the root will not do."""
        root = self.buffers[tensor]
        shape = self.graph.tensors[tensor].shape
        layout = placement.read_layout_of(position)
        plan = plan_copy(root.spec, needed, shape, self.mesh_shape)
        if plan is None:
            if layout == root.layout:
                return root.key
            plan = local_copy(root.spec, needed)
        segments = self.segments.setdefault(tensor, [])
        part = boxes(needed, shape, self.mesh_shape)
        same, shared = self._shared(segments, needed, layout, part)
        if shared and not (placement.regather_of(position) and shared.last_read < slot):
            shared.last_read = slot
            return shared.key
        earliest = self.made_at[tensor] + 1
        if same:
            earliest = max(earliest, same[-1].last_read + 1)
        issue = max(earliest, slot - placement.prefetch_of(position), 0)
        key = f"{tensor}>{needed}{layout}" + (f"~{len(same)}" if same else "")
        segments.append(_Segment(key, needed, layout, root.key, plan, issue, slot, (slot, position), slot))
        self.buffers[key] = Buffer(key, tensor, needed, part, root.dtype, layout)
        return key

    def _shared(
        self, segments: list[_Segment], needed: Spec, layout: str, part: np.ndarray
    ) -> tuple[list[_Segment], _Segment | None]:
        """Return the copies in this spec and layout, and the one to share: the last of them, or the last around it."""
        alike = [s for s in segments if s.layout == layout]
        same = [s for s in alike if s.needed == needed]
        if same:
            return same, same[-1]
        around = (s for s in reversed(alike) if lies_inside(part, self.buffers[s.key].boxes))
        return same, next(around, None)


def lies_inside(part: np.ndarray, whole: np.ndarray) -> bool:
    """Return whether on every device the box of `part` lies inside that of `whole`, both `(devices, rank, 2)`.

    An empty box lies inside any.
    """
    empty = (part[:, :, 1] <= part[:, :, 0]).any(axis=1)
    inside = ((part[:, :, 0] >= whole[:, :, 0]) & (part[:, :, 1] <= whole[:, :, 1])).all(axis=1)
    return bool((empty | inside).all())


def view_ranges(block: Block, position: int, shape: tuple[int, ...], index: np.ndarray) -> np.ndarray:
    """Compute the range of input `position` each device reads, clipped to the tensor, `(devices, rank, 2)`."""
    result = np.zeros((len(index), len(shape), 2), dtype=np.int64)
    result[:, :, 1] = shape
    if block.signature is None:
        return result
    empty = np.any(index[:, :, 1] <= index[:, :, 0], axis=1)
    rows = block.signature.inputs[position]
    for k, (offset, extent, size) in enumerate(zip(rows.start.offset, rows.shape, shape, strict=True)):
        coefficients = np.array(rows.start.matrix[k], dtype=np.int64)
        first, last = coefficients * index[:, :, 0], coefficients * (index[:, :, 1] - 1)
        start = np.clip(np.minimum(first, last).sum(axis=1) + offset, 0, size)
        end = np.clip(np.maximum(first, last).sum(axis=1) + offset + extent, start, size)
        result[:, k, 0] = start
        result[:, k, 1] = np.where(empty, start, end)
    return result
