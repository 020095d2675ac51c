"""Products summed over dimensions: matrix products and contractions by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, TypeVar

import numpy as np

from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.importers.program import Labels
from tapestry.teg.programs.base import TensorBase
from tapestry.teg.programs.failure import ProgramError

T = TypeVar("T", bound=TensorBase)


class Products(TensorBase):
    """Matrix products by name where all dimensions have names, by position otherwise.

    >>> import tapestry
    >>> p = tapestry.program()
    >>> q, k = p.input("q", batch=2, token=16, width=8), p.input("k", batch=2, source=32, width=8)
    >>> q @ k
    matmul: float32[batch=2, token=16, source=32]
    >>> q.contract(k, "batch", "width")
    matmul.1: float32[token=16, source=32]
    >>> p.input("a", 5, 3, 4) @ p.input("b", 4, 2)
    matmul.2: float32[5, 3, 2]
    """

    def __matmul__(self, other: TensorBase) -> Self:
        """Compute the product summed over one dimension.

        By name: the left's last dimension, found in the right; other shared names run together, and the result
        has the left's dimensions, then the right's. By position: as numpy, batch dimensions broadcast.
        """
        self._check_partner(other)
        if self.rank and other.rank and all(self.names) and all(other.names):
            return self._by_name(other, (self.names[-1],))
        return self._by_position(other)

    def contract(self, other: TensorBase, *over: str) -> Self:
        """Compute the product summed over the dimensions `over`; other shared names run together.

        `q.contract(k, "width")` of (batch, query, width) and (batch, key, width) is (batch, query, key).
        """
        self._check_partner(other)
        if not (all(self.names) and all(other.names)):
            raise ProgramError(f"contract goes by name; name all dimensions of {self!r} and {other!r}")
        for name in over:
            self.axis(name)
        return self._by_name(other, over)

    def _check_partner(self, other: TensorBase) -> None:
        if not isinstance(other, TensorBase):
            raise ProgramError(f"a matrix product needs two tensors, not {type(other).__name__}")
        if other.writer is not self.writer:
            raise ProgramError(f"{other!r} belongs to program {other.writer.program.name!r}")

    def _by_name(self, other: TensorBase, over: Sequence[str]) -> Self:
        for name in over:
            if name not in other.names:
                raise ProgramError(
                    f"{name!r} is a dimension of the left ({self.dims_text}) but not of the right "
                    f"({other.dims_text}); rename one"
                )
        for name in self.names:
            if name in other.names and self.dims[name] != other.dims[name]:
                raise ProgramError(
                    f"{name!r} is {self.dims[name]} on the left and {other.dims[name]} on the right"
                )
        target = tuple(n for n in dict.fromkeys((*self.names, *other.names)) if n not in over)
        sizes = {**self.dims, **other.dims}
        return self._contracted(other, [self.names, other.names], target, sizes, target)

    def _by_position(self, other: TensorBase) -> Self:
        if not self.rank or not other.rank:
            raise ProgramError(f"a matrix product needs dimensions to sum over: {self!r} and {other!r}")
        inner = other.shape[-2] if other.rank > 1 else other.shape[0]
        if self.shape[-1] != inner:
            raise ProgramError(
                f"the last dimension is {self.shape[-1]} on the left, and on the right "
                f"{'the last but one' if other.rank > 1 else 'the only one'} is {inner}"
            )
        left_batch, right_batch = self.rank - 2, other.rank - 2
        count = max(left_batch, right_batch, 0)
        batch = tuple(f"b{k}" for k in range(count))
        left = (*batch[count - max(left_batch, 0) :], *(("m",) if self.rank > 1 else ()), "k")
        right = (*batch[count - max(right_batch, 0) :], "k", *(("n",) if other.rank > 1 else ()))
        sizes: dict[str, int] = {}
        names: dict[str, str] = {}
        for tensor, labels in ((self, left), (other, right)):
            for label, size, name in zip(labels, tensor.shape, tensor.names, strict=True):
                if sizes.get(label, 1) != 1 and size not in (1, sizes[label]):
                    raise ProgramError(f"batch dimensions of {self!r} and {other!r} do not agree")
                sizes[label] = max(size, sizes.get(label, 1)) if size != 0 else 0
                names[label] = names.get(label) or name
        target = (*batch, *(label for label in ("m", "n") if label in (*left, *right)))
        fitted = [
            tuple("" if s == 1 != sizes[d] else d for d, s in zip(labels, t.shape, strict=True))
            for t, labels in ((self, left), (other, right))
        ]
        found = [names[label] for label in target]
        return self._contracted(other, fitted, target, sizes, _unrepeated(found))

    def _contracted(
        self,
        other: TensorBase,
        labels: Sequence[Labels],
        target: Labels,
        sizes: dict[str, int],
        names: Sequence[str],
    ) -> Self:
        right = self.made(other.value, other.names)
        return contraction([self, right], labels, target, sizes, names, "matmul")


def _unrepeated(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names; one that would occur twice is left out where it comes again."""
    return tuple("" if name in names[:k] else name for k, name in enumerate(names))


