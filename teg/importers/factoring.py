"""Factoring of dimensions, so that reshapes become views.

Dimensions that must be the same (equal labels, dimensions a reshape passes through) form a class. A class of
size 2304 with the cuts {768, 64} has the factors (3, 12, 64): cuts are products of the innermost factors and
divide each other. Reshapes, slices and concatenations propagate cuts from one class to another until nothing
changes. A cut that does not fit (no common factor, or a dimension that must stay whole) is dropped; the step
that requested it will be a block that moves elements.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from operator import mul

from tapestry.teg.importers.program import Compute, Concat, Relabel, Reshape, Slice, StepProgram


@dataclass
class DimClass:
    """A class of dimensions that are factored alike; `kept` classes of size 1 stay as dimensions."""

    size: int
    cuts: set[int] = field(default_factory=set)
    whole: bool = False
    kept: bool = False

    def accepts(self, cut: int) -> bool:
        """Return whether the class has this cut or can get it."""
        if cut in (1, self.size) or cut in self.cuts:
            return True
        if self.whole or not self.size or self.size % cut:
            return False
        return all(cut % c == 0 if c < cut else c % cut == 0 for c in self.cuts)

    def add(self, cut: int) -> bool:
        """Add a cut, and return whether that changed anything."""
        if cut in (1, self.size) or cut in self.cuts or not self.accepts(cut):
            return False
        self.cuts.add(cut)
        return True

    @property
    def factors(self) -> tuple[int, ...]:
        """The sizes from the outermost factor to the innermost."""
        if self.size == 1:
            return (1,) if self.kept else ()
        borders = [self.size, *sorted(self.cuts, reverse=True), 1]
        return tuple(a // b for a, b in pairwise(borders))


@dataclass(frozen=True)
class ReshapeLink:
    """A reshape constraint: `left` and `right` hold the same elements row-major; their sizes have equal products."""

    left: tuple[int, ...]
    right: tuple[int, ...]


@dataclass(frozen=True)
class PartLink:
    """A slice constraint: dimension `part` holds the coordinates `start + stride * i` of dimension `whole`."""

    whole: int
    part: int
    start: int
    stride: int


Link = ReshapeLink | PartLink


class Factoring:
    """The factors of every dimension of every value of a program."""

    def __init__(self, program: StepProgram) -> None:
        self._first: dict[str, int] = {}
        self._sizes: list[int] = []
        for name, value in program.values.items():
            self._first[name] = len(self._sizes)
            self._sizes.extend(value.shape)
        self._parent = list(range(len(self._sizes)))
        self._rank = {name: len(value.shape) for name, value in program.values.items()}
        self._links: list[Link] = []
        whole: list[int] = []
        for step in program.steps:
            whole.extend(self._connect(step))
        for output, entry in program.carries.items():  # the next value takes the place of the old one
            for a, b in zip(self._dims(program.outputs[output]), self._dims(entry), strict=True):
                self._union(a, b)
        self.classes = {d: DimClass(self._sizes[d]) for d in range(len(self._sizes)) if self._find(d) == d}
        for d in whole:
            found = self.classes[self._find(d)]
            found.whole = found.kept = True
        self._propagate(self._preferences())

    def factors(self, name: str) -> tuple[tuple[int, ...], ...]:
        """Return the factors of each dimension of a value, outermost first."""
        first = self._first[name]
        return tuple(self.classes[self._find(d)].factors for d in range(first, first + self._rank[name]))

    def _find(self, d: int) -> int:
        parent = self._parent
        while parent[d] != d:
            parent[d] = parent[parent[d]]
            d = parent[d]
        return d

    def _union(self, a: int, b: int) -> None:
        self._parent[self._find(a)] = self._find(b)

    def _dims(self, name: str) -> range:
        return range(self._first[name], self._first[name] + self._rank[name])

    def _connect(self, step: object) -> Iterable[int]:
        """Join dimensions that must be equal, record those that must agree; return those that must stay whole."""
        if isinstance(step, Compute):
            return self._join_labels(
                [*zip(step.inputs, step.input_labels, strict=True), (step.output, step.output_labels)],
                step.whole,
            )
        if isinstance(step, Relabel):
            return self._join_labels([(step.input, step.input_labels), (step.output, step.output_labels)])
        if isinstance(step, Reshape):
            self._connect_reshape(list(self._dims(step.input)), list(self._dims(step.output)))
        elif isinstance(step, Slice):
            for a, b, (start, stride) in zip(
                self._dims(step.input), self._dims(step.output), step.spans, strict=True
            ):
                self._connect_part(a, b, start, stride)
        elif isinstance(step, Concat):
            self._connect_concat(step)
        return ()

    def _join_labels(
        self, operands: Sequence[tuple[str, Sequence[str]]], whole: frozenset[str] = frozenset()
    ) -> list[int]:
        seen: dict[str, int] = {}
        kept = []
        for name, labels in operands:
            for d, label in zip(self._dims(name), labels, strict=True):
                if not label:
                    continue
                if label in seen:
                    self._union(d, seen[label])
                seen[label] = d
                if label in whole:
                    kept.append(d)
        return kept

    def _connect_reshape(self, left: list[int], right: list[int]) -> None:
        """Group the dimensions of both sides where their sizes have equal products."""
        sizes = self._sizes
        if any(sizes[d] == 0 for d in left):  # no elements, so nothing that must agree
            return
        left, right = [d for d in left if sizes[d] != 1], [d for d in right if sizes[d] != 1]
        while left:
            a, b = [left.pop(0)], [right.pop(0)]
            m, n = sizes[a[0]], sizes[b[0]]
            while m != n:
                if m < n:
                    a.append(left.pop(0))
                    m *= sizes[a[-1]]
                else:
                    b.append(right.pop(0))
                    n *= sizes[b[-1]]
            if len(a) == len(b) == 1:
                self._union(a[0], b[0])
            else:
                self._links.append(ReshapeLink(tuple(a), tuple(b)))

    def _connect_part(self, whole: int, part: int, start: int, stride: int) -> None:
        if self._sizes[whole] == self._sizes[part] and stride in (1, -1):
            self._union(whole, part)
        else:
            self._links.append(PartLink(whole, part, start, stride))

    def _connect_concat(self, step: Concat) -> None:
        start = 0
        for name in step.inputs:
            for k, (a, b) in enumerate(zip(self._dims(step.output), self._dims(name), strict=True)):
                if k == step.axis:
                    self._links.append(PartLink(a, b, start, 1))
                    start += self._sizes[b]
                else:
                    self._union(a, b)

    def _preferences(self) -> list[tuple[int, int]]:
        """Find the cuts that are useful by themselves: where parts of equal size (or stride) cover a dimension."""
        covers: dict[tuple[int, int, int], set[int]] = {}
        for link in self._links:
            if isinstance(link, PartLink) and self._sizes[link.part]:
                key = (self._find(link.whole), self._sizes[link.part], link.stride)
                covers.setdefault(key, set()).add(link.start)
        preferences = []
        for (whole, size, stride), starts in covers.items():
            total = self._sizes[whole]
            if stride == 1 and len(starts) * size == total and all(start % size == 0 for start in starts):
                preferences.append((whole, size))
            elif stride > 1 and len(starts) == stride > max(starts) and total == size * stride:
                preferences.append((whole, stride))
        return preferences

    def _propagate(self, preferences: Iterable[tuple[int, int]]) -> None:
        """Propagate cuts along the links until nothing changes: each class gets a few cuts, so this is linear."""
        by_class: dict[int, list[Link]] = {}
        for link in self._links:
            ends = (*link.left, *link.right) if isinstance(link, ReshapeLink) else (link.whole, link.part)
            for c in {self._find(d) for d in ends}:
                by_class.setdefault(c, []).append(link)
        queue = deque(dict.fromkeys(self._links))
        waiting = set(queue)
        for dim, cut in preferences:
            if self._class(dim).accepts(cut):
                self._class(dim).add(cut)
        while queue:
            link = queue.popleft()
            waiting.discard(link)
            changed = self._reshape(link) if isinstance(link, ReshapeLink) else self._part(link)
            for c in changed:
                for other in by_class[c]:
                    if other not in waiting:
                        waiting.add(other)
                        queue.append(other)

    def _class(self, dim: int) -> DimClass:
        return self.classes[self._find(dim)]

    def _add(self, dim: int, cut: int) -> list[int]:
        return [self._find(dim)] if self._class(dim).add(cut) else []

    def _reshape(self, link: ReshapeLink) -> list[int]:
        """Add all cuts of either side to both, or none if one does not fit."""
        wanted = self._flat_cuts(link.left) | self._flat_cuts(link.right)
        targets = [self._placed(dims, cut) for dims in (link.left, link.right) for cut in wanted]
        if any(t is None or not self._class(t[0]).accepts(t[1]) for t in targets):
            return []
        return [c for t in targets if t is not None for c in self._add(*t)]

    def _inner(self, dims: Sequence[int]) -> list[int]:
        """Compute for each dimension the product of the sizes after it."""
        return list(accumulate([self._sizes[d] for d in dims[:0:-1]], mul, initial=1))[::-1]

    def _flat_cuts(self, dims: Sequence[int]) -> set[int]:
        inner = self._inner(dims)
        return {i * c for d, i in zip(dims, inner, strict=True) for c in (1, *self._class(d).cuts)}

    def _placed(self, dims: Sequence[int], flat: int) -> tuple[int, int] | None:
        """Return the dimension and the cut in it at a position of the flattened dimensions; None if there is none."""
        for d, i in zip(dims, self._inner(dims), strict=True):
            if flat >= i:
                return (d, flat // i) if flat % i == 0 and flat <= i * self._sizes[d] else None
        return None

    def _part(self, link: PartLink) -> list[int]:
        """Propagate the cuts that fit the part's borders between the whole and the part."""
        whole, part = self._class(link.whole), self._class(link.part)
        size, changed = self._sizes[link.part], []
        if link.stride < 1:
            return []
        for cut in sorted(part.cuts):
            fits = link.start % cut == 0 if link.stride == 1 else size * link.stride == whole.size
            if fits and whole.accepts(cut * link.stride):
                changed += self._add(link.whole, cut * link.stride)
        for cut in sorted(whole.cuts):
            inner, rest = divmod(cut, link.stride)
            fits = link.start % cut == 0 if link.stride == 1 else size * link.stride == whole.size
            if fits and not rest and inner > 1 and size % inner == 0 and part.accepts(inner):
                changed += self._add(link.part, inner)
        return changed
