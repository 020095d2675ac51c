"""The plan of a recovery: how the parts that lost devices held are found again, without a restart.

A lost part is read from survivors that hold its elements; from the host where it is a source that nobody else holds;
and otherwise computed again, from parts that are found in the same way. The unit is one block, or one copy, on one
device, which is idempotent: it reads the same elements as before. Imported by `hardware.simulator.loss`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tapestry.teg.sharding.copies import CollectiveStep, CopyPlan, group_members
from tapestry.teg.sharding.expand import Buffer, ComputeStep, CopyStep, ExplicitGraph
from tapestry.teg.sharding.spec import volumes


class Part(NamedTuple):
    """A device's part of a buffer."""

    buffer: str
    device: int


class SurvivingPiece(NamedTuple):
    """A box `(rank, 2)` of a tensor, read from a part that survives."""

    part: Part
    box: np.ndarray


class BlockRerun(NamedTuple):
    """A block to run again on one device."""

    slot: int
    step: ComputeStep
    device: int


class CopyRerun(NamedTuple):
    """A copy to make again for one device, from what `copied_from` lists."""

    slot: int
    copy: CopyStep
    device: int


@dataclass
class RecoveryPlan:
    """The parts to be `read` from survivors, to be `reloaded` from the host, and all other `reruns`, in order."""

    read: dict[Part, list[SurvivingPiece]] = field(default_factory=dict)
    reloaded: list[Part] = field(default_factory=list)
    reruns: list[BlockRerun | CopyRerun] = field(default_factory=list)


def plan_recovery(
    program: ExplicitGraph, slot: int, live: Collection[str], lost: Sequence[int], wanted: Collection[str]
) -> RecoveryPlan:
    """Plan how the `lost` devices' parts of the `wanted` buffers are found again, at the start of a slot.

    `live` are the buffers that all other devices hold, complete, at that moment.
    """
    return _Planning(program, live, lost).run(slot, wanted)


class _Planning:
    """The parts still to be found, by buffer; slots are visited from the last to the first."""

    def __init__(self, program: ExplicitGraph, live: Collection[str], lost: Sequence[int]) -> None:
        self.program, self.lost = program, frozenset(lost)
        self.live = frozenset(live)
        # The buffers with elements of one tensor, of the terms of rounds apart.
        self.alike: defaultdict[tuple[str, int], list[Buffer]] = defaultdict(list)
        for key in live:
            self.alike[program.buffers[key].tensor, program.buffers[key].round].append(program.buffers[key])
        self.missing: defaultdict[str, set[int]] = defaultdict(set)
        self.plan = RecoveryPlan()

    def run(self, slot: int, wanted: Collection[str]) -> RecoveryPlan:
        for key in wanted:
            for device in sorted(self.lost):
                self._want(Part(key, device))
        for k in reversed(range(slot)):
            step = self.program.slots[k].step
            for device in sorted(self._devices_of(step)):
                self.plan.reruns.append(BlockRerun(k, step, device))
                for read in step.reads:
                    self._want(Part(read.buffer, device))
            for copy in reversed(self.program.slots[k].issued):
                for device in sorted(self.missing.pop(copy.result, set())):
                    self.plan.reruns.append(CopyRerun(k, copy, device))
                    for member, _ in copied_from(self.program, copy, device):
                        self._want(Part(copy.source, member))
        self.plan.reloaded = [Part(key, d) for key, devices in self.missing.items() for d in sorted(devices)]
        self.plan.reruns.reverse()
        return self.plan

    def _devices_of(self, step: ComputeStep) -> set[int]:
        """Return the devices on which a block runs again, which then lack what rounds before it add only."""
        is_more = bool(step.round and step.accumulates)
        missing = (self.missing.get(key, set()) for key in step.outputs)
        found = set().union(*missing)
        for key in step.outputs if not is_more else ():
            self.missing.pop(key, None)
        return found

    def _want(self, part: Part) -> None:
        """Find a part among the survivors, or note that it must be made again."""
        if part in self.plan.read or (part.buffer in self.live and part.device not in self.lost):
            return
        buffer = self.program.buffers[part.buffer]
        if volumes(buffer.boxes[part.device]) == 0:
            self.plan.read[part] = []
            return
        pieces = self._same_terms(part) if buffer.spec.partial else self._pieces(part)
        if pieces is None:
            self.missing[part.buffer].add(part.device)
        else:
            self.plan.read[part] = pieces

    def _same_terms(self, part: Part) -> list[SurvivingPiece] | None:
        """Return the part of a survivor that holds the same partial terms: it differs in replicated sub-axes only."""
        if part.buffer not in self.live:
            return None
        spec, mesh_shape = self.program.buffers[part.buffer].spec, self.program.mesh_shape
        used = {*spec.partial, *(a for split in spec.dims for a in split.axes)}
        free = tuple(s.name for s in mesh_shape.sub_axes if s.name not in used)
        box = self.program.buffers[part.buffer].boxes[part.device]
        for member in group_members(mesh_shape, free)[part.device].tolist():
            if member not in self.lost:
                return [SurvivingPiece(Part(part.buffer, member), box)]
        return None

    def _pieces(self, part: Part) -> list[SurvivingPiece] | None:
        """Return pieces of the tensor's live parts that make up this part, the nearest first; None if too few."""
        buffer = self.program.buffers[part.buffer]
        holders = list(self._holders(buffer, part.device))
        held = [self.program.buffers[h.buffer].boxes[h.device] for h in holders]
        coverage = Coverage(buffer.boxes[part.device], held)
        pieces = [SurvivingPiece(holders[k], piece) for k, piece in coverage.chosen()]
        return pieces if coverage.is_complete else None

    def _holders(self, wanted: Buffer, device: int) -> Iterator[Part]:
        """Yield the surviving whole parts of what a buffer has elements of, those of near devices first."""
        place = self.program.mesh_shape.axis_coordinates
        differs = (place != place[device])[:, ::-1]
        for near in np.lexsort(tuple(differs[:, k] for k in range(differs.shape[1]))).tolist():
            if near not in self.lost:
                alike = self.alike[wanted.tensor, wanted.round]
                yield from (Part(b.key, near) for b in alike if not b.spec.partial)


