"""Rematerialization passes over a program, one place after the other: shared work is repeated for all its readers.

A rule that recomputes inside a reader a value shared with other readers costs a little, reader by reader, until the
last of them has absorbed it: then a block and its result are gone. A search from program to program gives up on the
way. So here a shared block is moved into all its readers at once (rematerialization, Briggs, Cooper and Torczon,
PLDI 1992), one block after the other through the program, and stays where that does not help. Of a chain of equal
steps some are absorbed and some are not: moves of equal layers, which go together, never find that.
"""

from __future__ import annotations

from collections.abc import Iterator

from tapestry.optimizer.structure.evaluation import EvaluatedGraph, Evaluator
from tapestry.rewrites import Move, Worklist
from tapestry.teg.graph import Block, Graph

# Bounds on memory that a program is refined under, from its own up.
LEVELS = 6


class Rematerialization:
    """A runner of rematerialization passes over the graphs of a front."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.repeating = {rule.name for rule in evaluator.rules if rule.duplicates}

    def run(self) -> None:
        """Refine the best graphs of the front by each criterion, under memory bounds from the least upwards."""
        front = sorted(self.evaluator.front, key=lambda s: s.ranks) if self.repeating else []
        is_memory = self.evaluator.criteria.is_memory
        best = [min(front, key=lambda s: s.values[k]) for k in range(len(is_memory))] if front else []
        starts = [(start, 0 if is_memory[k] else k) for k, start in enumerate(best)]
        for start, lowered in dict.fromkeys(reversed(starts)):
            least = start.cost.peak_memory_bytes
            met = self._refine(start, lowered, None)
            matters = any(is_memory) or start.violation > 0
            for bound in sorted({least, *(b for b in met if b > least)})[:LEVELS] if met and matters else ():
                self._refine(start, lowered, bound)

    def _refine(self, current: EvaluatedGraph, lowered: int, bound: int | None) -> set[int]:
        """Move shared blocks into their readers where that lowers a criterion and keeps the memory within the bound.

        Returns the peak memories of all graphs that are better by it.
        """
        met: set[int] = set()
        tried: set[str] = set()
        candidates = None
        while self.evaluator.has_more:
            candidates = candidates or current.candidates(self.evaluator.rules)
            block = next((b for b in self._shared(candidates) if b.site not in tried), None)
            if block is None:
                break
            tried.add(block.site)
            child = self._carried(current, candidates, block)
            if child is None or child.values[lowered] >= current.values[lowered]:
                continue
            met.add(child.cost.peak_memory_bytes)
            if bound is None or child.cost.peak_memory_bytes <= bound:
                current, candidates = child, None
        return met

    def _shared(self, candidates: Worklist) -> Iterator[Block]:
        """Yield the blocks, in program order, that each of their readers can absorb."""
        graph = candidates.graph
        for block in graph.blocks:
            readers = _readers(graph, block)
            if len(readers) > 1 and all(self._repeats(candidates, reader, block) for reader in readers):
                yield block

    def _repeats(self, candidates: Worklist, reader: Block, block: Block) -> bool:
        return any(move.rule in self.repeating for move in _taking_in(candidates, reader, block))

    def _carried(self, start: EvaluatedGraph, candidates: Worklist, block: Block) -> EvaluatedGraph | None:
        """Recompute a block in all its readers instead, and evaluate the graph; None where a reader cannot."""
        graph, moves, changes = start.graph, start.moves, None
        while block.site in graph.by_site:
            if changes is not None:
                candidates = candidates.after(graph, changes)
            readers = _readers(graph, block)
            move = next((m for reader in readers for m in _taking_in(candidates, reader, block)), None)
            made = self.evaluator.rewritten(graph, move) if move is not None else None
            if made is None or len(_readers(made.graph, block)) >= len(readers):
                return None
            graph, moves, changes = made.graph, (*moves, *made.moves), made.changes
        return self.evaluator.kept(graph, moves, candidates, changes) if changes is not None else None


def _readers(graph: Graph, block: Block) -> list[Block]:
    """Return the blocks that read a result of a block of this site, each once."""
    return list(dict.fromkeys(r for t in block.outputs if t in graph.readers for r, _ in graph.readers[t]))


def _taking_in(candidates: Worklist, reader: Block, block: Block) -> Iterator[Move]:
    """Yield the moves whose match consists of this reader and this block, according to the tensors it reads."""
    place = candidates.places.get(reader.site)
    for candidate in place.candidates if place is not None else ():
        if candidate.move.place == reader.site and sorted(candidate.reads) == sorted(
            (*reader.inputs, *block.inputs)
        ):
            yield candidate.move
