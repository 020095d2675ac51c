"""Blocks as statements: what each one reads, its operator, and what devices without a part of it hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tapestry.teg.exporters.spmd.array_text import ArrayText, NotWritable, TextValue
from tapestry.teg.exporters.spmd.reads import view_text
from tapestry.teg.exporters.spmd.writers import write_operator
from tapestry.teg.exporters.spmd.writers.operand import TextOperand
from tapestry.teg.graph import Definition
from tapestry.teg.operators import operator_named
from tapestry.teg.operators.monoids import identity
from tapestry.teg.operators.operator import with_signature
from tapestry.teg.sharding.expand import ComputeStep, ExplicitGraph, InputRead
from tapestry.teg.sharding.sharded_block import view_ranges
from tapestry.teg.signature import PARALLEL


@dataclass
class BlockWriter:
    """Writes blocks in the namespace `xp` of all devices; `text_of` returns what stands for a buffer."""

    explicit: ExplicitGraph
    xp: ArrayText
    text_of: Callable[[str], str]

    def write(self, step: ComputeStep) -> None:
        """Append the statements that set a block's outputs.

        Raises:
            NotWritable: the block has no text.
        """
        definition, index = self._defined(step)
        active = np.asarray((index[:, :, 1] > index[:, :, 0]).all(axis=1))
        first = len(self.xp.statements.done)
        if active.any():
            xp = replace(self.xp, active=active)
            operands = [self.operand(xp, read) for read in step.reads]
            if step.definition.signature is None:
                operands = [_cut(xp, o, definition, k, index) for k, o in enumerate(operands)]
            made = write_operator(xp, definition, index, operands)
            for key, value in zip(step.outputs, made, strict=True):
                self.xp.statements.assign(key, value.text, self.comment(key))
        if not active.all():
            self._guard(step, definition, index, active, first)

    def value(self, key: str) -> TextValue:
        """Return a buffer as a value."""
        buffer = self.explicit.buffers[key]
        return TextValue(self.text_of(key), buffer.boxes[:, :, 1] - buffer.boxes[:, :, 0], buffer.dtype)

    def operand(self, xp: ArrayText, read: InputRead) -> TextOperand:
        """Write what a block reads of a buffer."""
        held = self.explicit.buffers[read.buffer].boxes
        return TextOperand(view_text(xp, self.value(read.buffer), held, read.view, read.wanted), read.wanted)

    def comment(self, key: str) -> str:
        """Return the local shape of a buffer, with the first and the last part of dimensions that differ."""
        box = self.explicit.buffers[key].boxes
        sizes = box[:, :, 1] - box[:, :, 0]
        dims = []
        for k in range(sizes.shape[1]):
            low, high = int(sizes[:, k].min()), int(sizes[:, k].max())
            dims.append(str(low) if low == high else f"{low}..{high}")
        return f"[{', '.join(dims)}]"

    def _defined(self, step: ComputeStep) -> tuple[Definition, np.ndarray]:
        """Return a block's definition with a signature, and its index; a fixed block is computed whole."""
        if step.definition.signature is not None:
            return step.definition, step.index
        block = self.explicit.abstract.by_site[step.site]
        types = self.explicit.abstract.input_types(block)
        definition = with_signature(operator_named(block.operator), step.definition, types)
        if definition.signature is None:
            raise NotWritable(f"operator {block.operator} of a fixed form")
        whole = [(0, d.size) for d in definition.signature.dims]
        count = self.explicit.mesh_shape.device_count
        return definition, np.array([whole] * count, np.int64).reshape(count, len(whole), 2)

    def _guard(
        self, step: ComputeStep, definition: Definition, index: np.ndarray, active: np.ndarray, first: int
    ) -> None:
        """Let devices without a part of the index hold the identity of a reduction, or nothing."""
        assert definition.signature is not None
        empty = (index[:, :, 1] <= index[:, :, 0]) & ~active[:, None]
        kinds = [d.kind for k, d in enumerate(definition.signature.dims) if empty[:, k].any()]
        monoid = next((kind for kind in kinds if kind != PARALLEL), "sum")
        xp = replace(self.xp, active=~active)
        otherwise = []
        for key in step.outputs:
            buffer = self.explicit.buffers[key]
            sizes = buffer.boxes[:, :, 1] - buffer.boxes[:, :, 0]
            otherwise.append((key, xp.full(sizes, identity(monoid, buffer.dtype), buffer.dtype).text))
        if not active.any():
            for key, text in otherwise:
                self.xp.statements.assign(key, text, self.comment(key))
            return
        condition = self.xp.numbers.table([str(bool(a)) for a in active])
        self.xp.statements.guarded(first, condition, otherwise)


def _cut(
    xp: ArrayText, operand: TextOperand, definition: Definition, position: int, index: np.ndarray
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
