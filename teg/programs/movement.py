"""Rearrangements of tensors: slices, transpositions, splits and merges. Most of them become views."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

from tapestry.teg.importers.program import Reshape, Slice
from tapestry.teg.programs.base import Dim, TensorBase, check_name, is_number, read_dims, whole_number
from tapestry.teg.programs.failure import ProgramError


class Movement(TensorBase):
    """Methods that move elements and compute nothing.

    >>> import tapestry
    >>> x = tapestry.program().input("x", token=16, features=96)
    >>> x.split("features", head=12, width=8).transpose("head", "token", "width")
    transpose: float32[head=12, token=16, width=8]
    >>> x[0:4, 5]
    select: float32[token=4]
    >>> x.select(features=slice(None, None, 2)).merge("token", "features")
    reshape.1: float32[768]
    """

    def sliced(self, ranges: Sequence[range]) -> Self:
        """Keep the coordinates in `ranges` of each dimension; all of them is the tensor itself."""
        if all(r == range(size) for r, size in zip(ranges, self.shape, strict=True)):
            return self
        name = self.writer.site("slice")
        value = self.writer.declare(name, [len(r) for r in ranges], self.dtype, self.names)
        spans = tuple((r.start, r.step if len(r) > 1 else 1) for r in ranges)
        self.writer.emit(Slice(name, self.value.name, name, spans))
        return self.made(value, self.names)

    def sliced_by(self, key: Sequence[object]) -> Self:
        """Apply numpy's basic indexing."""
        ranges: list[range] = []
        kept: list[int | None] = []
        places = iter(range(self.rank))
        for part in self._complete(key):
            if part is None:
                kept.append(None)
                continue
            k = next(places)
            ranges.append(self._range(k, part))
            if isinstance(part, slice):
                kept.append(k)
        found = self.sliced(ranges)
        if kept == list(range(self.rank)):
            return found
        source = tuple(label if k in kept else "" for k, label in enumerate(found.labels))
        target = tuple("" if k is None else found.labels[k] for k in kept)
        shape = [1 if k is None else found.shape[k] for k in kept]
        names = ["" if k is None else found.names[k] for k in kept]
        return found.relabeled("select", source, target, shape, names)

    def _complete(self, key: Sequence[object]) -> list[int | slice | None]:
        """Return the key with the ellipsis written out."""
        given = sum(part is not None and part is not Ellipsis for part in key)
        if given > self.rank:
            raise ProgramError(f"{given} indices for {self!r} of rank {self.rank}")
        rest: list[int | slice | None] = [slice(None)] * (self.rank - given)
        found: list[int | slice | None] = []
        seen = False
        for part in key:
            if part is Ellipsis:
                if seen:
                    raise ProgramError("an index may have one ellipsis")
                seen = True
                found += rest
            elif part is None or isinstance(part, slice):
                found.append(part)
            elif (place := whole_number(part)) is not None:
                found.append(place)
            else:
                raise ProgramError(f"an index is a number, a slice, None or ..., not {part!r}")
        return found if seen else found + rest

    def _range(self, axis: int, part: int | slice) -> range:
        size = self.shape[axis]
        if isinstance(part, slice):
            try:
                return range(size)[part]
            except (TypeError, ValueError) as error:
                raise ProgramError(f"{part} is no slice of dimension {axis}: {error}") from None
        if not -size <= part < size:
            raise ProgramError(f"index {part} lies outside dimension {self._called(axis)} of size {size}")
        return range(part % size, part % size + 1)

    def _called(self, axis: int) -> str:
        return repr(self.names[axis]) if self.names[axis] else str(axis)

    def select(self, **parts: int | slice) -> Self:
        """Select slices and positions by name: `x.select(batch=slice(0, 4), feature=2)`."""
        key: list[object] = [slice(None)] * self.rank
        for dim, part in parts.items():
            key[self.axis(dim)] = part
        return self.sliced_by(key)

    def transpose(self, *order: Dim) -> Self:
        """Permute the dimensions; without arguments reverse them."""
        axes = self.axes(order, range(self.rank)[::-1])
        if len(axes) != self.rank:
            raise ProgramError(f"an order names all {self.rank} dimensions of {self!r}, not {order}")
        if axes == tuple(range(self.rank)):
            return self
        target = tuple(self.labels[k] for k in axes)
        names = [self.names[k] for k in axes]
        return self.relabeled("transpose", self.labels, target, [self.shape[k] for k in axes], names)

    permute = transpose

    @property
    def T(self) -> Self:  # noqa: N802
        """The tensor with its dimensions reversed."""
        return self.transpose()

    def rename(self, *names: str, **changed: str) -> Self:
        """Rename all dimensions (`x.rename("row", "column")`), or some (`x.rename(features="width")`)."""
        if names:
            if changed or len(names) != self.rank:
                raise ProgramError(f"give all {self.rank} names of {self!r}, or old=new, not {names}")
            found = list(names)
        else:
            found = list(self.names)
            for old, new in changed.items():
                found[self.axis(old)] = new
        for name in found:
            check_name(name)
        if len({n for n in found if n}) != sum(bool(n) for n in found):
            raise ProgramError(f"dimensions have different names, not {tuple(found)}")
        return self.made(self.value, found)

    def reshape(self, *shape: Any, **named: int) -> Self:
        """Reshape the elements, row-major, to another shape; one size may be -1."""
        if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
            shape = tuple(shape[0])
        sizes = list(named.values()) if named else list(shape)
        if sizes.count(-1) == 1:
            known = math.prod(s for s in sizes if s != -1)
            rest = math.prod(self.shape) // known if known else 0
            sizes[sizes.index(-1)] = rest
        wanted, _ = read_dims(sizes, {})
        names = tuple(named) if named else ("",) * len(wanted)
        if math.prod(wanted) != math.prod(self.shape):
            raise ProgramError(
                f"{self!r} has {math.prod(self.shape)} elements, but shape {tuple(named.values()) or shape} "
                f"has {math.prod(wanted)}"
            )
        return self._reshaped(wanted, names)

    def _reshaped(self, sizes: Sequence[int], names: Sequence[str]) -> Self:
        """Reshape as `reshape`, with the dimensions' names; the same shape is the same value."""
        if tuple(sizes) == self.shape:
            return self.made(self.value, names)
        site = self.writer.site("reshape")
        value = self.writer.declare(site, sizes, self.dtype, names)
        self.writer.emit(Reshape(site, self.value.name, site))
        return self.made(value, names)

    def split(self, dim: Dim, /, *sizes: int, **parts: int) -> Self:
        """Split one dimension, outermost part first: `x.split("features", head=12, width=64)`; one may be -1."""
        axis = self.axis(dim)
        wanted = list(parts.values()) if parts else list(sizes)
        if wanted.count(-1) == 1:
            known = math.prod(s for s in wanted if s != -1)
            wanted[wanted.index(-1)] = self.shape[axis] // known if known else 0
        if math.prod(wanted) != self.shape[axis] or any(s < 0 for s in wanted):
            raise ProgramError(
                f"dimension {self._called(axis)} of size {self.shape[axis]} does not split into "
                f"{' x '.join(map(str, parts.values() if parts else sizes))}"
            )
        names = [check_name(n) for n in parts] if parts else [""] * len(wanted)
        return self._reshaped(
            (*self.shape[:axis], *wanted, *self.shape[axis + 1 :]),
            self._distinct((*self.names[:axis], *names, *self.names[axis + 1 :])),
        )

    def merge(self, *dims: Dim, into: str = "") -> Self:
        """Merge several dimensions into one, row-major in the order given, at the position of the first of them."""
        axes = self.axes(dims)
        if not axes:
            raise ProgramError("name the dimensions to merge")
        others = [k for k in range(self.rank) if k not in axes]
        before = [k for k in others if k < axes[0]]
        moved = self.transpose(*before, *axes, *others[len(before) :])
        start, end = len(before), len(before) + len(axes)
        joined = math.prod(moved.shape[start:end])
        return moved._reshaped(
            (*moved.shape[:start], joined, *moved.shape[end:]),
            moved._distinct((*moved.names[:start], check_name(into), *moved.names[end:])),
        )

    def flatten(self) -> Self:
        """Merge all dimensions into one."""
        return self.reshape(-1) if math.prod(self.shape) else self.reshape(0)

    def squeeze(self, *dims: Dim) -> Self:
        """Remove these dimensions of size 1 (all of them where none is given)."""
        axes = self.axes(dims, [k for k, size in enumerate(self.shape) if size == 1])
        for k in axes:
            if self.shape[k] != 1:
                raise ProgramError(f"dimension {self._called(k)} of size {self.shape[k]} cannot be squeezed")
        if not axes:
            return self
        kept = [k for k in range(self.rank) if k not in axes]
        source = tuple("" if k in axes else label for k, label in enumerate(self.labels))
        shape, names = [self.shape[k] for k in kept], [self.names[k] for k in kept]
        return self.relabeled("squeeze", source, tuple(self.labels[k] for k in kept), shape, names)

    def unsqueeze(self, axis: int, name: str = "") -> Self:
        """Insert a new dimension of size 1 at `axis` of the result."""
        if not -self.rank - 1 <= axis <= self.rank:
            raise ProgramError(f"a new dimension of {self!r} stands at 0 to {self.rank}, not at {axis}")
        return self._inserted(axis % (self.rank + 1), 1, name, "unsqueeze")

    def _inserted(self, axis: int, size: int, name: str, site: str) -> Self:
        target = (*self.labels[:axis], "", *self.labels[axis:])
        shape = (*self.shape[:axis], size, *self.shape[axis:])
        names = self._distinct((*self.names[:axis], check_name(name), *self.names[axis:]))
        return self.relabeled(site, self.labels, target, shape, names)

    def broadcast_to(self, *shape: Any, **named: int) -> Self:
        """Repeat the tensor along new dimensions and along those of size 1: by name, or by numpy's rule."""
        wanted, names = read_dims(shape, named)
        if named:
            lacking = [n for n in self.names if n not in named]
            if lacking:
                raise ProgramError(f"the shape {dims_of(named)} lacks dimension {lacking[0]!r} of {self!r}")
            source = [self.axis(n) if n in self.names else -1 for n in named]
        else:
            if len(wanted) < self.rank:
                raise ProgramError(f"{self!r} has more dimensions than {wanted}")
            lead = len(wanted) - self.rank
            source = [k - lead if k >= lead else -1 for k in range(len(wanted))]
            names = tuple(self.names[k] if k >= 0 else "" for k in source)
        for k, size in zip(source, wanted, strict=True):
            if k >= 0 and self.shape[k] not in (1, size):
                raise ProgramError(
                    f"dimension {self._called(k)} of size {self.shape[k]} cannot become {size}"
                )
        grown = {k for k, size in zip(source, wanted, strict=True) if k >= 0 and self.shape[k] != size}
        own = tuple("" if k in grown else label for k, label in enumerate(self.labels))
        target = tuple(own[k] if k >= 0 else "" for k in source)
        if wanted == self.shape and source == list(range(self.rank)):
            return self.made(self.value, names)
        return self.relabeled("broadcast", own, target, wanted, names)

    def flip(self, *dims: Dim) -> Self:
        """Reverse the elements along these dimensions (all where none is given)."""
        axes = self.axes(dims)
        return self.sliced(
            [range(s - 1, -1, -1) if k in axes else range(s) for k, s in enumerate(self.shape)]
        )

    def repeat(self, dim: Dim, count: int) -> Self:
        """Repeat the whole tensor `count` times, one after the other along a dimension."""
        return self._repeated(dim, count, inner=False)

    def repeat_each(self, dim: Dim, count: int) -> Self:
        """Repeat each element `count` times, next to each other along a dimension."""
        return self._repeated(dim, count, inner=True)

    def _repeated(self, dim: Dim, count: int, inner: bool) -> Self:
        axis = self.axis(dim)
        if not is_number(count):
            raise ProgramError(f"a number of repetitions is a whole number from 0 up, not {count!r}")
        spread = self._inserted(axis + inner, count, "", "repeat")
        shape = (*self.shape[:axis], self.shape[axis] * count, *self.shape[axis + 1 :])
        return spread._reshaped(shape, self.names)

    def _distinct(self, names: Sequence[str]) -> tuple[str, ...]:
        twice = sorted({n for n in names if n and names.count(n) > 1})
        if twice:
            raise ProgramError(f"two dimensions would be called {twice[0]!r}")
        return tuple(names)


def dims_of(named: dict[str, int]) -> str:
    """Format named sizes as text."""
    return ", ".join(f"{name}={size}" for name, size in named.items())
