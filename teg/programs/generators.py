"""Tensors without operands, such as constants and coordinates, and application of any operator of the catalog."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tapestry.teg.builder import define
from tapestry.teg.dtypes import NAMES, numpy_dtype
from tapestry.teg.faults import joined
from tapestry.teg.graph import attributes
from tapestry.teg.importers.program import Fixed
from tapestry.teg.programs.alignment import Aligned
from tapestry.teg.programs.base import labels_for, read_dims
from tapestry.teg.programs.cell import Cell, CellContext
from tapestry.teg.programs.failure import ProgramError
from tapestry.teg.programs.handle import Handle, cell_block
from tapestry.teg.programs.writer import Writer


def _counter(at: Sequence[Any], sizes: Sequence[int]) -> Any:
    """Compute the number of an element in row-major order."""
    if not at:
        raise ProgramError("random numbers are made from coordinates: give at least one dimension")
    found = at[0]
    for place, size in zip(at[1:], sizes[1:], strict=True):
        found = found * size + place
    return found


def _uniform(seed: int, counter: Any) -> Any:
    return counter.lift(seed).function("random_uniform", counter)


class Generators:
    """Methods of a program that need no operands, and the application of operators without a method.

    >>> import tapestry
    >>> p = tapestry.program()
    >>> p.zeros(row=8, column=6)
    full: float32[row=8, column=6]
    >>> p.coordinates(row=8, column=6)
    coordinates: int64[row=8, column=6, coordinate=2]
    >>> p.apply("softmax", p.input("x", 4, 6), axes=(1,))
    softmax: float32[4, 6]
    """

    def __init__(self, writer: Writer) -> None:
        self.writer = writer

    def generate(
        self, function: Callable[..., Any], /, *shape: Any, name: str = "generate", **dims: int
    ) -> Handle:
        """Compute a tensor from coordinates: `p.generate(lambda i, j: i * 10 + j, row=3, column=4)`.

        `function` gets the coordinate along each dimension, as int64 cells.
        """
        sizes, names = read_dims(shape, dims)
        labels = labels_for(names)
        context = CellContext((), labels, names)
        nothing = Handle(self.writer, self.writer.declare(self.writer.site("nothing"), (), "int64", ()), ())
        del self.writer.program.values[nothing.site]
        given = [Cell(context, ("index", label)) for label in labels] or [Cell(context, ("const", 0))]
        call = function if labels else lambda _: function()
        found: Handle = cell_block(nothing, name, call, given, [], Aligned((), labels, sizes, names), context)
        return found

    def full(
        self, fill: bool | int | float | complex, /, *shape: Any, dtype: str = "float32", **dims: int
    ) -> Handle:
        """Create a tensor with the same number everywhere."""
        if dtype not in NAMES:
            raise ProgramError(f"there is no element type {dtype!r}; known are {', '.join(NAMES)}")
        number = numpy_dtype(dtype).type(fill)
        return self.generate(lambda *_: number, *shape, name="full", **dims)

    def zeros(self, *shape: Any, dtype: str = "float32", **dims: int) -> Handle:
        """Create a tensor with zero everywhere."""
        return self.full(0, *shape, dtype=dtype, **dims)

    def ones(self, *shape: Any, dtype: str = "float32", **dims: int) -> Handle:
        """Create a tensor with one everywhere."""
        return self.full(1, *shape, dtype=dtype, **dims)

    def iota(self, dim: str | int, /, *shape: Any, dtype: str = "int64", **dims: int) -> Handle:
        """Create the coordinate along one dimension: `p.iota("row", row=3, column=4)`."""
        sizes, names = read_dims(shape, dims)
        axis = names.index(dim) if isinstance(dim, str) and dim in names else dim
        if not isinstance(axis, int) or not -len(sizes) <= axis < len(sizes):
            raise ProgramError(f"there is no dimension {dim!r} among {list(names) if dims else sizes}")
        return self.generate(lambda *at: at[axis].cast(dtype), *shape, name="iota", **dims)

    def rand(self, *shape: Any, seed: int = 0, dtype: str = "float32", **dims: int) -> Handle:
        """Draw random numbers in [0, 1), by seed and coordinate alone: every shard makes its own part the same."""
        sizes, _ = read_dims(shape, dims)
        return self.generate(
            lambda *at: _uniform(seed, _counter(at, sizes)).cast(dtype), *shape, name="rand", **dims
        )

    def randn(self, *shape: Any, seed: int = 0, dtype: str = "float32", **dims: int) -> Handle:
        """Draw normal random numbers of mean 0 and variance 1, by seed and coordinate alone (Box and Muller 1958)."""
        sizes, _ = read_dims(shape, dims)

        def normal(*at: Any) -> Any:
            counter = _counter(at, sizes) * 2
            radius = (_uniform(seed, counter) * -1 + 1).log() * -2
            return (radius.sqrt() * (_uniform(seed, counter + 1) * (2 * math.pi)).cos()).cast(dtype)

        return self.generate(normal, *shape, name="randn", **dims)

    def coordinates(self, *shape: Any, **dims: int) -> Handle:
        """Create the index tensor of a shape: int64 of shape `(*shape, rank)`; slices of it keep their coordinates."""
        sizes, names = read_dims(shape, dims)
        rank = len(sizes)

        def place(*at: Any) -> Any:
            found = at[0]
            for k in range(1, rank):
                found = (at[rank] == k).where(at[k], found)
            return found

        if not rank:
            raise ProgramError("a tensor without dimensions has no coordinates")
        plain = self.generate(place, *sizes, rank, name="coordinates")
        return plain.rename(*(names if dims else ("",) * rank), "coordinate" if dims else "")

    def apply(self, operator: str, *tensors: Handle, names: Sequence[str] = (), **attrs: Any) -> Handle:
        """Apply any operator of the catalog by name, with its attributes and dimensions by position.

        `names` name the dimensions of the result.

        Raises:
            ProgramError: there is none, it does not take these operands, or it has several results.
        """
        found = self.apply_all(operator, *tensors, **attrs)
        if len(found) != 1:
            raise ProgramError(f"operator {operator!r} has {len(found)} results here; see apply_all()")
        if names and len(names) != found[0].rank:
            raise ProgramError(f"the result has {found[0].rank} dimensions, not those called {tuple(names)}")
        return found[0].rename(*names) if names else found[0]

    def apply_all(self, operator: str, *tensors: Handle, **attrs: Any) -> tuple[Handle, ...]:
        """Apply an operator of the catalog and return all its results; see `apply`."""
        if not tensors:
            raise ProgramError("an operator is applied to at least one tensor; see p.generate()")
        frozen = attributes(**attrs)
        try:
            _, types = define(operator, frozen, [t.type for t in tensors])
        except (ValueError, KeyError, TypeError) as error:
            raise ProgramError(joined((str(error), f"given are {list(tensors)}"))) from None
        site = self.writer.site(operator)
        made = [
            self.writer.declare(
                site if k == 0 else self.writer.site(operator), *kind, ("",) * len(kind.shape)
            )
            for k, kind in enumerate(types)
        ]
        inputs = tuple(t.value.name for t in tensors)
        self.writer.emit(Fixed(site, operator, inputs, tuple(v.name for v in made), dict(frozen)))
        return tuple(Handle(self.writer, value, value.names or ("",) * len(value.shape)) for value in made)