def copied_from(program: ExplicitGraph, copy: CopyStep, device: int) -> list[tuple[int, np.ndarray]]:
    """List what a copy reads for one device's result: devices, and the box that it reads of their parts of its source.

    Of partial terms, it reads all.
    """
    axes = program.mesh_shape.in_order(a for _, names in terms_of(copy.plan) for a in names)
    members = group_members(program.mesh_shape, axes)
    return [(int(m), box) for base, box in bases_of(program, copy, device) for m in members[base]]


def bases_of(program: ExplicitGraph, copy: CopyStep, device: int) -> list[tuple[int, np.ndarray]]:
    """Choose devices whose parts of a copy's source make up one device's result, and the box that each gives."""
    held = program.buffers[copy.source].boxes
    near = [device, *(d for d in range(program.mesh_shape.device_count) if d != device)]
    coverage = Coverage(program.buffers[copy.result].boxes[device], [held[d] for d in near])
    return [(near[k], box) for k, box in coverage.chosen()]


def terms_of(plan: CopyPlan) -> tuple[CollectiveStep, ...]:
    """Return the steps by which a copy combines partial terms, in order."""
    return (*plan.scatter, *plan.reduce)


class Coverage:
    """A choice of boxes that make up `wanted` `(rank, 2)`: each box `held` that adds elements to those before it."""

    def __init__(self, wanted: np.ndarray, held: Sequence[np.ndarray]) -> None:
        self.pieces = [overlap(box, wanted) for box in held]
        bounds = [wanted, *(p for p in self.pieces if p is not None)]
        self.edges = [np.unique(np.concatenate([b[k] for b in bounds])) for k in range(len(wanted))]
        self.missing = np.ones([len(e) - 1 for e in self.edges], dtype=bool)

    def chosen(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the position and the piece of each box that adds elements, until none are missing."""
        for k, piece in enumerate(self.pieces):
            if piece is None or self.is_complete:
                continue
            cells = tuple(slice(*np.searchsorted(e, ends)) for e, ends in zip(self.edges, piece, strict=True))
            if self.missing[cells].any():
                self.missing[cells] = False
                yield k, piece

    @property
    def is_complete(self) -> bool:
        """True if the boxes chosen so far make up all that is wanted."""
        return not self.missing.any()


def overlap(a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """Return the common part of two boxes `(rank, 2)`, None where it is empty."""
    low, high = np.maximum(a[:, 0], b[:, 0]), np.minimum(a[:, 1], b[:, 1])
    return None if (high <= low).any() else np.stack([low, high], axis=1)


def placed(piece: np.ndarray, box: np.ndarray) -> tuple[slice, ...]:
    """Return the slices of `piece` in an array that holds `box`."""
    return tuple(slice(int(a - s), int(b - s)) for (a, b), s in zip(piece, box[:, 0], strict=True))
