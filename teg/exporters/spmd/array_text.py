"""A small array namespace whose arrays are texts: calling a function writes the expression that computes it.

Operators are written out by functions over this namespace (`teg.exporters.spmd.writers`); a subclass for each library
has the texts in which they differ. Shapes are vectors over the devices; element types are tracked, since libraries
promote them by other rules than numpy does.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import EllipsisType
from typing import Any, ClassVar

import numpy as np

from tapestry.teg.dtypes import item_bytes
from tapestry.teg.exporters.spmd.per_rank import NumberTexts, common
from tapestry.teg.exporters.spmd.statements import StatementList, apparent_length, variable

# How tightly an expression binds: what stands alone, a unary operator, products, sums, comparisons.
ATOM, UNARY, PRODUCT, SUM, COMPARISON = 9, 8, 7, 6, 3

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "float16", "bfloat16", "float32", "float64"),
    *("complex64", "complex128"),
)
LONGEST = 64

Index = slice | int | None | EllipsisType
DimSpan = tuple[np.ndarray, np.ndarray | None, int]
"""A part of a dimension by device: start, stop (None: the one place at the start) and step."""


class NotWritable(ValueError):
    """An operator, an element type or a form of them that has no text in the target library."""


class UnequalSizes(NotWritable):
    """An expression for all devices whose parts differ in size."""


@dataclass(frozen=True, eq=False)
class TextValue:
    """An array as text: its `shape` is `(devices, rank)`, `level` says how tightly the text binds."""

    text: str
    shape: np.ndarray
    dtype: str
    level: int = ATOM

    @property
    def rank(self) -> int:
        return int(self.shape.shape[1])


@dataclass
class ArrayText(ABC):
    """The namespace: `active` `(devices,)` are those that run the block that is being written.

    `functions` are those of the library by the names that writers use, `formulas` what is written by means of `{0}`,
    `combining` the functions of two terms of monoids other than sums. A library is `eager` if every call makes an array
    in memory, which no compiler leaves out.
    """

    numbers: NumberTexts
    statements: StatementList
    active: np.ndarray

    library: ClassVar[str]
    title: ClassVar[str]
    functions: ClassVar[Mapping[str, str]]
    formulas: ClassVar[Mapping[str, str]]
    axis_word: ClassVar[str]
    cast_method: ClassVar[str]
    permute_methods: ClassVar[tuple[str, str]]
    combining: ClassVar[Mapping[str, str]]
    dtype_names: ClassVar[Mapping[str, str]] = {}
    eager: ClassVar[bool] = False

    def number(self, values: np.ndarray | int) -> str:
        """Return the text of an integer by device."""
        return self.numbers.text(self._vector(values), self.active)

    def same(self, values: np.ndarray) -> int | None:
        """Return the integer that all active devices have; None if they differ."""
        return common(values, self.active)

    def _vector(self, values: np.ndarray | int) -> np.ndarray:
        return np.broadcast_to(values, self.active.shape)

    def shape_text(self, shape: np.ndarray) -> str:
        """Return the text of a shape `(devices, rank)` as a tuple."""
        sizes = [self.number(shape[:, k]) for k in range(shape.shape[1])]
        return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"

    def sizes_equal(self, a: np.ndarray, b: np.ndarray) -> bool:
        """Return whether two vectors are equal on all active devices."""
        return bool((a[self.active] == b[self.active]).all())

    def inner(self, value: TextValue, level: int = ATOM) -> str:
        """Return the text as part of an expression that binds like `level`."""
        return value.text if value.level >= level else f"({value.text})"

    def named(self, value: TextValue) -> TextValue:
        """Return the value under a name, for text that needs it twice."""
        if re.fullmatch(r"[\x01\x03][^\x02]*\x02", value.text):
            return value
        return self.renamed(value)

    def short(self, value: TextValue) -> TextValue:
        """Return the value under a name if its text has grown long."""
        return self.named(value) if apparent_length(value.text) > LONGEST else value

    def plain(self, value: TextValue) -> TextValue:
        """Return the value under a name if more than a few things are already done to it."""
        is_name = re.fullmatch(r"\x01[^\x02]*\x02", value.text)
        return value if is_name or apparent_length(value.text) <= LONGEST // 2 else self.renamed(value)

    def renamed(self, value: TextValue) -> TextValue:
        """Return the value under a new name."""
        key = self.statements.temporary(value.text)
        if value.dtype:
            self.statements.sizes[key] = value.shape.prod(axis=1) * item_bytes(value.dtype)
        return replace(value, text=variable(key), level=ATOM)

    def dtype_text(self, dtype: str) -> str:
        """Return the text of an element type.

        Raises:
            NotWritable: the library computes nothing with it.
        """
        if dtype not in DTYPES:
            raise NotWritable(f"element type {dtype}")
        return f"{self.library}.{self.dtype_names.get(dtype, dtype)}"

    def function(self, name: str) -> str:
        """Return the library's name of a function.

        Raises:
            NotWritable: the library has none.
        """
        if name not in self.functions:
            raise NotWritable(f"function {name}")
        return self.functions[name]

    def call(
        self, name: str, *arguments: str, like: TextValue, axis: str | None = None, **named: str
    ) -> TextValue:
        """Apply a function of the library, with the shape and element type of `like`."""
        along = {} if axis is None else {self.axis_word: axis}
        listed = [*arguments, *(f"{word}={text}" for word, text in {**along, **named}.items())]
        return replace(like, text=f"{self.function(name)}({', '.join(listed)})", level=ATOM)

    def method(
        self, value: TextValue, name: str, *arguments: str, shape: np.ndarray | None = None
    ) -> TextValue:
        """Apply a method of a tensor; what it is applied to is named where it is long."""
        value = self.plain(value)
        text = f"{self.inner(value)}.{name}({', '.join(arguments)})"
        return TextValue(text, value.shape if shape is None else shape, value.dtype)

    def cast(self, value: TextValue, dtype: str) -> TextValue:
        """Convert the elements."""
        if value.dtype == dtype:
            return value
        return replace(self.method(value, self.cast_method, self.dtype_text(dtype)), dtype=dtype)

    def permute_dims(self, value: TextValue, order: Sequence[int]) -> TextValue:
        """Reorder the dimensions, as `numpy.transpose`."""
        if list(order) == list(range(value.rank)):
            return value
        shape = value.shape[:, list(order)]
        moved = [k for k, o in enumerate(order) if k != o]
        if len(moved) == 2:
            return self.method(value, self.permute_methods[0], *map(str, moved), shape=shape)
        return self.method(value, self.permute_methods[1], *map(str, order), shape=shape)

    def reshape(self, value: TextValue, shape: np.ndarray) -> TextValue:
        """Reshape the same elements to `shape` `(devices, rank)`."""
        if value.shape.shape == shape.shape and self.sizes_equal(value.shape, shape):
            return value
        return self.method(value, "reshape", *self._listed(shape), shape=shape)

    def _listed(self, shape: np.ndarray) -> list[str]:
        return [self.number(shape[:, k]) for k in range(shape.shape[1])] or ["()"]

    def expand(self, value: TextValue, shape: np.ndarray) -> TextValue:
        """Broadcast to `shape` by repeating dimensions of size 1 and adding leading ones."""
        if value.shape.shape == shape.shape and self.sizes_equal(value.shape, shape):
            return value
        return self._expanded(value, shape)

    def expand_dims(self, value: TextValue, axes: Sequence[int]) -> TextValue:
        """Insert dimensions of size 1, at their positions in the result."""
        if not axes:
            return value
        rank = value.rank + len(axes)
        old = [k for k in range(rank) if k not in axes]
        shape = np.ones((len(value.shape), rank), np.int64)
        shape[:, old] = value.shape
        if len(axes) == 1:
            return self._unsqueezed(value, axes[0], shape)
        return self.getitem(value, [None if k in axes else slice(None) for k in range(rank)], shape)

    def getitem(self, value: TextValue, places: Sequence[Index | str], shape: np.ndarray) -> TextValue:
        """Index with slices, integers, None and texts; whole trailing dimensions are left out."""
        items = [p if isinstance(p, str) else _item(p) for p in places]
        while items and items[-1] == ":":
            items.pop()
        if not items:
            return value
        value = self.plain(value)
        return TextValue(f"{self.inner(value)}[{', '.join(items)}]", shape, value.dtype)

    def static_part(self, value: TextValue, spans: Sequence[DimSpan], shape: np.ndarray) -> TextValue:
        """Index with slices whose bounds are plain integers on each device."""
        fits = self.active.copy()
        for k, (low, stop, _) in enumerate(spans):
            fits &= (low >= 0) & ((low + 1 if stop is None else stop) <= value.shape[:, k])
        inner = replace(self, active=fits)
        places = [
            inner.number(low) if stop is None else inner.whole_span(low, stop, step, value.shape[:, k])
            for k, (low, stop, step) in enumerate(spans)
        ]
        if (fits == self.active).all():
            return inner.getitem(value, places, shape)
        if not fits.any():
            return TextValue(self._empty(value, shape), shape, value.dtype)
        value = self.named(value)
        key, start = self.statements.new_key(), len(self.statements.done)
        self.statements.assign(key, inner.getitem(value, places, shape).text)
        others = replace(self, active=self.active & ~fits)
        condition = self.numbers.table([str(bool(f)) for f in fits])
        self.statements.guarded(start, condition, [(key, others._empty(value, shape))])
        return TextValue(variable(key), shape, value.dtype)

    @abstractmethod
    def _empty(self, value: TextValue, shape: np.ndarray) -> str: ...

    @abstractmethod
    def part(self, value: TextValue, spans: Sequence[DimSpan], shape: np.ndarray) -> TextValue:
        """Return a part of `shape` `(devices, rank)` of a value: a span, or one place, of each dimension.

        A part without elements need not lie inside the value; devices where it does not make an empty one.
        """

    def whole_span(self, low: np.ndarray, stop: np.ndarray, step: int, size: np.ndarray) -> str | slice:
        """Return a slice of a dimension of `size`; the whole dimension where it is that on all devices."""
        if step == 1 and self.same(low) == 0 and self.sizes_equal(stop, size):
            return slice(None)
        return self.span(low, stop, step)

    def span(self, start: np.ndarray, stop: np.ndarray, step: int = 1) -> str:
        """Return the text of a slice of a dimension, bounds by device."""
        return span_text(self.number(start), self.number(stop), step)

    def flatten(self, value: TextValue, first: int, last: int) -> TextValue:
        """Merge the dimensions from `first` to `last` into one."""
        merged = np.prod(value.shape[:, first : last + 1], axis=1, dtype=np.int64)[:, None]
        shape = np.concatenate([value.shape[:, :first], merged, value.shape[:, last + 1 :]], axis=1)
        return self._flattened(value, first, last, shape)

    def flip(self, value: TextValue, axes: Sequence[int]) -> TextValue:
        """Reverse dimensions."""
        return self._flipped(value, axes) if axes else value

    def concat(self, values: Sequence[TextValue], axis: int) -> TextValue:
        """Join along a dimension."""
        shape = values[0].shape.copy()
        shape[:, axis] = sum(v.shape[:, axis] for v in values)
        parts = ", ".join(self.short(v).text for v in values)
        return self.call("concat", f"({parts})", like=replace(values[0], shape=shape), axis=str(axis))

    def stack(self, values: Sequence[TextValue], axis: int) -> TextValue:
        """Join along a new dimension."""
        shape = np.insert(values[0].shape, axis, len(values), axis=1)
        parts = ", ".join(self.short(v).text for v in values)
        return self.call("stack", f"({parts})", like=replace(values[0], shape=shape), axis=str(axis))

    def full(self, shape: np.ndarray, value: Any, dtype: str) -> TextValue:
        """Return an array of one value."""
        kind, sizes = self.dtype_text(dtype), self.shape_text(shape)
        text = f"{self.library}.full({sizes}, {constant(value)}, dtype={kind})"
        if type(value) in (int, float) and value == 0 and str(value) in ("0", "0.0"):
            text = f"{self.library}.zeros({sizes}, dtype={kind})"
        return TextValue(text, shape, dtype)

    def scalar(self, value: Any, dtype: str) -> str:
        """Return the text of an array without dimensions."""
        return f"{self.function('array')}({constant(value)}, dtype={self.dtype_text(dtype)})"

    def typed_number(self, value: Any, dtype: str) -> str:
        """Return the text of a number that has an element type of its own."""
        return self.scalar(value, dtype)

    @abstractmethod
    def arange(self, start: np.ndarray, stop: np.ndarray) -> TextValue:
        """Return the integers from `start` to `stop`."""

    @abstractmethod
    def pad(self, value: TextValue, sides: np.ndarray, fill: Any = 0) -> TextValue:
        """Add margins of one value: `sides` `(devices, rank, 2)` are their sizes before and after."""

    @abstractmethod
    def first(self, value: TextValue, axis: int, count: np.ndarray) -> TextValue:
        """Return the first `count` `(devices,)` elements along a dimension."""

    @abstractmethod
    def scan(self, value: TextValue, monoid: str, axis: int) -> TextValue:
        """Combine all elements up to each one along a dimension."""

    @abstractmethod
    def combine_rows(self, into: TextValue, rows: TextValue, values: TextValue, monoid: str) -> TextValue:
        """Combine rows of `values` into those rows of `into` that `rows` says."""

    @abstractmethod
    def _expanded(self, value: TextValue, shape: np.ndarray) -> TextValue: ...

    @abstractmethod
    def _unsqueezed(self, value: TextValue, axis: int, shape: np.ndarray) -> TextValue: ...

    @abstractmethod
    def _flipped(self, value: TextValue, axes: Sequence[int]) -> TextValue: ...

    @abstractmethod
    def _flattened(self, value: TextValue, first: int, last: int, shape: np.ndarray) -> TextValue: ...


def span_text(start: str, stop: str, step: int = 1) -> str:
    """Return the text of a slice, with the spaces that the formatter wants."""
    wide = any(not re.fullmatch(r"-?\w*", bound) for bound in (start, stop))
    text = (f"{start} : {stop}" if wide else f"{start}:{stop}").strip()
    if step == 1:
        return text
    return f"{text} : {step}" if wide else f"{text}:{step}"


def _item(place: Index) -> str:
    if isinstance(place, slice):
        assert place == slice(None)
        return ":"
    return "..." if place is Ellipsis else str(place)


def short_constant(value: float, dtype: str) -> str:
    """Return the shortest text of a number that is the same in an element type of at most 32 bits."""
    return (
        constant(float(str(np.float32(value))))
        if dtype in ("float32", "float16", "bfloat16")
        else constant(value)
    )


def constant(value: Any) -> str:
    """Return the text of a Python number, as the formatters write it."""
    if isinstance(value, complex):
        return f"complex({constant(value.real)}, {constant(value.imag)})"
    if isinstance(value, float) and not np.isfinite(value):
        return f'float("{value}")'
    return repr(value).replace("e+", "e")
