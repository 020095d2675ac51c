"""Evaluation of a fused block: its steps one after the other, a small part of the index range at a time.

Between steps only a part's values live, so live memory is that of inputs and outputs plus a constant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tapestry.teg.arrays import NUMPY, Array, ArrayNamespace, box_of
from tapestry.teg.dtypes import item_bytes, numpy_dtype
from tapestry.teg.operators.fused_attention import AttentionForm, run_attention
from tapestry.teg.operators.fused_body import FusedBody, FusedStep
from tapestry.teg.operators.fused_space import FusedIndexSpace
from tapestry.teg.operators.monoids import combine
from tapestry.teg.operators.operator import Operand
from tapestry.teg.operators.running import run_part
from tapestry.teg.signature import PARALLEL, reached
from tapestry.teg.zspace import ZRange


def run_body(
    xp: ArrayNamespace,
    body: FusedBody,
    space: FusedIndexSpace,
    index: ZRange,
    operands: Sequence[Operand],
    attention: AttentionForm | None = None,
) -> tuple[Array, ...]:
    """Compute the block's outputs on a part of its index space, from operands that hold what it reads.

    Where small parts bring nothing (`chunk_bytes` is None), all of it is one part, and a body that is `attention` is
    computed by the library's kernel for it. Others are assembled in numpy.
    """
    index = index.cross(ZRange.of_shape([d.size for d in space.loops]))
    if attention is not None and xp.chunk_bytes is None:
        given = dict(enumerate(operands))
        own = [space.part(s, _own(step), index) for s, step in enumerate(body.steps)]
        reads = [_operands(body, step, part, given) for step, part in zip(body.steps, own, strict=True)]
        made = run_attention(xp, attention, own, reads)
        if made is not None:
            return (made,)
    parts = [index] if xp.chunk_bytes is None else list(chunks(body, space, index, xp.chunk_bytes))
    kept: dict[int, tuple[ZRange, tuple[Operand, ...]]] = {}
    if len(parts) == 1:
        return tuple(o.array for o in _run(xp, body, space, index, operands, kept, ()))
    cut = [k for k, (n, m) in enumerate(zip(index.shape, parts[0].shape, strict=True)) if m < n]
    results: list[_Result] = []
    for part in parts:
        values = _run(xp, body, space, part, operands, kept, cut)
        if not results:
            results = [_Result.of(body, space, v, index) for v in body.outputs]
        for result, value in zip(results, values, strict=True):
            result.take(value)
    return tuple(result.array for result in results)


class _Result:
    """An output assembled from parts: side by side, or combined where it is reduced."""

    def __init__(self, array: np.ndarray, start: tuple[int, ...], monoid: str) -> None:
        self.array, self.start, self.monoid = array, start, monoid
        self.done = np.zeros(array.shape, bool) if monoid else None

    @staticmethod
    def of(body: FusedBody, space: FusedIndexSpace, v: int, index: ZRange) -> _Result:
        s, k = body.producers()[v]
        step = body.steps[s]
        box = _made(step, space.part(s, _own(step), index))[k]
        assert step.definition.signature is not None
        own = zip(step.definition.signature.dims, space.along[s], strict=True)
        monoid = next((d.kind for d, at in own if at >= 0 and d.kind != PARALLEL), "")
        return _Result(np.empty(box.shape, numpy_dtype(body.types[v].dtype)), box.start, monoid)

    def take(self, part: Operand) -> None:
        """Store a part in its place, or combine it with what is there."""
        shape = part.array.shape
        at = tuple(slice(s - b, s - b + n) for s, b, n in zip(part.start, self.start, shape, strict=True))
        if self.done is None:
            self.array[at] = part.array
        elif self.done[at].all():
            self.array[at] = combine(NUMPY, self.monoid, self.array[at], part.array)
        else:
            self.array[at] = part.array
            self.done[at] = True


def chunks(body: FusedBody, space: FusedIndexSpace, index: ZRange, chunk_bytes: int) -> Iterator[ZRange]:
    """Yield parts of the index range with small values between steps: split dimensions first, then what is reduced.

    Values between steps take at most `chunk_bytes` at a time, as far as parts can be made smaller.
    """
    live = between_bytes(body, space, index)
    if live > chunk_bytes:
        dims = (*space.signature.dims, *space.loops)
        order = sorted(range(len(dims)), key=lambda k: dims[k].kind != PARALLEL)
        axis = next((k for k in order if index.shape[k] > 1), -1)
        if axis >= 0:
            for part in index.split(axis, max(1, chunk_bytes * index.shape[axis] // live)):
                yield from chunks(body, space, part, chunk_bytes) if part.shape[axis] == 1 else (part,)
            return
    yield index


def between_bytes(body: FusedBody, space: FusedIndexSpace, index: ZRange) -> int:
    """Count the bytes of all values that steps pass to each other on a part of the index space."""
    total = 0
    for s, step in enumerate(body.steps):
        own = _own(step)
        for v, box in zip(step.makes, _made(step, space.part(s, own, index)), strict=True):
            total += 0 if v in body.outputs else box.size * item_bytes(body.types[v].dtype)
    return total


def _own(step: FusedStep) -> ZRange:
    assert step.definition.signature is not None
    return step.definition.signature.index_range


def _made(step: FusedStep, index: ZRange) -> list[ZRange]:
    assert step.definition.signature is not None
    return [reached(p, index) for p in step.definition.signature.outputs]


def _run(
    xp: ArrayNamespace,
    body: FusedBody,
    space: FusedIndexSpace,
    index: ZRange,
    operands: Sequence[Operand],
    kept: dict[int, tuple[ZRange, tuple[Operand, ...]]],
    cut: Sequence[int],
) -> list[Operand]:
    """Compute the outputs of one part. `kept` holds earlier results of steps that not all `cut` dimensions reach."""
    values: dict[int, Operand] = dict(enumerate(operands))
    waiting = Counter(v for step in body.steps for v in step.reads)
    waiting.update(body.outputs)
    for s, step in enumerate(body.steps):
        part = space.part(s, _own(step), index)
        known = kept.get(s)
        if known is not None and known[0] == part:
            made = known[1]
        else:
            made = _apply(xp, body, step, part, values)
            if any(k not in space.along[s] for k in cut):
                kept[s] = part, made
        values.update(zip(step.makes, made, strict=True))
        waiting.subtract(step.reads)
        for v in step.reads:
            if waiting[v] == 0:
                values.pop(v, None)
    return [values[v] for v in body.outputs]


def _apply(
    xp: ArrayNamespace, body: FusedBody, step: FusedStep, index: ZRange, values: dict[int, Operand]
) -> tuple[Operand, ...]:
    """Apply one step on a part of its own index space."""
    operands = list(_operands(body, step, index, values).values())
    arrays = run_part(
        xp, step.operator, step.definition, index, operands, [body.types[v] for v in step.makes]
    )
    return tuple(Operand(a, box.start) for a, box in zip(arrays, _made(step, index), strict=True))


def _operands(
    body: FusedBody, step: FusedStep, index: ZRange, values: Mapping[int, Operand]
) -> dict[int, Operand]:
    """Return what a step reads for a part of its own index space, by position: as far as there are values."""
    signature = step.definition.signature
    assert signature is not None
    operands = {}
    for k, (v, p) in enumerate(zip(step.reads, signature.inputs, strict=True)):
        if v in values:
            box, held = p.project(index).intersection(ZRange.of_shape(body.types[v].shape)), values[v]
            start, end = ([p - h for p, h in zip(ps, held.start, strict=True)] for ps in (box.start, box.end))
            operands[k] = Operand(box_of(held.array, start, end), box.start)
    return operands
