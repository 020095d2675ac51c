"""A tracked graph: it records what a rule reads, so that only changes of that matter.

Imported by the language (`rewrites.rule`: guards read through it), the matcher and the module that updates moves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from tapestry.rewrites.mutable_graph import MutableGraph, Position, Reader, program_order_of
from tapestry.teg.graph import Block, Definition, Graph, Tensor

V = TypeVar("V")

# What can be looked at: what makes a tensor (its site), who reads a tensor (its site in a tuple), whether it has
# data or many readers (its site and a word), which blocks without inputs have a definition, or all there is.
Key = str | tuple[str, ...] | Definition
EVERYTHING: Key = ()
PRESENT, MANY = "data", "many"

# Blocks that may have to move in front of what is made of others.
MOST_LATE = 64

# More blocks than this that read a tensor are many.
FEW = 8


def has_many_readers(readers: Sequence[Reader]) -> bool:
    """Return whether more than a few blocks read a tensor."""
    return len(readers) > FEW and len({b.site for b, _ in readers}) > FEW


class TrackedMap(dict[str, V]):
    """A tracked map: the requested entries of a larger map, by tensors; the first read of each is recorded."""

    __slots__ = ("tracked", "whole")

    def __init__(self, tracked: TrackedGraph, whole: Mapping[str, V]) -> None:
        super().__init__()
        self.tracked, self.whole = tracked, whole

    def __missing__(self, tensor: str) -> V:
        value = self[tensor] = self.whole[tensor]
        self.tracked.log.append(tensor)
        return value

    def __contains__(self, site: object) -> bool:
        return site in self.whole and self[str(site)] is not None

    def get(self, site: str, default: Any = None) -> Any:
        """Return the value, or the default."""
        return self[site] if site in self.whole else default

    def __iter__(self) -> Iterator[str]:
        self.tracked.record_all_reads()
        return iter(self.whole)

    def keys(self) -> Any:
        """Return all keys of the larger map; this counts as reading everything."""
        self.tracked.record_all_reads()
        return self.whole.keys()

    def values(self) -> Any:
        """Return all values of the larger map; this counts as reading everything."""
        self.tracked.record_all_reads()
        return self.whole.values()

    def items(self) -> Any:
        """Return all entries of the larger map; this counts as reading everything."""
        self.tracked.record_all_reads()
        return self.whole.items()

    def __len__(self) -> int:
        self.tracked.record_all_reads()
        return len(self.whole)


class TrackedTypes(Mapping[str, Tensor]):
    """Tensors with their types, which are not tracked; requesting all of them counts as reading everything."""

    __slots__ = ("_tensors", "_tracked")

    def __init__(self, tracked: TrackedGraph, tensors: Mapping[str, Tensor]) -> None:
        self._tracked, self._tensors = tracked, tensors

    def __getitem__(self, tensor: str) -> Tensor:
        return self._tensors[tensor]

    def __iter__(self) -> Iterator[str]:
        self._tracked.record_all_reads()
        return iter(self._tensors)

    def __len__(self) -> int:
        self._tracked.record_all_reads()
        return len(self._tensors)


class TrackedData(Mapping[str, np.ndarray]):
    """The values of sources; requesting one counts as reading the producer of the tensor."""

    def __init__(self, tracked: TrackedGraph, data: Mapping[str, np.ndarray]) -> None:
        self._tracked, self._data = tracked, data

    def __getitem__(self, tensor: str) -> np.ndarray:
        if tensor not in self:
            raise KeyError(tensor)
        self._tracked.log.append((tensor, PRESENT, "read"))
        return self._data[tensor]

    def __contains__(self, tensor: object) -> bool:
        if self._tracked.producers.get(str(tensor)) is None:
            return False
        self._tracked.log.append((str(tensor), PRESENT))
        return tensor in self._data

    def __iter__(self) -> Iterator[str]:
        self._tracked.record_all_reads()
        return iter(self._data)

    def __len__(self) -> int:
        self._tracked.record_all_reads()
        return len(self._data)


class TrackedReaders(TrackedMap[tuple[Reader, ...]]):
    """A tracked map of the readers of tensors, recorded as such."""

    __slots__ = ()

    def __missing__(self, tensor: str) -> tuple[Reader, ...]:
        value = self[tensor] = self.whole[tensor]
        self.tracked.log.append((tensor,))
        return value


class TrackedGraph:
    """A tracked graph: it reads a program and records everything requested since `clear_reads`.

    Rules may request `tensors`, `producers`, `readers`, `data`, `blocks`, `alike`, `is_free`, `is_private` and
    `position`, the last only for comparisons; the rest is for the matcher. Shapes and element types are not recorded,
    since a rewrite never changes those of a tensor. A rule must not depend on names.
    """

    def __init__(self, program: MutableGraph | Graph) -> None:
        order = program_order_of(program) if isinstance(program, Graph) else program.current_order()
        self.program, self.positions, self.held, self._alike = program, *order
        self.tensors = TrackedTypes(self, program.tensors)
        self.log: list[Key] = []
        self.producers: TrackedMap[Block] = TrackedMap(self, program.producers)
        self.readers = TrackedReaders(self, program.readers)
        self.data = TrackedData(self, program.data)
        self._memo: dict[Any, Any] = {}

    @property
    def blocks(self) -> Mapping[str, Block]:
        """All blocks by their sites; access counts as reading everything."""
        self.record_all_reads()
        return self.blocks_at

    @property
    def blocks_at(self) -> Mapping[str, Block]:
        """The blocks by their sites, for the matcher, which records its own reads."""
        return self.program.by_site if isinstance(self.program, Graph) else self.program.blocks

    def record_all_reads(self) -> None:
        """Record that everything was read."""
        self.log.append(EVERYTHING)

    def position(self, site: str) -> Position:
        """Return the position of a block that was read; positions compare as program order."""
        return self.positions[site]

    def ordered(self, sites: Iterable[str]) -> list[Block]:
        """List the blocks at these sites, in program order."""
        blocks = self.blocks_at
        return [blocks[s] for s in sorted(sites, key=self.position)]

    def alike(self, definition: Definition) -> list[Block]:
        """Find the blocks without inputs of exactly this definition, in program order."""
        self.log.append(definition)
        blocks = self.blocks_at
        found = [blocks[site] for site in self._alike.get(definition, ())]
        return sorted(found, key=lambda b: self.positions[b.site])

    def is_free(self, block: Block) -> bool:
        """Return whether rules may match the block: it is not pinned, ordered or cut to a part."""
        return block.site not in self.held

    def is_private(self, tensor: str, blocks: Collection[Block]) -> bool:
        """Return whether only these blocks read a tensor; its readers are not recorded if there are many."""
        if len(blocks) <= FEW:
            self.log.append((tensor, MANY))
            if has_many_readers(self.program.readers[tensor]):
                return False
        return all(reader in blocks for reader, _ in self.readers[tensor])

    def late(self, blocks: Sequence[Block], tensors: Iterable[str]) -> list[Block] | None:
        """Find the blocks after the first of these, in program order, that tensors need.

        A reader of the tensors that is put in the first block's place has these move before it.

        None if the tensors need one of the `blocks` themselves (a cycle), or more than `MOST_LATE`: blocks
        that far apart in the program stay apart.
        """
        start = self.position(blocks[0].site)
        waiting = [self.producers[t] for t in tensors]
        found: dict[str, Block] = {}
        while waiting:
            block = waiting.pop()
            if block.site in found or self.position(block.site) < start:
                continue
            if block in blocks:
                return None
            found[block.site] = block
            if len(found) > MOST_LATE:
                return None
            waiting.extend(self.producers[t] for t in block.inputs)
        return self.ordered(found)

    def clear_reads(self) -> None:
        """Clear the record of reads."""
        if self.log:
            self.producers.clear()
            self.readers.clear()
            self.log = []

    def seen(self) -> tuple[Key, ...]:
        """Return the reads recorded since `clear_reads`, in order."""
        return tuple(self.log)

    def memoized(self, key: Any, work: Callable[[], V]) -> V:
        """Return the result of some work on the program; done once, its reads recorded at every request."""
        known = self._memo.get(key)
        if known is None:
            outer = self.log, self.producers, self.readers
            self.log = []
            self.producers = TrackedMap(self, self.program.producers)
            self.readers = TrackedReaders(self, self.program.readers)
            result = work()
            known = self._memo[key] = result, self.log, self.producers, self.readers
            self.log, self.producers, self.readers = outer
        found: V
        found, log, producers, readers = known
        if self.log:
            for each in log:
                self._record_again(each)
        else:
            self.log = [*log]
            self.producers.update(dict.items(producers))
            self.readers.update(dict.items(readers))
        return found

    def _record_again(self, key: Key) -> None:
        if isinstance(key, str):
            self.producers[key]
        elif isinstance(key, tuple) and len(key) == 1:
            self.readers[key[0]]
        else:
            self.log.append(key)