def contraction(
    tensors: Sequence[T],
    labels: Sequence[Labels],
    target: Labels,
    sizes: dict[str, int],
    names: Sequence[str],
    site: str,
) -> T:
    """Compute the product of tensors with labeled dimensions, summed over the labels that `target` lacks."""
    if any(t.dtype == "bool" for t in tensors):
        raise ProgramError("a product sums numbers up; cast truth values first, or use & and .any()")
    dtype = np.result_type(*(numpy_dtype(t.dtype) for t in tensors)).name
    shape = [sizes[label] for label in target]
    first, *others = tensors
    return first.compute(
        site,
        "contract",
        (shape, names),
        {},
        others=others,
        labels=labels,
        target=target,
        dtype=str(dtype),
    )


def einsum(equation: str, tensors: Sequence[T]) -> T:
    """Compute the contraction of an einsum equation, in letters (`"bqd,bkd->bqk"`) or words (`"b q d, b k d -> b q
    k"`).

    Raises:
        ProgramError: the equation does not fit the tensors.
    """
    left, arrow, right = equation.partition("->")
    terms = [_labels(term, " " in equation.strip()) for term in left.split(",")]
    if len(terms) != len(tensors):
        raise ProgramError(f"equation {equation!r} has {len(terms)} operands, but {len(tensors)} are given")
    sizes: dict[str, int] = {}
    names: dict[str, str] = {}
    for term, tensor in zip(terms, tensors, strict=True):
        if len(term) != tensor.rank or len(set(term)) != len(term):
            raise ProgramError(f"{tensor!r} needs one different label per dimension, not {' '.join(term)!r}")
        for label, size, name in zip(term, tensor.shape, tensor.names, strict=True):
            if sizes.setdefault(label, size) != size:
                raise ProgramError(f"label {label!r} is {sizes[label]} before and {size} in {tensor!r}")
            names[label] = names.get(label) or name
    counts = {label: sum(label in term for term in terms) for label in sizes}
    target = (
        _labels(right, " " in equation.strip())
        if arrow
        else tuple(sorted(label for label, n in counts.items() if n == 1))
    )
    unknown = [label for label in target if label not in sizes]
    if unknown or len(set(target)) != len(target):
        raise ProgramError(f"the result {right.strip()!r} must name labels of the operands, each once")
    words = any(len(label) > 1 for label in sizes)
    found = [names[label] or (label if words and label.isidentifier() else "") for label in target]
    return contraction(tensors, terms, target, sizes, _unrepeated(found), "einsum")


def _labels(term: str, words: bool) -> Labels:
    labels = tuple(term.split()) if words else tuple(term.strip())
    wrong = [label for label in labels if not label.isidentifier()]
    if wrong:
        raise ProgramError(f"a label of an equation is a letter or a word, not {wrong[0]!r}")
    return labels
