"""Expansion: a graph with placements on a mesh becomes an explicit program in execution order.

`expand` decides nothing new: specs follow from strategies, copies from specs, slots from the schedule order
and the prefetch genes. It follows the conventions "chosen boundaries" (sources and sinks) and "shared copies" of
`docs/sharding.md`. The result is stored as arrays over devices; `teg.sharding.materialize` writes it
out as nodes on demand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tapestry.teg.brief import brief, counted, shown
from tapestry.teg.graph import Block, Definition, Graph
from tapestry.teg.issues import listing
from tapestry.teg.sharding.boundary import with_boundary
from tapestry.teg.sharding.check import check_placements
from tapestry.teg.sharding.copies import CopyPlan, local_copy, plan_copy
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.partition import same_boxes
from tapestry.teg.sharding.placement import Placements, scheduled_blocks
from tapestry.teg.sharding.result_cache import ResultCache
from tapestry.teg.sharding.rounds import TimeAxis, time_axis
from tapestry.teg.sharding.sharded_block import (
    NumberedForm,
    ShardedBlock,
    ShardedRead,
    forms_of,
    shard_block,
    shard_in_round,
)
from tapestry.teg.sharding.spec import Spec
from tapestry.teg.sharding.stages import StageLayout, check_one_stage
from tapestry.teg.sharding.turns import Turn, turn_table, turns_of
from tapestry.teg.views import ViewMap


@dataclass(frozen=True, eq=False)
class Buffer:
    """One tensor in one spec on all devices: `boxes` `(devices, rank, 2)`; empty boxes are held by no device.

    `layout` is the text of the physical layout in which the devices store them; empty for their default. What a round
    has of a tensor is a slice of `shape`, whose first element is at `origin`; its boxes are those in the whole tensor.
    A term is of a `round`, all else of none (0). The devices are those of its `stage`.
    """

    key: str
    tensor: str
    spec: Spec
    boxes: np.ndarray
    dtype: str
    shape: tuple[int, ...]
    origin: tuple[int, ...]
    layout: str = ""
    stage: int = 0
    round: int = 0


@dataclass(frozen=True, eq=False)
class CopyStep:
    """A copy that makes buffer `result` from buffer `source`, issued at slot `issue`, waited for at slot `wait`.

    Between stages, it is issued when the turn that made its source ends, and the turn that needs it waits for it first
    of all. Both stages take part when it is issued, and neither goes on past the slot that waits for it before it ends.
    """

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
    """One block on all devices of a stage: `index` `(devices, dims, 2)` is the part of its index space each computes.

    A block in a loop has one step per round. If it `accumulates`, by a monoid of that name, all of them write the same
    buffers: the first one fills them, and each later one combines what it makes with what is there.
    """

    site: str
    definition: Definition
    index: np.ndarray
    reads: tuple[InputRead, ...]
    outputs: tuple[str, ...]
    round: int = 0
    accumulates: str = ""
    stage: int = 0


@dataclass(frozen=True, eq=False)
class Slot:
    """Copies issued (in order), copies waited for, then one block."""

    issued: tuple[CopyStep, ...]
    waited: tuple[str, ...]
    step: ComputeStep


@dataclass(frozen=True, eq=False)
class ExplicitGraph:
    """An expanded program: buffers by key, slots in execution order, the tensors of sources by the keys of buffers.

    The key of a source's buffer is the tensor, but where rounds have slices of it, each in a buffer of its own.
    `mesh_shape` is that of the devices of one stage, of which there is one unless the plan has `stages`.
    """

    abstract: Graph
    mesh_shape: MeshShape
    buffers: Mapping[str, Buffer]
    sources: Mapping[str, str]
    slots: tuple[Slot, ...]
    stages: StageLayout | None = None

    @property
    def axes(self) -> tuple[tuple[str, int], ...]:
        """The axes of the mesh on which the program runs: the one in which its stages lie."""
        return self.mesh_shape.axes if self.stages is None else self.stages.mesh_shape.axes

    @property
    def device_count(self) -> int:
        """The number of devices that run the program."""
        return self.mesh_shape.device_count if self.stages is None else self.stages.device_count

    def rows(self, stage: int) -> slice:
        """Return where the devices of a stage stand among those that run the program."""
        return slice(0, self.device_count) if self.stages is None else self.stages.rows(stage)

    def check_no_rounds(self, what: str) -> None:
        """Check that no block runs in rounds, and there is one stage.

        Raises:
            ValueError: it is otherwise, which `what` does not support.
        """
        self.check_one_stage(what)
        if any(slot.step.round for slot in self.slots):
            raise ValueError(f"{what} does not support plans with rounds (micro-batches) yet")

    def check_one_stage(self, what: str) -> None:
        """Check that the program has one stage.

        Raises:
            ValueError: it has several, which `what` does not support.
        """
        check_one_stage(self.stages, what)

    def __repr__(self) -> str:
        sizes = (counted(len(self.slots), "slot"), counted(len(self.buffers), "buffer"))
        return shown("ExplicitGraph", (repr(brief(self.abstract.name)), *sizes, str(self.mesh_shape.axes)))


def expand(
    graph: Graph, placements: Placements, mesh_shape: MeshShape, cache: ResultCache | None = None
) -> ExplicitGraph:
    """Expand `graph` on the mesh, or on the submesh that the placements use (`ExplicitGraph.mesh_shape`).

    `cache` is one of that mesh or submesh, which keeps what other plans on it have in common with this one.

    Raises:
        ScheduleError: stages wait for each other for ever.
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
    stages = placements.stages
    layout = None if stages is None else StageLayout(mesh_shape, used, stages.count)
    return _Expansion(graph, with_boundary(graph, placements), cache, forms_of(graph, cache), layout).run()


