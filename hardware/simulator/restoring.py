"""The values of a recovery: lost parts are read, computed again and put into the memories of the array backend."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import numpy as np

from tapestry.hardware.simulator.arrays import ArrayBackend
from tapestry.hardware.simulator.parts import box_part, frozen
from tapestry.hardware.simulator.recovery import (
    BlockRerun,
    CopyRerun,
    Part,
    RecoveryPlan,
    SurvivingPiece,
    bases_of,
    copied_from,
    placed,
    terms_of,
)
from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.operators.monoids import combine
from tapestry.teg.sharding.copies import CollectiveStep, group_members
from tapestry.teg.sharding.expand import ComputeStep, ExplicitGraph


def restore(backend: ArrayBackend, plan: RecoveryPlan, buffers: Collection[str], lost: Sequence[int]) -> None:
    """Give the lost devices their parts of `buffers` again."""
    for device in lost:
        for key in buffers:
            backend.forget(key, device)
    values = Restoration(backend).follow(plan)
    for key in buffers:
        for device in lost:
            backend.put(key, device, values[Part(key, device)])


class Memories(Protocol):
    """Memories of devices whose lost parts are found again, and the blocks that can be run on them."""

    program: ExplicitGraph
    xp: ArrayNamespace

    def held(self, key: str, device: int) -> Array:
        """Return the elements of a device's part of a buffer."""
        ...

    def source_part(self, key: str, device: int) -> Array:
        """Return the part of a source's tensor that a device begins with."""
        ...

    def run_on(self, step: ComputeStep, device: int, parts: Sequence[Array]) -> Sequence[Array]:
        """Run a block on one device from its parts of the buffers that the block reads; return those that it makes."""
        ...


class Restoration:
    """The values that were found so far, by part, of all devices; those of one process override two functions."""

    def __init__(self, memories: Memories) -> None:
        self.memories, self.program, self.xp = memories, memories.program, memories.xp
        self.found: dict[Part, Array] = {}

    def collect(self, device: int, pieces: Sequence[SurvivingPiece]) -> list[Array] | None:
        """Return the values of pieces for a device; None where another process does the device's share."""
        return [self.value_of(piece) for piece in pieces]

    def does(self, device: int) -> bool:
        """Return whether a device's share is done here."""
        return True

    def follow(self, plan: RecoveryPlan) -> dict[Part, Array]:
        """Find all parts of a plan, in its order."""
        for part, pieces in plan.read.items():
            arrays = self.collect(part.device, pieces)
            if arrays is not None:
                self.found[part] = self._assembled(part, pieces, arrays)
        for part in plan.reloaded:
            if self.does(part.device):
                self.found[part] = self.memories.source_part(part.buffer, part.device)
        for rerun in plan.reruns:
            if isinstance(rerun, CopyRerun):
                self._copy(rerun)
            elif self.does(rerun.device):
                self._run(rerun)
        return self.found

    def value_of(self, piece: SurvivingPiece) -> Array:
        """Return the elements of a piece, from a part that was found here or survives here."""
        held = self.program.buffers[piece.part.buffer].boxes[piece.part.device]
        return box_part(self._value(piece.part), held[:, 0].tolist(), piece.box)

    def _value(self, part: Part) -> Array:
        return self.found[part] if part in self.found else self.memories.held(part.buffer, part.device)

    def _run(self, rerun: BlockRerun) -> None:
        parts = [self._value(Part(read.buffer, rerun.device)) for read in rerun.step.reads]
        made = self.memories.run_on(rerun.step, rerun.device, parts)
        step = rerun.step
        for key, array in zip(step.outputs, made, strict=True):
            part, found = Part(key, rerun.device), array
            if step.round and step.accumulates:
                found = combine(self.xp, step.accumulates, self.found[part], array)
            self.found[part] = found

    def _assembled(self, part: Part, pieces: Sequence[SurvivingPiece], arrays: Sequence[Array]) -> Array:
        box = self.program.buffers[part.buffer].boxes[part.device]
        # A replica keeps the memory order that it has: kernels round as they did.
        if len(pieces) == 1 and pieces[0].part.buffer == part.buffer:
            return arrays[0]
        result = self._empty(part)
        for piece, array in zip(pieces, arrays, strict=True):
            result[placed(piece.box, box)] = array
        return frozen(result)

    def _copy(self, rerun: CopyRerun) -> None:
        """Make the result of a copy for one device; terms are combined in the order of the copy itself."""
        copy, made = rerun.copy, Part(rerun.copy.result, rerun.device)
        reads = copied_from(self.program, copy, rerun.device)
        pieces = [SurvivingPiece(Part(copy.source, member), box) for member, box in reads]
        arrays = self.collect(rerun.device, pieces)
        if arrays is None:
            return
        box, result = self.program.buffers[copy.result].boxes[rerun.device], self._empty(made)
        bases = bases_of(self.program, copy, rerun.device)
        monoid = str(self.program.buffers[copy.source].spec.monoid)
        for k, (base, piece) in enumerate(bases):
            mine = range(k * len(reads) // len(bases), (k + 1) * len(reads) // len(bases))
            terms = {reads[i][0]: arrays[i] for i in mine}
            result[placed(piece, box)] = self._combined(monoid, terms, base, terms_of(copy.plan))
        self.found[made] = frozen(result)

    def _combined(
        self, monoid: str, terms: Mapping[int, Array], device: int, steps: Sequence[CollectiveStep]
    ) -> Array:
        """Combine terms, by device, to the piece that a device has after these steps of a reduction."""
        if not steps:
            return terms[device]
        members = group_members(self.program.mesh_shape, steps[-1][1])[device].tolist()
        total = self._combined(monoid, terms, members[0], steps[:-1])
        for member in members[1:]:
            total = combine(self.xp, monoid, total, self._combined(monoid, terms, member, steps[:-1]))
        return total

    def _empty(self, part: Part) -> Array:
        buffer = self.program.buffers[part.buffer]
        box = buffer.boxes[part.device]
        return self.xp.empty(np.subtract(box[:, 1], box[:, 0]).tolist(), buffer.dtype)
