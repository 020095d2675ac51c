"""Equal surroundings give equal offers: what rules looked at around a place, as questions whose answers lead there.

Rules are functions of what they look at, names apart. So what they ask about the surroundings of a place, in the
order in which they ask it, is a tree: an answer decides the next question, and behind the last one stands what
they offer, with numbers for blocks and tensors. Equal layers, of which a program has dozens, are matched once and
recognised from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

from rewrites.sight import ORDER, PRESENT, Key, Sight
from teg.graph import Block

L = TypeVar("L")

# Readers of a tensor that are told apart: surroundings with more are not remembered.
MOST_READERS = 16

# Surroundings that are remembered: a long search meets new ones without end.
MOST_SCENES = 1 << 15

MAKER, READERS, PRESENCE, STANDING = range(4)


class Question(NamedTuple):
    """What makes the tensor of a number, who reads it, whether it has data, or in which order the blocks stand."""

    about: int
    tensor: int


class Scene:
    """The surroundings of a place as far as they were asked for: blocks and tensors numbered as they come up."""

    def __init__(self, sight: Sight, root: Block) -> None:
        self.sight = sight
        self.tensors: list[str] = []
        self.blocks: list[str] = []
        self.tensor_numbers: dict[str, int] = {}
        self.block_numbers: dict[str, int] = {}
        self.first = self._told(root)

    def answer(self, question: Question) -> Any:
        """What a question finds; None where it finds too much."""
        about, number = question
        if about == MAKER:
            return self._told(self.sight.program.producers[self.tensors[number]])
        if about == READERS:
            readers = self.sight.program.readers[self.tensors[number]]
            return None if len(readers) > MOST_READERS else tuple([(k, self._told(b)) for b, k in readers])
        if about == PRESENCE:
            return self.tensors[number] in self.sight.program.data
        places = [self.sight.positions[site] for site in self.blocks]
        return tuple(sorted(range(len(places)), key=places.__getitem__))

    def question(self, key: Key) -> Question | None:
        """What was looked at as a question; None where it is none that can be asked about other places."""
        if key is ORDER:
            return Question(STANDING, 0)
        if isinstance(key, str):
            about, tensor = MAKER, key
        elif isinstance(key, tuple) and 0 < len(key) < 3:
            about, tensor = READERS if len(key) == 1 else PRESENCE, key[0]
        else:
            return None
        number = self.tensor_numbers.get(tensor)
        return None if number is None else Question(about, number)

    def key(self, question: Question) -> Key:
        """What a question looks at."""
        about, number = question
        if about == STANDING:
            return ORDER
        tensor = self.tensors[number]
        return tensor if about == MAKER else (tensor,) if about == READERS else (tensor, PRESENT)

    def _told(self, block: Block) -> Any:
        """A block by its number, or, where it is new, by what it does and to what."""
        known = self.block_numbers.get(block.site)
        if known is not None:
            return known
        self.block_numbers[block.site] = len(self.blocks)
        self.blocks.append(block.site)
        numbers, types = self.tensor_numbers, self.sight.tensors
        told: list[Any] = [block.definition]
        for t in (*block.inputs, *block.outputs):
            number = numbers.get(t)
            if number is None:
                numbers[t] = len(self.tensors)
                self.tensors.append(t)
            told.append(types[t].type if number is None else number)
        if block.site in self.sight.held:
            told.append("held")
        return tuple(told)


class _Node:
    """The next question and what follows each answer, or what lies behind the last one."""

    __slots__ = ("answers", "leaf", "question")

    def __init__(self) -> None:
        self.question: Question | None = None
        self.answers: dict[Any, _Node] = {}
        self.leaf: Any = None


class Scenes(Generic[L]):
    """Surroundings that were met, each with what was worked out there."""

    def __init__(self) -> None:
        self._roots: dict[Any, _Node] = {}
        self._count = 0

    def find(self, tried: Hashable, scene: Scene) -> L | None:
        """What was worked out, by the same trials, in equal surroundings; the scene then has all their numbers."""
        node = self._roots.get((tried, scene.first))
        while node is not None and node.question is not None:
            node = node.answers.get(scene.answer(node.question))
        return None if node is None else node.leaf

    def learn(self, tried: Hashable, scene: Scene, seen: Iterable[Key], leaf: Callable[[], L | None]) -> None:
        """Remember what comes of trials that saw this, in this order, from a scene that nobody asked yet."""
        if self._count >= MOST_SCENES:
            self._roots.clear()
            self._count = 0
        asked: list[tuple[Question, Any]] = []
        for key in seen:
            question = scene.question(key)
            answer = None if question is None else scene.answer(question)
            if question is None or answer is None:
                return
            asked.append((question, answer))
        made = leaf()
        if made is None:
            return
        node = self._roots.setdefault((tried, scene.first), _Node())
        for question, answer in asked:
            if node.leaf is not None or node.question not in (None, question):
                return  # trials that ask otherwise in equal surroundings are none to rely on
            node.question = question
            node = node.answers.setdefault(answer, _Node())
        if node.question is None:
            node.leaf = made
            self._count += 1
