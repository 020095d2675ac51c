"""A program as a rule sees it: what was looked at is known afterwards, so that only a change of that counts.

Imported by the language (`rewrites.rule`: guards look through it), the matcher and what keeps moves current.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

from rewrites.draft import Draft, Position, Reader, order_of
from teg.graph import Block, Definition, Graph

V = TypeVar("V")

# What can be looked at: what makes a tensor (its site), who reads a tensor (its site in a tuple), which blocks
# without inputs have a definition, or all there is.
Key = str | tuple[str, ...] | Definition
EVERYTHING: Key = ()


class Looked(dict[str, V]):
    """Of a larger map the entries that were asked for; who asks for all of them has `all_of` called."""

    __slots__ = ("all_of", "whole")

    def __init__(self, whole: Mapping[str, V], all_of: Callable[[], None]) -> None:
        super().__init__()
        self.whole, self.all_of = whole, all_of

    def __missing__(self, key: str) -> V:
        value = self[key] = self.whole[key]
        return value

    def __contains__(self, key: object) -> bool:
        return key in self.whole and self[str(key)] is not None

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or the default."""
        return self[key] if key in self.whole else default

    def __iter__(self) -> Iterator[str]:
        self.all_of()
        return iter(self.whole)

    def keys(self) -> Any:
        """All keys of the larger map."""
        self.all_of()
        return self.whole.keys()

    def values(self) -> Any:
        """All values of the larger map."""
        self.all_of()
        return self.whole.values()

    def items(self) -> Any:
        """All entries of the larger map."""
        self.all_of()
        return self.whole.items()

    def __len__(self) -> int:
        self.all_of()
        return len(self.whole)


class Data(Mapping[str, np.ndarray]):
    """The values of sources; asking for one is to look at what makes the tensor."""

    def __init__(self, sight: Sight, data: Mapping[str, np.ndarray]) -> None:
        self._sight, self._data = sight, data

    def __getitem__(self, tensor: str) -> np.ndarray:
        self._sight.producers.get(tensor)
        return self._data[tensor]

    def __contains__(self, tensor: object) -> bool:
        return self._sight.producers.get(str(tensor)) is not None and tensor in self._data

    def __iter__(self) -> Iterator[str]:
        self._sight.look_at_all()
        return iter(self._data)

    def __len__(self) -> int:
        self._sight.look_at_all()
        return len(self._data)


class Sight:
    """Reads a program, and knows since `forget` what it was asked for.

    As of a draft: `tensors`, `producers`, `readers`, `data`, `blocks`, `held`. Shapes and element types are not
    noted, since a rewrite never changes those of a tensor. A rule must not depend on names.
    """

    def __init__(self, program: Draft | Graph) -> None:
        order = order_of(program) if isinstance(program, Graph) else program.standing()
        self.program, self.held = program, order.held
        self.tensors = program.tensors
        self.producers: Looked[Block] = Looked(program.producers, self.look_at_all)
        self.readers: Looked[tuple[Reader, ...]] = Looked(program.readers, self.look_at_all)
        self.data = Data(self, program.data)
        self._order, self._others = order, set[Key]()
        self._memo: dict[Any, Any] = {}

    @property
    def blocks(self) -> Mapping[str, Block]:
        """All blocks by their sites: whoever looks here has seen everything."""
        self.look_at_all()
        return self.at_sites

    @property
    def at_sites(self) -> Mapping[str, Block]:
        """The blocks by their sites, for the matcher, which notes itself what it saw."""
        return self.program.by_site if isinstance(self.program, Graph) else self.program.blocks

    def look_at_all(self) -> None:
        """Note that everything was looked at."""
        self._others.add(EVERYTHING)

    def position(self, site: str) -> Position:
        """Where a block that was seen stands; positions compare as program order."""
        return self._order.positions[site]

    def ordered(self, sites: Iterable[str]) -> list[Block]:
        """The blocks at these sites, in program order."""
        return [self.at_sites[s] for s in sorted(sites, key=self.position)]

    def alike(self, definition: Definition) -> list[Block]:
        """The blocks without inputs of this very definition, in program order."""
        self._others.add(definition)
        blocks = self.at_sites
        found = [blocks[site] for site in self._order.alike.get(definition, ())]
        return sorted(found, key=lambda b: self.position(b.site))

    def is_free(self, block: Block) -> bool:
        """Whether rules may match the block: it is not pinned, ordered or cut to a part."""
        return block.site not in self.held

    def forget(self) -> None:
        """Begin anew to note what is looked at."""
        self.producers.clear()
        self.readers.clear()
        self._others.clear()

    def seen(self) -> frozenset[Key]:
        """What was looked at since."""
        makers, readers = dict.keys(self.producers), dict.keys(self.readers)
        if not (makers or readers or self._others):
            return NOTHING_SEEN
        return frozenset((*makers, *[(t,) for t in readers], *self._others))

    def remembered(self, key: Any, work: Callable[[], V]) -> V:
        """What some work on the program gives; done once, and looked at whenever it is asked for."""
        if key not in self._memo:
            outer = self.producers, self.readers, self._others
            self.producers, self.readers = (
                Looked(outer[0].whole, outer[0].all_of),
                Looked(outer[1].whole, outer[1].all_of),
            )
            self._others = set()
            result = work()
            self._memo[key] = (
                result,
                dict(dict.items(self.producers)),
                dict(dict.items(self.readers)),
                self._others,
            )
            self.producers, self.readers, self._others = outer
        result, producers, readers, others = self._memo[key]
        self.producers.update(producers)
        self.readers.update(readers)
        self._others |= others
        found: V = result
        return found


NOTHING_SEEN: frozenset[Key] = frozenset()
