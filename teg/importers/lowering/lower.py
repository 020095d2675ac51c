"""Lowering of steps over factored dimensions to the blocks of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.graph import Graph
from tapestry.teg.importers.factoring import Factoring
from tapestry.teg.importers.lowering.cells import lower_cell
from tapestry.teg.importers.lowering.compute import lower_compute
from tapestry.teg.importers.lowering.movement import concat, relabel, slice_
from tapestry.teg.importers.lowering.storage import ConstantRoot, LoweredStorage, Rep, flat, names_of
from tapestry.teg.importers.program import (
    Compute,
    Concat,
    Fixed,
    Literal,
    Relabel,
    Reshape,
    Slice,
    Step,
    StepProgram,
    Value,
    outputs_of,
)
from tapestry.teg.operators.monoids import identity as monoid_identity
from tapestry.teg.pruning import prune
from tapestry.teg.stored_values import StoredValue
from tapestry.teg.views import ViewDim, ViewMap, identity

# What they make of no elements is their monoid's identity.
SUMS = ("reduce", "contract")

Factors = tuple[tuple[int, ...], ...]


def lower(program: StepProgram, factoring: Factoring) -> Graph:
    """Lower a program to a graph; dead blocks are left out, sources come first."""
    lowering = _Lowering(program, factoring)
    for name in program.entries:
        lowering.add_entry(name)
    lowering.storage.reserved = frozenset(program.outputs)
    for name, constant in program.literals.items():
        lowering.add_literal(name, constant)
    lowering.add_points()
    for step in program.steps:
        for name, rep in zip(outputs_of(step), lowering.lower(step), strict=True):
            lowering.reps[name] = rep
            lowering.name_dimensions(name)
        lowering.add_points()
    for name, value in program.outputs.items():
        lowering.add_sink(name, value)
    graph = _pruned(lowering.behind_points(lowering.builder.build()))
    return replace(graph, values=lowering.values(graph))


class _Lowering:
    """The state of a lowering, with the representation of each value so far."""

    def __init__(self, program: StepProgram, factoring: Factoring) -> None:
        self.program = program
        self.factors: dict[str, Factors] = {name: factoring.factors(name) for name in program.values}
        self.builder = GraphBuilder(program.name)
        self.storage = LoweredStorage(self.builder)
        self.reps: dict[str, Rep] = {}
        self.waiting = list(program.points)
        self.behind: dict[str, list[str]] = {}

    def add_entry(self, name: str) -> None:
        entry = self.program.entries[name]
        shape = flat(self.factors[name])
        key = self.storage.source(name, shape, entry)
        if name in self.program.carries.values():
            self.storage.deferred.pop(key, None)  # its data is only the first of its values
        self.reps[name] = Rep(key, identity(shape))
        self.name_dimensions(name)

    def add_literal(self, name: str, constant: Literal) -> None:
        """Add a literal; only the dimensions along which the value changes are stored."""
        factors = self.factors[name]
        changing = [n > 1 for n in constant.array.shape]
        stored = flat(own for own, change in zip(factors, changing, strict=True) if change)
        places = [
            k
            for k, change in enumerate(c for own, c in zip(factors, changing, strict=True) for _ in own)
            if change
        ]
        key = self.storage.defer(name, ConstantRoot(name, constant.array.reshape(stored)))
        self.reps[name] = Rep(key, ViewMap(tuple(ViewDim(k, 1, 0) for k in places), flat(factors)))

    def add_sink(self, name: str, value: str) -> None:
        root = self.storage.whole(self.reps[value])
        shape = self.program.values[value].shape
        taken = name in self.builder.tensors
        site = f"{name}.out" if taken else name
        carries = self.program.carries.get(name)
        self.builder.apply(
            "sink", (self.storage.site(root),), site=site, logical_shape=shape, carries=carries
        )

    def values(self, graph: Graph) -> dict[str, StoredValue]:
        """Return where the graph stores the intermediate values that the program names, those that it stores whole."""
        found: dict[str, StoredValue] = {}
        for name, value in self.program.names.items():
            if name in self.program.outputs or name in self.program.entries:
                continue
            rep = self.reps.get(value)
            tensor = self.storage.emitted(rep.root) if rep is not None else None
            if rep is None or tensor is None or tensor not in graph.tensors:
                continue
            if graph.producers[tensor].operator == "source":
                continue
            dims = _stored_dims(rep.view, graph.tensors[tensor].shape, self.factors[value])
            if dims is not None:
                found[name] = StoredValue(tensor, self.program.values[value].shape, dims)
        return found

    def name_dimensions(self, name: str) -> None:
        """Name the dimensions of the tensor that stores a value, if it exists and has no names yet."""
        names = self.program.values[name].names
        if names:
            self.storage.name_dimensions(self.reps[name], names_of(names, self.factors[name]))

    def add_points(self) -> None:
        """Add the sequence points whose values are all available now."""
        ready = [p for p in self.waiting if all(name in self.reps for name in p.after)]
        for point in ready:
            self.waiting.remove(point)
            stored = [self.storage.site(self.reps[name].root) for name in point.after]
            producers = {t: b.site for b in self.builder.blocks for t in b.outputs}
            site = self.builder.sequence_point(
                tuple(dict.fromkeys(producers[t] for t in stored)), site=self.storage.free_site(point.site)
            )
            for step in point.before:
                self.behind.setdefault(step, []).append(site)

    def behind_points(self, graph: Graph) -> Graph:
        """Return the graph in which the blocks of steps after sequence points refer to those points."""
        if not self.behind:
            return graph
        return graph.replace(
            replace(b, after=tuple(self.behind[b.site])) if b.site in self.behind else b for b in graph.blocks
        )

    def lower(self, step: Step) -> tuple[Rep, ...]:
        """Lower a step to the representations of its outputs; those without elements, or made from none, are known."""
        values = self.program.values
        if all(values[n].size == 0 for n in outputs_of(step)):
            return tuple(self.filled(n, step.site, 0) for n in outputs_of(step))
        if isinstance(step, Compute) and _sums_nothing(step, [values[n] for n in step.inputs]):
            number = monoid_identity(step.attributes.get("monoid", "sum"), values[step.output].dtype)
            return (self.filled(step.output, step.site, number),)
        return self.lower_fixed(step) if isinstance(step, Fixed) else (self.lower_one(step),)

    def filled(self, name: str, site: str, number: Any) -> Rep:
        """Build a value that is the same number everywhere."""
        value, shape = self.program.values[name], flat(self.factors[name])
        array = np.full((1,) * len(shape), number, numpy_dtype(value.dtype))
        kept = [k for k, n in enumerate(shape) if n == 0]
        stored = array.reshape((1,) * len(kept))[(slice(0, 0),) * len(kept)]
        key = self.storage.defer(site, ConstantRoot(site, stored))
        return Rep(key, ViewMap(tuple(ViewDim(k, 1, 0) for k in kept), shape))

    def lower_fixed(self, step: Fixed) -> tuple[Rep, ...]:
        """Lower a step on whole tensors: merge operands that others read factored, and split the results."""
        storage, values = self.storage, self.program.values
        whole = [
            storage.refactored(self.reps[n], values[n].shape, f"{step.site}.merge{k}")
            for k, n in enumerate(step.inputs)
        ]
        keys = storage.emit_all(step.operator, [storage.whole(r) for r in whole], step.site, step.attributes)
        return tuple(
            storage.refactored(Rep(key, identity(values[n].shape)), flat(self.factors[n]), f"{key}.split")
            for key, n in zip(keys, step.outputs, strict=True)
        )

    def lower_one(self, step: Compute | Relabel | Reshape | Slice | Concat) -> Rep:
        target = self.factors[step.output]
        if isinstance(step, Compute):
            reps = [self.reps[n] for n in step.inputs]
            factors = [self.factors[n] for n in step.inputs]
            compute = lower_cell if step.operator == "cell" and not step.positional else lower_compute
            return compute(self.storage, step, reps, factors, target)
        sizes = self.program.values[step.output].shape
        if isinstance(step, Concat):
            parts = [self.program.values[n].shape[step.axis] for n in step.inputs]
            return concat(self.storage, [self.reps[n] for n in step.inputs], step, parts, target)
        rep, source = self.reps[step.input], self.factors[step.input]
        if isinstance(step, Slice):
            return slice_(self.storage, rep, step, source, sizes, target)
        if isinstance(step, Relabel):
            return relabel(rep, step, source, target)
        assert isinstance(step, Reshape)
        return self.storage.refactored(rep, flat(target), step.site)


def _sums_nothing(step: Compute, inputs: Sequence[Value]) -> bool:
    return step.operator in SUMS and not step.positional and any(v.size == 0 for v in inputs)


def _stored_dims(
    view: ViewMap, stored: Sequence[int], factors: Factors
) -> tuple[tuple[int, ...], ...] | None:
    """Return for each dimension of a value the dimensions of its tensor that are its factors; None if it is a part.

    A dimension whose factors are broadcast has none; one of which some are is no dimension of the tensor.
    """
    place: dict[int, int] = {}
    for k, (d, size) in enumerate(zip(view.dims, stored, strict=True)):
        if d.dim >= 0 and (d.stride, d.offset, view.shape[d.dim]) == (1, 0, size) and d.dim not in place:
            place[d.dim] = k
        elif size != 1:
            return None
    dims, first = [], 0
    for own in factors:
        run = [place.get(k) for k in range(first, first + len(own)) if view.shape[k] != 1]
        first += len(own)
        known = tuple(k for k in run if k is not None)
        if known and len(known) < len(run):
            return None
        dims.append(known)
    return tuple(dims)


def _pruned(graph: Graph) -> Graph:
    """Drop the blocks that are not observed and put sources first."""
    return graph.replace(sorted(prune(graph).blocks, key=lambda b: b.operator != "source"))
