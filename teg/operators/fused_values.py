"""What a fused block computes: its steps one after the other, a small part of the index range at a time.

Between steps only a part's values live, so live memory is that of inputs and outputs plus a constant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from teg.dtypes import item_bytes, numpy_dtype
from teg.operators.fused_body import Body, Step
from teg.operators.fused_space import Space
from teg.operators.operator import Operand
from teg.operators.running import run_part
from teg.signature import PARALLEL, reached
from teg.zspace import ZRange

# What the values between steps may take at a time, as far as parts can be made smaller.
CHUNK_BYTES = 1 << 20


def run_body(body: Body, space: Space, index: ZRange, operands: Sequence[Operand]) -> tuple[np.ndarray, ...]:
    """The block's outputs on a part of its index space, from operands that hold what it reads."""
    parts = list(chunks(body, space, index))
    kept: dict[int, tuple[ZRange, tuple[Operand, ...]]] = {}
    if len(parts) == 1:
        return tuple(o.array for o in _run(body, space, index, operands, kept, ()))
    boxes = [p.project(index) for p in space.signature.outputs]
    made = tuple(
        np.empty(box.shape, numpy_dtype(body.types[v].dtype))
        for box, v in zip(boxes, body.outputs, strict=True)
    )
    cut = [k for k, (n, m) in enumerate(zip(index.shape, parts[0].shape, strict=True)) if m < n]
    for part in parts:
        for target, box, value in zip(made, boxes, _run(body, space, part, operands, kept, cut), strict=True):
            at = (
                slice(s - b, s - b + n)
                for s, b, n in zip(value.start, box.start, value.array.shape, strict=True)
            )
            target[tuple(at)] = value.array
    return made


def chunks(body: Body, space: Space, index: ZRange) -> Iterator[ZRange]:
    """Parts of the index range along its parallel dimensions, whose values between steps are small."""
    live = between_bytes(body, space, index)
    if live > CHUNK_BYTES:
        dims = space.signature.dims
        sizes = [n if d.kind == PARALLEL else 1 for d, n in zip(dims, index.shape, strict=True)]
        axis = next((k for k, n in enumerate(sizes) if n > 1), -1)
        if axis >= 0:
            for part in index.split(axis, max(1, CHUNK_BYTES * sizes[axis] // live)):
                yield from chunks(body, space, part) if part.shape[axis] == 1 else (part,)
            return
    yield index


def between_bytes(body: Body, space: Space, index: ZRange) -> int:
    """Bytes of all values that steps hand to each other on a part of the index space."""
    total = 0
    for s, step in enumerate(body.steps):
        own = _own(step)
        for v, box in zip(step.makes, _made(step, space.part(s, own, index)), strict=True):
            total += 0 if v in body.outputs else box.size * item_bytes(body.types[v].dtype)
    return total


def _own(step: Step) -> ZRange:
    assert step.definition.signature is not None
    return step.definition.signature.index_range


def _made(step: Step, index: ZRange) -> list[ZRange]:
    assert step.definition.signature is not None
    return [reached(p, index) for p in step.definition.signature.outputs]


def _run(
    body: Body,
    space: Space,
    index: ZRange,
    operands: Sequence[Operand],
    kept: dict[int, tuple[ZRange, tuple[Operand, ...]]],
    cut: Sequence[int],
) -> list[Operand]:
    """The outputs of one part. `kept` holds what steps that not all `cut` dimensions reach made before."""
    values: dict[int, Operand] = dict(enumerate(operands))
    waiting = Counter(v for step in body.steps for v in step.reads)
    waiting.update(body.outputs)
    for s, step in enumerate(body.steps):
        part = space.part(s, _own(step), index)
        known = kept.get(s)
        if known is not None and known[0] == part:
            made = known[1]
        else:
            made = _apply(body, step, part, values)
            if any(k not in space.along[s] for k in cut):
                kept[s] = part, made
        values.update(zip(step.makes, made, strict=True))
        waiting.subtract(step.reads)
        for v in step.reads:
            if waiting[v] == 0:
                values.pop(v, None)
    return [values[v] for v in body.outputs]


def _apply(body: Body, step: Step, index: ZRange, values: dict[int, Operand]) -> tuple[Operand, ...]:
    """One step on a part of its own index space."""
    signature = step.definition.signature
    assert signature is not None
    operands = []
    for v, p in zip(step.reads, signature.inputs, strict=True):
        box = p.project(index).intersection(ZRange.of_shape(body.types[v].shape))
        held = values[v]
        at = (slice(s - h, e - h) for s, e, h in zip(box.start, box.end, held.start, strict=True))
        operands.append(Operand(np.asarray(held.array[tuple(at)]), box.start))
    arrays = run_part(step.operator, step.definition, index, operands, [body.types[v] for v in step.makes])
    return tuple(Operand(a, box.start) for a, box in zip(arrays, _made(step, index), strict=True))
