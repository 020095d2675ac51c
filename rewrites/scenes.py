"""Equal surroundings give equal offers: what rules looked at around a place, as questions whose answers lead there.

Rules are functions of what they look at, names apart. So what they ask about the surroundings of a place, in the
order in which they ask it, is a tree: an answer decides the next question, and behind the last one stands what
they offer, with numbers for blocks and tensors. Equal layers, of which a program has dozens, are matched once and
recognised from then on.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any, Generic, TypeVar

from tapestry.rewrites.draft import Position
from tapestry.rewrites.sight import MANY, PRESENT, Key, Sight, has_many_readers
from tapestry.teg.graph import Block, Definition

L = TypeVar("L")

# Readers of a tensor that are told apart: surroundings with more are not remembered.
MOST_READERS = 16

# Surroundings that are remembered: a long search meets new ones without end.
MOST_SCENES = 1 << 15

# A question is about a tensor: what makes it, who reads it, whether it has data, whether it has many readers; four
# times the tensor's number and one of these.
Question = int
MAKER, READERS, PRESENCE, CROWD = range(4)


class Scene:
    """The surroundings of a place as far as they were asked for: blocks and tensors numbered as they come up."""

    def __init__(self, sight: Sight, root: Block) -> None:
        self.sight = sight
        self.tensors: list[str] = []
        self.blocks: list[str] = []
        self.tensor_numbers: dict[str, int] = {}
        self.block_numbers: dict[str, int] = {}
        self._positions: list[Position] = []
        self.first = self._told(root)

    def close(self) -> None:
        """Let the program go: nothing is asked any more, the numbers stay."""
        del self.sight, self._positions

    def answer(self, question: Question) -> Any:
        """What a question finds; None where it finds too much."""
        tensor, about = self.tensors[question >> 2], question & 3
        if about == MAKER:
            return self._told(self.sight.program.producers[tensor])
        if about == PRESENCE:
            return tensor in self.sight.program.data
        readers = self.sight.program.readers[tensor]
        if about == CROWD:
            return has_many_readers(readers)
        return None if len(readers) > MOST_READERS else tuple([(k, self._told(b)) for b, k in readers])

    def question(self, key: Key) -> Question | None:
        """What was looked at as a question; None where it is none that can be asked about other places."""
        if key.__class__ is str:
            number = self.tensor_numbers.get(key)
            return None if number is None else number << 2
        if not isinstance(key, tuple) or not 0 < len(key) < 3:
            return None
        number = self.tensor_numbers.get(key[0])
        if number is None:
            return None
        return number << 2 | (READERS if len(key) == 1 else PRESENCE if key[1] == PRESENT else CROWD)

    def key(self, question: Question) -> Key:
        """What a question looks at."""
        tensor, about = self.tensors[question >> 2], question & 3
        if about == MAKER:
            return tensor
        return (tensor,) if about == READERS else (tensor, PRESENT if about == PRESENCE else MANY)

    def _told(self, block: Block) -> Any:
        """A block by its number, or, where it is new, by what it does, to what, and where among the others."""
        known = self.block_numbers.get(block.site)
        if known is not None:
            return known
        self.block_numbers[block.site] = len(self.blocks)
        self.blocks.append(block.site)
        numbers, tensors = self.tensor_numbers, self.sight.program.tensors
        position = self.sight.positions[block.site]
        rank = bisect(self._positions, position)
        self._positions.insert(rank, position)
        what = block.definition
        told: list[Any] = [_nameless(what) if what.operator == "sink" else what, rank]
        for t in (*block.inputs, *block.outputs):
            number = numbers.get(t)
            if number is None:
                numbers[t] = len(self.tensors)
                self.tensors.append(t)
                tensor = tensors[t]
                told += (tensor.shape, tensor.dtype)
            else:
                told.append(number)
        if block.site in self.sight.held:
            told.append("held")
        return tuple(told)


@lru_cache(maxsize=1 << 14)
def _nameless(definition: Definition) -> Hashable:
    """Of a sink, which names the state that it carries on, whether it carries any, and all else."""
    others = tuple([a for a in definition.attributes if a[0] != "carries"])
    return definition.operator, definition.get("carries") is not None, others


class _Node:
    """The next question and what follows each answer, or what lies behind the last one."""

    __slots__ = ("answers", "leaf", "question")

    def __init__(self) -> None:
        self.question: Question | None = None
        self.answers: dict[Any, _Node] = {}
        self.leaf: Any = None


class Visit(Generic[L]):
    """A scene asked what is known to matter, as far as that goes: `leaf` is what was worked out in its equal."""

    __slots__ = ("answer", "asked", "first", "leaf", "node", "scene")

    def __init__(self, scene: Scene, first: Hashable, node: _Node | None) -> None:
        self.scene, self.first, self.node = scene, first, node
        self.asked: list[Question] = []
        self.answer: Any = None
        while node is not None and node.question is not None:
            self.node, self.answer = node, scene.answer(node.question)
            self.asked.append(node.question)
            node = node.answers.get(self.answer)
        self.leaf: L | None = None if node is None else node.leaf


class Scenes(Generic[L]):
    """Surroundings that were met, each with what was worked out there."""

    def __init__(self) -> None:
        self._roots: dict[Any, _Node] = {}
        self._count = 0

    def visit(self, tried: Hashable, scene: Scene) -> Visit[L]:
        """Whether the same trials were made in equal surroundings; if so, the scene has numbers for all of them."""
        first = (tried, scene.first)
        return Visit(scene, first, self._roots.get(first))

    def learn(self, visit: Visit[L], seen: Sequence[Key], leaf: L) -> None:
        """Remember what came of trials that saw this, in this order, in surroundings that were not known."""
        scene, count = visit.scene, len(visit.asked)
        if (count and visit.answer is None) or [scene.question(k) for k in seen[:count]] != visit.asked:
            return
        start = node = _Node()
        for key in seen[count:]:
            question = scene.question(key)
            answer = None if question is None else scene.answer(question)
            if answer is None:
                return
            following = _Node()
            node.question, node.answers[answer] = question, following
            node = following
        node.leaf = leaf
        if self._count >= MOST_SCENES:
            self._roots.clear()
            self._count = 0
        elif count and visit.node is not None:
            visit.node.answers[visit.answer] = start
            self._count += 1
        else:
            self._roots[visit.first] = start
            self._count += 1
