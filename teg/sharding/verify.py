"""A proof, from the arrays alone, that an expansion computes its graph; each claim that fails is an issue.

Shown for every block: it runs once, after what it reads; its shards tile the index space exactly; they read
exactly what they project to, from a buffer that has it, complete and in time; they write exactly their part.
A block that runs in rounds does so once per round, and what is shown of its shards is shown of those of all rounds.
What rounds make of a reduction, each by itself, are terms: a waypoint alone reads them, each in its round, and combines
them by the reduction's monoid.
For every copy: its terms are each combined once, its pieces tile what they are cut from and cover the result.
Blocks read and write on their own stage, and copies between stages say by which way they go.
Facts about equal arrays are proven once, so the cost is that of the distinct chunks, not of devices squared. A cache
keeps them for other plans: what is known to hold is not shown again; where it does not, the faults are found anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tapestry.teg.graph import Block, Graph
from tapestry.teg.issues import Issue, key_path
from tapestry.teg.sharding.expand import Buffer, ComputeStep, CopyStep, ExplicitGraph, InputRead
from tapestry.teg.sharding.partition import nonempty, same_boxes
from tapestry.teg.sharding.proofs import (
    Facts,
    ProofIssue,
    copy_faults,
    devices,
    term_faults,
    through,
    whole,
    whole_terms,
    within,
)
from tapestry.teg.sharding.result_cache import ResultCache
from tapestry.teg.signature import PARALLEL
from tapestry.teg.views import ViewMap, root_of

SOURCE_SLOT = -1


def verify(abstract: Graph, expanded: ExplicitGraph, cache: ResultCache | None = None) -> list[Issue]:
    """Return all reasons why `expanded` is not a correct expansion of `abstract`; an empty list if it is one.

    Kinds: `structure`, `order`, `partition`, `projection`, `spec`, `partial`, `coverage`. `cache` is one of the
    program's mesh, which keeps what is known to hold.
    """
    return _Proof(abstract, expanded, cache or ResultCache(expanded.mesh_shape)).run()


class _Term(NamedTuple):
    """A term, which a round makes of a reduction: the block that made it, the monoid, and the round."""

    site: str
    monoid: str
    round: int


class _Proof:
    def __init__(self, abstract: Graph, expanded: ExplicitGraph, cache: ResultCache) -> None:
        self.abstract, self.expanded, self.mesh_shape = abstract, expanded, expanded.mesh_shape
        self.issues: list[Issue] = []
        self.sound: dict[str, Buffer] = {}
        self.ready: dict[str, int] = {}
        self.copies: dict[str, CopyStep] = {}
        self.terms: dict[str, _Term] = {}
        self.roots: dict[str, tuple[str, ViewMap]] = cache.known(("roots", abstract), dict)
        self.cache, self.facts = cache, Facts(cache)

    def run(self) -> list[Issue]:
        for key, buffer in self.expanded.buffers.items():
            path = key_path("$.buffers", key)
            faults = list(self._buffer_faults(key, buffer))
            self._report(path, faults)
            if not any(f.kind == "structure" for f in faults):
                self.sound[key] = buffer
        self._check_sources()
        done: dict[str, int] = {}
        self.rounds = self._rounds()
        self.varied = {site: _varied(rounds) for site, rounds in self.rounds.items()}
        self.ran = set[tuple[str, int]]()
        for k, slot in enumerate(self.expanded.slots):
            path = f"$.slots[{k}]"
            for n, copy in enumerate(slot.issued):
                self._report(f"{path}.issued[{n}]", self._copy_faults(copy, k))
            self._report(f"{path}.waited", self._wait_faults(slot.waited, k))
            self._report(f"{path}.step", self._step_faults(slot.step, k, done))
        self._report("$.slots", self._completeness_faults(done))
        return self.issues

    def _report(self, path: str, faults: Iterator[ProofIssue] | list[ProofIssue]) -> None:
        self.issues.extend(Issue(f.kind, path, f.message, f.expected) for f in faults)

    # Buffers and sources.

    def _buffer_faults(self, key: str, buffer: Buffer) -> Iterator[ProofIssue]:
        tensor = self.abstract.tensors.get(buffer.tensor)
        if tensor is None or self.abstract.producers[buffer.tensor].is_view:
            message = f"buffer {key!r} holds {buffer.tensor!r}"
            yield ProofIssue("structure", message, "a buffer holds a tensor of the graph that is no view")
            return
        wanted = (self.mesh_shape.device_count, len(tensor.shape), 2)
        ends = [a + n for a, n in zip(buffer.origin, buffer.shape, strict=False)]
        if len(ends) != len(tensor.shape) or any(e > n for e, n in zip(ends, tensor.shape, strict=True)):
            message = f"buffer {key!r} is for a slice of shape {buffer.shape} at {buffer.origin}"
            yield ProofIssue("structure", message, f"expected a part of the shape {tensor.shape}")
            return
        if not 0 <= buffer.stage < (1 if self.expanded.stages is None else self.expanded.stages.count):
            message = f"buffer {key!r} is on stage {buffer.stage}"
            yield ProofIssue("structure", message, "a buffer is on one of the stages")
            return
        if buffer.boxes.shape != wanted or buffer.dtype != tensor.dtype or buffer.key != key:
            message = f"buffer {key!r} has boxes {buffer.boxes.shape} of {buffer.dtype}"
            yield ProofIssue("structure", message, f"expected {wanted} of {tensor.dtype}")
            return
        key_of_boxes = self.cache.key_of(buffer.boxes)
        sound = self.facts.holds(
            ("buffer", buffer.spec, buffer.shape, buffer.origin, key_of_boxes),
            lambda: self._spec_faults(buffer),
        )
        if not sound:
            yield from self._spec_faults(buffer)

    def _spec_faults(self, buffer: Buffer) -> Iterator[ProofIssue]:
        spec, shape = buffer.spec, buffer.shape
        names = [a for split in spec.dims for a in split.axes]
        unknown = [a for a in (*names, *spec.partial) if a not in self.mesh_shape.positions]
        if unknown or len(spec.dims) != len(shape):
            message = f"spec {spec} has {len(spec.dims)} dimensions and unknown sub-axes {unknown}"
            yield ProofIssue("structure", message, f"{len(shape)} dimensions over the mesh's sub-axes")
            return
        if set(names) & set(spec.partial) or bool(spec.partial) != (spec.monoid is not None):
            message = f"spec {spec} splits and sums over the same sub-axes, or lacks a monoid"
            yield ProofIssue("spec", message, "a sub-axis either splits a tensor or holds its terms")
        wrong = ~same_boxes(self.facts.boxes(spec, shape), self._of_slice(buffer).boxes)
        if wrong.any():
            yield ProofIssue(
                "spec",
                f"the boxes of {buffer.key!r} are not those of its spec {spec} on {devices(wrong)}",
                "boxes follow from specs",
            )

    def _of_slice(self, buffer: Buffer) -> Buffer:
        """Return a buffer with its boxes in the slice that it is for."""
        if not any(buffer.origin):
            return buffer
        key = ("of slice", self.cache.key_of(buffer.boxes), buffer.origin)
        origin = np.array(buffer.origin, dtype=np.int64)[:, None]
        return replace(buffer, boxes=self.cache.known(key, lambda: buffer.boxes - origin))

    def _check_sources(self) -> None:
        keys: dict[str, list[str]] = {}
        for key, tensor in self.expanded.sources.items():
            keys.setdefault(tensor, []).append(key)
        for block in self.abstract.sources:
            tensor = block.outputs[0]
            path = key_path("$.sources", tensor)
            buffers = [self.sound.get(key) for key in keys.get(tensor, [])]
            held = [buffer for buffer in buffers if buffer is not None and buffer.tensor == tensor]
            if not held or len(held) < len(buffers):
                self._report(
                    path, [ProofIssue("structure", f"source {tensor!r} has no buffer", "expected one")]
                )
                continue
            self.ready |= dict.fromkeys((buffer.key for buffer in held), SOURCE_SLOT)
            if len({buffer.stage for buffer in held}) > 1:
                message = f"source {tensor!r} is on several stages"
                self._report(path, [ProofIssue("structure", message, "slices of a source are on one stage")])
            shape = self.abstract.tensors[tensor].shape
            parts = held[0].boxes if len(held) == 1 else np.concatenate([buffer.boxes for buffer in held])
            fault = self.facts.tiling(parts, (0,) * len(shape), shape)
            if fault is not None:
                message = f"the parts of source {tensor!r} do not make it: {fault}"
                self._report(path, [ProofIssue("partition", message, "parts tile the tensor")])
            if any(buffer.round for buffer in held):
                message = f"source {tensor!r} is of a round"
                self._report(path, [ProofIssue("structure", message, "only terms are")])
            if any(buffer.spec.partial for buffer in held):
                message = f"source {tensor!r} is partial: {held[0].spec}"
                self._report(path, [ProofIssue("partial", message, "inputs are created whole")])
        for tensor in keys:
            producer = self.abstract.producers.get(tensor)
            if producer is None or producer.operator != "source":
                fault_here = ProofIssue("structure", f"{tensor!r} is no source of the graph", "sources only")
                self._report(key_path("$.sources", tensor), [fault_here])

    # Copies.

    def _copy_faults(self, copy: CopyStep, slot: int) -> Iterator[ProofIssue]:
        source, result = self.sound.get(copy.source), self.sound.get(copy.result)
        if source is None or result is None or source.tensor != result.tensor:
            message = f"copy {copy.result!r} from {copy.source!r}"
            yield ProofIssue("structure", message, "both are sound buffers of one tensor")
            return
        if copy.result in self.copies or copy.result in self.ready:
            yield ProofIssue(
                "structure", f"buffer {copy.result!r} is made twice", "every buffer has one maker"
            )
        self.copies[copy.result] = copy
        if copy.source in self.terms:
            self.terms[copy.result] = self.terms[copy.source]
        made = self.ready.get(copy.source)
        if copy.source in self.copies or made is None or not made < slot == copy.issue <= copy.wait:
            when = "not yet" if made is None else f"in slot {made}"
            message = f"copy {copy.result!r} is issued in slot {slot}; its source was made {when}"
            expected = "a copy is issued in its own slot, after its source was made, which is no copy"
            yield ProofIssue("order", message, expected)
        if (source.shape, source.origin, source.round) != (result.shape, result.origin, result.round):
            message = f"copy {copy.result!r} is of another slice or round than {copy.source!r}"
            yield ProofIssue("structure", message, "both are of one slice, and of one round's term")
            return
        layout, route = self.expanded.stages, None
        if layout is not None and source.stage != result.stage:
            route = layout.route(source.stage, result.stage)
        if copy.plan.route != route or (route is not None and not copy.plan.fetch):
            message = (
                f"copy {copy.result!r} goes by {copy.plan.route} from stage {source.stage} to {result.stage}"
            )
            yield ProofIssue("structure", message, f"the way is {route}, and everything is fetched")
            return
        shape = source.shape
        if (copy.plan.source, copy.plan.needed) != (source.spec, result.spec):
            message = f"copy {copy.result!r} goes from {copy.plan.source} to {copy.plan.needed}"
            yield ProofIssue("spec", message, f"its buffers say from {source.spec} to {result.spec}")
            return
        parts = (source.spec, self.cache.key_of(source.boxes), result.spec, self.cache.key_of(result.boxes))

        def faults() -> Iterator[ProofIssue]:
            of_slice = (self._of_slice(source), self._of_slice(result))
            return copy_faults(self.facts, copy.plan, *of_slice, shape)

        if not self.facts.holds(("copy", copy.plan, shape, source.origin, *parts), faults):
            yield from faults()

    def _wait_faults(self, waited: tuple[str, ...], slot: int) -> Iterator[ProofIssue]:
        for key in waited:
            copy = self.copies.get(key)
            if copy is None or copy.wait != slot or key in self.ready:
                message = f"slot {slot} waits for {key!r}"
                yield ProofIssue(
                    "order", message, "a copy is issued before, and waited for once, in its slot"
                )
                continue
            self.ready[key] = slot

    # Blocks.

    def _step_faults(self, step: ComputeStep, slot: int, done: dict[str, int]) -> Iterator[ProofIssue]:
        block = self.abstract.by_site.get(step.site)
        if block is None or not _takes_slot(block):
            yield ProofIssue(
                "structure", f"slot {slot} runs {step.site!r}", "a block of the graph takes a slot"
            )
            return
        rounds = self.rounds[step.site]
        if (step.site, step.round) in self.ran:
            yield ProofIssue(
                "structure", f"block {step.site!r} runs again in round {step.round}", "once per round"
            )
        if step.accumulates and step.round and (step.site, step.round - 1) not in self.ran:
            message = f"block {step.site!r} accumulates in round {step.round} before round {step.round - 1}"
            yield ProofIssue("order", message, "the first round fills what all others add to, one by one")
        self.ran.add((step.site, step.round))
        if step.round == max(rounds):
            done[step.site] = slot
        late = [s for s in block.after if _takes_slot(self.abstract.by_site[s]) and s not in done]
        if late:
            yield ProofIssue("order", f"block {step.site!r} runs before {late}", "it comes after them")
        rank = len(block.signature.dims) if block.signature is not None else 0
        counts = (len(step.reads), len(step.outputs))
        if (
            step.definition is not block.definition
            or counts != (len(block.inputs), len(block.outputs))
            or step.index.shape != (self.mesh_shape.device_count, rank, 2)
        ):
            message = f"block {step.site!r} runs another definition, other inputs or outputs, or another rank"
            yield ProofIssue("structure", message, "a step repeats its block")
            return
        stages = {each.stage for each in rounds.values()}
        if len(stages) > 1:
            message = f"block {step.site!r} runs on stages {sorted(stages)}"
            yield ProofIssue("structure", message, "all rounds of a block are on one stage")
        if block.signature is not None and step.round == min(rounds):
            space = block.signature.index_range
            parts = [each.index for each in rounds.values()]
            is_once = len(parts) == 1 or (step.accumulates and not self.varied[step.site])
            fault = self.facts.tiling(parts[0] if is_once else np.concatenate(parts), space.start, space.end)
            if fault is not None:
                message = f"the shards of {step.site!r} do not make it: {fault}"
                yield ProofIssue("partition", message, "shards tile the index space")
        for k, read in enumerate(step.reads):
            yield from self._read_faults(block, k, read, step, slot)
        for k in range(len(block.outputs)):
            yield from self._output_faults(block, k, step, slot)

    def _rounds(self) -> dict[str, dict[int, ComputeStep]]:
        """Return the steps of each block by their rounds, the first one where there are several."""
        found: dict[str, dict[int, ComputeStep]] = {}
        for slot in self.expanded.slots:
            found.setdefault(slot.step.site, {}).setdefault(slot.step.round, slot.step)
        return found

    def _read_faults(
        self, block: Block, k: int, read: InputRead, step: ComputeStep, slot: int
    ) -> Iterator[ProofIssue]:
        name, tensor, index = f"input {k} of {block.site!r}", block.inputs[k], step.index
        if tensor not in self.roots:
            self.roots[tensor] = root_of(self.abstract, tensor)
        root, view = self.roots[tensor]
        shape = self.abstract.tensors[tensor].shape
        wanted_shape = (len(index), len(shape), 2)
        buffer = self.sound.get(read.buffer)
        if buffer is None or buffer.tensor != root or read.view != view or read.wanted.shape != wanted_shape:
            message = f"{name} reads buffer {read.buffer!r} through {read.view}"
            yield ProofIssue("structure", message, f"it reads {root!r} through {view}")
            return
        if buffer.stage != step.stage:
            message = f"{name} reads {buffer.key!r} on stage {buffer.stage}"
            yield ProofIssue("structure", message, f"the block is on stage {step.stage}")
        if buffer.key not in self.ready:
            yield ProofIssue(
                "order", f"{name} reads {buffer.key!r} before it is made", "made, and waited for"
            )
        if buffer.spec.partial:
            message = f"{name} reads {buffer.key!r}, which is partial: {buffer.spec}"
            yield ProofIssue("partial", message, "a copy that reduces comes between")
        term = self.terms.get(buffer.key)
        if term is not None and (self.varied[step.site] or not step.accumulates):
            message = f"{name} reads {buffer.key!r}, of which other rounds have terms"
            yield ProofIssue("partial", message, "a waypoint combines the terms of all rounds first")
        arrays = map(self.cache.key_of, (index, read.wanted, buffer.boxes))

        def faults() -> Iterator[ProofIssue]:
            return self._range_faults(block, k, read, index, shape, buffer)

        if not self.facts.holds(("read", block.signature, k, view, shape, *arrays), faults):
            yield from faults()

    def _range_faults(
        self, block: Block, k: int, read: InputRead, index: np.ndarray, shape: tuple[int, ...], buffer: Buffer
    ) -> Iterator[ProofIssue]:
        name = f"input {k} of {block.site!r}"
        wanted = whole(shape, len(index))
        if block.signature is not None:
            wanted = self.facts.projected(block.signature.inputs[k], index, shape)
        wrong = ~same_boxes(wanted, read.wanted)
        if wrong.any():
            message = f"{name} reads other ranges than its shards project to on {devices(wrong)}"
            yield ProofIssue("projection", message, "ranges read are projections of index ranges")
        outside = nonempty(wanted) & ~within(through(read.view, wanted), buffer.boxes)
        if outside.any():
            message = f"{name} reads outside of what {buffer.key!r} holds on {devices(outside)}"
            yield ProofIssue("coverage", message, "the buffer covers what is read")

    def _output_faults(self, block: Block, k: int, step: ComputeStep, slot: int) -> Iterator[ProofIssue]:
        site, key, index = block.outputs[k], step.outputs[k], step.index
        buffer = self.sound.get(key)
        is_here = buffer is not None and buffer.stage == step.stage
        if buffer is None or buffer.tensor != site or key in self.ready or not is_here:
            message = f"output {site!r} of {block.site!r} has no buffer of its own"
            yield ProofIssue("structure", message, "every output has one buffer, made once, on its stage")
            return
        rounds, varied = self.rounds[step.site], self.varied[step.site]
        assert block.signature is not None or not varied
        kinds = {block.signature.dims[n].kind for n in varied} if block.signature is not None else set()
        of_round = bool(step.accumulates) or bool(kinds - {PARALLEL})
        if step.accumulates:
            yield from self._accumulation_faults(block, step, kinds)
        is_term = of_round and not step.accumulates
        if buffer.round != (step.round if is_term else 0):
            message = f"output {site!r} of {block.site!r} in round {step.round} is of round {buffer.round}"
            yield ProofIssue("structure", message, "a term is of the round that makes it, all else of none")
        if is_term:
            self.terms[key] = _Term(step.site, min(kinds - {PARALLEL}), step.round)
            if len(kinds) > 1:
                message = f"output {site!r} of {block.site!r} differs from round to round in {sorted(kinds)}"
                yield ProofIssue("partial", message, "rounds make slices, or terms of one reduction")
        if not step.accumulates or step.round == max(rounds):
            self.ready[key] = slot
        shape = self.abstract.tensors[site].shape
        arrays = map(self.cache.key_of, (index, buffer.boxes))

        def faults() -> Iterator[ProofIssue]:
            return self._written_faults(block, k, buffer, index, shape, of_round)

        known = ("output", block.signature, k, buffer.spec, shape, of_round, *arrays)
        if not self.facts.holds(known, faults):
            yield from faults()

    def _accumulation_faults(self, block: Block, step: ComputeStep, kinds: set[str]) -> Iterator[ProofIssue]:
        """Yield faults unless a block combines what rounds make by its monoid: its own reduction, or terms it reads.

        `kinds` are those of the dimensions in which the rounds of the block differ.
        """
        first = self.rounds[step.site][min(self.rounds[step.site])]
        same = (step.outputs, step.accumulates) == (first.outputs, first.accumulates)
        if not kinds and block.operator == "waypoint":
            term = self.terms.get(step.reads[0].buffer)
            rounds = self.rounds[term.site].keys() if term is not None else set()
            if term is not None and term.round == step.round and rounds == self.rounds[step.site].keys():
                kinds = {term.monoid}
        if kinds != {step.accumulates} or not same or step.accumulates == PARALLEL:
            message = (
                f"block {step.site!r} accumulates by {step.accumulates!r} what differs in {sorted(kinds)}"
            )
            yield ProofIssue("partial", message, "rounds are terms of one reduction, in one buffer")

    def _written_faults(
        self,
        block: Block,
        k: int,
        buffer: Buffer,
        index: np.ndarray,
        shape: tuple[int, ...],
        of_round: bool,
    ) -> Iterator[ProofIssue]:
        site = buffer.key
        if block.signature is None:
            made = whole(shape, len(index))
        else:
            full = whole_terms(block.signature, index)
            made = self.facts.projected(block.signature.outputs[k], full, shape)
            yield from term_faults(self.facts, block.signature, buffer, index, of_round)
        wrong = ~same_boxes(made, buffer.boxes)
        if wrong.any():
            message = f"output {site!r} has other boxes than its shards project to on {devices(wrong)}"
            yield ProofIssue("projection", message, "an output's boxes are projections of index ranges")

    def _completeness_faults(self, done: dict[str, int]) -> Iterator[ProofIssue]:
        for block in self.abstract.blocks:
            if _takes_slot(block) and block.site not in done:
                yield ProofIssue("structure", f"block {block.site!r} never runs", "every block runs once")
        for key in self.copies:
            if key not in self.ready:
                yield ProofIssue(
                    "order", f"nobody waits for copy {key!r}", "a copy is waited for by its first reader"
                )
        for key in self.expanded.buffers:
            if key not in self.ready and key not in self.copies:
                yield ProofIssue("structure", f"nobody makes buffer {key!r}", "every buffer has one maker")


def _varied(rounds: Mapping[int, ComputeStep]) -> list[int]:
    """Return the index dimensions in which the rounds of a block differ."""
    first, *others = (step.index for step in rounds.values())
    others = [index for index in others if index.shape == first.shape]
    return [n for n in range(first.shape[1]) if any((index[:, n] != first[:, n]).any() for index in others)]


def _takes_slot(block: Block) -> bool:
    return block.operator != "source" and not block.is_view
