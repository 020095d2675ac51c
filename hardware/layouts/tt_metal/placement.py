"""The mapping of a shape's elements to physical indices by an affine map, and its inverse.

A map whose results are sums of multiples of dimensions is a view with strides: an array is copied in and out whole.
Any other map is followed element by element, backwards through a sorted table of all elements.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tapestry.hardware.layouts.layout import Buffers, Indices, LayoutError, Mask, every_coordinate
from tapestry.hardware.layouts.tt_metal.affine import AffineMap
from tapestry.hardware.layouts.tt_metal.bounds import bounds
from tapestry.hardware.layouts.tt_metal.expression import Binary, ConstantExpr, Dim, Expression, Sum

LARGEST_TABLE = 2**27
"""Elements of the largest table that is made for a map without strides."""

MOST_LOOKED_AT = 2**22
"""Elements of a map without strides that are compared one by one before padding is counted."""


@dataclass(frozen=True)
class CorePlacement:
    """The placement of the elements of `shape` at the results of `linear`, inside the extents `physical`."""

    linear: AffineMap
    shape: tuple[int, ...]
    physical: tuple[int, ...]

    @cached_property
    def strides(self) -> tuple[dict[int, int], ...] | None:
        """The positive factor of every dimension longer than 1, for each result; None for a map of another form."""
        return strides_of(self.linear, self.shape)

    @cached_property
    def is_strided(self) -> bool:
        """True if the map is a view with strides in which no two elements share a place."""
        return self.strides is not None and self._peeled == {d for d, n in enumerate(self.shape) if n > 1}

    def indices(self, coords: Indices) -> list[Indices]:
        """Compute physical indices, one array (n,) per result, of coordinates (n, rank).

        Raises `LayoutError` where the map leads outside the physical extents.
        """
        self.check_bounds()
        n = coords.shape[0]
        found = [
            np.broadcast_to(np.asarray(v, dtype=np.int64), (n,)) for v in self.linear.evaluate(list(coords.T))
        ]
        if self.strides is None and n:
            for dim, (values, size) in enumerate(zip(found, self.physical, strict=True)):
                low, high = int(values.min()), int(values.max())
                if low < 0 or high >= size:
                    raise LayoutError(
                        f"the affine map {self.linear} leads to {low if low < 0 else high} in dimension {dim}, "
                        f"outside its size {size} (its value at the last index, plus one)"
                    )
        return found

    def coordinates(self, indices: Sequence[Indices], real: Mask) -> tuple[Indices, Mask]:
        """Compute coordinates (n, rank) of elements at physical indices, and a mask (n,), False where none is."""
        if not self.is_strided:
            return self._looked_up(indices, real)
        coords = np.zeros((len(real), len(self.shape)), dtype=np.int64)
        results = list(zip(self.strides or (), indices, strict=True))
        for terms, index in results:
            if _nested(terms, self.shape):
                rest = index
                for dim, stride in sorted(terms.items(), key=lambda term: -term[1]):
                    coords[:, dim] = np.minimum(rest // stride, self.shape[dim] - 1)
                    rest = rest - coords[:, dim] * stride
        for terms, index in results:
            reached = sum((coords[:, dim] * stride for dim, stride in terms.items()), start=np.int64(0))
            real = real & (reached == index)
        return coords, real

    def view(self, cells: Buffers) -> Buffers:
        """View the elements (shape) inside an array of the physical extents or more, without a copy."""
        return as_strided(cells, self.shape, self._steps(cells.strides))

    def check_bounds(self) -> None:
        """Raise `LayoutError` if the map's steps pass 64 bits; one with strides stays inside the physical extents."""
        if self.strides is None:
            for result in self.linear.results:
                bounds(result, self.shape)

    @cached_property
    def is_dense(self) -> bool:
        """True if the physical extents hold the elements in row-major order and nothing else."""
        if not self.is_strided or prod(self.shape) != prod(self.physical):
            return False
        row = [prod(self.physical[i + 1 :]) for i in range(len(self.physical))]
        dense = [prod(self.shape[d + 1 :]) for d in range(len(self.shape))]
        return all(n == 1 or s == r for n, s, r in zip(self.shape, self._steps(row), dense, strict=True))

    def _steps(self, row: Sequence[int]) -> list[int]:
        """Compute the distance between neighbors along each dimension, given the steps `row` of physical dimensions."""
        results = list(zip(self.strides or (), row, strict=True))
        return [sum(terms.get(dim, 0) * step for terms, step in results) for dim in range(len(self.shape))]

    @cached_property
    def _peeled(self) -> set[int]:
        """The dimensions that results can be decomposed into."""
        return {d for terms in self.strides or () if _nested(terms, self.shape) for d in terms}

    def _looked_up(self, indices: Sequence[Indices], real: Mask) -> tuple[Indices, Mask]:
        keys, order = _table(self)
        wanted = _flat(indices, self.physical)
        place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        if not len(keys):
            return np.zeros((len(real), len(self.shape)), dtype=np.int64), np.zeros_like(real)
        real = real & (keys[place] == wanted)
        coords = (
            np.array(np.unravel_index(order[place], self.shape), dtype=np.int64)
            .reshape(len(self.shape), -1)
            .T
        )
        return np.where(real[:, None], coords, 0), real

    def check_injective(self) -> None:
        """Raise `LayoutError`, naming the elements, if the map puts two elements at one place."""
        if not self.is_strided:
            _table(self)

    def check_room(self) -> None:
        """Check the map with `check_injective`; for more than `MOST_LOOKED_AT` elements only count the places."""
        places, elements = prod(self.physical), prod(self.shape)
        if elements <= MOST_LOOKED_AT:
            self.check_injective()
        elif places < elements:
            raise LayoutError(
                f"the affine map {self.linear} has {places} places for the {elements} elements of {list(self.shape)}; "
                "expected one for each"
            )


