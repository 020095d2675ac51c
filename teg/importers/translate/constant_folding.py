"""Constant folding step by step: a step with known inputs and a small result is computed at import.

For front ends whose operators are not ONNX nodes. Results stay compressed along broadcast dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tapestry.teg.arrays import NUMPY
from tapestry.teg.dtypes import item_bytes, numpy_dtype
from tapestry.teg.evaluate import evaluate
from tapestry.teg.importers.factoring import Factoring
from tapestry.teg.importers.fold_budget import FoldBudget
from tapestry.teg.importers.literals import literal
from tapestry.teg.importers.lowering.lower import lower
from tapestry.teg.importers.program import (
    FOLD_LIMIT_BYTES,
    Compute,
    Entry,
    Fixed,
    Literal,
    Relabel,
    Slice,
    Step,
    StepProgram,
    Value,
    inputs_of,
)
from tapestry.teg.importers.translate.translation import Translation
from tapestry.teg.interface import pack_inputs, unpack_outputs
from tapestry.teg.operators.expressions import run_steps, steps_of

# Known values along one dimension only: indices, positions, tables of frequencies.
LINE_LIMIT_BYTES = 4 * 1024 * 1024


class FoldingTranslation(Translation):
    """A translation that computes known steps as they are emitted."""

    def __init__(self, program: StepProgram) -> None:
        super().__init__(program, opset=0)

    def emit(self, step: Step) -> str:
        """Append a step, or record its output as known."""
        self.budget.add_node()
        inputs = [self.known.get(n) for n in inputs_of(step)]
        if None not in inputs and not isinstance(step, Fixed):
            value = self.program.values[step.output]
            found = fold_step(step, [c for c in inputs if c is not None], value, self.budget)
            if found is not None:
                self.know(step.output, found)
                return step.output
        return super().emit(step)


def fold_step(step: Step, inputs: Sequence[Literal], value: Value, budget: FoldBudget) -> Literal | None:
    """Compute the output of a step with known inputs; return None if it would be large or beyond the budget."""
    limit = max(FOLD_LIMIT_BYTES, sum(c.array.nbytes for c in inputs))
    with np.errstate(all="ignore"):
        if isinstance(step, Compute) and step.operator == "cell":
            return _cell(step, inputs, value, limit, budget)
        if isinstance(step, Relabel):
            return Literal(_placed(inputs[0].array, step.input_labels, step.output_labels), value.shape)
        if isinstance(step, Slice):
            return Literal(_sliced(inputs[0].array, step, value.shape), value.shape)
        if max((math.prod(c.shape) * c.array.itemsize for c in inputs), default=0) > LINE_LIMIT_BYTES:
            return None
        if _bytes(value.shape, value.dtype) > _limit(value.shape, limit) or not budget.take(
            _work(step, inputs, value)
        ):
            return None
        return _run(step, inputs, value)


def _work(step: Step, inputs: Sequence[Literal], value: Value) -> int:
    """Return the number of elements touched at most: those read and written, or all points of a labeled step."""
    touched = value.size + sum(math.prod(c.shape) for c in inputs)
    if not isinstance(step, Compute):
        return touched
    if step.positional or step.operator in ("conv", "pool"):
        return touched * max(value.size, *(math.prod(c.shape) for c in inputs), 1)
    sizes = {
        label: size
        for labels, constant in zip(step.input_labels, inputs, strict=True)
        for label, size in zip(labels, constant.shape, strict=True)
    }
    return touched + (math.prod(sizes.values()) if step.operator == "contract" else 0)


def _bytes(shape: Sequence[int], dtype: str) -> int:
    return math.prod(shape) * item_bytes(dtype)


def _limit(shape: Sequence[int], limit: int) -> int:
    """Return the limit in bytes for a value; one that changes along a single dimension may be longer."""
    return limit if sum(n > 1 for n in shape) > 1 else max(limit, LINE_LIMIT_BYTES)


def _placed(array: np.ndarray, source: Sequence[str], target: Sequence[str]) -> np.ndarray:
    """Arrange the array's dimensions as `target` names them, with size 1 for those it lacks."""
    kept = [k for k, d in enumerate(source) if d and d in target]
    dropped = tuple(0 if k not in kept else slice(None) for k in range(array.ndim))
    part = array[dropped]
    names = [source[k] for k in kept]
    turned = part.transpose([names.index(d) for d in target if d in names])
    sizes = iter(turned.shape)
    return turned.reshape([next(sizes) if d and d in names else 1 for d in target])


def _sliced(array: np.ndarray, step: Slice, shape: Sequence[int]) -> np.ndarray:
    """Slice the array; dimensions along which the value does not change stay compressed."""
    for axis, ((start, stride), size) in enumerate(zip(step.spans, shape, strict=True)):
        if array.shape[axis] > 1:
            array = array.take([start + stride * k for k in range(size)], axis=axis)
        elif not size:
            array = array.take([], axis=axis)
    return array


def _cell(
    step: Compute, inputs: Sequence[Literal], value: Value, limit: int, budget: FoldBudget
) -> Literal | None:
    expr, target = step.attributes["expr"], step.output_labels
    steps = steps_of(expr)
    arrays = [_placed(c.array, own, target) for c, own in zip(inputs, step.input_labels, strict=True)]
    lines = {s.payload for s in steps if s.name == "index"}
    along = tuple(n if d in lines else 1 for d, n in zip(target, value.shape, strict=True))
    shape = np.broadcast_shapes(along, *(a.shape for a in arrays))
    if _bytes(shape, value.dtype) > _limit(shape, limit) or not budget.take(math.prod(shape) * len(steps)):
        return None
    coordinates: Mapping[str, np.ndarray] = {
        d: np.arange(value.shape[k]).reshape([-1 if j == k else 1 for j in range(len(target))])
        for k, d in enumerate(target)
        if d in lines
    }
    result = np.asarray(run_steps(NUMPY, steps, arrays, coordinates)).astype(numpy_dtype(value.dtype))
    return Literal(np.broadcast_to(result, shape).copy(), value.shape)


def _run(step: Step, inputs: Sequence[Literal], value: Value) -> Literal:
    """Evaluate the step as a program of its own."""
    program = StepProgram("fold", {value.name: value}, steps=[step], outputs={value.name: value.name})
    feeds = {}
    for name, constant in zip(inputs_of(step), inputs, strict=True):
        given = Value(name, constant.shape, constant.array.dtype.name)
        program.values[name] = given
        program.entries[name] = Entry(given, "constant")
        feeds[name] = np.ascontiguousarray(constant.full).reshape(constant.shape)
    graph = lower(program, Factoring(program))
    found = unpack_outputs(graph, evaluate(graph, pack_inputs(graph, feeds)))
    return literal(next(iter(found.values())))
