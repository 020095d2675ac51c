"""Reductions by a monoid, normalizations, scans, positions of extremes and sorting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self

from tapestry.teg.dtypes import is_float
from tapestry.teg.programs.base import Dim, TensorBase
from tapestry.teg.programs.elementwise import Elementwise
from tapestry.teg.programs.failure import ProgramError
from tapestry.teg.programs.movement import Movement


class Reductions(Movement, Elementwise):
    """Methods that combine elements along dimensions given by name or number (all where none is given).

    >>> import tapestry
    >>> x = tapestry.program().input("x", batch=8, features=96)
    >>> x.mean("features", keep=True)
    sum: float32[batch=8, features=1]
    >>> (x > 0).sum()
    sum.1: int64[]
    >>> x.softmax("batch")
    softmax: float32[batch=8, features=96]
    """

    def reduce(self, monoid: str, *dims: Dim, keep: bool = False, scale: float = 1.0) -> Self:
        """Combine the elements along `dims` by a monoid: sum, prod, max, min, logsumexp, any or all.

        `keep` leaves the dimensions with size 1, `scale` multiplies a sum.
        """
        axes = self.axes(dims)
        if not axes:
            return self
        if (monoid in ("any", "all")) != (self.dtype == "bool"):
            raise ProgramError(f"{monoid} does not reduce {self.dtype}; compare or cast first")
        if monoid == "logsumexp" and not is_float(self.dtype):
            raise ProgramError(f"logsumexp needs a float type, not {self.dtype}; cast first")
        marks = {k: f"{self.labels[k]}_once" for k in axes}
        kept = [k for k in range(self.rank) if keep or k not in axes]
        target = tuple(marks.get(k, self.labels[k]) for k in kept)
        shape = [1 if k in axes else self.shape[k] for k in kept]
        attributes = {"monoid": monoid, "scale": scale}
        output = (shape, [self.names[k] for k in kept])
        return self.compute(monoid, "reduce", output, attributes, labels=[self.labels], target=target)

    def sum(self, *dims: Dim, keep: bool = False) -> Self:
        """Compute the sum, in the element type of the tensor; truth values are counted as int64."""
        return self._numbers().reduce("sum", *dims, keep=keep)

    def prod(self, *dims: Dim, keep: bool = False) -> Self:
        """Compute the product."""
        return self._numbers().reduce("prod", *dims, keep=keep)

    def max(self, *dims: Dim, keep: bool = False) -> Self:
        """Find the largest element."""
        return self.reduce("any" if self.dtype == "bool" else "max", *dims, keep=keep)

    def min(self, *dims: Dim, keep: bool = False) -> Self:
        """Find the smallest element."""
        return self.reduce("all" if self.dtype == "bool" else "min", *dims, keep=keep)

    def any(self, *dims: Dim, keep: bool = False) -> Self:
        """Return whether one element is true (not zero)."""
        return self._truths().reduce("any", *dims, keep=keep)

    def all(self, *dims: Dim, keep: bool = False) -> Self:
        """Return whether every element is true (not zero)."""
        return self._truths().reduce("all", *dims, keep=keep)

    def logsumexp(self, *dims: Dim, keep: bool = False) -> Self:
        """Compute the logarithm of the sum of exponentials, without overflow."""
        return self.reduce("logsumexp", *dims, keep=keep)

    def mean(self, *dims: Dim, keep: bool = False) -> Self:
        """Compute the mean; of whole numbers as float64."""
        count = math.prod(self.shape[k] for k in self.axes(dims))
        if not count:
            raise ProgramError(f"there is no mean of no elements: {self!r}")
        numbers = self if is_float(self.dtype) else self.cast("float64")
        return numbers.reduce("sum", *dims, keep=keep, scale=1.0 / count)

    def var(self, *dims: Dim, keep: bool = False) -> Self:
        """Compute the variance, the mean square distance from the mean."""
        middle = self.mean(*dims, keep=True)
        return self.fused("squares", lambda x, m: (x - m) * (x - m), middle).mean(*dims, keep=keep)

    def std(self, *dims: Dim, keep: bool = False) -> Self:
        """Compute the square root of the variance."""
        return self.var(*dims, keep=keep).sqrt()

    def _numbers(self) -> Self:
        return self.cast("int64") if self.dtype == "bool" else self

    def _truths(self) -> Self:
        return self if self.dtype == "bool" else self.function("ne", 0)

    def softmax(self, *dims: Dim) -> Self:
        """Divide exponentials by their sum along `dims` (the last dimension where none is given)."""
        return self._normalized("softmax", dims)

    def log_softmax(self, *dims: Dim) -> Self:
        """Compute the logarithm of the softmax."""
        return self._normalized("log_softmax", dims)

    def _normalized(self, operator: str, dims: Sequence[Dim]) -> Self:
        if not is_float(self.dtype):
            raise ProgramError(f"{operator} needs a float type, not {self.dtype}; cast first")
        axes = self.axes(dims, [self.axis(-1)])
        attributes = {"axes": tuple(self.labels[k] for k in axes)}
        return self.compute(operator, operator, (self.shape, self.names), attributes)

    def layer_norm(
        self, *dims: Dim, scale: TensorBase | None = None, bias: TensorBase | None = None, eps: float = 1e-5
    ) -> Self:
        """Normalize to zero mean and unit variance along `dims` (the last where none is given), then scale and bias.

        `scale` and `bias` have the dimensions `dims`, in that order.
        """
        if not is_float(self.dtype):
            raise ProgramError(f"layer_norm needs a float type, not {self.dtype}; cast first")
        axes = self.axes(dims, [self.axis(-1)])
        if bias is not None and scale is None:
            raise ProgramError("layer_norm takes a bias only together with a scale")
        others = [o for o in (scale, bias) if o is not None]
        wanted = tuple(self.shape[k] for k in axes)
        for other in others:
            if other.shape != wanted:
                raise ProgramError(f"scale and bias must have shape {wanted}, not {other!r}")
        order = (*(k for k in range(self.rank) if k not in axes), *axes)
        last = self.transpose(*order)
        tail = last.labels[self.rank - len(axes) :]
        found = last.compute(
            "layer_norm",
            "layer_norm",
            (last.shape, last.names),
            {"axes": tail, "eps": float(eps)},
            others=others,
            labels=[last.labels, *[tail] * len(others)],
        )
        return found.transpose(*(order.index(k) for k in range(self.rank)))
