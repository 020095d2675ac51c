"""From an explicit graph to statements that all devices run: copies when they are issued, blocks in their slots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tapestry.teg.dtypes import item_bytes
from tapestry.teg.exporters.spmd.array_text import DTYPES, ArrayText, NotWritable, TextValue, UnequalSizes
from tapestry.teg.exporters.spmd.block_writer import BlockWriter
from tapestry.teg.exporters.spmd.copies import CopyWriter, HostEnds
from tapestry.teg.exporters.spmd.deletions import BufferBytes
from tapestry.teg.exporters.spmd.naming import families
from tapestry.teg.exporters.spmd.part_functions import PartFunctions, is_even
from tapestry.teg.exporters.spmd.per_rank import NumberTexts
from tapestry.teg.exporters.spmd.specs import SpecTexts, boxes_text, spec_text
from tapestry.teg.exporters.spmd.stacks import Stack, sink_stacks, source_stacks
from tapestry.teg.exporters.spmd.stage_turns import TurnStatements
from tapestry.teg.exporters.spmd.statements import (
    Statement,
    StatementList,
    source_value,
    sources_in,
    taken_source,
    variable,
    variables_in,
)
from tapestry.teg.exporters.spmd.target import ProgramTarget
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.copies import CopyPlan
from tapestry.teg.sharding.expand import ComputeStep, CopyStep, ExplicitGraph, InputRead
from tapestry.teg.sharding.host import HOST
from tapestry.teg.sharding.spec import volumes

# A constant of the program with more elements than these is read from a file.
LITERAL_ELEMENTS = 64


@dataclass(frozen=True)
class SourceText:
    """A source: element type and spec as texts; `literal` is its value where the program states it."""

    dtype: str
    spec: str
    literal: str | None = None


@dataclass(frozen=True)
class RankProgram:
    """Statements of a stage in execution order, what they read from outside, and the texts of their results by sink.

    `given` and `observed` are what devices of the stage have of sources and results, by site. With `has_early_copies`,
    some copies are only started where they are issued. Sources `on_host` begin there. The stages of a plan share
    `numbers`, `specs` and `functions`. Where one process drives all stages, the statements are those of `turns`.
    """

    statements: tuple[Statement, ...]
    turns: tuple[TurnStatements, ...]
    sources: Mapping[str, SourceText]
    outputs: Mapping[str, str]
    output_specs: Mapping[str, str]
    given: Mapping[str, Stack]
    observed: Mapping[str, Stack]
    numbers: NumberTexts
    specs: SpecTexts
    functions: PartFunctions
    has_early_copies: bool
    sizes: BufferBytes
    on_host: tuple[str, ...]


def write_programs(
    explicit: ExplicitGraph, target: ProgramTarget, reserved: Set[str]
) -> tuple[RankProgram, ...]:
    """Write the statements of each stage of a plan for a library; functions of the module use no `reserved` names.

    Raises:
        ValueError: blocks or element types have no text; all are listed. Or the plan has stages that the library
            does not support.
    """
    sums = _sums(explicit)
    explicit = _with_terms(explicit, sums)
    numbers = target.numbers(explicit.mesh_shape)
    functions = PartFunctions(explicit.mesh_shape, numbers.tables, reserved)
    common = (explicit, sums, target, numbers, SpecTexts(numbers), functions)
    count = 1 if explicit.stages is None else explicit.stages.count
    # One process drives all stages of a program that is traced.
    stages: list[int | None] = [None] if target.traced else list(range(count))
    walks = [_Walk(*common, stage) for stage in stages]
    programs = tuple(walk.run() for walk in walks)
    refused: dict[str, list[str]] = {}
    for walk in walks:
        for reason, sites in walk.refused.items():
            refused.setdefault(reason, []).extend(sites)
    if refused:
        issues = [f"{reason}: {_some(sites)}" for reason, sites in refused.items()]
        raise ValueError(f"the program cannot be written for {target.text.title}: {'; '.join(issues)}")
    return programs


def file_sources(graph: Graph) -> tuple[str, ...]:
    """Return the sources whose values a program reads from files; it states small constants itself."""
    return tuple(block.site for block in graph.sources if _is_read(graph, block.site))


def _is_read(graph: Graph, site: str) -> bool:
    block = graph.by_site[site]
    value = graph.data.get(block.outputs[0])
    return value is None or block.definition["role"] != "constant" or value.size > LITERAL_ELEMENTS


class _Walk:
    def __init__(
        self,
        explicit: ExplicitGraph,
        sums: Mapping[str, tuple[str, str]],
        target: ProgramTarget,
        numbers: NumberTexts,
        specs: SpecTexts,
        functions: PartFunctions,
        stage: int | None,
    ) -> None:
        self.explicit, self.sums, self.stage = explicit, sums, stage
        self.graph, self.target = explicit.abstract, target
        self.given, self.observed = (
            {site: stack for site, stack in stacks(explicit).items() if stage in (None, stack.stage)}
            for stacks in (source_stacks, sink_stacks)
        )
        self.mesh_shape = explicit.mesh_shape
        self.numbers, self.specs, self.functions = numbers, specs, functions
        self.statements = StatementList()
        everywhere = np.ones(self.mesh_shape.device_count, bool)
        xp = target.text(self.numbers, self.statements, everywhere)
        self.copies = CopyWriter(self.mesh_shape, self.specs, xp, self.functions if target.traced else None)
        self.blocks = BlockWriter(explicit, xp, self._read_text)
        self.repeats = False
        self.inputs = _named_inputs(self.graph, self.given)
        self.parts: dict[str, list[str]] = {}
        self.outputs: dict[str, str] = {}
        self.output_specs: dict[str, str] = {}
        self.started: dict[str, Callable[[], None]] = {}
        self.has_early_copies = False
        self.given_up = {} if target.traced else _given_up(explicit, self.given)
        self.refused: dict[str, list[str]] = {}
        self.seen: set[tuple[str, CopyPlan]] = set()
        self.latest = ""
        self.uneven: list[ComputeStep] = []
        self.readers = _readers(explicit)
        sinks = (slot.step for slot in explicit.slots if slot.step.definition.operator == "sink")
        self.sunk = {read.buffer for step in sinks for read in step.reads}
        self.turns: list[TurnStatements] = []
        self.at: int | None = None

    def run(self) -> RankProgram:
        sources = {site: self._source(site) for site in self.given}
        for site in self.inputs:
            self._turn_to(self.given[site].stage)
            self._name_input(site, self.given[site])
            self._turn_to(None)
        for number, slot in enumerate(self.explicit.slots):
            first = len(self.statements.done)
            if slot.issued:
                self._flush()
            for copy in slot.issued:
                self._issue(copy)
            for key in slot.waited:
                if key in self.started:
                    self.started.pop(key)()
            if self.stage in (None, slot.step.stage):
                self._turn_to(slot.step.stage)
                self._step(slot.step)
            for site in self.given_up.get(number, ()):
                self.statements.take(first, site)
        self._turn_to(None)
        self._flush()
        return RankProgram(
            tuple(self.statements.done),
            tuple(self.turns),
            sources,
            self.outputs,
            self.output_specs,
            self.given,
            self.observed,
            self.numbers,
            self.specs,
            self.functions,
            self.has_early_copies,
            {**_sizes(self.explicit, self.stage), **self.statements.sizes},
            tuple(site for site in self.given if self._begins_on_host(site)),
        )

    def _begins_on_host(self, site: str) -> bool:
        return any(self.explicit.buffers[key].layout == HOST for key in self.given[site].keys)

    def _host_ends(self, copy: CopyStep) -> HostEnds:
        """Return whether a copy comes from the host, and whether it goes there.

        A program that is traced has its state on the devices.
        """
        comes, goes = (self.explicit.buffers[key].layout == HOST for key in (copy.source, copy.result))
        if self.target.traced:
            comes, goes = (
                comes and copy.source not in self.explicit.sources,
                goes and copy.result not in self.sunk,
            )
        return HostEnds(comes, goes, is_alone=copy.plan.relayout)

    def _turn_to(self, stage: int | None) -> None:
        """Begin the turn of a stage, or of none, in a program of which one process drives all stages."""
        if self.stage is not None or self.explicit.stages is None or stage == self.at:
            return
        self._flush()
        if self.statements.done:
            self.turns.append(TurnStatements(self.at, tuple(self.statements.done)))
            self.statements.done.clear()
        self.at, self.latest = stage, ""
        self.seen.clear()

    def _name_input(self, site: str, stack: Stack) -> None:
        """Give an input a variable, or each round's slice of it one."""
        value, taken = source_value(site), source_value(site) if self.target.traced else taken_source(site)
        before = ":, " * (stack.dim or 0)
        for number, key in enumerate(stack.keys):
            part = taken if key == stack.keys[-1] else value
            text = part if stack.dim is None else f"{part}[{before}{number}]"
            self.statements.assign(key, text, self.blocks.comment(key))

    def _issue(self, copy: CopyStep) -> None:
        """Write this stage's part of a copy; what follows the wait for one issued early comes with the wait."""
        here, there = (self.explicit.buffers[key].stage for key in (copy.source, copy.result))
        if here != there:
            self._issue_between(copy, here, there)
            return
        if self.stage not in (None, here):
            return
        self._turn_to(here)
        shape = self.explicit.buffers[copy.result].shape
        comment = self.blocks.comment(copy.result)
        early = copy.issue < copy.wait and not self.target.traced
        host = self._host_ends(copy)
        rest = self.copies.write(copy.result, self._copied(copy), copy.plan, shape, comment, early, host)
        if rest is not None:
            self.has_early_copies = True
            self.started[copy.result] = rest

    def _issue_between(self, copy: CopyStep, here: int, there: int) -> None:
        """Write what this stage does of a copy from one stage to another."""
        buffer, rest = self.explicit.buffers[copy.result], None
        host = self._host_ends(copy)
        if host.comes or host.goes:
            self.refused.setdefault("copies between a stage and the host of another one", []).append(
                buffer.tensor
            )
        if self.stage is None:
            self._turn_to(here)
            text = self._named(self.copies.reduced(self._copied(copy), copy.plan, buffer.shape))
            self._turn_to(None)
            text = self.copies.hand_over(text, copy.plan, buffer.shape, there)
            self.statements.assign(copy.result, text, self.blocks.comment(copy.result))
        elif here == self.stage:
            rest = self.copies.send(copy.result, self._copied(copy), copy.plan, buffer.shape, there)
        elif there == self.stage:
            early, comment = copy.issue < copy.wait, self.blocks.comment(copy.result)
            rest = self.copies.receive(
                copy.result, buffer.dtype, copy.plan, buffer.shape, here, comment, early
            )
        if rest is not None:
            self.has_early_copies = True
            self.started[copy.result] = rest

    def _named(self, text: str) -> str:
        """Return a variable for a text, which then is a result of its turn."""
        known = [*map(variable, variables_in(text)), *map(source_value, sources_in(text))]
        return text if text in known else variable(self.statements.temporary(text))

    def _copied(self, copy: CopyStep) -> str:
        """Return the text of a copy's source; a compiler must not join the copy with an equal earlier one."""
        text, form = self._text(copy.source), (copy.source, copy.plan)
        repeated = form in self.seen
        self.seen.add(form)
        is_late = repeated and self.target.traced and self.latest
        return f"after({text}, {variable(self.latest)})" if is_late else text

    def _source(self, site: str) -> SourceText:
        block = self.graph.by_site[site]
        (tensor,) = block.outputs
        kind, stack = self.graph.tensors[tensor], self.given[site]
        if kind.dtype not in DTYPES:
            self.refused.setdefault(f"element type {kind.dtype}", []).append(site)
        literal = None
        if not _is_read(self.graph, site):
            value = self.graph.data[tensor]
            literal = repr(value.tolist()).replace("nan", 'float("nan")').replace("inf", 'float("inf")')
        if stack.dim is None:
            spec = spec_text(self.explicit.buffers[tensor].spec, kind.shape, self.mesh_shape)
        else:
            spec = boxes_text(stack.boxes, stack.shape, self.mesh_shape)
        return SourceText(kind.dtype, spec, literal)

    def _text(self, key: str) -> str:
        """Return the text that stands for a buffer."""
        tensor = self.explicit.sources.get(key)
        site = None if tensor is None else self.graph.producers[tensor].site
        return variable(key) if site is None or site in self.inputs else source_value(site)

    def _read_text(self, key: str) -> str:
        """Return the text of what blocks read; a compiler must not join a repetition with the block it repeats."""
        text = self._text(key)
        is_late = self.repeats and self.target.traced and self.latest
        return f"after({text}, {variable(self.latest)})" if is_late else text

    def _are_repetitions(self, steps: Iterable[ComputeStep]) -> bool:
        return any(self.graph.by_site[step.site].repetition for step in steps)

    def _step(self, step: ComputeStep) -> None:
        try:
            self._write(step)
        except NotWritable as refusal:
            self.refused.setdefault(str(refusal), []).append(step.site)

    def _write(self, step: ComputeStep) -> None:
        if self.graph.by_site[step.site].operator == "sink":
            self._sink(step)
            return
        start = len(self.statements.done)
        self.repeats = self._are_repetitions([step])
        try:
            if self.target.traced and _is_uneven(self.explicit, step):
                raise UnequalSizes
            self.blocks.write(step)
        except UnequalSizes:
            del self.statements.done[start:]
            self.uneven.append(step)
            if step.accumulates:
                self._flush()
        else:
            written = self.statements.done[start:]
            del self.statements.done[start:]
            self._flush()
            self.statements.done += written
            self.latest = next(iter(step.outputs), self.latest)
        for key in step.outputs:
            if key in self.sums:
                self._combine(key, *self.sums[key], step.accumulates)

    def _combine(self, term: str, before: str, result: str, monoid: str) -> None:
        """Combine what a round makes with what those before it made."""
        terms = variable(before), variable(term)
        combined = f"{self.copies.xp.combining[monoid]}({', '.join(terms)})" if monoid != "sum" else None
        self.statements.assign(result, combined or " + ".join(terms), self.blocks.comment(result))
        self.latest = result

    def _flush(self) -> None:
        """Write the blocks that wait for others that differ from device to device as they do."""
        waiting, self.uneven = self.uneven, []
        try:
            self._write_parts(waiting)
        except NotWritable:
            for step in waiting:
                try:
                    self._write_parts([step])
                except NotWritable as refusal:
                    self.refused.setdefault(str(refusal), []).append(step.site)

    def _write_parts(self, steps: Sequence[ComputeStep]) -> None:
        """Write blocks that follow each other as one function that each device applies to its parts."""
        if not steps:
            return
        made = [key for step in steps for key in step.outputs]
        keys = list(dict.fromkeys(r.buffer for step in steps for r in step.reads if r.buffer not in made))
        own = {id(step) for step in steps}
        results = [key for key in made if self.readers.get(key, set()) - own] or made[-1:]

        def body(xp: ArrayText, values: Sequence[TextValue]) -> list[str]:
            texts = {key: value.text for key, value in zip(keys, values, strict=True)}
            for step in steps:
                BlockWriter(self.explicit, xp, texts.__getitem__).write(step)
                texts |= {key: variable(key) for key in step.outputs}
            return list(map(variable, results))

        operators = {self.graph.by_site[step.site].operator for step in steps}
        name = operators.pop() if len(steps) == 1 else "blocks"
        self.repeats = self._are_repetitions(steps)
        text = self.functions.call(name, list(map(self.blocks.value, keys)), body)
        self.statements.assign_all(tuple(results), text, ", ".join(map(self.blocks.comment, results)))
        self.latest = results[0]

    def _sink(self, step: ComputeStep) -> None:
        self._flush()
        self.repeats = False
        (read,) = step.reads
        held = self.blocks.value(read.buffer)
        try:
            text = self.copies.xp.named(self.blocks.operand(self.copies.xp, read).value).text
        except UnequalSizes:
            text = self.functions.call("view", [held], partial(self._viewed, read))
            text = variable(self.statements.temporary(text))
        stack, parts = self.observed[step.site], self.parts.setdefault(step.site, [])
        parts.append(text)
        if len(parts) < len(stack.keys):
            return
        if stack.dim is not None:
            xp = self.copies.xp
            along = f"{xp.axis_word}={stack.dim}"
            text = variable(
                self.statements.temporary(f"{xp.function('stack')}([{', '.join(parts)}], {along})")
            )
        self.outputs[step.site] = text if self.at is None else self._named(text)
        self.output_specs[step.site] = boxes_text(stack.boxes, stack.shape, self.mesh_shape)

    def _viewed(self, read: InputRead, xp: ArrayText, values: Sequence[TextValue]) -> list[str]:
        return [BlockWriter(self.explicit, xp, lambda _: values[0].text).operand(xp, read).value.text]