# The order of copies that are issued in one slot: what was sent at the end of a turn comes first.
SENT_AT_END, SENT_AT_BEGIN, WITHIN_STAGE = range(3)


@dataclass
class _Segment:
    """A copy shared by the readers since its last cut.

    In a loop, one of a tensor that is there for all rounds is made in the first of them, or `again` in each, for the
    `turn` that begins with this slot in the first round.
    """

    key: str
    needed: Spec
    layout: str
    source: str
    plan: CopyPlan
    issue: int
    wait: int
    position: tuple[int, int, int]
    last_read: int
    level: int = 0
    again: bool = False
    stage: int = 0
    turn: int = 0


@dataclass
class _Expansion:
    graph: Graph
    placements: Placements
    cache: ResultCache
    forms: Mapping[str, NumberedForm]
    layout: StageLayout | None = None
    buffers: dict[str, Buffer] = field(default_factory=dict)
    made_at: dict[str, int] = field(default_factory=dict)
    sent_at: dict[str, int] = field(default_factory=dict)  # when copies to other stages are issued
    # When the first turn ends that a stage has in a round, by stage, level and round.
    first_ends: dict[tuple[int, int, int], int] = field(default_factory=dict)
    segments: dict[str, list[_Segment]] = field(default_factory=dict)
    # What a read of a tensor that is there for all rounds got in the first round, and the copies of the last round.
    first_reads: dict[tuple[str, int], _Segment] = field(default_factory=dict)
    repeated: dict[str, _Segment] = field(default_factory=dict)
    time: TimeAxis | None = None

    def run(self) -> ExplicitGraph:
        rounds = self.placements.rounds
        self.time = None if rounds is None else time_axis(self.graph, rounds)
        sources = {}
        for block in self.graph.sources:
            tensor = block.outputs[0]
            count = self.time.count if self.time is not None and self.time.has_of_round(tensor) else 1
            for number in range(count):
                sharded = self._sharded(block, number)
                (key,) = self._make(Turn(block, 0, number, 0, self._stage(block), 0, 0), sharded, slot=-1)
                sources[key] = tensor
        turns = self._turns()
        steps = [self._step(slot, turn) for slot, turn in enumerate(turns)]
        issued: list[list[_Segment]] = [[] for _ in turns]
        waited: list[list[_Segment]] = [[] for _ in turns]
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
        return ExplicitGraph(
            self.graph, self.cache.mesh_shape, self.buffers, sources, tuple(slots), self.layout
        )

    def _turns(self) -> list[Turn]:
        order, stages = self.placements.schedule_order, self.placements.stages
        blocks = self.cache.known(("order", self.graph, order), lambda: scheduled_blocks(self.graph, order))
        parts = None if stages is None else {b.site: self.placements.of(b).part for b in blocks}
        return turns_of(turn_table(self.graph, blocks, self.time, stages, parts), stages)

    def _stage(self, block: Block) -> int:
        """Return the stage of a block."""
        return 0 if self.layout is None else self.placements.of(block).part % self.layout.count

    def _sharded(self, block: Block, number: int) -> ShardedBlock:
        """Return the parts of a block in a round; those of a source that rounds slice are of its slice."""
        form, strategy = self.forms[block.site], self.placements.of(block).strategy
        if self.time is None:
            return shard_block(form, strategy, self.cache)
        return shard_in_round(form, block, strategy, self.time, number, self.cache)

    def _key(self, tensor: str, number: int) -> str:
        """Return the key of the buffer that a round has of a stored tensor."""
        is_of_round = self.time is not None and self.time.has_of_round(tensor)
        return f"{tensor} (round {number})" if is_of_round else tensor

    def _place(self, tensor: str, number: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return shape and origin of what a round has of a stored tensor."""
        shape = self.graph.tensors[tensor].shape
        return (shape, (0,) * len(shape)) if self.time is None else self.time.slice_of(tensor, shape, number)

    def _make(self, turn: Turn, sharded: ShardedBlock, slot: int) -> tuple[str, ...]:
        placement = self.placements.of(turn.block)
        keys = tuple(self._key(site, turn.round) for site in turn.block.outputs)
        for k, (key, site, (spec, part)) in enumerate(
            zip(keys, turn.block.outputs, sharded.written, strict=True)
        ):
            if key not in self.buffers:
                dtype, layout = self.graph.tensors[site].dtype, placement.layout_of(k)
                place = self._place(site, turn.round)
                number = turn.round if self.time is not None and site in self.time.terms else 0
                self.buffers[key] = Buffer(key, site, spec, part, dtype, *place, layout, turn.stage, number)
            self.made_at[key], self.sent_at[key] = slot, turn.end
        return keys

    def _step(self, slot: int, turn: Turn) -> ComputeStep:
        block = turn.block
        numbered, sharded = self.forms[block.site], self._sharded(block, turn.round)
        self.first_ends.setdefault((turn.stage, turn.level, turn.round), turn.end)
        reads = []
        for k, (tensor, form, read) in enumerate(
            zip(numbered.roots, numbered.form.reads, sharded.reads, strict=True)
        ):
            buffer = self._obtain(slot, turn, k, tensor, read)
            reads.append(InputRead(buffer, form.view, read.wanted, read.part))
        outputs = self._make(turn, sharded, slot)
        accumulates = "" if self.time is None else self.time.monoid_of(block)
        return ComputeStep(
            block.site,
            block.definition,
            sharded.index_boxes,
            tuple(reads),
            outputs,
            turn.round,
            accumulates,
            turn.stage,
        )

    def _obtain(self, slot: int, turn: Turn, position: int, tensor: str, read: ShardedRead) -> str:
        """Return the buffer from which a block reads this input; make or share a copy where the root will not do."""
        placement, needed = self.placements.of(turn.block), read.needed
        root = self.buffers[self._key(tensor, turn.round)]
        layout = placement.read_layout_of(position)
        route = None
        if self.layout is not None and root.stage != turn.stage:
            route = self.layout.route(root.stage, turn.stage)
        plan = plan_copy(root.spec, needed, root.shape, self.cache.mesh_shape, route)
        if plan is None:
            if layout == root.layout:
                return root.key
            plan = local_copy(root.spec, needed)
        is_repeated = turn.level % 2 == 1 and root.key == tensor  # a tensor that is there for all rounds
        if is_repeated and turn.round > 0:
            return self._in_later_round(slot, turn, position, root)
        segments = self.segments.setdefault(root.key, [])
        mine = [s for s in segments if s.stage == turn.stage]
        same, shared = self._shared(mine, needed, layout, read.part, turn)
        cuts = placement.regather_of(position) and route is None  # what another stage sends is kept
        if shared and not (cuts and shared.last_read < slot):
            shared.last_read = slot
            self.first_reads[turn.block.site, position] = shared
            return shared.key
        earliest = max(self.made_at[root.key] + 1, turn.first)
        if same:
            earliest = max(earliest, same[-1].last_read + 1)
        issue, wait, order = max(earliest, slot - placement.prefetch_of(position), 0), slot, WITHIN_STAGE
        if route is not None:
            issue, order = self._sent(root, tensor, turn)
            wait = turn.first
        key = f"{root.key}>{needed}{layout}" + (f"~{len(same)}" if same else "")
        key += "" if route is None else f" (stage {turn.stage})"
        made = _Segment(
            key, needed, layout, root.key, plan, issue, wait, (order, turn.number, position), slot, turn.level,
            again=is_repeated and cuts, stage=turn.stage, turn=turn.first,
        )  # fmt: skip
        segments.append(made)
        self.first_reads[turn.block.site, position] = made
        place = self._place(tensor, turn.round)
        self.buffers[key] = Buffer(
            key, tensor, needed, read.part, root.dtype, *place, layout, turn.stage, root.round
        )
        return key

    def _sent(self, root: Buffer, tensor: str, turn: Turn) -> tuple[int, int]:
        """Return the slot in which a turn's copy from another stage is issued, and its place among others there.

        It is issued at the end of the turn that made the value, and for a slice of a source at the end of the first
        turn that its stage has in the round. Other sources are sent when they are needed.
        """
        if self.made_at[root.key] >= 0:
            return self.sent_at[root.key], SENT_AT_END
        end = self.first_ends.get((root.stage, turn.level, turn.round))
        if end is None or root.key == tensor:
            return turn.first, SENT_AT_BEGIN
        return end, SENT_AT_END

    def _in_later_round(self, slot: int, turn: Turn, position: int, root: Buffer) -> str:
        """Return what a block reads as it did in the first round: the same copy, or one that is made again."""
        first = self.first_reads[turn.block.site, position]
        if not first.again:
            first.last_read = slot
            return first.key
        key = f"{first.key} (round {turn.round})"
        if key not in self.repeated:
            issue = slot - (first.wait - first.issue)
            place = (WITHIN_STAGE, turn.number, position)
            made = replace(first, key=key, issue=issue, wait=slot, position=place, again=True, level=-1)
            self.repeated[key] = made
            self.segments[root.key].append(made)
            self.buffers[key] = replace(self.buffers[first.key], key=key)
        return key

    def _shared(
        self, segments: list[_Segment], needed: Spec, layout: str, part: np.ndarray, turn: Turn
    ) -> tuple[list[_Segment], _Segment | None]:
        """Return the copies in this spec and layout, and the one to share: the last of them, or the last around it.

        An exact part shares a copy of just this part. Copies that a turn makes again in each round are its own.
        """
        alike = [s for s in segments if s.layout == layout and s.level >= 0]
        same = [s for s in alike if s.needed == needed]
        if same:
            return same, same[-1] if _is_there(same[-1], turn) else None
        serves = is_all_of if needed.exact else lies_inside
        around = (
            s for s in reversed(alike) if _is_there(s, turn) and serves(part, self.buffers[s.key].boxes)
        )
        return same, next(around, None)


def _is_there(segment: _Segment, turn: Turn) -> bool:
    return not segment.again or segment.turn == turn.first


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
