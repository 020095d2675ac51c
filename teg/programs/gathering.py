"""Gathers and scatters: elements selected by tensors of positions, and updates written at positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self, TypeAlias

import numpy as np

from tapestry.teg.importers.program import Labels
from tapestry.teg.programs.base import Dim, TensorBase, check_name, labels_for
from tapestry.teg.programs.elementwise import Elementwise
from tapestry.teg.programs.failure import ProgramError
from tapestry.teg.programs.movement import Movement

Positions: TypeAlias = "TensorBase | np.ndarray | Sequence[int]"
COMBINED_BY = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}


class GatherPlan(NamedTuple):
    """The addressing of one dimension by positions: labels of table, positions, result, and the result's dimensions."""

    table: Labels
    places: Labels
    result: Labels
    shape: tuple[int, ...]
    names: tuple[str, ...]


class Gathering(Movement, Elementwise):
    """Methods that select elements by position.

    Where table and positions have dimensions of the same name, these run together: `table` (batch, vocabulary)
    and `index` (batch, choice) give (batch, choice).

    >>> import tapestry
    >>> p = tapestry.program()
    >>> table, ids = p.parameter("table", word=1000, width=64), p.input("ids", batch=4, token=16, dtype="int64")
    >>> table.gather(ids, "word")
    gather: float32[batch=4, token=16, width=64]
    >>> table.scatter(ids, p.input("new", batch=4, token=16, width=64), "word", combine="sum")
    add: float32[word=1000, width=64]
    >>> ids.one_hot(1000, "word")
    one_hot: float32[batch=4, token=16, word=1000]
    """

    def gather(self, index: Positions, dim: Dim = 0) -> Self:
        """Gather slices along `dim` at the positions `index`; the dimensions that only `index` has replace `dim`."""
        index = self._positions(index)
        plan = self._plan(index, dim)
        return self._gathered(index, plan)

    def take_along(self, index: Positions, dim: Dim = -1) -> Self:
        """Gather as `numpy.take_along_axis`: positions of the tensor's rank, one per element of the result."""
        index = self._positions(index)
        axis = self.axis(dim)
        same = [
            index.rank == self.rank and index.shape[k] == self.shape[k] for k in range(self.rank) if k != axis
        ]
        if index.rank != self.rank or not all(same):
            raise ProgramError(f"the positions {index!r} must have the shape of {self!r} but along {dim!r}")
        labels = self.labels
        result = tuple("place" if k == axis else d for k, d in enumerate(labels))
        plan = GatherPlan(labels, result, result, index.shape, self.names)
        self._check_positions(index)
        return self._gathered(index, plan)

    def _gathered(self, index: TensorBase, plan: GatherPlan) -> Self:
        (axis_label,) = set(plan.table) - set(plan.result)
        return self.compute(
            "gather",
            "gather",
            (plan.shape, plan.names),
            {"axis": axis_label},
            others=[index],
            labels=[plan.table, plan.places],
            target=plan.result,
            whole=frozenset({axis_label}),
        )

    def scatter(self, index: Positions, updates: TensorBase, dim: Dim = 0, combine: str = "last") -> Self:
        """Write `updates`, shaped as `gather` gives, at the positions `index` along `dim` of this tensor.

        `combine` is `last` (the last update wins), `sum`, `prod`, `max` or `min` (of old and all new elements).
        """
        if combine != "last" and combine not in COMBINED_BY:
            raise ProgramError(f"updates combine by last, {', '.join(COMBINED_BY)}, not by {combine!r}")
        index = self._positions(index)
        plan = self._plan(index, dim)
        if updates.shape != plan.shape or updates.dtype != self.dtype:
            raise ProgramError(f"updates must have shape {plan.shape} and type {self.dtype}, not {updates!r}")
        (axis_label,) = set(plan.table) - set(plan.result)
        operands = [updates] if combine != "last" else [index, updates]
        first = self if combine == "last" else self.made(index.value, index.names)
        labels = [plan.places, plan.result]
        sent = first.compute(
            f"scatter_{combine}",
            "scatter",
            (self.shape, self.names),
            {"axis": axis_label, "monoid": combine},
            others=operands,
            labels=[plan.table, *labels] if combine == "last" else labels,
            target=plan.table,
            dtype=self.dtype,
            whole=frozenset({axis_label}),
        )
        return sent if combine == "last" else self.function(COMBINED_BY[combine], sent)

    def _positions(self, index: Positions) -> TensorBase:
        """Convert positions to a tensor of the program: arrays and lists of whole numbers become constants."""
        if isinstance(index, TensorBase):
            return index
        array = np.asarray(index)
        if array.dtype.kind not in "iu":
            raise ProgramError(f"positions are whole numbers, not {array.dtype} of shape {array.shape}")
        return self.made(self.writer.literal(array.astype(np.int64)), ("",) * array.ndim)

    def _check_positions(self, index: TensorBase) -> None:
        if index.dtype not in ("int32", "int64"):
            raise ProgramError(f"positions are int32 or int64, not {index.dtype}; cast them")
        if index.writer is not self.writer:
            raise ProgramError(f"{index!r} belongs to program {index.writer.program.name!r}")

    def _plan(self, index: TensorBase, dim: Dim) -> GatherPlan:
        """Plan how positions address `dim`; dimensions of equal names run together."""
        axis = self.axis(dim)
        self._check_positions(index)
        for name in index.names:
            if name and name in self.names and self.axis(name) != axis:
                here, there = self.shape[self.axis(name)], index.shape[index.axis(name)]
                if here != there:
                    raise ProgramError(f"{name!r} is {here} in the tensor and {there} in the positions")
        shared = {n for k, n in enumerate(self.names) if n and k != axis and n in index.names}
        free = [k for k, n in enumerate(index.names) if n not in shared]
        names = (
            *self.names[:axis],
            *(index.names[k] for k in free),
            *self.names[axis + 1 :],
        )
        result = labels_for(names)
        own = result[axis : axis + len(free)]
        places = tuple(n if n in shared else own[free.index(k)] for k, n in enumerate(index.names))
        table = (*result[:axis], "entries", *result[axis + len(free) :])
        shape = (*self.shape[:axis], *(index.shape[k] for k in free), *self.shape[axis + 1 :])
        return GatherPlan(table, places, result, shape, names)

    def one_hot(self, size: int, name: str = "", dtype: str = "float32") -> Self:
        """Return 1 at each position along a new last dimension of `size`, 0 elsewhere."""
        if not self.dtype.startswith(("int", "uint")):
            raise ProgramError(f"one_hot needs whole numbers, not {self.dtype}")
        names = (*self.names, check_name(name))
        target = labels_for(names)
        hit = ("eq", ("input", 0), ("index", target[-1]))
        attributes = {"expr": ("cast", dtype, hit), "dtype": dtype}
        shape = (*self.shape, size)
        labels = [target[:-1]]
        return self.compute(
            "one_hot", "cell", (shape, names), attributes, labels=labels, target=target, dtype=dtype
        )
