"""The base class of all handles: its program, its value, the names of its dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from tapestry.teg.faults import near_names
from tapestry.teg.graph import TensorType
from tapestry.teg.importers.program import Labels, Relabel, Value
from tapestry.teg.programs.failure import ProgramError
from tapestry.teg.programs.writer import Writer

Dim = str | int


@dataclass(frozen=True, eq=False, repr=False)
class TensorBase:
    """A tensor of a program that is being written; `names` has `""` for a dimension without a name."""

    writer: Writer
    value: Value
    names: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension."""
        return self.value.shape

    @property
    def dtype(self) -> str:
        """The name of the element type."""
        return self.value.dtype

    @property
    def type(self) -> TensorType:
        """The shape and element type."""
        return TensorType(self.shape, self.dtype)

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.value.shape)

    @property
    def site(self) -> str:
        """The stable name of this tensor in the graph."""
        return self.value.name

    @property
    def dims(self) -> Mapping[str, int]:
        """The sizes of the named dimensions."""
        return {name: size for name, size in zip(self.names, self.shape, strict=True) if name}

    @property
    def labels(self) -> Labels:
        """The label of each dimension: its name, or its position."""
        return labels_for(self.names)

    @property
    def dims_text(self) -> str:
        """The dimensions as readable text."""
        return dims_text(self.shape, self.names)

    def __repr__(self) -> str:
        return f"{self.site}: {self.dtype}[{self.dims_text}]"

    def axis(self, dim: Dim) -> int:
        """Return the position of a dimension given by name, or by number (negative ones count from the end).

        Raises:
            ProgramError: there is none.
        """
        if isinstance(dim, str):
            if dim in self.names and dim:
                return self.names.index(dim)
            near = near_names(dim, [name for name in self.names if name])
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise ProgramError(f"there is no dimension {dim!r} in {self!r}{hint}")
        place = whole_number(dim)
        if place is None:
            raise ProgramError(f"a dimension is given by name or by number, not by {dim!r}")
        if not -self.rank <= place < self.rank:
            raise ProgramError(f"dimension {dim} lies outside {self!r} of rank {self.rank}")
        return place % self.rank

    def axes(self, dims: Sequence[Dim], default: Sequence[int] | None = None) -> tuple[int, ...]:
        """Return the positions of dimensions, each once; `default` where none is given (all, if that is None).

        Raises:
            ProgramError: one does not exist, or is given twice.
        """
        if not dims:
            return tuple(range(self.rank)) if default is None else tuple(default)
        found = tuple(self.axis(d) for d in dims)
        if len(set(found)) != len(found):
            raise ProgramError(f"each dimension may be given once, not {tuple(dims)}")
        return found

    def made(self, value: Value, names: Sequence[str]) -> Self:
        """Build another tensor of the same program."""
        return type(self)(self.writer, value, tuple(names))

    def compute(
        self,
        site: str,
        operator: str,
        output: tuple[Sequence[int], Sequence[str]],
        attributes: Mapping[str, Any],
        *,
        others: Sequence[TensorBase] = (),
        labels: Sequence[Labels] | None = None,
        target: Labels | None = None,
        dtype: str | None = None,
        whole: frozenset[str] = frozenset(),
    ) -> Self:
        """Compute a tensor by an operator from this one and `others`; `output` is its shape and names."""
        shape, names = output
        value = self.writer.compute(
            site,
            operator,
            [self.value, *(o.value for o in others)],
            [self.labels, *(o.labels for o in others)] if labels is None else labels,
            labels_for(names) if target is None else target,
            (shape, dtype or self.dtype, names),
            attributes,
            whole,
        )
        return self.made(value, names)

    def relabeled(
        self, site: str, source: Labels, target: Labels, shape: Sequence[int], names: Sequence[str]
    ) -> Self:
        """Move dimensions, drop them (`""` in `source`) or add them by broadcast (`""` in `target`)."""
        name = self.writer.site(site)
        value = self.writer.declare(name, shape, self.dtype, names)
        self.writer.emit(Relabel(name, self.value.name, name, source, target))
        return self.made(value, names)


def labels_for(names: Sequence[str]) -> Labels:
    """Return the names, and `d0`, `d1`, ... by position for dimensions without one."""
    labels = []
    for k, name in enumerate(names):
        label = name or f"d{k}"
        while not name and label in names:
            label += "_"
        labels.append(label)
    return tuple(labels)


def whole_number(value: object) -> int | None:
    """Convert a whole number of Python's or numpy's to Python's; return None for anything else."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        return None
    return int(value)


def is_number(value: object, least: int = 0) -> bool:
    """Return whether a value is a whole number, not below `least`."""
    found = whole_number(value)
    return found is not None and found >= least


def dims_text(shape: Sequence[int], names: Sequence[str]) -> str:
    """Format dimensions as `batch=32, 128`: names where there are any."""
    return ", ".join(f"{name}={size}" if name else str(size) for name, size in zip(names, shape, strict=True))


def read_dims(given: Sequence[Any], named: Mapping[str, int]) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Read shape and names from `(3, 4)`, from `((3, 4),)` or from keywords.

    Raises:
        ProgramError: sizes are no numbers from 0 up, names are no identifiers, or both forms are mixed.
    """
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        given = tuple(given[0])
    if given and named:
        raise ProgramError(f"give sizes {tuple(given)} or named dimensions {', '.join(named)}, not both")
    sizes = tuple(named.values()) if named else tuple(given)
    for size in sizes:
        if not is_number(size):
            raise ProgramError(f"the size of a dimension is a whole number from 0 up, not {size!r}")
    for name in named:
        check_name(name)
    return tuple(int(s) for s in sizes), tuple(named) if named else ("",) * len(sizes)


def check_name(name: str) -> str:
    """Return the name of a dimension, if it is an identifier or empty.

    Raises:
        ProgramError: it is no identifier.
    """
    given: object = name
    if not isinstance(given, str) or (given and not given.isidentifier()):
        raise ProgramError(f"the name of a dimension is an identifier such as 'batch', not {name!r}")
    return name
