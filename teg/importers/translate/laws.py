"""Values that are affine functions of their coordinates, as exporters write indices out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tapestry.teg.importers.program import Compute, Literal, Relabel, Reshape, Value
from tapestry.teg.importers.translate.translation import Translation

# Expressions and chains of steps deeper than this are not followed.
DEEPEST = 24


class AffineIndex(NamedTuple):
    """An affine map with elements `start + sum of strides[d] * coordinate d`; dimensions of size 1 have stride 0."""

    start: int
    strides: tuple[int, ...]

    @property
    def along(self) -> tuple[int, ...]:
        """The dimensions along which the value changes."""
        return tuple(d for d, s in enumerate(self.strides) if s)

    def bounds(self, shape: Sequence[int]) -> tuple[int, int]:
        """Compute the least and the greatest element at this shape."""
        ends = [s * (n - 1) for s, n in zip(self.strides, shape, strict=True)]
        return self.start + sum(min(e, 0) for e in ends), self.start + sum(max(e, 0) for e in ends)

    def within(self, shape: Sequence[int], size: int) -> AffineIndex | None:
        """Count the positions from the front; None if one is outside `[-size, size)` or they are on both sides of 0."""
        low, high = self.bounds(shape)
        if low < 0:
            low, high, shifted = low + size, high + size, self._replace(start=self.start + size)
        else:
            shifted = self
        return shifted if low >= 0 and high < size else None


Seen = dict[str, AffineIndex | None]


def law_of(t: Translation, name: str) -> AffineIndex | None:
    """Find the affine law of an integer value; None where there is none, or it is not recognized."""
    return _law_of(t, name, 0, {})


def _law_of(t: Translation, name: str, depth: int, seen: Seen) -> AffineIndex | None:
    """Find the law of a value, see `law_of`; values that several steps read are analyzed once."""
    value = t.value(name)
    if value.name not in seen:
        seen[value.name] = None
        known = t.literal(name)
        seen[value.name] = _step_law(t, value, depth, seen) if known is None else known_law(t, known)
    return seen[value.name]


def _step_law(t: Translation, value: Value, depth: int, seen: Seen) -> AffineIndex | None:
    step = t.producer(value.name)
    if depth > DEEPEST or value.dtype not in ("int32", "int64"):
        return None
    if isinstance(step, Compute) and step.operator == "cell":
        return _cell_law(t, step, depth, seen)
    if isinstance(step, Relabel):
        inner = _law_of(t, step.input, depth + 1, seen)
        return None if inner is None else _relabeled(inner, step.input_labels, step.output_labels)
    if isinstance(step, Reshape):
        inner = _law_of(t, step.input, depth + 1, seen)
        return None if inner is None else _with_ones(inner, t.value(step.input).shape, value.shape)
    return None


def known_law(t: Translation, known: Literal) -> AffineIndex | None:
    """Find the law of a known value; None if there is none."""
    return t.once("law", [known.array], lambda: _array_law(known.array))


def _array_law(array: np.ndarray) -> AffineIndex | None:
    if array.dtype.kind not in "iu" or array.size == 0:
        return None
    first = int(array.reshape(-1)[0])
    line, strides = np.full((1,) * array.ndim, first, np.int64), []
    for d, size in enumerate(array.shape):
        step = int(array[tuple(1 if k == d else 0 for k in range(array.ndim))]) - first if size > 1 else 0
        strides.append(step)
        line = line + step * np.arange(size).reshape([-1 if k == d else 1 for k in range(array.ndim)])
    return AffineIndex(first, tuple(strides)) if np.array_equal(line, array) else None


def _relabeled(law: AffineIndex, source: Sequence[str], target: Sequence[str]) -> AffineIndex:
    strides = {d: s for d, s in zip(source, law.strides, strict=True) if d}
    return AffineIndex(law.start, tuple(strides.get(d, 0) if d else 0 for d in target))


def _with_ones(law: AffineIndex, old: Sequence[int], new: Sequence[int]) -> AffineIndex | None:
    """Return the law at a shape that differs in sizes 1 only, else None."""
    if [s for s in old if s != 1] != [s for s in new if s != 1]:
        return None
    strides = iter([s for s, n in zip(law.strides, old, strict=True) if n != 1])
    return AffineIndex(law.start, tuple(0 if n == 1 else next(strides) for n in new))


class _Sum(NamedTuple):
    """A constant plus multiples of labeled coordinates."""

    start: int
    terms: dict[str, int]


def _cell_law(t: Translation, step: Compute, depth: int, seen: Seen) -> AffineIndex | None:
    laws = [_law_of(t, name, depth + 1, seen) for name in step.inputs]
    inputs = [
        None
        if law is None
        else _Sum(law.start, {d: s for d, s in zip(labels, law.strides, strict=True) if s})
        for law, labels in zip(laws, step.input_labels, strict=True)
    ]
    total = _sum_of(step.attributes["expr"], inputs, depth)
    if total is None:
        return None
    shape = t.value(step.output).shape
    terms = (total.terms.get(d, 0) for d in step.output_labels)
    return AffineIndex(total.start, tuple(s if n != 1 else 0 for s, n in zip(terms, shape, strict=True)))


def _sum_of(expr: Any, inputs: Sequence[_Sum | None], depth: int) -> _Sum | None:
    """Convert the expression to a sum, if it is one, else None."""
    if depth > DEEPEST:
        return None
    name, *rest = expr
    if name == "input":
        return inputs[int(rest[0])]
    if name == "index":
        return _Sum(0, {rest[0]: 1})
    if name == "const":
        return _Sum(rest[0], {}) if isinstance(rest[0], int) else None
    if name == "cast":
        return _sum_of(rest[1], inputs, depth + 1) if rest[0] in ("int32", "int64") else None
    if name not in ("add", "sub", "mul", "neg"):
        return None
    parts = [_sum_of(e, inputs, depth + 1) for e in rest]
    if any(p is None for p in parts):
        return None
    first, *others = [p for p in parts if p is not None]
    if name == "neg":
        return _scaled(first, -1)
    (second,) = others
    if name == "mul":
        if first.terms and second.terms:
            return None
        return _scaled(first, second.start) if first.terms else _scaled(second, first.start)
    second = second if name == "add" else _scaled(second, -1)
    labels = {**first.terms, **second.terms}
    terms = {d: first.terms.get(d, 0) + second.terms.get(d, 0) for d in labels}
    return _Sum(first.start + second.start, terms)


def _scaled(value: _Sum, factor: int) -> _Sum:
    return _Sum(value.start * factor, {d: s * factor for d, s in value.terms.items()})
