"""From an explicit graph to statements that all devices run: copies when they are issued, blocks in their slots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tapestry.teg.exporters.spmd.copies import CopyWriter
from tapestry.teg.exporters.spmd.per_rank import NumberTexts
from tapestry.teg.exporters.spmd.reads import view_text
from tapestry.teg.exporters.spmd.specs import SpecTexts, boxes_text, spec_text
from tapestry.teg.exporters.spmd.statements import Statement, StatementList, source_value, variable
from tapestry.teg.exporters.spmd.torch_text import DTYPES, NotWritable, TextValue, TorchText
from tapestry.teg.exporters.spmd.writers import write_operator
from tapestry.teg.exporters.spmd.writers.operand import TextOperand
from tapestry.teg.graph import Definition, Graph
from tapestry.teg.operators import operator_named
from tapestry.teg.operators.monoids import identity
from tapestry.teg.operators.operator import with_signature
from tapestry.teg.sharding.expand import ComputeStep, ExplicitGraph, InputRead
from tapestry.teg.sharding.sharded_block import view_ranges
from tapestry.teg.signature import PARALLEL

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
    """Statements in execution order, what they read from outside, and the texts of their results by sink."""

    statements: tuple[Statement, ...]
    sources: Mapping[str, SourceText]
    outputs: Mapping[str, str]
    output_specs: Mapping[str, str]
    numbers: NumberTexts
    specs: SpecTexts


def write_program(explicit: ExplicitGraph) -> RankProgram:
    """Write the statements of a plan.

    Raises:
        ValueError: blocks or element types have no text; all are listed.
    """
    return _Walk(explicit).run()


def file_sources(graph: Graph) -> tuple[str, ...]:
    """Return the sources whose values a program reads from files; it states small constants itself."""
    return tuple(block.site for block in graph.sources if _is_read(graph, block.site))


def _is_read(graph: Graph, site: str) -> bool:
    block = graph.by_site[site]
    value = graph.data.get(block.outputs[0])
    return value is None or block.definition["role"] != "constant" or value.size > LITERAL_ELEMENTS


class _Walk:
    def __init__(self, explicit: ExplicitGraph) -> None:
        self.explicit, self.graph = explicit, explicit.abstract
        self.mesh_shape = explicit.mesh_shape
        self.everywhere = np.ones(self.mesh_shape.device_count, bool)
        self.numbers = NumberTexts(self.mesh_shape)
        self.specs = SpecTexts(self.numbers)
        self.statements = StatementList()
        self.copies = CopyWriter(self.mesh_shape, self.specs, self.statements)
        self.outputs: dict[str, str] = {}
        self.output_specs: dict[str, str] = {}
        self.inputs: set[str] = set()
        self.refused: dict[str, list[str]] = {}

    def run(self) -> RankProgram:
        sources = {block.site: self._source(block.site) for block in self.graph.sources}
        for block in self.graph.sources:
            key = self.explicit.sources[block.outputs[0]]
            if block.definition["role"] == "activation":
                self.statements.assign(key, source_value(block.site), self._comment(key))
                self.inputs.add(key)
        for slot in self.explicit.slots:
            for copy in slot.issued:
                buffer = self.explicit.buffers[copy.result]
                shape = self.graph.tensors[buffer.tensor].shape
                comment = self._comment(copy.result)
                self.copies.write(copy.result, self._text(copy.source), copy.plan, shape, comment)
            self._step(slot.step)
        if self.refused:
            issues = [f"{reason}: {_some(sites)}" for reason, sites in self.refused.items()]
            raise ValueError(f"the program cannot be written for PyTorch: {'; '.join(issues)}")
        return RankProgram(
            tuple(self.statements.done), sources, self.outputs, self.output_specs, self.numbers, self.specs
        )

    def _source(self, site: str) -> SourceText:
        block = self.graph.by_site[site]
        (tensor,) = block.outputs
        buffer = self.explicit.buffers[self.explicit.sources[tensor]]
        kind = self.graph.tensors[tensor]
        if kind.dtype not in DTYPES:
            self.refused.setdefault(f"element type {kind.dtype}", []).append(site)
        literal = None
        if not _is_read(self.graph, site):
            value = self.graph.data[tensor]
            literal = repr(value.tolist()).replace("nan", 'float("nan")').replace("inf", 'float("inf")')
        return SourceText(kind.dtype, spec_text(buffer.spec, kind.shape), literal)

    def _text(self, key: str) -> str:
        """Return the text that stands for a buffer."""
        tensor = self.explicit.buffers[key].tensor
        if self.explicit.sources.get(tensor) == key and key not in self.inputs:
            return source_value(self.graph.producers[tensor].site)
        return variable(key)

    def _value(self, key: str) -> TextValue:
        buffer = self.explicit.buffers[key]
        return TextValue(self._text(key), buffer.boxes[:, :, 1] - buffer.boxes[:, :, 0], buffer.dtype)

    def _comment(self, key: str) -> str:
        """Return the local shape of a buffer, with the first and the last part of dimensions that differ."""
        box = self.explicit.buffers[key].boxes
        sizes = box[:, :, 1] - box[:, :, 0]
        dims = []
        for k in range(sizes.shape[1]):
            low, high = int(sizes[:, k].min()), int(sizes[:, k].max())
            dims.append(str(low) if low == high else f"{low}..{high}")
        return f"[{', '.join(dims)}]"

    def _step(self, step: ComputeStep) -> None:
        try:
            self._write(step)
        except NotWritable as refusal:
            self.refused.setdefault(str(refusal), []).append(step.site)

    def _write(self, step: ComputeStep) -> None:
        block = self.graph.by_site[step.site]
        definition, index = self._defined(step)
        assert definition.signature is not None
        active = np.asarray((index[:, :, 1] > index[:, :, 0]).all(axis=1))
        first = len(self.statements.done)
        xp = TorchText(self.numbers, self.statements, self.everywhere if block.operator == "sink" else active)
        if active.any() or block.operator == "sink":
            operands = [self._operand(xp, read) for read in step.reads]
            if block.operator == "sink":
                self._sink(xp, step.site, operands[0])
                return
            if step.definition.signature is None:
                operands = [_cut(xp, o, definition, k, index) for k, o in enumerate(operands)]
            made = write_operator(xp, definition, index, operands)
            for key, value in zip(step.outputs, made, strict=True):
                self.statements.assign(key, value.text, self._comment(key))
        if not active.all():
            self._guard(step, definition, index, active, first)

    def _defined(self, step: ComputeStep) -> tuple[Definition, np.ndarray]:
        """Return a block's definition with a signature, and its index; a fixed block is computed whole."""
        if step.definition.signature is not None:
            return step.definition, step.index
        block = self.graph.by_site[step.site]
        types = self.graph.input_types(block)
        definition = with_signature(operator_named(block.operator), step.definition, types)
        if definition.signature is None:
            raise NotWritable(f"operator {block.operator} of a fixed form")
        whole = [(0, d.size) for d in definition.signature.dims]
        count = self.mesh_shape.device_count
        return definition, np.array([whole] * count, np.int64).reshape(count, len(whole), 2)

    def _operand(self, xp: TorchText, read: InputRead) -> TextOperand:
        held = self.explicit.buffers[read.buffer].boxes
        return TextOperand(view_text(xp, self._value(read.buffer), held, read.view, read.wanted), read.wanted)

    def _sink(self, xp: TorchText, site: str, operand: TextOperand) -> None:
        shape = self.graph.tensors[self.graph.by_site[site].inputs[0]].shape
        self.outputs[site] = xp.named(operand.value).text
        self.output_specs[site] = boxes_text(operand.box, shape, self.mesh_shape)

    def _guard(
        self, step: ComputeStep, definition: Definition, index: np.ndarray, active: np.ndarray, first: int
    ) -> None:
        """Let devices without a part of the index hold the identity of a reduction, or nothing."""
        assert definition.signature is not None
        empty = (index[:, :, 1] <= index[:, :, 0]) & ~active[:, None]
        kinds = [d.kind for k, d in enumerate(definition.signature.dims) if empty[:, k].any()]
        monoid = next((kind for kind in kinds if kind != PARALLEL), "sum")
        xp = TorchText(self.numbers, self.statements, ~active)
        otherwise = []
        for key in step.outputs:
            buffer = self.explicit.buffers[key]
            sizes = buffer.boxes[:, :, 1] - buffer.boxes[:, :, 0]
            otherwise.append((key, xp.full(sizes, identity(monoid, buffer.dtype), buffer.dtype).text))
        if not active.any():
            for key, text in otherwise:
                self.statements.assign(key, text, self._comment(key))
            return
        condition = self.numbers.table([str(bool(a)) for a in active])
        comment = ", ".join(self._comment(key) for key in step.outputs)
        self.statements.guarded(first, condition, otherwise, comment)


def _cut(
    xp: TorchText, operand: TextOperand, definition: Definition, position: int, index: np.ndarray
) -> TextOperand:
    """Return the part of a whole operand that a fixed block reads."""
    assert definition.signature is not None
    shape = tuple(operand.value.shape[0].tolist())
    box = view_ranges(definition, position, shape, index)
    places: list[str | slice] = [
        slice(None) if (a, b) == (0, n) else f"{a}:{b}"
        for (a, b), n in zip(box[0].tolist(), shape, strict=True)
    ]
    return TextOperand(xp.getitem(operand.value, places, box[:, :, 1] - box[:, :, 0]), box)


def _some(sites: list[str]) -> str:
    return ", ".join(map(repr, sites[:3])) + (f" and {len(sites) - 3} more" if len(sites) > 3 else "")
