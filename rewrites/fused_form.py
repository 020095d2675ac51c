"""Fused blocks as values: matched blocks in one body, and a body's steps as blocks again.

In a body values are numbered, inputs first. A matched block that is fused itself gives its steps.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rewrites.draft import Draft
from teg.builder import define
from teg.graph import Attributes, Block, Definition, TensorType, attributes
from teg.operators import body_of
from teg.operators.fused_body import FUSED, Body

Step = tuple[str, Attributes, tuple[int, ...]]


@dataclass(frozen=True)
class FusedForm:
    """A fused block: the tensors it reads, its steps, and per output its value's number and its tensor's site."""

    reads: tuple[str, ...]
    inputs: tuple[TensorType, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    sites: tuple[str, ...]

    @property
    def attributes(self) -> Attributes:
        """The attributes of the block."""
        types = tuple((t.shape, t.dtype) for t in self.inputs)
        return attributes(body=self.steps, types=types, results=self.outputs)

    def define(self) -> tuple[Definition, tuple[TensorType, ...]]:
        """The block's definition and output types.

        Raises:
            ValueError: the steps cannot stand in one block.
        """
        return define(FUSED, self.attributes, self.inputs)


def fused_form(
    draft: Draft, roots: Sequence[Block], blocks: Collection[Block], recomputes: bool = False
) -> FusedForm:
    """Blocks as one: results are those of the roots, and what others read unless its makers stay (`recomputes`)."""
    ordered = sorted(blocks, key=lambda b: draft.position(b.site))
    made = {t for b in ordered for t in b.outputs}
    reads = tuple(dict.fromkeys(t for b in ordered for t in b.inputs if t not in made))
    number = {t: k for k, t in enumerate(reads)}
    count, steps = len(reads), list[Step]()
    for b in ordered:
        own = [number[t] for t in b.inputs]
        if b.operator == FUSED:
            body = body_of(b.definition)
            inner, results = _renumbered(body, own, count)
            steps += inner
            count += len(body.types) - len(body.inputs)
        else:
            steps.append((b.operator, b.definition.attributes, tuple(own)))
            results = list(range(count, count + len(b.outputs)))
            count += len(b.outputs)
        number.update(zip(b.outputs, results, strict=True))
    sites = results_of(draft, roots, ordered, recomputes)
    types = tuple(draft.tensors[t].type for t in reads)
    return FusedForm(reads, types, tuple(steps), tuple(number[t] for t in sites), sites)


def _renumbered(body: Body, inputs: Sequence[int], first: int) -> tuple[list[Step], list[int]]:
    """The steps of a body whose inputs have other numbers and whose results start at `first`; its outputs."""
    number = [*inputs, *range(first, first + len(body.types) - len(body.inputs))]
    steps = [
        (s.definition.operator, s.definition.attributes, tuple(number[v] for v in s.reads))
        for s in body.steps
    ]
    return steps, [number[v] for v in body.outputs]


def results_of(
    draft: Draft, roots: Sequence[Block], blocks: Sequence[Block], recomputes: bool
) -> tuple[str, ...]:
    """The tensors that a fused block makes, those of its roots first."""
    wanted = [t for b in roots for t in b.outputs]
    if not recomputes:
        wanted += [t for b in blocks if b not in roots for t in b.outputs]
    outside = [t for t in wanted if any(b not in blocks for b, _ in draft.readers[t])]
    return tuple(outside) or (roots[0].outputs[0],)


def can_fuse(draft: Draft, roots: Sequence[Block], blocks: Collection[Block], recomputes: bool) -> bool:
    """Whether blocks can become one: all have index spaces and no costs of their own, and no cycle arises."""
    if any(b.signature is None or b.definition.costs is not None for b in blocks):
        return False
    return late_inputs(draft, roots, blocks, recomputes) is not None


def late_inputs(
    draft: Draft, roots: Sequence[Block], blocks: Collection[Block], recomputes: bool
) -> list[Block] | None:
    """The blocks that must move in front of the fused block; None where one of them needs its results.

    The fused block stands where the first block stood whose result it takes over.
    """
    inside = sorted(blocks, key=lambda b: draft.position(b.site))
    sites = results_of(draft, roots, inside, recomputes)
    replaced = makers(draft, sites)
    start = draft.position(replaced[0].site)
    waiting = [draft.producers[t] for b in inside for t in b.inputs if draft.producers[t] not in blocks]
    late: dict[str, Block] = {}
    while waiting:
        block = waiting.pop()
        if block.site in late or draft.position(block.site) < start:
            continue
        if block in replaced:
            return None
        late[block.site] = block
        waiting.extend(draft.producers[t] for t in block.inputs)
    return [draft.blocks[s] for s in sorted(late, key=draft.position)]


def makers(draft: Draft, sites: Sequence[str]) -> list[Block]:
    """The blocks that make these tensors, in program order."""
    found = dict.fromkeys(draft.producers[t] for t in sites)
    return sorted(found, key=lambda b: draft.position(b.site))


class Spelled(NamedTuple):
    """A step to become a block: what it reads (sites, or step and result), its results' types, and which
    output of the fused block each of them is (-1: none)."""

    definition: Definition
    reads: list[str | tuple[int, int]]
    types: list[TensorType]
    outputs: list[int]


def spelled_out(definition: Definition, inputs: Sequence[str]) -> list[Spelled]:
    """The steps of a fused block, in order."""
    body = body_of(definition)
    names: list[str | tuple[int, int]] = list(inputs)
    place = {v: k for k, v in enumerate(body.outputs)}
    steps = []
    for k, step in enumerate(body.steps):
        reads, types = [names[v] for v in step.reads], [body.types[v] for v in step.makes]
        steps.append(Spelled(step.definition, reads, types, [place.get(v, -1) for v in step.makes]))
        names += [(k, r) for r in range(len(step.makes))]
    return steps
