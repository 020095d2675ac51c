"""Emission of programs by functions of values: each method emits a step and returns its result.

Translators of several front ends compose these; names and sites are generated here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tapestry.teg.dtypes import HALF, numpy_dtype
from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.literals import literal
from tapestry.teg.importers.program import Fixed, Labels, Literal, Value
from tapestry.teg.importers.translate.arithmetic import CellExpr, cast, tree_of
from tapestry.teg.importers.translate.movement import broadcast_to, pad
from tapestry.teg.importers.translate.step_emitter import StepEmitter
from tapestry.teg.importers.translate.translation import Translation, plain_labels

ValueOrNumber = Value | float


class Builder(StepEmitter):
    """A builder of the steps of one call after the other, each under its name."""

    def __init__(self, translation: Translation) -> None:
        self.translation = translation
        self._name, self._where = "", ""
        self._count = 0
        self._first_step = 0

    def enter(self, name: str, where: str) -> None:
        """Start emitting steps that belong to the call `name`; errors say that it is at `where`."""
        self._name, self._where, self._count = name, where, 0
        self._first_step = len(self.translation.program.steps)

    def finish(self, result: Value, name: str, site: str = "") -> None:
        """Name the call's result `name`: the step that produced it takes over the name.

        That step is then at `site` (by default at `name`).
        """
        steps = self.translation.program.steps
        last = len(steps) - 1
        made = steps[last] if last >= self._first_step else None
        if made is not None and not isinstance(made, Fixed) and made.output == result.name:
            self.translation.program.values[name] = replace(
                self.translation.program.values[result.name], name=name
            )
            steps[last] = replace(made, output=name, site=site or name)
            del self.translation.program.values[result.name]
            self._first_step = last + 1
            self.translation.alias(result.name, name)
        elif name != result.name:
            self.translation.alias(name, result.name)

    def fresh(self) -> str:
        """Return a new name for the next value of this call."""
        self._count += 1
        return f"{self._name}/{self._count}"

    def refuse(self, reason: str) -> ImportFailure:
        """Build the error that the current call is unsupported for a reason."""
        return ImportFailure(f"{self._where} {reason}")

    def known(self, value: Value) -> Literal | None:
        """Return the value's elements where they are known at import, else None."""
        return self.translation.literal(value.name)

    def cells(
        self, function: Callable[..., CellExpr], *operands: ValueOrNumber, dtype: str, within: str = ""
    ) -> Value:
        """Apply `function` to expressions of broadcast operands, in element type `within` (default: `dtype`).

        Half-precision types are computed in float32, as torch does.
        """
        values = [o for o in operands if isinstance(o, Value)]
        inner = within or dtype
        inner = "float32" if inner in HALF else inner
        reads = iter(range(len(values)))
        arguments = [_argument(o, reads, inner) if isinstance(o, Value) else o for o in operands]
        result = function(*arguments)
        tree = tree_of(
            result if inner == (within or dtype) == dtype or dtype == "bool" else cast(dtype, result)
        )
        return self.elements(tree, values, dtype)

    def elements(
        self, tree: tuple[Any, ...], values: Sequence[Value], dtype: str, shape: Sequence[int] | None = None
    ) -> Value:
        """Emit a cell step of a finished expression; `shape` is needed where no operand has it."""
        if shape is not None and not values:
            labels, sizes = plain_labels(len(shape)), dict(zip(plain_labels(len(shape)), shape, strict=True))
            return self.compute("cell", (), (), labels, dtype, {"expr": tree, "dtype": dtype}, sizes=sizes)
        try:
            name = self.translation.cell(
                output := self.fresh(), [v.name for v in values], output, tree, dtype
            )
        except ValueError as error:
            raise self.refuse(f"does not broadcast {[list(v.shape) for v in values]}: {error}") from None
        return self.value(name)

    def cast(self, value: Value, dtype: str) -> Value:
        """Cast the value to another element type."""
        return value if value.dtype == dtype else self.elements(("cast", dtype, ("input", 0)), [value], dtype)

    def literal(self, array: np.ndarray) -> Value:
        """Add a constant that the translation introduces."""
        return self.value(self.translation.add_literal(self.fresh(), np.asarray(array)))

    def full(self, shape: Sequence[int], number: Any, dtype: str) -> Value:
        """Build a constant with equal elements."""
        fill = literal(np.asarray(number).astype(numpy_dtype(dtype)).reshape((1,) * len(shape))).array
        name = self.fresh()
        self.translation.know(name, Literal(fill, tuple(int(s) for s in shape)))
        return self.value(name)

    def relabel(self, value: Value, source: Labels, target: Labels, shape: Sequence[int]) -> Value:
        """Transpose, squeeze, unsqueeze or broadcast a value: see `Translation.relabel`."""
        output = self.fresh()
        return self.value(self.translation.relabel(output, value.name, output, source, target, shape))

    def unsqueeze(self, value: Value, *axes: int) -> Value:
        """Add dimensions of size 1 at `axes` of the result (ascending, not negative)."""
        shape = list(value.shape)
        labels, target = plain_labels(len(shape)), list(plain_labels(len(shape)))
        for axis in axes:
            shape.insert(axis, 1)
            target.insert(axis, "")
        return self.relabel(value, labels, tuple(target), shape)

    def squeeze(self, value: Value, *axes: int) -> Value:
        """Drop the dimensions `axes`, of size 1."""
        labels = plain_labels(len(value.shape))
        kept = [k for k in range(len(value.shape)) if k not in axes]
        if len(kept) == len(value.shape):
            return value
        return self.relabel(value, labels, tuple(labels[k] for k in kept), [value.shape[k] for k in kept])

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """Reshape a value."""
        output = self.fresh()
        return self.value(self.translation.reshape(output, value.name, output, tuple(shape)))

    def expand(self, value: Value, shape: Sequence[int]) -> Value:
        """Broadcast a value to `shape`."""
        output = self.fresh()
        return self.value(broadcast_to(self.translation, output, value.name, output, shape))

    def slice(self, value: Value, ranges: Sequence[range]) -> Value:
        """Slice a value to the coordinates in `ranges`."""
        output = self.fresh()
        return self.value(self.translation.slice(output, value.name, output, ranges))

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        """Concatenate the values."""
        if len(values) == 1:
            return values[0]
        output = self.fresh()
        return self.value(self.translation.concat(output, [v.name for v in values], output, axis))

    def pad(
        self, value: Value, low: Sequence[int], high: Sequence[int], fill: float = 0, mode: str = "constant"
    ) -> Value:
        """Pad the value before and after; negative widths crop it."""
        crop = [range(max(-a, 0), s - max(-b, 0)) for s, a, b in zip(value.shape, low, high, strict=True)]
        value = self.slice(value, crop)
        if all(n <= 0 for n in (*low, *high)):
            return value
        output = self.fresh()
        widths = [max(a, 0) for a in low], [max(b, 0) for b in high]
        return self.value(pad(self.translation, output, value.name, output, *widths, mode=mode, fill=fill))

    def reduce(
        self, value: Value, axes: Sequence[int], monoid: str = "sum", keep: bool = False, scale: float = 1.0
    ) -> Value:
        """Reduce a value over `axes` (not negative); `keep` leaves them with size 1."""
        if value.dtype == "bool":
            monoid = {"max": "any", "min": "all", "sum": "any", "prod": "all"}.get(monoid, monoid)
        labels = plain_labels(len(value.shape))
        target = tuple(f"k{k}" if k in axes else d for k, d in enumerate(labels) if keep or k not in axes)
        sizes = {f"k{k}": 1 for k in axes}
        attributes = {"monoid": monoid, "scale": scale}
        if not axes:
            return value
        return self.compute("reduce", [value], [labels], target, value.dtype, attributes, sizes=sizes)

    def dilate(self, value: Value, axis: int, factor: int) -> Value:
        """Insert zeros between the elements along `axis`: element i is at `i * factor`, the last one stays the last."""
        if factor == 1:
            return value
        size = value.shape[axis]
        spread = self.along("dilate", value, axis, value.dtype, {"factor": factor}, size * factor)
        return self.part(spread, axis, range((size - 1) * factor + 1))

    def gather(self, table: Value, index: Value, axis: int, aligned: Sequence[int] = ()) -> Value:
        """Gather the slices of `table` along `axis` that `index` names; `aligned` dimensions are shared by both.

        The result has the table's dimensions, with those of the index that are not aligned in the place of `axis`.
        """
        own = tuple("v" if k == axis else f"a{k}" for k in range(len(table.shape)))
        rows = tuple(f"a{k}" if k in aligned else f"i{k}" for k in range(len(index.shape)))
        new = tuple(d for d in rows if d.startswith("i"))
        target = (*own[:axis], *new, *own[axis + 1 :])
        index = index if index.dtype in ("int32", "int64") else self.cast(index, "int64")
        return self.compute(
            "gather", [table, index], [own, rows], target, table.dtype, {"axis": "v"}, frozenset("v")
        )

    def scatter(
        self,
        index: Value,
        updates: Value,
        axis: int,
        size: int,
        aligned: Sequence[int] = (),
        monoid: str = "sum",
        base: Value | None = None,
    ) -> Value:
        """Scatter, the inverse of `gather`: combine `updates` at the places `index` along a new dimension of `size`.

        `monoid` is sum, prod, max, min (from its identity; sum from zero), or last, which keeps `base` elsewhere.
        `updates` has the dimensions that the gather of the same index would give.
        """
        rows = tuple(f"a{k}" if k in aligned else f"i{k}" for k in range(len(index.shape)))
        new = tuple(d for d in rows if d.startswith("i"))
        rest = len(updates.shape) - len(new)
        names = tuple(f"a{k}" if k < axis else f"a{k + 1}" for k in range(rest))
        own, target = (*names[:axis], *new, *names[axis:]), (*names[:axis], "v", *names[axis:])
        index = index if index.dtype in ("int32", "int64") else self.cast(index, "int64")
        given = [*([] if base is None else [base]), index, updates]
        labels = [*([] if base is None else [target]), rows, own]
        attributes = {"axis": "v", "monoid": monoid}
        sizes = {"v": size}
        return self.compute(
            "scatter", given, labels, target, updates.dtype, attributes, frozenset("v"), sizes
        )

    def along(
        self,
        operator: str,
        value: Value,
        axis: int,
        dtype: str,
        attributes: Mapping[str, Any],
        count: int | None = None,
    ) -> Value:
        """Emit an operator along one dimension, which stays whole: a scan, a sort; `count` elements of it remain."""
        labels = plain_labels(len(value.shape))
        own = labels[axis]
        target = labels if count is None else tuple("s" if d == own else d for d in labels)
        sizes = {} if count is None else {"s": count}
        given = {"axis": own, **attributes}
        return self.compute(
            operator, [value], [labels], target, dtype, given, frozenset((own, *sizes)), sizes
        )

    def axis(self, axis: int, rank: int) -> int:
        """Return `axis` counted from the front."""
        if not -max(rank, 1) <= axis < max(rank, 1):
            raise self.refuse(f"names dimension {axis} of a tensor of rank {rank}")
        return axis % max(rank, 1)

    def axes(self, given: Any, rank: int) -> list[int]:
        """Return dimensions counted from the front, ascending; none given means all."""
        listed = [given] if isinstance(given, int) else list(given or ())
        return sorted({self.axis(int(a), rank) for a in listed}) if listed else list(range(rank))


def _argument(value: Value, reads: Any, inner: str) -> CellExpr:
    read = CellExpr(("input", next(reads)))
    return read if value.dtype == inner else cast(inner, read)
