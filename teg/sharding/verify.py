"""A proof, from the arrays alone, that an expansion computes its graph; each claim that fails is an issue.

Shown for every block: it runs once, after what it reads; its shards tile the index space exactly; they read
exactly what they project to, from a buffer that has it, complete and in time; they write exactly their part.
For every copy: its terms are each combined once, its pieces tile what they are cut from and cover the result.
Facts about equal arrays are proven once, so the cost is that of the distinct chunks, not of devices squared. A cache
keeps them for other plans: what is known to hold is not shown again; where it does not, the faults are found anew.
"""

from __future__ import annotations

from collections.abc import Iterator

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
from tapestry.teg.views import ViewMap, root_of

SOURCE_SLOT = -1


def verify(abstract: Graph, expanded: ExplicitGraph, cache: ResultCache | None = None) -> list[Issue]:
    """Return all reasons why `expanded` is not a correct expansion of `abstract`; an empty list if it is one.

    Kinds: `structure`, `order`, `partition`, `projection`, `spec`, `partial`, `coverage`. `cache` is one of the
    program's mesh, which keeps what is known to hold.
    """
    return _Proof(abstract, expanded, cache or ResultCache(expanded.mesh_shape)).run()


class _Proof:
    def __init__(self, abstract: Graph, expanded: ExplicitGraph, cache: ResultCache) -> None:
        self.abstract, self.expanded, self.mesh_shape = abstract, expanded, expanded.mesh_shape
        self.issues: list[Issue] = []
        self.sound: dict[str, Buffer] = {}
        self.ready: dict[str, int] = {}
        self.copies: dict[str, CopyStep] = {}
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
        if buffer.boxes.shape != wanted or buffer.dtype != tensor.dtype or buffer.key != key:
            message = f"buffer {key!r} has boxes {buffer.boxes.shape} of {buffer.dtype}"
            yield ProofIssue("structure", message, f"expected {wanted} of {tensor.dtype}")
            return
        key_of_boxes = self.cache.key_of(buffer.boxes)
        sound = self.facts.holds(
            ("buffer", buffer.spec, tensor.shape, key_of_boxes),
            lambda: self._spec_faults(buffer, tensor.shape),
        )
        if not sound:
            yield from self._spec_faults(buffer, tensor.shape)

    def _spec_faults(self, buffer: Buffer, shape: tuple[int, ...]) -> Iterator[ProofIssue]:
        spec = buffer.spec
        names = [a for split in spec.dims for a in split.axes]
        unknown = [a for a in (*names, *spec.partial) if a not in self.mesh_shape.positions]
        if unknown or len(spec.dims) != len(shape):
            message = f"spec {spec} has {len(spec.dims)} dimensions and unknown sub-axes {unknown}"
            yield ProofIssue("structure", message, f"{len(shape)} dimensions over the mesh's sub-axes")
            return
        if set(names) & set(spec.partial) or bool(spec.partial) != (spec.monoid is not None):
            message = f"spec {spec} splits and sums over the same sub-axes, or lacks a monoid"
            yield ProofIssue("spec", message, "a sub-axis either splits a tensor or holds its terms")
        wrong = ~same_boxes(self.facts.boxes(spec, shape), buffer.boxes)
        if wrong.any():
            yield ProofIssue(
                "spec",
                f"the boxes of {buffer.key!r} are not those of its spec {spec} on {devices(wrong)}",
                "boxes follow from specs",
            )

    def _check_sources(self) -> None:
        for block in self.abstract.sources:
            tensor = block.outputs[0]
            path = key_path("$.sources", tensor)
            key = self.expanded.sources.get(tensor)
            buffer = self.sound.get(key) if key is not None else None
            if buffer is None or buffer.tensor != tensor:
                self._report(
                    path, [ProofIssue("structure", f"source {tensor!r} has no buffer", "expected one")]
                )
                continue
            self.ready[buffer.key] = SOURCE_SLOT
            shape = self.abstract.tensors[tensor].shape
            fault = self.facts.tiling(buffer.boxes, (0,) * len(shape), shape)
            if fault is not None:
                message = f"the parts of source {tensor!r} do not make it: {fault}"
                self._report(path, [ProofIssue("partition", message, "parts tile the tensor")])
            if buffer.spec.partial:
                message = f"source {tensor!r} is partial: {buffer.spec}"
                self._report(path, [ProofIssue("partial", message, "inputs are created whole")])
        for tensor in self.expanded.sources:
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
        made = self.ready.get(copy.source)
        if copy.source in self.copies or made is None or not made < slot == copy.issue <= copy.wait:
            when = "not yet" if made is None else f"in slot {made}"
            message = f"copy {copy.result!r} is issued in slot {slot}; its source was made {when}"
            expected = "a copy is issued in its own slot, after its source was made, which is no copy"
            yield ProofIssue("order", message, expected)
        shape = self.abstract.tensors[source.tensor].shape
        if (copy.plan.source, copy.plan.needed) != (source.spec, result.spec):
            message = f"copy {copy.result!r} goes from {copy.plan.source} to {copy.plan.needed}"
            yield ProofIssue("spec", message, f"its buffers say from {source.spec} to {result.spec}")
            return
        parts = (source.spec, self.cache.key_of(source.boxes), result.spec, self.cache.key_of(result.boxes))

        def faults() -> Iterator[ProofIssue]:
            return copy_faults(self.facts, copy.plan, source, result, shape)

        if not self.facts.holds(("copy", copy.plan, shape, *parts), faults):
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
        if step.site in done:
            yield ProofIssue(
                "structure", f"block {step.site!r} runs again", f"it ran in slot {done[step.site]}"
            )
        done[step.site] = slot
        late = [s for s in block.after if _takes_slot(self.abstract.by_site[s]) and s not in done]
        if late:
            yield ProofIssue("order", f"block {step.site!r} runs before {late}", "it comes after them")
        rank = len(block.signature.dims) if block.signature is not None else 0
        counts = (len(step.reads), step.outputs)
        if (
            step.definition is not block.definition
            or counts != (len(block.inputs), block.outputs)
            or step.index.shape != (self.mesh_shape.device_count, rank, 2)
        ):
            message = f"block {step.site!r} runs another definition, other inputs or outputs, or another rank"
            yield ProofIssue("structure", message, "a step repeats its block")
            return
        if block.signature is not None:
            space = block.signature.index_range
            fault = self.facts.tiling(step.index, space.start, space.end)
            if fault is not None:
                message = f"the shards of {step.site!r} do not make it: {fault}"
                yield ProofIssue("partition", message, "shards tile the index space")
        for k, read in enumerate(step.reads):
            yield from self._read_faults(block, k, read, step.index, slot)
        for k, site in enumerate(block.outputs):
            yield from self._output_faults(block, k, site, step.index, slot)

    def _read_faults(
        self, block: Block, k: int, read: InputRead, index: np.ndarray, slot: int
    ) -> Iterator[ProofIssue]:
        name, tensor = f"input {k} of {block.site!r}", block.inputs[k]
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
        if buffer.key not in self.ready:
            yield ProofIssue(
                "order", f"{name} reads {buffer.key!r} before it is made", "made, and waited for"
            )
        if buffer.spec.partial:
            message = f"{name} reads {buffer.key!r}, which is partial: {buffer.spec}"
            yield ProofIssue("partial", message, "a copy that reduces comes between")
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

    def _output_faults(
        self, block: Block, k: int, site: str, index: np.ndarray, slot: int
    ) -> Iterator[ProofIssue]:
        buffer = self.sound.get(site)
        if buffer is None or buffer.tensor != site or site in self.ready:
            message = f"output {site!r} of {block.site!r} has no buffer of its own"
            yield ProofIssue("structure", message, "every output has one buffer, made once")
            return
        self.ready[site] = slot
        shape = self.abstract.tensors[site].shape
        arrays = map(self.cache.key_of, (index, buffer.boxes))

        def faults() -> Iterator[ProofIssue]:
            return self._written_faults(block, k, buffer, index, shape)

        if not self.facts.holds(("output", block.signature, k, buffer.spec, shape, *arrays), faults):
            yield from faults()

    def _written_faults(
        self, block: Block, k: int, buffer: Buffer, index: np.ndarray, shape: tuple[int, ...]
    ) -> Iterator[ProofIssue]:
        site = buffer.key
        if block.signature is None:
            made = whole(shape, len(index))
        else:
            full = whole_terms(block.signature, index)
            made = self.facts.projected(block.signature.outputs[k], full, shape)
            yield from term_faults(self.facts, block.signature, buffer, index)
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


def _takes_slot(block: Block) -> bool:
    return block.operator != "source" and not block.is_view
