"""Blocks between shards: runs of elements, pieces written to their places, and terms combined one after the other.

An explicit graph collects what a device gets from others by these operators. They state in which memory that happens:
a run is a view; `assemble` receives its pieces where they belong in its result; `accumulate` holds its result and one
incoming term (`Operator.staging`). What others read before it is complete is an `open` assembly, which a second one
continues in place (`onto`): it writes only what nobody has written, so readers may come in any order. Values are those
of a slice, of a concatenation and of a cell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapestry.teg.arrays import Array, ArrayNamespace, box_of
from tapestry.teg.graph import Attributes, Definition, TensorType, attributes
from tapestry.teg.operators.monoids import combine
from tapestry.teg.operators.operator import Inferred, Operand, Operator, OperatorExample, Work
from tapestry.teg.operators.reading import axiswise, expect_inputs, integers, settings
from tapestry.teg.operators.reduction import check_monoid
from tapestry.teg.sharding.partition import is_run
from tapestry.teg.sharding.tiling import overlap
from tapestry.teg.signature import Row, Signature, projection
from tapestry.teg.zspace import ZRange

Corners = tuple[tuple[int, ...], tuple[int, ...]]
"""Start and end of a box of a result."""
Written = tuple[ZRange, tuple[int, int]]
"""Elements `[start, end)` of a box as a row."""


def _whole(inputs: Sequence[TensorType], shape: Sequence[int]) -> Signature:
    """Build the signature of a block without index dimensions: it reads and writes whole tensors."""
    read = [projection([Row(-1, 0, 0, n) for n in kind.shape], 0) for kind in inputs]
    return Signature((), tuple(read), (projection([Row(-1, 0, 0, n) for n in shape], 0),))


def _infer_run(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    given = settings(attrs, ("start", "end"))
    expect_inputs(inputs, ("value",))
    shape, dtype = inputs[0]
    start, end = integers((given["start"], given["end"]), "start and end", least=0)
    if not start <= end <= math.prod(shape):
        raise ValueError(
            f"elements {start} to {end} are no run of the {math.prod(shape)} elements of {shape}"
        )
    return Inferred(_whole(inputs, (end - start,)), (TensorType((end - start,), dtype),))


def _evaluate_run(
    xp: ArrayNamespace, definition: Definition, _: ZRange, operands: Sequence[Operand]
) -> tuple[Array, ...]:
    array = operands[0].array
    row = xp.reshape(array, (math.prod(array.shape),))
    return (row[definition["start"] : definition["end"]],)


def _infer_assemble(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    given = settings(attrs, ("shape", "boxes", "firsts"), ("onto", "open"))
    shape = integers(given["shape"], "shape", least=0)
    pieces = inputs[1:] if given.get("onto") else inputs
    firsts = integers(given["firsts"], "firsts", len(pieces), least=0)
    dtypes = {kind.dtype for kind in inputs}
    if len(dtypes) != 1:
        raise ValueError(f"expected inputs of one element type, not of {sorted(dtypes) or 'none'}")
    result = TensorType(shape, dtypes.pop())
    if given.get("onto") and inputs[0] != result:
        raise ValueError(f"what is continued is {inputs[0]}, not {result}")
    boxes = _read_boxes(given["boxes"], len(pieces), len(shape))
    placed = []
    for k, (box, first, kind) in enumerate(zip(boxes, firsts, pieces, strict=True)):
        if kind.shape != box.shape and len(kind.shape) != 1:
            raise ValueError(f"piece {k} of shape {kind.shape} is neither the box {box} nor a run of it")
        placed.append((box, (first, first + math.prod(kind.shape))))
    fault = writing_fault(placed, ZRange.of_shape(shape), complete=not {"onto", "open"} & given.keys())
    if fault is not None:
        raise ValueError(f"the pieces do not make a tensor of shape {shape}: {fault}")
    return Inferred(_whole(inputs, shape), (result,))


def writing_fault(placed: Sequence[Written], whole: ZRange, complete: bool = True) -> str | None:
    """Return the reason why runs of boxes do not write `whole`, each element once; None if they do.

    Unless the writing is to be `complete`, elements may be missing.
    """
    runs: dict[ZRange, list[ZRange]] = {}
    for box, (start, end) in placed:
        runs.setdefault(box, []).append(ZRange((start,), (end,)))
    for box, parts in runs.items():
        row = ZRange((0,), (box.size,))
        meeting, outside = overlap(parts), [p for p in parts if not row.contains(p)]
        if meeting or outside or (complete and sum(p.size for p in parts) < box.size):
            return f"of the {box.size} elements of {box} they write {', '.join(map(str, parts))}"
    meeting = overlap(list(runs))
    if meeting is not None:
        return f"{meeting[0]} and {meeting[1]} overlap"
    outside = [box for box in runs if not whole.contains(box)]
    if outside:
        return f"{outside[0]} lies outside {whole}"
    missing = whole.size - sum(box.size for box in runs)
    return f"{missing} of {whole.size} elements are in none of them" if complete and missing else None


def _read_boxes(value: Any, count: int, rank: int) -> list[ZRange]:
    if not isinstance(value, tuple) or len(value) != count:
        raise ValueError(f"attribute 'boxes' must give start and end of {count} boxes, not {value!r}")
    found = []
    for corners in value:
        if not isinstance(corners, tuple) or len(corners) != 2:
            raise ValueError(f"attribute 'boxes' must hold pairs of start and end, not {corners!r}")
        start, end = (integers(c, "boxes", rank, least=0) for c in corners)
        if any(b < a for a, b in zip(start, end, strict=True)):
            raise ValueError(f"attribute 'boxes' holds a box that ends before it starts: {corners}")
        found.append(ZRange(start, end))
    return found


def _evaluate_assemble(
    xp: ArrayNamespace, definition: Definition, _: ZRange, operands: Sequence[Operand]
) -> tuple[Array, ...]:
    pieces = [operand.array for operand in operands]
    onto = pieces.pop(0) if definition.get("onto") else None
    shape, dtype = definition["shape"], xp.dtype_of(operands[0].array)
    placed: dict[Corners, Array] = {}
    runs: dict[Corners, list[tuple[int, Array]]] = {}
    for box, first, piece in zip(definition["boxes"], definition["firsts"], pieces, strict=True):
        if tuple(piece.shape) == ZRange(*box).shape:
            placed[box] = piece
        else:
            runs.setdefault(box, []).append((first, piece))
    for (start, end), parts in runs.items():
        box = ZRange(start, end)
        before = None if onto is None else xp.reshape(box_of(onto, start, end), (box.size,))
        row = xp.assemble((box.size,), dtype, [(first,) for first, _ in parts], [p for _, p in parts], before)
        placed[start, end] = xp.reshape(row, box.shape)
    starts = [start for start, _ in placed]
    return (xp.assemble(shape, dtype, starts, list(placed.values()), onto),)


def is_continuation(definition: Definition) -> bool:
    """Return whether a block writes further pieces onto its first input."""
    return definition.operator == "assemble" and bool(definition.get("onto"))


def continues(begun: Definition, definition: Definition) -> bool:
    """Return whether a continuation writes only what the open assembly `begun` has left open: then one buffer does."""
    if begun.operator != "assemble" or not begun.get("open"):
        return False
    placed = [*_placed(begun), *_placed(definition)]
    return writing_fault(placed, ZRange.of_shape(definition["shape"]), complete=False) is None


def _placed(definition: Definition) -> list[Written]:
    """Return what the pieces of an assembly write, by the shapes of its inputs."""
    assert definition.signature is not None
    sizes = [math.prod(p.shape) for p in definition.signature.inputs]
    pieces = sizes[1:] if definition.get("onto") else sizes
    places = zip(definition["boxes"], definition["firsts"], pieces, strict=True)
    return [(ZRange(*box), (first, first + size)) for box, first, size in places]


def _staged_to_assemble(definition: Definition) -> int:
    """Compute the elements staged: none where each box is a run of the result; else all land before they are placed."""
    shape = np.array(definition["shape"])
    corners = np.array(definition["boxes"]).reshape(len(definition["boxes"]), 2, len(shape))
    in_place = is_run(corners[:, 1] - corners[:, 0], shape).all()
    return 0 if in_place else math.prod(definition["shape"])


def _infer_accumulate(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    given = settings(attrs, ("monoid",))
    if len(set(inputs)) != 1:
        raise ValueError(f"expected terms of one shape and element type, not {sorted(set(inputs))}")
    check_monoid(given["monoid"], inputs[0].dtype)
    dims, rows = axiswise(inputs[0].shape)
    same = projection(rows, len(dims))
    return Inferred(Signature(dims, (same,) * len(inputs), (same,)), (inputs[0],))


def _evaluate_accumulate(
    xp: ArrayNamespace, definition: Definition, _: ZRange, operands: Sequence[Operand]
) -> tuple[Array, ...]:
    total = operands[0].array
    for operand in operands[1:]:
        total = xp.cast(combine(xp, definition["monoid"], total, operand.array), xp.dtype_of(total))
    return (total,)


def _staged_to_accumulate(definition: Definition) -> int:
    """Compute the elements staged: one incoming term, but for the first, which begins the result."""
    assert definition.signature is not None
    return definition.signature.index_range.size if len(definition.signature.inputs) > 1 else 0


def _work_of_terms(definition: Definition, inputs: Sequence[TensorType], _: Sequence[TensorType]) -> Work:
    # A logsumexp compares, subtracts, exponentiates (8, as in `expressions`) and adds.
    each = 11.0 if definition["monoid"] == "logsumexp" else 1.0
    return Work("vector", flops=each * (len(inputs) - 1)) if len(inputs) > 1 else Work("move")


_MATRIX = TensorType((4, 6), "float32")
_ROW = TensorType((6,), "float32")

FLAT_SLICE = Operator(
    name="flat_slice",
    infer=_infer_run,
    evaluate=_evaluate_run,
    work=lambda _, __, ___: Work("none"),
    view=True,
    examples=(
        OperatorExample(attributes(start=2, end=9), (_MATRIX,)),
        OperatorExample(attributes(start=0, end=12), (TensorType((2, 2, 3), "int64"),)),
    ),
)

ASSEMBLE = Operator(
    name="assemble",
    infer=_infer_assemble,
    evaluate=_evaluate_assemble,
    work=lambda _, __, ___: Work("move"),
    staging=_staged_to_assemble,
    examples=(
        OperatorExample(
            attributes(shape=(4, 9), boxes=(((0, 6), (4, 9)), ((0, 0), (4, 6))), firsts=(0, 0)),
            (TensorType((4, 3), "float32"), _MATRIX),
        ),
        OperatorExample(
            attributes(shape=(4, 3), boxes=((((0, 0), (4, 3)),) * 2), firsts=(6, 0)), (_ROW, _ROW)
        ),
        OperatorExample(attributes(shape=(4, 6), boxes=(((2, 0), (4, 6)),), firsts=(3,), open=True), (_ROW,)),
        OperatorExample(
            attributes(shape=(4, 6), boxes=(((2, 0), (4, 6)),), firsts=(3,), onto=True), (_MATRIX, _ROW)
        ),
    ),
)

ACCUMULATE = Operator(
    name="accumulate",
    infer=_infer_accumulate,
    evaluate=_evaluate_accumulate,
    work=_work_of_terms,
    staging=_staged_to_accumulate,
    examples=(
        OperatorExample(attributes(monoid="sum"), (_MATRIX,) * 3),
        OperatorExample(attributes(monoid="logsumexp"), (_ROW,) * 2),
    ),
)

COLLECTING: tuple[Operator, ...] = (FLAT_SLICE, ASSEMBLE, ACCUMULATE)
