"""The importer's own program: a few kinds of step over logical tensors, before any dimension is factored.

Every computing step labels the dimensions of its operands: equal labels are one index dimension. Labels
make factoring uniform (a label is refined wherever it occurs) and absorb transpositions and broadcasts.
Steps that only move elements are separate kinds, because most of them become views.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tapestry.teg.loading import LoadCost

Labels = tuple[str, ...]

# Elements and bytes of one tensor are counted by 64-bit numbers.
LARGEST_COUNT = 2**63 - 1
# Results larger than this, and than their inputs together, are computed by the program, not by the import.
FOLD_LIMIT_BYTES = 64 * 1024
# A known value that repeats a smaller array is written out where an import reads its elements, up to so many.
LARGEST_WRITTEN = 2**22


class ImportLimitError(ValueError):
    """Error raised where an import would read, write or emit more than its limits; whoever knows the place adds it."""


def check_written(elements: int) -> None:
    """Check that an import may write a known value of so many elements out.

    Raises:
        ImportLimitError: there are more than `LARGEST_WRITTEN`.
    """
    if elements > LARGEST_WRITTEN:
        raise ImportLimitError(
            f"a constant of {elements:,} elements would be written out; an import writes at most "
            f"{LARGEST_WRITTEN:,}"
        )


@dataclass(frozen=True)
class Value:
    """A logical tensor: the shape and element type that the imported program states.

    `names` name its dimensions, all of them or (empty) none; they go with the tensor that stores the value.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    names: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Entry:
    """A value that is an input or is stored in the file; `data` is set where the file supplies it.

    `load` is the cost of loading it, where the program states one.
    """

    value: Value
    role: str
    data: np.ndarray | None = None
    load: LoadCost | None = None


@dataclass(frozen=True)
class Literal:
    """A known small value: `array` has the rank of `shape`, and size 1 where all slices are equal."""

    array: np.ndarray
    shape: tuple[int, ...]

    @property
    def is_writable(self) -> bool:
        """True if the elements are few enough to be read one by one at the logical shape."""
        return self.array.shape == self.shape or math.prod(self.shape) <= LARGEST_WRITTEN

    @property
    def full(self) -> np.ndarray:
        """The value at its logical shape, a view.

        Raises:
            ImportLimitError: it repeats its array too often to be read.
        """
        if not self.is_writable:
            check_written(math.prod(self.shape))
        return np.broadcast_to(self.array, self.shape)


@dataclass(frozen=True)
class Compute:
    """An operator over labeled dimensions; the label `""` marks a size-1 dimension that is broadcast.

    Dimensions labeled in `whole` are read by position or by window: they stay one dimension.
    `attributes` are the operator's, with labels where the operator expects dimensions. A `positional` step has
    positions there: any operator of the catalog on whole tensors, all labels in `whole`.
    """

    site: str
    operator: str
    inputs: tuple[str, ...]
    output: str
    input_labels: tuple[Labels, ...]
    output_labels: Labels
    attributes: Mapping[str, Any] = field(default_factory=dict)
    whole: frozenset[str] = frozenset()
    positional: bool = False


@dataclass(frozen=True)
class Relabel:
    """Transposition, squeeze, unsqueeze and broadcast in one: output dimensions by label, new ones labeled `""`."""

    site: str
    input: str
    output: str
    input_labels: Labels
    output_labels: Labels


@dataclass(frozen=True)
class Reshape:
    """A row-major reshape of the input's elements."""

    site: str
    input: str
    output: str


@dataclass(frozen=True)
class Slice:
    """A slice, given per dimension as `(start, stride)` of the coordinates kept; their number is the output's size."""

    site: str
    input: str
    output: str
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Concat:
    """A concatenation of the inputs along `axis`."""

    site: str
    inputs: tuple[str, ...]
    output: str
    axis: int


@dataclass(frozen=True)
class Fixed:
    """A block on whole tensors, read and written by position; it sees the values' shapes, whatever their factors.

    The block's outputs are `outputs`, in this order, none left out; `attributes` are the operator's own.
    """

    site: str
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)


Step = Compute | Relabel | Reshape | Slice | Concat | Fixed


def inputs_of(step: Step) -> tuple[str, ...]:
    """Return the names of the values that a step reads."""
    return step.inputs if isinstance(step, (Compute, Concat, Fixed)) else (step.input,)


def outputs_of(step: Step) -> tuple[str, ...]:
    """Return the names of the values that a step produces."""
    return step.outputs if isinstance(step, Fixed) else (step.output,)


@dataclass(frozen=True)
class SequencePoint:
    """A point that computes the values `after` before the steps at the sites `before` begin.

    The producers of the values `after` are observed.
    """

    site: str
    after: tuple[str, ...]
    before: tuple[str, ...] = ()


@dataclass
class StepProgram:
    """A program: its steps in order, its entries and literals, and the values observed at the end (name -> value).

    `carries` maps each output that is the next value of an entry to that entry (name -> entry). `names` are the
    intermediate values that the imported program names (its name -> value).
    """

    name: str
    values: dict[str, Value] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)
    literals: dict[str, Literal] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    outputs: dict[str, str] = field(default_factory=dict)
    carries: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    points: list[SequencePoint] = field(default_factory=list)

    @property
    def observed(self) -> tuple[str, ...]:
        """The values observed from outside the steps: outputs, and values that sequence points wait for."""
        return (*self.outputs.values(), *(name for point in self.points for name in point.after))

    def pruned(self) -> StepProgram:
        """Return the program without the steps and entries that no output needs."""
        needed = {*self.observed, *self.carries.values()}
        kept: list[Step] = []
        for step in reversed(self.steps):
            if not needed.isdisjoint(outputs_of(step)):
                kept.append(step)
                needed.update(inputs_of(step), outputs_of(step))
        entries = {k: e for k, e in self.entries.items() if k in needed}
        literals = {k: c for k, c in self.literals.items() if k in needed}
        values = {k: v for k, v in self.values.items() if k in needed}
        names = {k: v for k, v in self.names.items() if v in values}
        return replace(self, names=names, values=values, entries=entries, literals=literals, steps=kept[::-1])
