"""The values of a recovery: lost parts are read, computed again and put into the memories of the array backend."""

from __future__ import annotations

from collections.abc import Collection, Sequence

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
    placed,
    terms_of,
)
from tapestry.teg.arrays import Array
from tapestry.teg.operators.monoids import combine
from tapestry.teg.sharding.copies import CollectiveStep, group_members


def restore(backend: ArrayBackend, plan: RecoveryPlan, buffers: Collection[str], lost: Sequence[int]) -> None:
    """Give the lost devices their parts of `buffers` again."""
    for device in lost:
        for key in buffers:
            backend.forget(key, device)
    values = _Restoration(backend).follow(plan)
    for key in buffers:
        for device in lost:
            backend.put(key, device, values[Part(key, device)])


class _Restoration:
    """The values that were found so far, by part."""

    def __init__(self, backend: ArrayBackend) -> None:
        self.backend, self.program = backend, backend.program
        self.found: dict[Part, Array] = {}

    def follow(self, plan: RecoveryPlan) -> dict[Part, Array]:
        for part, pieces in plan.read.items():
            self.found[part] = self._assembled(part, pieces)
        for part in plan.reloaded:
            self.found[part] = self.backend.source_part(part.buffer, part.device)
        for rerun in plan.reruns:
            if isinstance(rerun, BlockRerun):
                parts = [self._value(Part(read.buffer, rerun.device)) for read in rerun.step.reads]
                made = self.backend.run_on(rerun.step, rerun.device, parts)
                for key, array in zip(rerun.step.outputs, made, strict=True):
                    self.found[Part(key, rerun.device)] = array
            else:
                self.found[Part(rerun.copy.result, rerun.device)] = self._copied(rerun)
        return self.found

    def _value(self, part: Part) -> Array:
        return self.found[part] if part in self.found else self.backend.held(part.buffer, part.device)

    def _assembled(self, part: Part, pieces: Sequence[SurvivingPiece]) -> Array:
        box = self.program.buffers[part.buffer].boxes[part.device]
        # A replica keeps the memory order that it has: kernels round as they did.
        if len(pieces) == 1 and pieces[0].part.buffer == part.buffer:
            return self._value(pieces[0].part)
        result = self.backend.empty(part.buffer, box)
        for piece in pieces:
            held = self.program.buffers[piece.part.buffer].boxes[piece.part.device]
            result[placed(piece.box, box)] = box_part(self._value(piece.part), held[:, 0].tolist(), piece.box)
        return frozen(result)

    def _copied(self, rerun: CopyRerun) -> Array:
        """Make the result of a copy for one device; terms are combined in the order of the copy itself."""
        copy = rerun.copy
        box = self.program.buffers[copy.result].boxes[rerun.device]
        result = self.backend.empty(copy.result, box)
        for base, piece in bases_of(self.program, copy, rerun.device):
            result[placed(piece, box)] = self._term(copy.source, base, piece, terms_of(copy.plan))
        return frozen(result)

    def _term(self, source: str, device: int, piece: np.ndarray, steps: Sequence[CollectiveStep]) -> Array:
        """Compute a piece of a tensor on a device after these steps of its reduction."""
        if not steps:
            held = self.program.buffers[source].boxes[device]
            return box_part(self._value(Part(source, device)), held[:, 0].tolist(), piece)
        members = group_members(self.program.mesh_shape, steps[-1][1])[device]
        monoid = str(self.program.buffers[source].spec.monoid)
        total = self._term(source, int(members[0]), piece, steps[:-1])
        for member in members[1:]:
            total = combine(
                self.backend.xp, monoid, total, self._term(source, int(member), piece, steps[:-1])
            )
        return total
