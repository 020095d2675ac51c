"""Emission of programs by functions of values: each method emits a step and returns its result.

The translators of StableHLO's operations compose these; names of values and sites are generated here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.literals import literal
from tapestry.teg.importers.program import Entry, Fixed, Labels, Literal, Value
from tapestry.teg.importers.stablehlo.module import Operation, Type
from tapestry.teg.importers.translate.constant_folding import FoldingTranslation
from tapestry.teg.importers.translate.movement import pad
from tapestry.teg.importers.translate.step_emitter import StepEmitter
from tapestry.teg.importers.translate.translation import plain_labels

Expr = tuple[Any, ...]

X: Expr = ("input", 0)
Y: Expr = ("input", 1)
Z: Expr = ("input", 2)

# Arrays of floats beyond this are data of the program (weights that a function closes over), not literals.
DATA_LIMIT_BYTES = 4096


def const(value: float) -> Expr:
    """Build an expression for a number."""
    return ("const", value)


def cast(dtype: str, expr: Expr) -> Expr:
    """Cast an expression to another element type."""
    return ("cast", dtype, expr)


class Emitter(StepEmitter):
    """An emitter of the steps of one operation after the other.

    `operation` is the one being translated, `base` the name of its result, with which those of its steps begin.
    """

    def __init__(self, translation: FoldingTranslation) -> None:
        self.translation = translation
        self.operation: Operation = Operation("", (), (), (), {}, (), "")
        # Values put together from pieces along one axis: value -> (axis, pieces as (start, value)).
        self.pieces: dict[str, tuple[int, tuple[tuple[int, Value], ...]]] = {}
        self.bundles: dict[str, tuple[Value, ...]] = {}
        # The end of the names of values: `@2` on device 2 of a program that is split by hand.
        self.place = ""
        self._counts: Counter[str] = Counter()
        self.base, self._count = "", 0

    def begin(self, operation: Operation) -> None:
        """Start emitting steps that belong to `operation`."""
        self.operation = operation
        short = operation.short
        self._counts[short] += 1
        self.base, self._count = f"{short}.{self._counts[short]}{self.place}", 0

    def resume(self, operation: Operation) -> None:
        """Resume an operation after the operations of its regions."""
        self.begin(operation)

    def fresh(self) -> str:
        """Return a new name for the next value of this operation."""
        self._count += 1
        return self.base if self._count == 1 else f"{self.base}.{self._count - 1}"

    def refuse(self, reason: str) -> ImportFailure:
        """Build the error that the current operation is unsupported for a reason."""
        return ImportFailure(f"{self.operation.where} {reason}")

    def known(self, value: Value) -> np.ndarray | None:
        """Return the value's elements where they are known at import and few enough to be read, else None."""
        found = self.translation.literal(value.name)
        return None if found is None or not found.is_writable else found.full

    def know(self, array: np.ndarray, shape: Sequence[int]) -> Value:
        """Register a constant of `shape`; `array` has size 1 where its slices are equal."""
        name = self.fresh()
        self.translation.know(name, Literal(np.ascontiguousarray(array).reshape(array.shape), tuple(shape)))
        return self.value(name)

    def constant(self, array: np.ndarray) -> Value:
        """Build a constant; large arrays of floats become data supplied with the program."""
        found = literal(array)
        if array.dtype.kind in "biu" or found.array.nbytes <= DATA_LIMIT_BYTES:
            return self.know(found.array, found.shape)
        value = Value(self.fresh(), array.shape, array.dtype.name)
        program = self.translation.program
        program.values[value.name] = value
        program.entries[value.name] = Entry(value, "parameter", np.ascontiguousarray(array))
        return value

    def full(self, shape: Sequence[int], number: Any, dtype: str) -> Value:
        """Build a constant with equal elements."""
        return self.know(np.full((1,) * len(shape), number, numpy_dtype(dtype)), shape)

    def fixed(
        self, operator: str, inputs: Sequence[Value], types: Sequence[Type], attributes: Mapping[str, Any]
    ) -> list[Value]:
        """Emit a block on whole tensors with several results."""
        outputs = [self.translation.declare(self.fresh(), t.shape, t.dtype) for t in types]
        names = tuple(v.name for v in inputs)
        self.translation.emit(Fixed(outputs[0], operator, names, tuple(outputs), attributes))
        return [self.value(name) for name in outputs]

    def cell(self, expr: Expr, *operands: Value, dtype: str = "") -> Value:
        """Emit an expression over broadcast operands; the element type is the first one's if none is given."""
        output = self.fresh()
        names = [o.name for o in operands]
        return self.value(self.translation.cell(output, names, output, expr, dtype or operands[0].dtype))

    def line(self, shape: Sequence[int], axis: int, dtype: str) -> Value:
        """Emit the coordinate along one dimension."""
        labels = plain_labels(len(shape))
        attributes = {"expr": cast(dtype, ("index", labels[axis])), "dtype": dtype}
        return self.compute(
            "cell", (), (), labels, dtype, attributes, sizes=dict(zip(labels, shape, strict=True))
        )

    def cast(self, value: Value, dtype: str) -> Value:
        """Cast the value to another element type."""
        return value if value.dtype == dtype else self.cell(cast(dtype, X), value, dtype=dtype)

    def relabel(self, value: Value, source: Labels, target: Labels, shape: Sequence[int]) -> Value:
        """Transpose, squeeze, unsqueeze or broadcast a value: see `Translation.relabel`."""
        if source == target and tuple(shape) == value.shape:
            return value
        output = self.fresh()
        return self.value(self.translation.relabel(output, value.name, output, source, target, shape))

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """Reshape a value."""
        found = self.translation.literal(value.name)
        if found is not None:
            if found.array.size == 1:
                return self.know(found.array.reshape((1,) * len(shape)), shape)
            if found.is_writable:
                full = found.full
                packed = self.translation.once(
                    ("reshape", tuple(shape)), [full], lambda: literal(full.reshape(tuple(shape)))
                )
                return self.know(packed.array, packed.shape)
        output = self.fresh()
        return self.value(self.translation.reshape(output, value.name, output, tuple(shape)))

    def slice(self, value: Value, ranges: Sequence[range]) -> Value:
        """Slice a value to the coordinates in `ranges`; if one piece of a concatenation has them all, slice that."""
        if value.name in self.pieces:
            axis, pieces = self.pieces[value.name]
            wanted = ranges[axis]
            for start, piece in pieces:
                end = start + piece.shape[axis]
                if wanted and start <= min(wanted[0], wanted[-1]) and max(wanted[0], wanted[-1]) < end:
                    inner = range(wanted.start - start, wanted.stop - start, wanted.step)
                    return self.slice(piece, [inner if k == axis else r for k, r in enumerate(ranges)])
        output = self.fresh()
        return self.value(self.translation.slice(output, value.name, output, ranges))

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        """Concatenate the values; earlier concatenations along the same axis are replaced by their parts."""
        pieces: list[tuple[int, Value]] = []
        at = 0
        for value in values:
            own_axis, own = self.pieces.get(value.name, (axis, ((0, value),)))
            pieces += [(at + s, v) for s, v in own] if own_axis == axis else [(at, value)]
            at += value.shape[axis]
        pieces = [(s, v) for s, v in pieces if v.shape[axis]]
        if len(pieces) <= 1:
            return pieces[0][1] if pieces else values[0]
        output = self.fresh()
        name = self.translation.concat(output, [v.name for _, v in pieces], output, axis)
        if self.translation.literal(name) is None:
            self.pieces[name] = (axis, tuple(pieces))
        return self.value(name)

    def pad(self, value: Value, low: Sequence[int], high: Sequence[int], fill: float = 0) -> Value:
        """Pad the value before and after; negative widths crop it."""
        sides = list(zip(value.shape, low, high, strict=True))
        cropped = self.slice(value, [range(max(-a, 0), max(s - max(-b, 0), -a, 0)) for s, a, b in sides])
        if all(n <= 0 for n in (*low, *high)):
            return cropped
        output = self.fresh()
        widths = [max(a, 0) for a in low], [max(b, 0) for b in high]
        return self.value(pad(self.translation, output, cropped.name, output, *widths, fill=fill))

    def spread(self, value: Value, gaps: Sequence[int], fill: float = 0) -> Value:
        """Insert `gaps[k]` elements `fill` between neighbors along dimension `k`."""
        wide = [n for s, g in zip(value.shape, gaps, strict=True) for n in (s, g + 1)]
        if not any(gaps):
            return value
        if fill == 0 and value.dtype != "bool":
            for axis, gap in enumerate(gaps):
                value = self._dilated(value, axis, gap + 1) if gap else value
            return self.slice(value, [range(n - g) for n, g in zip(value.shape, gaps, strict=True)])
        opened = self.reshape(value, [n for s in value.shape for n in (s, 1)])
        padded = self.pad(opened, [0] * len(wide), [n for g in gaps for n in (0, g)], fill)
        closed = self.reshape(padded, [a * b for a, b in zip(wide[::2], wide[1::2], strict=True)])
        return self.slice(closed, [range(n - g) for n, g in zip(closed.shape, gaps, strict=True)])

    def _dilated(self, value: Value, axis: int, factor: int) -> Value:
        """Insert zeros after each element along one dimension."""
        labels = plain_labels(len(value.shape))
        target = tuple("wide" if k == axis else d for k, d in enumerate(labels))
        attributes = {"axis": labels[axis], "factor": factor}
        sizes = {"wide": value.shape[axis] * factor}
        whole = frozenset((labels[axis], "wide"))
        return self.compute("dilate", [value], [labels], target, value.dtype, attributes, whole, sizes)

    def reduce(self, value: Value, axes: Sequence[int], monoid: str) -> Value:
        """Reduce a value over `axes`, which are removed."""
        if not axes:
            return value
        if value.dtype == "bool":
            monoid = {"max": "any", "min": "all"}.get(monoid, monoid)
        labels = plain_labels(len(value.shape))
        target = tuple(d for k, d in enumerate(labels) if k not in axes)
        return self.compute(
            "reduce", [value], [labels], target, value.dtype, {"monoid": monoid, "scale": 1.0}
        )

    def bundle(self, values: Sequence[Value]) -> Value:
        """Bundle several values under one name."""
        name = self.fresh()
        self.bundles[name] = tuple(values)
        return Value(name, (), "tuple")