def strides_of(linear: AffineMap, shape: Sequence[int]) -> tuple[dict[int, int], ...] | None:
    """Find the positive factor of every dimension longer than 1, for each result; None if a result is no such sum."""
    found = []
    for result in linear.results:
        terms: dict[int, int] = {}
        for term in result.terms if isinstance(result, Sum) else (result,):
            dim, factor = _term(term)
            if dim is None:
                if factor != 0:
                    return None
            elif shape[dim] > 1:
                terms[dim] = terms.get(dim, 0) + factor
        if any(factor < 1 for factor in terms.values()):
            return None
        found.append(terms)
    return tuple(found)


def _term(term: Expression) -> tuple[int | None, int]:
    match term:
        case ConstantExpr(value):
            return None, value
        case Dim(index):
            return index, 1
        case Binary("*", Dim(index), ConstantExpr(value)):
            return index, value
    return None, 1


def _nested(terms: dict[int, int], shape: Sequence[int]) -> bool:
    """Return whether each stride is longer than the reach of all smaller ones."""
    reach = 0
    for dim, stride in sorted(terms.items(), key=lambda term: term[1]):
        if stride <= reach:
            return False
        reach += (shape[dim] - 1) * stride
    return True


def _flat(indices: Sequence[Indices], extents: Sequence[int]) -> Indices:
    flat = np.zeros(indices[0].shape if indices else (1,), dtype=np.int64)
    for index, extent in zip(indices, extents, strict=True):
        flat = flat * extent + index
    return flat


@lru_cache(maxsize=8)
def _table(placement: CorePlacement) -> tuple[Indices, Indices]:
    """Build the table of all occupied flat physical indices, ascending, and the flat logical index of each."""
    if prod(placement.shape) > LARGEST_TABLE:
        raise LayoutError(
            f"the affine map {placement.linear} has no strides; its inverse is made for at most {LARGEST_TABLE} "
            f"elements, not {prod(placement.shape)}"
        )
    keys = _flat(placement.indices(every_coordinate(placement.shape)), placement.physical)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    twice = np.flatnonzero(keys[1:] == keys[:-1])
    if len(twice):
        one, other = (np.unravel_index(order[twice[0] + i], placement.shape) for i in (0, 1))
        raise LayoutError(
            f"the affine map {placement.linear} puts elements {[int(i) for i in one]} and "
            f"{[int(i) for i in other]} at one place"
        )
    return keys, order
