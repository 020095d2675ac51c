"""A context cache: equal contexts have equal candidate moves, found by a tree of tracked reads.

Rules are functions of what they read, up to names. Their reads of the context of a place, in the order in which
they are made, therefore form a tree: an answer decides the next question, and after the last one the leaf holds
the candidate moves, with numbers for blocks and tensors. Equal layers, of which a program has dozens, are matched
once and recognized from then on.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any, Generic, TypeVar

from tapestry.rewrites.mutable_graph import Position
from tapestry.rewrites.tracked_graph import MANY, PRESENT, Key, TrackedGraph, has_many_readers
from tapestry.teg.graph import Block, Definition

L = TypeVar("L")

# Readers of a tensor that are distinguished: surroundings with more are not remembered.
MOST_READERS = 16

# Surroundings that are remembered: a long search meets new ones without end.
MOST_CONTEXTS = 1 << 15

# A question is about a tensor: what makes it, who reads it, whether it has data, whether it has many readers; four
# times the tensor's number and one of these.
Question = int
MAKER, READERS, PRESENCE, READER_COUNT = range(4)


class MatchContext:
    """The context of a place as far as it was read: blocks and tensors numbered in order of appearance."""

    def __init__(self, tracked: TrackedGraph, root: Block) -> None:
        self.tracked = tracked
        self.tensors: list[str] = []
        self.blocks: list[str] = []
        self.tensor_numbers: dict[str, int] = {}
        self.block_numbers: dict[str, int] = {}
        self._positions: list[Position] = []
        self.first = self._description_of(root)

    def close(self) -> None:
        """Release the program: no more questions can be answered, the numbers stay."""
        del self.tracked, self._positions

    def answer(self, question: Question) -> Any:
        """Answer a question; None if there are too many readers."""
        tensor, about = self.tensors[question >> 2], question & 3
        if about == MAKER:
            return self._description_of(self.tracked.program.producers[tensor])
        if about == PRESENCE:
            return tensor in self.tracked.program.data
        readers = self.tracked.program.readers[tensor]
        if about == READER_COUNT:
            return has_many_readers(readers)
        return (
            None if len(readers) > MOST_READERS else tuple([(k, self._description_of(b)) for b, k in readers])
        )

    def question(self, key: Key) -> Question | None:
        """Convert a tracked read to a question; None if it cannot be asked about other places."""
        if key.__class__ is str:
            number = self.tensor_numbers.get(key)
            return None if number is None else number << 2
        if not isinstance(key, tuple) or not 0 < len(key) < 3:
            return None
        number = self.tensor_numbers.get(key[0])
        if number is None:
            return None
        return number << 2 | (READERS if len(key) == 1 else PRESENCE if key[1] == PRESENT else READER_COUNT)

    def key(self, question: Question) -> Key:
        """Convert a question to the key that it reads."""
        tensor, about = self.tensors[question >> 2], question & 3
        if about == MAKER:
            return tensor
        return (tensor,) if about == READERS else (tensor, PRESENT if about == PRESENCE else MANY)

    def _description_of(self, block: Block) -> Any:
        """Describe a block: its number, or, if it is new, its definition, operands and rank among the others."""
        known = self.block_numbers.get(block.site)
        if known is not None:
            return known
        self.block_numbers[block.site] = len(self.blocks)
        self.blocks.append(block.site)
        numbers, tensors = self.tensor_numbers, self.tracked.program.tensors
        position = self.tracked.positions[block.site]
        rank = bisect(self._positions, position)
        self._positions.insert(rank, position)
        what = block.definition
        reported: list[Any] = [_nameless(what) if what.operator == "sink" else what, rank]
        for t in (*block.inputs, *block.outputs):
            number = numbers.get(t)
            if number is None:
                numbers[t] = len(self.tensors)
                self.tensors.append(t)
                tensor = tensors[t]
                reported += (tensor.shape, tensor.dtype)
            else:
                reported.append(number)
        if block.site in self.tracked.held:
            reported.append("held")
        if block.repetition:
            reported.append(("repetition", block.repetition))
        return tuple(reported)


@lru_cache(maxsize=1 << 14)
def _nameless(definition: Definition) -> Hashable:
    """Describe a sink without the name of its carried state: whether it carries any, and all else."""
    others = tuple([a for a in definition.attributes if a[0] != "carries"])
    return definition.operator, definition.get("carries") is not None, others


class _Node:
    """The next question and the node after each answer, or the leaf after the last one."""

    __slots__ = ("answers", "leaf", "question")

    def __init__(self) -> None:
        self.question: Question | None = None
        self.answers: dict[Any, _Node] = {}
        self.leaf: Any = None


class ContextLookup(Generic[L]):
    """A lookup of a context in the cache: `leaf` is the result found in an equal context, if there is one."""

    __slots__ = ("answer", "context", "first", "leaf", "node", "questions")

    def __init__(self, context: MatchContext, first: Hashable, node: _Node | None) -> None:
        self.context, self.first, self.node = context, first, node
        self.questions: list[Question] = []
        self.answer: Any = None
        while node is not None and node.question is not None:
            self.node, self.answer = node, context.answer(node.question)
            self.questions.append(node.question)
            node = node.answers.get(self.answer)
        self.leaf: L | None = None if node is None else node.leaf


class ContextCache(Generic[L]):
    """A cache of contexts, each with the result computed there."""

    def __init__(self) -> None:
        self._roots: dict[Any, _Node] = {}
        self._count = 0

    def visit(self, tried: Hashable, context: MatchContext) -> ContextLookup[L]:
        """Look up whether the same rules were tried in an equal context; it then has numbers for all reads."""
        first = (tried, context.first)
        return ContextLookup(context, first, self._roots.get(first))

    def learn(self, visit: ContextLookup[L], seen: Sequence[Key], leaf: L) -> None:
        """Store the result of rules that made these reads, in this order, in a context that was not known."""
        context, count = visit.context, len(visit.questions)
        if (count and visit.answer is None) or [context.question(k) for k in seen[:count]] != visit.questions:
            return
        start = node = _Node()
        for key in seen[count:]:
            question = context.question(key)
            answer = None if question is None else context.answer(question)
            if answer is None:
                return
            following = _Node()
            node.question, node.answers[answer] = question, following
            node = following
        node.leaf = leaf
        if self._count >= MOST_CONTEXTS:
            self._roots.clear()
            self._count = 0
        elif count and visit.node is not None:
            visit.node.answers[visit.answer] = start
            self._count += 1
        else:
            self._roots[visit.first] = start
            self._count += 1