def _is_uneven(explicit: ExplicitGraph, step: ComputeStep) -> bool:
    """Return whether a block's work, or what it reads or makes, differs in size from device to device."""
    keys = [*(read.buffer for read in step.reads), *step.outputs]
    parts = [step.index, *(read.wanted for read in step.reads), *(explicit.buffers[k].boxes for k in keys)]
    return not all(map(is_even, parts))


def _sums(explicit: ExplicitGraph) -> dict[str, tuple[str, str]]:
    """Return by the key of what a round makes those of what it is combined with, and of the result.

    A program sets each variable once: what rounds accumulate in one buffer has a key of its own after each of them.
    """
    rounds: dict[str, int] = {}
    for slot in explicit.slots:
        if slot.step.accumulates:
            rounds |= dict.fromkeys(slot.step.outputs, slot.step.round)
    found = {}
    for key, last in rounds.items():
        for number in range(1, last + 1):
            before = _term(key, 0) if number == 1 else f"{key} (rounds to {number - 1})"
            result = key if number == last else f"{key} (rounds to {number})"
            found[_term(key, number)] = before, result
    return found


def _term(key: str, number: int) -> str:
    return f"{key} (of round {number})"


def _with_terms(explicit: ExplicitGraph, sums: Mapping[str, tuple[str, str]]) -> ExplicitGraph:
    """Return a plan in which rounds that accumulate write buffers of their own."""
    if not sums:
        return explicit
    buffers, slots = dict(explicit.buffers), []
    for slot in explicit.slots:
        step = slot.step
        if step.accumulates:
            terms = {key: _term(key, step.round) for key in step.outputs}
            for key, term in terms.items():
                names = (term, *sums.get(term, ()))
                buffers |= {name: replace(buffers[key], key=name) for name in names}
            step = replace(step, outputs=tuple(terms.values()))
        slots.append(replace(slot, step=step))
    return replace(explicit, buffers=buffers, slots=tuple(slots))


