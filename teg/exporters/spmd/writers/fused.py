"""Fused blocks: their steps one after the other, each on the part that the block's part needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tapestry.teg.exporters.spmd.array_text import ArrayText, DimSpan, TextValue
from tapestry.teg.exporters.spmd.writers.moving import made_boxes
from tapestry.teg.exporters.spmd.writers.operand import TextOperand
from tapestry.teg.graph import Definition
from tapestry.teg.operators import body_of
from tapestry.teg.operators.fused_space import space_of
from tapestry.teg.sharding.sharded_block import view_ranges

Step = Callable[[ArrayText, Definition, np.ndarray, Sequence[TextOperand]], tuple[TextValue, ...]]


def write_fused(
    xp: ArrayText, definition: Definition, index: np.ndarray, operands: Sequence[TextOperand], write: Step
) -> tuple[TextValue, ...]:
    """Write the steps of a fused block; `write` writes one."""
    body = body_of(definition)
    space = space_of(body)
    loops = np.zeros((len(index), len(space.loops), 2), np.int64)
    loops[:, :, 1] = [d.size for d in space.loops]
    whole = np.concatenate([index, loops], axis=1)
    values = dict(enumerate(operands))
    for s, step in enumerate(body.steps):
        signature = step.definition.signature
        assert signature is not None
        part = np.zeros((len(index), len(signature.dims), 2), np.int64)
        for k, dim in enumerate(signature.dims):
            along = space.along[s][k]
            part[:, k] = whole[:, along] if along >= 0 else (0, dim.size)
        reads = []
        for position, v in enumerate(step.reads):
            box = view_ranges(step.definition, position, body.types[v].shape, part)
            reads.append(_part(xp, values[v], box))
        made = write(xp, step.definition, part, reads)
        for position, (v, value) in enumerate(zip(step.makes, made, strict=True)):
            # What a later step reads is named; the block's own results get their names outside.
            inner = any(v in other.reads for other in body.steps)
            kept = xp.named(value) if inner else value
            values[v] = TextOperand(kept, made_boxes(step.definition, part, position))
    return tuple(values[v].value for v in body.outputs)


def _part(xp: ArrayText, held: TextOperand, box: np.ndarray) -> TextOperand:
    """Return the part of a value that a step reads."""
    spans: list[DimSpan] = []
    for k in range(box.shape[1]):
        start, stop = box[:, k, 0] - held.box[:, k, 0], box[:, k, 1] - held.box[:, k, 0]
        spans.append((np.where(stop > start, start, 0), np.where(stop > start, stop, 0), 1))
    return TextOperand(xp.part(held.value, spans, box[:, :, 1] - box[:, :, 0]), box)
