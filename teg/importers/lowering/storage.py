"""Storage of values: each is a view of a stored tensor, emitted only when a block needs it.

Steps that move elements change the view and cost nothing. A block that can express a view in its labels reads
the stored tensor itself; parts of tensors and positional readers get one composed `view` block.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import attributes
from tapestry.teg.importers.program import Entry, Labels, Value
from tapestry.teg.operators.selectors import view_attributes
from tapestry.teg.views import ViewDim, ViewMap, identity


class Rep(NamedTuple):
    """A value as a view of the root tensor called `root`; `site` names the view block, if there is one."""

    root: str
    view: ViewMap
    site: str = ""

    def through(self, outer: ViewMap, site: str, part: bool = False) -> Rep:
        """Compose this value's view with the view `outer`; taking a part gives the view its name."""
        return Rep(self.root, self.view.then(outer), site if part or not self.site else self.site)


@dataclass(frozen=True)
class Generator:
    """Elements computed from coordinates (and small roots read with labels), on demand."""

    site: str
    expr: Any
    dims: tuple[tuple[str, int], ...]
    inputs: tuple[tuple[str, Labels], ...]
    dtype: str


@dataclass(frozen=True)
class ConstantRoot:
    """Elements that are known; `weight` marks data of the file, which stays a source of its own."""

    site: str
    array: np.ndarray
    weight: bool = False


class Root(NamedTuple):
    """Shape and element type of a stored tensor."""

    shape: tuple[int, ...]
    dtype: str