def _named_inputs(graph: Graph, given: Mapping[str, Stack]) -> frozenset[str]:
    """Return the `given` inputs that get a variable: the first layer reads it as others read the layer before them.

    Many inputs of which the names differ in a number are read where they are needed, as parameters are; not those of
    which rounds have slices.
    """
    inputs = [site for site in _inputs(graph) if site in given]
    alone = [names[0] for _, _, names in families(inputs) if len(names) == 1] if inputs else []
    return frozenset({*alone, *(site for site, stack in given.items() if stack.dim is not None)})


def _inputs(graph: Graph) -> list[str]:
    """Return the sites of a program's inputs."""
    return [b.site for b in graph.sources if b.definition["role"] == "activation"]


def _given_up(explicit: ExplicitGraph, given: Mapping[str, Stack]) -> dict[int, list[str]]:
    """Return by slot the inputs, and sources of carried state, that nobody reads after it.

    The next values of carried state are there by then.
    """
    graph, last = explicit.abstract, dict[str, int]()
    for number, slot in enumerate(explicit.slots):
        for key in (*(c.source for c in slot.issued), *(r.buffer for r in slot.step.reads)):
            last[key] = len(explicit.slots) if slot.step.definition.operator == "sink" else number
    found: dict[int, list[str]] = {}
    for site in (*_inputs(graph), *(block.site for block in graph.carriers.values())):
        key = given[site].keys[0] if site in given else ""
        if key in last and given[site].dim is None:
            found.setdefault(last[key], []).append(site)
    return found


