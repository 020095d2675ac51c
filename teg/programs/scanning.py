"""Scans, positions of extremes, and sorting along one dimension."""

from __future__ import annotations

from typing import Self

from tapestry.teg.dtypes import is_float
from tapestry.teg.programs.base import Dim
from tapestry.teg.programs.failure import ProgramError
from tapestry.teg.programs.gathering import Gathering

SCANS = ("sum", "prod", "max", "min", "logsumexp")


class Scanning(Gathering):
    """Methods that read one dimension in order; that dimension stays whole, all others may be sharded.

    >>> import tapestry
    >>> x = tapestry.program().input("x", batch=8, features=96)
    >>> x.cumsum("features")
    scan_sum: float32[batch=8, features=96]
    >>> x.argmax("features")
    argmax: int64[batch=8]
    >>> x.top(3, "features")
    (gather: float32[batch=8, features=3], argsort: int64[batch=8, features=3])
    """

    def scan(self, monoid: str, dim: Dim, *, exclusive: bool = False, reverse: bool = False) -> Self:
        """Combine each element with all before it along `dim`: sum, prod, max, min or logsumexp.

        `exclusive` leaves the element itself out, `reverse` goes from the end.
        """
        if monoid not in SCANS:
            raise ProgramError(f"a scan is one of {', '.join(SCANS)}, not {monoid!r}")
        if monoid == "logsumexp" and not is_float(self.dtype):
            raise ProgramError(f"logsumexp needs a float type, not {self.dtype}; cast first")
        value = self.cast("int64") if self.dtype == "bool" and monoid in ("sum", "prod") else self
        label = value.labels[value.axis(dim)]
        attributes = {"axis": label, "monoid": monoid, "exclusive": exclusive, "reverse": reverse}
        whole = frozenset({label})
        return value.compute(f"scan_{monoid}", "scan", (value.shape, value.names), attributes, whole=whole)

    def cumsum(self, dim: Dim) -> Self:
        """Compute the sum up to each element; truth values are counted."""
        return self.scan("sum", dim)

    def cumprod(self, dim: Dim) -> Self:
        """Compute the product up to each element."""
        return self.scan("prod", dim)

    def cummax(self, dim: Dim) -> Self:
        """Compute the largest element up to each."""
        return self.scan("max", dim)

    def cummin(self, dim: Dim) -> Self:
        """Compute the smallest element up to each."""
        return self.scan("min", dim)

    def argmax(self, dim: Dim, *, last: bool = False) -> Self:
        """Find the position of the largest element along `dim`, the first of equals (or the `last`), as int64."""
        return self._extreme("max", dim, last)

    def argmin(self, dim: Dim, *, last: bool = False) -> Self:
        """Find the position of the smallest element along `dim`, the first of equals (or the `last`), as int64."""
        return self._extreme("min", dim, last)

    def _extreme(self, kind: str, dim: Dim, last: bool) -> Self:
        axis = self.axis(dim)
        if not self.shape[axis]:
            raise ProgramError(f"there is no {kind} of no elements: {self!r}")
        label = self.labels[axis]
        kept = [k for k in range(self.rank) if k != axis]
        return self.compute(
            f"arg{kind}",
            "arg_reduce",
            ([self.shape[k] for k in kept], [self.names[k] for k in kept]),
            {"axis": label, "kind": kind, "last": last},
            target=tuple(self.labels[k] for k in kept),
            dtype="int64",
            whole=frozenset({label}),
        )

    def argsort(self, dim: Dim = -1, *, descending: bool = False, count: int | None = None) -> Self:
        """Compute the positions of the elements in order along `dim`, as int64; equal elements keep their order.

        `count` gives only the first so many.
        """
        axis = self.axis(dim)
        size = self.shape[axis] if count is None else count
        if not 0 <= size <= self.shape[axis]:
            raise ProgramError(f"{size} of the {self.shape[axis]} elements along {dim!r} are asked for")
        label = self.labels[axis]
        target = tuple(f"{label}_order" if k == axis else d for k, d in enumerate(self.labels))
        return self.compute(
            "argsort",
            "arg_sort",
            ([size if k == axis else s for k, s in enumerate(self.shape)], self.names),
            {"axis": label, "count": size, "largest": descending, "stable": True},
            target=target,
            dtype="int64",
            whole=frozenset({label, f"{label}_order"}),
        )

    def sort(self, dim: Dim = -1, *, descending: bool = False) -> Self:
        """Sort the elements along `dim`."""
        return self.take_along(self.argsort(dim, descending=descending), dim)

    def top(self, count: int, dim: Dim = -1) -> tuple[Self, Self]:
        """Find the `count` largest elements along `dim`, largest first, and their positions."""
        positions = self.argsort(dim, descending=True, count=count)
        return self.take_along(positions, dim), positions
