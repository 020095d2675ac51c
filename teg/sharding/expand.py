"""Expansion: a graph with placements on a mesh becomes an explicit program in execution order.

`expand` decides nothing new: specs follow from strategies, copies from specs, slots from the schedule order
and the prefetch genes. It follows the conventions "chosen boundaries" (sources and sinks) and "shared copies" of
`docs/sharding.md`. The result is stored as arrays over devices; `teg.sharding.materialize` writes it
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
from tapestry.teg.sharding.partition import same_boxes
from tapestry.teg.sharding.placement import Placement, Placements, scheduled_blocks
from tapestry.teg.sharding.result_cache import ResultCache
from tapestry.teg.sharding.sharded_block import NumberedForm, ShardedBlock, forms_of, shard_block
from tapestry.teg.sharding.spec import Spec
from tapestry.teg.views import ViewMap


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


def expand(
    graph: Graph, placements: Placements, mesh_shape: MeshShape, cache: ResultCache | None = None
) -> ExplicitGraph:
    """Expand `graph` on the mesh, or on the submesh that the placements use (`ExplicitGraph.mesh_shape`).

    `cache` is one of that mesh or submesh, which keeps what other plans on it have in common with this one.

    Raises:
        ValueError: a placement names an unknown block or sub-axis, splits a dimension that may not be split,
            or uses a sub-axis twice; all issues of `check_placements` are listed.
    """
    issues = check_placements(graph, placements, mesh_shape, cache)
    if issues:
        raise ValueError(listing("the placements do not fit the graph and the mesh", issues))
    used = mesh_shape.part(placements.devices)
    cache = ResultCache(used) if cache is None else cache
    if cache.mesh_shape != used:
        raise ValueError(
            f"the cache is of a mesh with axes {cache.mesh_shape.axes}, the plan uses {used.axes}"
        )
    return _Expansion(graph, with_boundary(graph, placements), cache, forms_of(graph, cache)).run()


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
    cache: ResultCache
    forms: Mapping[str, NumberedForm]
    buffers: dict[str, Buffer] = field(default_factory=dict)
    made_at: dict[str, int] = field(default_factory=dict)
    segments: dict[str, list[_Segment]] = field(default_factory=dict)

    def run(self) -> ExplicitGraph:
        sources = {}
        for block in self.graph.sources:
            tensor = block.outputs[0]
            placement = self.placements.of(block)
            sharded = shard_block(self.forms[block.site], placement.strategy, self.cache)
            sources[tensor] = self._make(block, placement, sharded, slot=-1)[0]
        order = self.placements.schedule_order
        blocks = self.cache.known(("order", self.graph, order), lambda: scheduled_blocks(self.graph, order))
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
        return ExplicitGraph(self.graph, self.cache.mesh_shape, self.buffers, sources, tuple(slots))

    def _make(self, block: Block, placement: Placement, sharded: ShardedBlock, slot: int) -> tuple[str, ...]:
        for k, (site, (spec, part)) in enumerate(zip(block.outputs, sharded.written, strict=True)):
            layout = placement.layout_of(k)
            self.buffers[site] = Buffer(site, site, spec, part, self.graph.tensors[site].dtype, layout)
            self.made_at[site] = slot
        return block.outputs

    def _step(self, slot: int, block: Block) -> ComputeStep:
        placement, numbered = self.placements.of(block), self.forms[block.site]
        sharded = shard_block(numbered, placement.strategy, self.cache)
        reads = []
        for k, (tensor, form, read) in enumerate(
            zip(numbered.roots, numbered.form.reads, sharded.reads, strict=True)
        ):
            buffer = self._obtain(slot, placement, k, tensor, read.needed, read.part)
            reads.append(InputRead(buffer, form.view, read.wanted, read.part))
        outputs = self._make(block, placement, sharded, slot)
        return ComputeStep(block.site, block.definition, sharded.index_boxes, tuple(reads), outputs)

    def _obtain(
        self, slot: int, placement: Placement, position: int, tensor: str, needed: Spec, part: np.ndarray
    ) -> str:
        """Return the buffer from which a block reads this input; make or share a copy where the root will not do."""
        root = self.buffers[tensor]
        shape = self.graph.tensors[tensor].shape
        layout = placement.read_layout_of(position)
        plan = plan_copy(root.spec, needed, shape, self.cache.mesh_shape)
        if plan is None:
            if layout == root.layout:
                return root.key
            plan = local_copy(root.spec, needed)
        segments = self.segments.setdefault(tensor, [])
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
        """Return the copies in this spec and layout, and the one to share: the last of them, or the last around it.

        An exact part shares a copy of just this part.
        """
        alike = [s for s in segments if s.layout == layout]
        same = [s for s in alike if s.needed == needed]
        if same:
            return same, same[-1]
        serves = is_all_of if needed.exact else lies_inside
        return same, next((s for s in reversed(alike) if serves(part, self.buffers[s.key].boxes)), None)


def is_all_of(part: np.ndarray, whole: np.ndarray) -> bool:
    """Return whether on every device the box of `part` is that of `whole`, `(devices, rank, 2)`; or both are empty."""
    return bool(same_boxes(part, whole).all())


def lies_inside(part: np.ndarray, whole: np.ndarray) -> bool:
    """Return whether on every device the box of `part` lies inside that of `whole`, both `(devices, rank, 2)`.

    An empty box lies inside any.
    """
    empty = (part[:, :, 1] <= part[:, :, 0]).any(axis=1)
    inside = ((part[:, :, 0] >= whole[:, :, 0]) & (part[:, :, 1] <= whole[:, :, 1])).all(axis=1)
    return bool((empty | inside).all())