def _readers(explicit: ExplicitGraph) -> dict[str, set[int]]:
    """Return who reads each buffer: blocks and copies, by their identity."""
    found: dict[str, set[int]] = {}
    for slot in explicit.slots:
        for copy in slot.issued:
            found.setdefault(copy.source, set()).add(id(copy))
        for read in slot.step.reads:
            found.setdefault(read.buffer, set()).add(id(slot.step))
        for key in slot.step.outputs if slot.step.accumulates else ():
            found.setdefault(key, set()).add(id(explicit))
    return found


def _sizes(explicit: ExplicitGraph, stage: int | None) -> dict[str, np.ndarray]:
    """Return the bytes that devices of a stage, or of all, hold of buffers, by key, and of sources, by site."""
    buffers = {key: b for key, b in explicit.buffers.items() if stage in (None, b.stage)}
    sizes = {key: volumes(b.boxes) * item_bytes(b.dtype) for key, b in buffers.items()}
    stacks = {s: stack for s, stack in source_stacks(explicit).items() if stage in (None, stack.stage)}
    return sizes | {
        site: np.sum([sizes[key] for key in stack.keys], axis=0) for site, stack in stacks.items()
    }


def _some(sites: list[str]) -> str:
    return ", ".join(map(repr, sites[:3])) + (f" and {len(sites) - 3} more" if len(sites) > 3 else "")
