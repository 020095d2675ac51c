"""Fused blocks as values: matched blocks in one body, and a body's steps as blocks again.

In a body values are numbered, inputs first. A matched block that is itself fused contributes its steps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tapestry.rewrites.tracked_graph import TrackedGraph
from tapestry.teg.builder import define
from tapestry.teg.graph import Attributes, Block, Definition, TensorType, attributes
from tapestry.teg.operators import body_of, operator_named
from tapestry.teg.operators.fused_body import FUSED, FusedBody, FusedStep

# Behind how many blocks of which operators a reader may still join a region.
PASS_THROUGH = ("cell", "view")
MOST_PASS_THROUGH = 2


@dataclass(frozen=True)
class FusedForm:
    """A fused block: the tensors it reads, its steps, and per output its value's number and its tensor's site."""

    reads: tuple[str, ...]
    inputs: tuple[TensorType, ...]
    steps: tuple[tuple[str, Attributes, tuple[int, ...]], ...]
    outputs: tuple[int, ...]
    sites: tuple[str, ...]

    @property
    def attributes(self) -> Attributes:
        """The attributes of the block."""
        types = tuple((t.shape, t.dtype) for t in self.inputs)
        return attributes(body=self.steps, types=types, results=self.outputs)

    def define(self) -> tuple[Definition, tuple[TensorType, ...]]:
        """Build the block's definition and output types.

        Raises:
            ValueError: the steps cannot be in one block.
        """
        return define(FUSED, self.attributes, self.inputs)


class FusedRegion(NamedTuple):
    """Blocks that become one, in program order.

    `roots` give the results; an inner value that others read becomes a further output, or is recomputed inside
    while its producer stays (`recomputes`).

    `reads` are the tensors that the blocks read from outside, in order, `results` the tensors that the fused block
    produces, those of its roots first.
    """

    edited: TrackedGraph
    roots: tuple[Block, ...]
    blocks: tuple[Block, ...]
    reads: tuple[str, ...]
    results: tuple[str, ...]

    @staticmethod
    def of(
        edited: TrackedGraph, roots: Sequence[Block], blocks: Iterable[Block], recomputes: bool
    ) -> FusedRegion:
        """Build the region of some blocks."""
        ordered = tuple(sorted(blocks, key=lambda b: edited.position(b.site)))
        made = {t for b in ordered for t in b.outputs}
        reads = tuple(dict.fromkeys([t for b in ordered for t in b.inputs if t not in made]))
        wanted = [t for b in roots for t in b.outputs]
        if not recomputes:
            wanted += [t for b in ordered if b not in roots for t in b.outputs]
        inside = {b.site for b in ordered}
        if recomputes:
            inside -= _staying(edited, roots, ordered)
        outside = [t for t in wanted if any(b.site not in inside for b, _ in edited.readers[t])]
        return FusedRegion(edited, tuple(roots), ordered, reads, tuple(outside) or (roots[0].outputs[0],))

    @property
    def replaced(self) -> list[Block]:
        """The blocks whose results it takes over, in program order; it takes the place of the first of them."""
        found = dict.fromkeys(self.edited.producers[t] for t in self.results)
        return sorted(found, key=lambda b: self.edited.position(b.site))

    def late_inputs(self) -> list[Block] | None:
        """Find the blocks that must move before the fused block; None if that is impossible."""
        return self.edited.late(self.replaced, self.reads)

    def is_possible(self) -> bool:
        """Return whether the blocks can become one: all have index spaces, no own costs, and no cycle arises."""
        if any(b.signature is None or b.definition.costs is not None for b in self.blocks):
            return False
        return self.late_inputs() is not None

    @property
    def key(self) -> tuple[Any, ...]:
        """A key that determines the fused block up to sites: cheap to hash, since definitions are interned."""
        number = {t: k for k, t in enumerate(self.reads)}
        types = tuple(self.edited.tensors[t].type for t in number)
        wiring = []
        for b in self.blocks:
            wiring.append((b.definition, tuple([number[t] for t in b.inputs])))
            for t in b.outputs:
                number[t] = len(number)
        return (*wiring, types, tuple(number[t] for t in self.results))

    def body(self) -> FusedBody:
        """Build the body of the fused block."""
        edited, reads = self.edited, self.reads
        number = {t: k for k, t in enumerate(reads)}
        types, steps = [edited.tensors[t].type for t in reads], list[FusedStep]()
        for b in self.blocks:
            inner = _steps(b, [edited.tensors[t].type for t in b.outputs])
            values = [number[t] for t in b.inputs]
            for step, made in inner.steps:
                makes = tuple(range(len(types), len(types) + len(made)))
                steps.append(
                    FusedStep(step.operator, step.definition, tuple(values[v] for v in step.reads), makes)
                )
                values += makes
                types += made
            number.update(zip(b.outputs, (values[v] for v in inner.outputs), strict=True))
        inputs, outputs = tuple(types[: len(reads)]), tuple(number[t] for t in self.results)
        return FusedBody(inputs, tuple(types), tuple(steps), outputs)

    def form(self) -> FusedForm:
        """Build the fused block."""
        body = self.body()
        steps = tuple((s.definition.operator, s.definition.attributes, s.reads) for s in body.steps)
        return FusedForm(self.reads, body.inputs, steps, body.outputs, self.results)


def _staying(edited: TrackedGraph, roots: Sequence[Block], ordered: Sequence[Block]) -> set[str]:
    """Find sites of inner blocks that stay beside a region that recomputes them: others need their results."""
    giving, inside = {b.site for b in roots}, {b.site for b in ordered}
    found = set[str]()
    for block in reversed(ordered):
        readers = {r.site for t in block.outputs for r, _ in edited.readers[t]}
        if block.site not in giving and (readers & found or readers - inside):
            found.add(block.site)
    return found


class _Steps(NamedTuple):
    """A block as steps over numbered values, its inputs first: each with the types of its results."""

    steps: list[tuple[FusedStep, Sequence[TensorType]]]
    outputs: Sequence[int]


def _steps(block: Block, types: Sequence[TensorType]) -> _Steps:
    count = len(block.inputs)
    if block.operator != FUSED:
        made = tuple(range(count, count + len(types)))
        whole = FusedStep(operator_named(block.operator), block.definition, tuple(range(count)), made)
        return _Steps([(whole, types)], made)
    body = body_of(block.definition)
    return _Steps([(step, [body.types[v] for v in step.makes]) for step in body.steps], body.outputs)


def region(
    edited: TrackedGraph,
    roots: Sequence[Block],
    blocks: Collection[Block],
    recomputes: bool = False,
    joined: Collection[str] = (),
) -> FusedRegion:
    """Build the region of matched blocks, and of readers of their results whose operators are in `joined`.

    A reader of an inner value joins, perhaps behind cells and views (a reduction behind views only: it reduces
    values that exist anyway), if program order alone shows that no cycle arises: it comes after the producers of
    all tensors that the region reads, and its other inputs are produced before the first result.
    """
    key = (
        FusedRegion,
        *[b.site for b in blocks],
        recomputes,
        joined and tuple(joined),
        *[b.site for b in roots],
    )
    return edited.memoized(key, lambda: _region(edited, roots, blocks, recomputes, joined))


def _region(
    edited: TrackedGraph,
    roots: Sequence[Block],
    blocks: Collection[Block],
    recomputes: bool,
    joined: Collection[str],
) -> FusedRegion:
    found = FusedRegion.of(edited, roots, blocks, recomputes)
    if not joined:
        return found
    last = max(edited.position(edited.producers[t].site) for t in found.reads)
    first = min(edited.position(b.site) for b in roots)
    inside = {b.site: b for b in blocks}
    new, ends = dict(inside), dict[str, Block]()
    waiting: list[tuple[Block, tuple[Block, ...]]] = [(b, ()) for b in found.blocks if b not in roots]
    while waiting:
        producer, chain = waiting.pop()
        for block in dict.fromkeys(r for t in producer.outputs for r, _ in edited.readers[t]):
            if block.site in inside or not edited.is_free(block) or block.signature is None:
                continue
            others = (edited.producers[t].site for t in block.inputs if edited.producers[t] is not producer)
            if not all(s in new or edited.position(s) < first for s in others):
                continue
            if _joins(block, chain, joined) and edited.position(block.site) > last:
                ends[block.site] = block
                new.update((b.site, b) for b in (*chain, block))
            elif block.operator in PASS_THROUGH and len(chain) < MOST_PASS_THROUGH:
                waiting.append((block, (*chain, block)))
    added = sorted(ends.values(), key=lambda b: edited.position(b.site))
    return FusedRegion.of(edited, (*roots, *added), new.values(), recomputes)


def _joins(block: Block, chain: Sequence[Block], joined: Collection[str]) -> bool:
    """Return whether a reader behind these blocks is one that joins."""
    return block.operator in joined and (
        block.operator != "reduce" or all(b.operator == "view" for b in chain)
    )


class ExpandedStep(NamedTuple):
    """A step to become a block: its operands (sites, or step and result) and its results' types.

    `outputs` says which output of the fused block each result is (-1: none).
    """

    definition: Definition
    reads: list[str | tuple[int, int]]
    types: list[TensorType]
    outputs: list[int]


def expanded_steps(definition: Definition, inputs: Sequence[str]) -> list[ExpandedStep]:
    """List the steps of a fused block, in order."""
    body = body_of(definition)
    names: list[str | tuple[int, int]] = list(inputs)
    place = {v: k for k, v in enumerate(body.outputs)}
    steps = []
    for k, step in enumerate(body.steps):
        reads, types = [names[v] for v in step.reads], [body.types[v] for v in step.makes]
        steps.append(ExpandedStep(step.definition, reads, types, [place.get(v, -1) for v in step.makes]))
        names += [(k, r) for r in range(len(step.makes))]
    return steps
