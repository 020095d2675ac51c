"""Pieces of abstract tensors in an explicit graph's local tensors, through slices, joins and partial sums.

A piece is a box of an abstract tensor, perhaps flattened to a row and cut, perhaps only a part of a reduction.
The functions here say which piece a small block between shards makes, or None where it makes no piece of what
it reads: then it is a block of the program itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tapestry.teg.graph import Definition
from tapestry.teg.operators.collecting import Written, writing_fault
from tapestry.teg.operators.monoids import identity
from tapestry.teg.views import ViewDim, parse
from tapestry.teg.zspace import ZRange

Token = tuple[int, int]
"""An abstract tensor: the number of its block, and the output's position. Identities of monoids have none."""

COMBINING = {"add": "sum", "mul": "prod", "max": "max", "min": "min", "or": "any", "and": "all"}


@dataclass(frozen=True)
class Piece:
    """The piece `box` of the tensor `token`; `flat`: elements `[start, end)` of that box as a row.

    `terms`: the ranges of the reduction dimensions that are summed up so far, by `monoid`; empty where nothing
    is missing. `written`: of an assembly that is open, the runs of boxes that are there. A piece without token is full
    of one value: `fill` holds it and its element type; or it is a `stack` of pieces along a new first dimension.
    """

    token: Token | None
    box: ZRange
    flat: tuple[int, int] | None = None
    terms: frozenset[ZRange] = frozenset()
    monoid: str | None = None
    fill: tuple[Any, str] | None = None
    written: tuple[Written, ...] | None = None
    stack: tuple[Piece, ...] = ()


def made_piece(
    definition: Definition, inputs: Sequence[Piece], shape: tuple[int, ...], dtype: str
) -> Piece | None:
    """Return the piece that a block makes of the pieces it reads; None if it does more than move or combine them."""
    moves = definition.is_view or definition.operator in ("flat_slice", "assemble")
    if not moves and any(p.written is not None for p in inputs):
        return None
    if definition.is_view and len(inputs) == 1:
        return _sliced(definition, inputs[0])
    if definition.operator == "reduce" and inputs[0].stack:
        labels, output = definition["labels"], definition["output"]
        plain = labels[1:] == output and not definition.get("keep") and definition.get("scale", 1.0) == 1.0
        return _summed(definition["monoid"], inputs[0].stack, dtype) if plain else None
    if definition.operator == "flat_slice":
        return _run(inputs[0], definition["start"], definition["end"])
    if definition.operator == "accumulate":
        return _summed(definition["monoid"], inputs, dtype)
    if definition.operator == "assemble":
        return _assembled(definition, inputs)
    if definition.operator == "reshape" and len(inputs) == 1:
        return _reshaped(inputs[0], shape)
    if definition.operator == "concat" and inputs:
        return _joined(inputs, definition["axis"])
    if definition.operator == "cell":
        return _combined(definition, inputs, shape, dtype)
    return None


def _sliced(definition: Definition, piece: Piece) -> Piece | None:
    view = parse(definition["map"], definition["shape"])
    if piece.stack:
        return None
    if view.shape[:1] == (1,) and view.dims == tuple(ViewDim(k + 1, 1, 0) for k in range(len(view.dims))):
        return Piece(None, ZRange.of_shape(view.shape), stack=(piece,))
    if len(view.dims) != len(view.shape) or any(d.dim != k or d.stride != 1 for k, d in enumerate(view.dims)):
        return None
    start = tuple(d.offset for d in view.dims)
    if piece.flat is not None:
        return replace(piece, flat=(piece.flat[0] + start[0], piece.flat[0] + start[0] + view.shape[0]))
    part = ZRange.build(start, shape=view.shape).translate(piece.box.start)
    if piece.written is None:
        return replace(piece, box=part)
    if any(run == (0, box.size) and box.contains(part) for box, run in piece.written):
        return replace(piece, box=part, written=None)
    return replace(piece, box=part, written=tuple(w for w in piece.written if w[0] == part))


def _run(piece: Piece, start: int, end: int) -> Piece | None:
    """Return elements `[start, end)` of a flattened piece; of a row that is no other form, a box."""
    if piece.stack:
        return None
    if piece.written is not None:
        if not any(box == piece.box and a <= start <= end <= b for box, (a, b) in piece.written):
            return None
        piece = replace(piece, written=None)
    if piece.flat is None and piece.box.rank == 1:
        first = piece.box.start[0]
        return replace(piece, box=ZRange((first + start,), (first + end,)))
    first = piece.flat[0] if piece.flat is not None else 0
    return replace(piece, flat=(first + start, first + end))