class LoweredStorage:
    """Roots by key, the sites of those emitted so far, and the view blocks made of them."""

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder
        self.roots: dict[str, Root] = {}
        self.deferred: dict[str, Generator | ConstantRoot] = {}
        self._sites: dict[str, str] = {}
        self._views: dict[tuple[str, ViewMap], str] = {}
        # Names for sinks; set once the sources have theirs, because an input may be an output.
        self.reserved: frozenset[str] = frozenset()

    def free_site(self, wanted: str) -> str:
        """Return a free site for a block; names of outputs are reserved for the sinks."""
        return self.builder.free_site(f"{wanted}.value" if wanted in self.reserved else wanted)

    def emit(self, operator: str, roots: Sequence[str], site: str, **attrs: Any) -> str:
        """Emit a block over roots and return the key of its output."""
        (name,) = self.emit_all(operator, roots, site, attrs)
        return name

    def emit_all(
        self, operator: str, roots: Sequence[str], site: str, attrs: Mapping[str, Any]
    ) -> tuple[str, ...]:
        """Emit a block over roots and return the keys of its outputs."""
        inputs = [self.site(r) for r in roots]
        names = self.builder.add(operator, inputs, attributes(**attrs), site=self.free_site(site))
        for name in names:
            tensor = self.builder.tensors[name]
            self.roots[name] = Root(tensor.shape, tensor.dtype)
            self._sites[name] = name
        return names

    def source(self, site: str, shape: Sequence[int], entry: Entry) -> str:
        """Emit the source block of an entry, stored in `shape`, with its data where the file supplies it; return its
        key.
        """
        stored: dict[str, Any] = {"shape": tuple(shape), "logical_shape": tuple(entry.value.shape)}
        load = {} if entry.load is None else entry.load.attributes
        key = self.emit("source", (), site, **stored, dtype=entry.value.dtype, role=entry.role, **load)
        data = entry.data
        if data is not None:
            array = np.ascontiguousarray(data).reshape(tuple(shape))
            array.setflags(write=False)
            self.builder.data[key] = array
            self.deferred[key] = ConstantRoot(site, array, weight=True)
        return key

    def defer(self, key: str, what: Generator | ConstantRoot) -> str:
        """Register elements to be emitted when a block needs them as a tensor; no site is ever their key."""
        key = f"{key} (deferred)"
        while key in self.roots:
            key += "'"
        shape = what.array.shape if isinstance(what, ConstantRoot) else tuple(size for _, size in what.dims)
        dtype = what.array.dtype.name if isinstance(what, ConstantRoot) else what.dtype
        self.roots[key] = Root(shape, dtype)
        self.deferred[key] = what
        return key

    def emitted(self, key: str) -> str | None:
        """Return the tensor of a root, None if it was not emitted."""
        return self._sites.get(key)

    def site(self, key: str) -> str:
        """Return the tensor of a root; if there is none yet, emit it, after all that it is computed from."""
        waiting = [key]
        while waiting:
            what = self.deferred.get(waiting[-1])
            inputs = [k for k, _ in what.inputs] if isinstance(what, Generator) else []
            missing = [k for k in reversed(inputs) if k not in self._sites]
            if waiting[-1] in self._sites:
                waiting.pop()
            elif missing:
                waiting += missing
            else:
                self._sites[waiting[-1]] = self._emit_deferred(waiting[-1])
        return self._sites[key]

    def _emit_deferred(self, key: str) -> str:
        what = self.deferred[key]
        if isinstance(what, ConstantRoot):
            array = what.array
            value = Value(what.site, array.shape, array.dtype.name)
            made = self.source(what.site, array.shape, Entry(value, "constant", array))
            del self.deferred[made]
            return made
        inputs = [k for k, _ in what.inputs]
        labels = tuple(own for _, own in what.inputs)
        return self.emit(
            "cell", inputs, what.site, expr=what.expr, labels=labels, dims=what.dims, dtype=what.dtype
        )

    def name_dimensions(self, rep: Rep, names: Labels) -> None:
        """Name the dimensions of a stored tensor that has no names yet, where the view shows them all."""
        site = self._sites.get(rep.root)
        if site is None or self.builder.tensors[site].names:
            return
        own = tuple(names[d.dim].replace(".", "_") if d.dim >= 0 else "" for d in rep.view.dims)
        if own and all(own) and len(set(own)) == len(own):
            self.builder.tensors[site] = replace(self.builder.tensors[site], names=own)

    def _name_view(self, site: str, root: str, view: ViewMap) -> None:
        """Name the dimensions of a view of a root after the root's, where these name all of the view's."""
        names = self.builder.tensors[root].names
        found = {d.dim: name for d, name in zip(view.dims, names, strict=False) if d.dim >= 0}
        if view.shape and len(found) == len(view.shape):
            own = tuple(found[k] for k in range(len(view.shape)))
            self.builder.tensors[site] = replace(self.builder.tensors[site], names=own)

    def read(self, rep: Rep, names: Labels, strict: bool = True) -> tuple[str, Labels]:
        """Return the root to read and the name of each of its dimensions, for a reader that labels dimensions.

        Parts of dimensions become a view block. `strict` readers want a name for each dimension; others
        take `""` for a dimension of size 1 that is broadcast.
        """
        shape = self.roots[rep.root].shape
        labels, exact = [], True
        for size, d in zip(shape, rep.view.dims, strict=True):
            name = names[d.dim] if d.dim >= 0 else ""
            all_of_it = (
                d.stride == 1 and d.offset == 0 and rep.view.shape[d.dim] == size if d.dim >= 0 else size == 1
            )
            exact = exact and all_of_it and (bool(name) or not strict)
            labels.append(name)
        if exact:
            return rep.root, tuple(labels)
        kept = [k for k, d in enumerate(rep.view.dims) if d.dim >= 0 and names[d.dim]]
        part = ViewMap(
            tuple(
                ViewDim(kept.index(k), d.stride, d.offset) if k in kept else ViewDim(-1, 0, d.offset)
                for k, d in enumerate(rep.view.dims)
            ),
            tuple(rep.view.shape[rep.view.dims[k].dim] for k in kept),
        )
        return self._view(rep.root, part, rep.site), tuple(names[rep.view.dims[k].dim] for k in kept)

    def whole(self, rep: Rep) -> str:
        """Return a root whose dimensions are exactly the view's, for readers by position."""
        shape = self.roots[rep.root].shape
        return rep.root if rep.view == identity(shape) else self._view(rep.root, rep.view, rep.site)

    def _view(self, root: str, view: ViewMap, site: str) -> str:
        if (root, view) not in self._views:
            self._views[root, view] = self.emit(
                "view", (root,), site or f"{self.site(root)}.view", **dict(view_attributes(view))
            )
            self._name_view(self._views[root, view], self._sites[root], view)
        return self._views[root, view]

    def refactored(self, rep: Rep, shape: Sequence[int], site: str) -> Rep:
        """Reshape a value row-major: a view if only sizes 1 differ, else a reshape block."""
        old = rep.view.shape
        if old == tuple(shape):
            return rep
        if [s for s in old if s != 1] == [s for s in shape if s != 1]:
            return rep.through(ones_changed(old, shape), site)
        key = self.emit("reshape", (self.whole(rep),), site, shape=tuple(shape))
        return Rep(key, identity(tuple(shape)))

    def named(self, key: str, stored: Sequence[str], wanted: Sequence[str], shape: Sequence[int]) -> Rep:
        """Return the value with dimensions `wanted` of a root with dimensions `stored`; missing ones are broadcast."""
        dims = tuple(ViewDim(list(wanted).index(name), 1, 0) for name in stored)
        return Rep(key, ViewMap(dims, tuple(shape)))


def ones_changed(old: Sequence[int], new: Sequence[int]) -> ViewMap:
    """Return the view of `old` at shape `new`, for shapes that differ in sizes 1 only."""
    places = iter([k for k, s in enumerate(new) if s != 1])
    return ViewMap(
        tuple(ViewDim(-1, 0, 0) if s == 1 else ViewDim(next(places), 1, 0) for s in old), tuple(new)
    )


def flat(factors: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Flatten the factors of all dimensions into one tuple."""
    return tuple(f for dim in factors for f in dim)


def factor_names(label: str, count: int) -> Labels:
    """Return the names of the factors of a labeled dimension: the label itself, or `label.0`, `label.1`, ..."""
    if not label:
        return ("",) * count
    return (label,) if count == 1 else tuple(f"{label}.{k}" for k in range(count))


def names_of(labels: Sequence[str], factors: Sequence[Sequence[int]]) -> Labels:
    """Return the names of all factors of a value with these labels."""
    return tuple(n for label, own in zip(labels, factors, strict=True) for n in factor_names(label, len(own)))


def strides_of(factors: Sequence[int]) -> list[int]:
    """Compute the row-major strides of factors."""
    return [math.prod(factors[k + 1 :]) for k in range(len(factors))]
