"""Reference counts of buffers over the reads and copies still to come.

They carry out the convention "lifetimes" of `docs/sharding.md`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from tapestry.teg.sharding.expand import ExplicitGraph, Slot


class Liveness:
    """The remaining uses of every buffer, derived from the program alone.

    A block's read counts once per input, a copy once as reader of its source, from its issue until it has
    been waited for. Parameters, buffers, constants and optimizer state, sources without readers and
    buffers that sinks read are never freed - but state whose next value a sink takes is: its old value is of no
    use to the next run.
    """

    def __init__(self, program: ExplicitGraph) -> None:
        self.uses: Counter[str] = Counter()
        self.source_of: dict[str, str] = {}
        self.kept: set[str] = set()
        for slot in program.slots:
            for copy in slot.issued:
                self.uses[copy.source] += 1
                self.source_of[copy.result] = copy.source
            for read in slot.step.reads:
                self.uses[read.buffer] += 1
                if slot.step.definition.operator == "sink":
                    self.kept.add(read.buffer)
        # What accumulates is written in every round, and complete after the last one.
        self.uses.update(key for s in program.slots if s.step.accumulates for key in s.step.outputs)
        carried = {s.definition.get("carries") for s in program.abstract.sinks}
        for key, site in program.sources.items():
            producer = program.abstract.producers[site]
            lasts = producer.definition["role"] != "activation" and producer.site not in carried
            if lasts or self.uses[key] == 0:
                self.kept.add(key)

    def after_waits(self, slot: Slot) -> Iterator[str]:
        """Yield the sources of the copies waited for that are no longer needed."""
        sources = [self.source_of[key] for key in slot.waited]
        return self._no_longer_used(sources)

    def after_block(self, slot: Slot) -> Iterator[str]:
        """Yield the values read or produced in this slot that are no longer needed."""
        written = slot.step.outputs if slot.step.accumulates else ()
        yield from self._no_longer_used([*(read.buffer for read in slot.step.reads), *written])
        if not written:
            yield from (key for key in slot.step.outputs if self.uses[key] == 0 and key not in self.kept)

    def _no_longer_used(self, used: list[str]) -> Iterator[str]:
        self.uses.subtract(used)
        for key in dict.fromkeys(used):
            if self.uses[key] == 0 and key not in self.kept:
                yield key


class LiveSlots(NamedTuple):
    """The slots of a buffer: made in slot `made` (a source: -1), complete after `complete`, freed in `freed`.

    What is never freed is so in the slot after the last.
    """

    made: int
    complete: int
    freed: int

    def is_complete_at(self, slot: int) -> bool:
        """Return whether the buffer is live and complete at the start of a slot."""
        return self.complete < slot <= self.freed

    def is_in_flight_at(self, slot: int) -> bool:
        """Return whether the buffer is the result of a copy that has begun and not ended at the start of a slot."""
        return self.made < slot <= self.complete


def live_slots(program: ExplicitGraph) -> dict[str, LiveSlots]:
    """Return the slots of all buffers, in the order in which they are allocated."""
    liveness, end = Liveness(program), len(program.slots)
    made = dict.fromkeys(program.sources, (-1, -1))
    freed: dict[str, int] = {}
    for k, slot in enumerate(program.slots):
        made.update((copy.result, (k, copy.wait)) for copy in slot.issued)
        made |= {key: (k, k) for key in slot.step.outputs if key not in made}
        freed.update((key, k) for key in (*liveness.after_waits(slot), *liveness.after_block(slot)))
    return {key: LiveSlots(*begun, freed.get(key, end)) for key, begun in made.items()}