def _assembled(definition: Definition, inputs: Sequence[Piece]) -> Piece | None:
    """Return the box, or the row of one, whose parts the inputs are, each in its place."""
    first, shape = inputs[0], definition["shape"]
    begun = inputs[:1] if definition.get("onto") else ()
    if begun and (first.written is None or first.box.shape != shape):
        return None
    origins = {piece.box.start for piece in begun}
    rows: set[tuple[ZRange, int]] = set()
    placed: list[Written] = []
    pieces = inputs[len(begun) :]
    for piece, (low, high), start in zip(pieces, definition["boxes"], definition["firsts"], strict=True):
        alike = replace(piece, box=first.box, flat=first.flat, written=first.written) == first
        if not alike or piece.stack or piece.written is not None:
            return None
        box = ZRange(low, high)
        if piece.box.shape == box.shape and (piece.flat is None or piece.flat[0] == start):
            origins.add(tuple(a - b for a, b in zip(piece.box.start, low, strict=True)))
        elif piece.flat is None and piece.box.rank == box.rank == 1:
            origins.add((piece.box.start[0] - low[0] - start,))
        elif piece.flat is not None and box.rank == 1:
            rows.add((piece.box, piece.flat[0] - low[0] - start))
        else:
            return None
        size = piece.box.size if piece.flat is None else piece.flat[1] - piece.flat[0]
        placed.append((box, (start, start + size)))
    if len(origins) + len(rows) != 1:
        return None
    if rows:
        row, begin = rows.pop()
        return replace(first, box=row, flat=(begin, begin + shape[0])) if not begun else None
    origin = origins.pop()
    whole = ZRange.build(origin, shape=shape)
    written = (*(first.written or ()), *((box.translate(origin), run) for box, run in placed))
    if definition.get("open"):
        return replace(first, box=whole, flat=None, written=written)
    if begun and writing_fault(written, whole) is not None:
        return None
    return replace(first, box=whole, flat=None, written=None)


def _reshaped(piece: Piece, shape: tuple[int, ...]) -> Piece | None:
    if piece.flat is None:
        if shape == piece.box.shape:
            return piece
        return replace(piece, flat=(0, piece.box.size)) if len(shape) == 1 else None
    if piece.flat == (0, piece.box.size) and shape == piece.box.shape:
        return replace(piece, flat=None)
    return None


def _joined(inputs: Sequence[Piece], axis: int) -> Piece | None:
    first = inputs[0]
    if any(p.stack for p in inputs):
        if axis != 0 or not all(p.stack for p in inputs):
            return None
        return Piece(None, first.box, stack=tuple(piece for p in inputs for piece in p.stack))
    whole = first
    for piece in inputs[1:]:
        if replace(piece, box=first.box, flat=first.flat) != first:
            return None
        if whole.flat is not None:
            if piece.box != whole.box or piece.flat is None or piece.flat[0] != whole.flat[1]:
                return None
            whole = replace(whole, flat=(whole.flat[0], piece.flat[1]))
        else:
            boxes = whole.box, piece.box
            beside = boxes[1].start[axis] == boxes[0].end[axis] and all(
                (boxes[0].start[d], boxes[0].end[d]) == (boxes[1].start[d], boxes[1].end[d])
                for d in range(boxes[0].rank)
                if d != axis
            )
            if not beside:
                return None
            whole = replace(whole, box=boxes[0].bounding(boxes[1]))
    return whole


def _combined(
    definition: Definition, inputs: Sequence[Piece], shape: tuple[int, ...], dtype: str
) -> Piece | None:
    expression, labels = definition["expr"], definition["labels"]
    if not inputs and expression[0] == "const":
        return Piece(None, ZRange.of_shape(shape), fill=(expression[1], dtype))
    names = tuple(name for name, _ in definition["dims"])
    if definition["dtype"] != dtype or any(found != names for found in labels):
        return None
    terms = _terms(expression)
    if terms is None or sorted(terms[1]) != list(range(len(inputs))):
        return None
    if len(inputs) == 1:
        return inputs[0]
    monoid = COMBINING.get(terms[0])
    return None if monoid is None else _summed(monoid, inputs, dtype)


def _summed(monoid: str, inputs: Sequence[Piece], dtype: str) -> Piece | None:
    """Combine partial results of one reduction; those full of its identity add nothing. None if they do not fit."""
    nothing = (identity(monoid, dtype), dtype)
    kept = [p for p in inputs if p.token is not None or p.fill != nothing]
    if not kept:
        return inputs[0]
    first = kept[0]
    if len(kept) == 1:
        return first if first.monoid in (None, monoid) else None
    if any(replace(p, terms=first.terms) != first or p.monoid != monoid for p in kept):
        return None
    found = [term for p in kept for term in p.terms]
    return replace(first, terms=frozenset(found)) if len(set(found)) == len(found) else None


def _terms(expression: Any) -> tuple[str, list[int]] | None:
    """Return the one function of an expression that does nothing else, and the inputs it combines; None for others."""
    functions: set[str] = set()
    found: list[int] = []
    waiting = [expression]
    while waiting:
        e = waiting.pop()
        if e[0] == "input":
            found.append(e[1])
        elif e[0] in COMBINING and len(e) == 3:
            functions.add(e[0])
            waiting += e[1:]
        elif e[0] == "identity":
            waiting += e[1:]
        else:
            return None
    return (next(iter(functions), "identity"), found) if len(functions) <= 1 else None
