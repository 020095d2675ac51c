"""Programs that are split by hand: one region, run by all devices of a mesh side by side.

Every device has values of its own, and collectives read those of several devices. What devices compute alike, from
the same values, is translated once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.stablehlo.emitter import Emitter
from tapestry.teg.importers.stablehlo.module import ManualSharding, Operation, Region
from tapestry.teg.importers.stablehlo.unrolling import Runner, decided

# Known values of so many elements are kept for whoever computes them again.
SMALL = 64
Scope = dict[int, Value]
# For each device, its values.
Rows = list[list[Value]]


class Collective(NamedTuple):
    """A translator of some collectives; `translate` gets the operands of each device, and returns its results."""

    operations: tuple[str, ...]
    translate: Callable[[Runner, Operation, Rows], Rows]


class DevicePrograms:
    """An interpreter that runs regions on several devices, operation by operation."""

    def __init__(self, runner: Runner, count: int, collectives: Mapping[str, Collective]) -> None:
        self.runner, self.count, self.collectives = runner, count, collectives
        self._read: dict[int, tuple[int, ...]] = {}
        self._forms: dict[int, Hashable] = {}
        self._known: dict[Hashable, list[Value]] = {}

    def run(self, region: Region, arguments: Rows, outside: Sequence[Scope] | None = None) -> Rows:
        """Run a region; `arguments` are those of each device, `outside` the values around it. Returns its results."""
        scopes = [dict(around) for around in outside or [{}] * self.count]
        for scope, given in zip(scopes, arguments, strict=True):
            scope.update(zip(region.arguments, given, strict=True))
        for operation in region.operations:
            self._step(operation, scopes)
        return [[scope[n] for n in region.results] for scope in scopes]

    def _step(self, operation: Operation, scopes: Sequence[Scope]) -> None:
        operands = [[scope[n] for n in operation.operands] for scope in scopes]
        e = self.runner.emitter
        if operation.name in self.collectives:
            e.begin(operation)
            results = self.collectives[operation.name].translate(self.runner, operation, operands)
        elif operation.name == "func.call":
            e.begin(operation)
            with self.runner.entered(operation.get("callee")) as function:
                results = self.run(function.body, operands)
        elif operation.regions and self._communicates(operation):
            e.begin(operation)
            results = self._controlled(operation, operands, scopes)
        else:
            self._apart(operation, scopes)
            return
        for scope, own in zip(scopes, results, strict=True):
            self.runner.bind(operation, own, scope)

    def _apart(self, operation: Operation, scopes: Sequence[Scope]) -> None:
        """Run an operation on each device; equal ones on equal values once."""
        done: dict[Hashable, list[Value]] = {}
        reads, form = self._reads(operation), self._form(operation)
        alike = not _any(operation, lambda o: o.name == "stablehlo.partition_id")
        for device, scope in enumerate(scopes):
            key = (-1 if alike else device, *(scope[n].name for n in reads))
            found = done.get(key) or self._known.get((form, key))
            if found is None:
                self.runner.device, self.runner.emitter.place = device, f"@{device}"
                found = self.runner.translated(operation, scope)
                self.runner.bind(operation, found, scope)
                if form is not None and all(self.runner.emitter.known(v) is not None for v in found):
                    self._known[form, key] = found
            done[key] = found
            scope.update(zip(operation.results, found, strict=True))
        self.runner.device, self.runner.emitter.place = None, ""

    def _form(self, operation: Operation) -> Hashable:
        """Return what small known results depend on besides operands; None of an operation that is too large for that.

        Devices compute their place on the mesh anew wherever they use it.
        """
        if id(operation) not in self._forms:
            small = not operation.regions and all(math.prod(t.shape) <= SMALL for t in operation.types)
            form = (operation.name, _hashable(operation.attributes), operation.types) if small else None
            self._forms[id(operation)] = form
        return self._forms[id(operation)]

    def _reads(self, operation: Operation) -> tuple[int, ...]:
        """Return what an operation and its regions read from around it."""
        if id(operation) not in self._read:
            inner = [o for r in operation.regions for o in r.operations]
            own = {n for r in operation.regions for n in r.arguments} | {n for o in inner for n in o.results}
            read = [*operation.operands, *(n for o in inner for n in self._reads(o))]
            read += [n for r in operation.regions for n in r.results]
            self._read[id(operation)] = tuple(n for n in dict.fromkeys(read) if n not in own)
        return self._read[id(operation)]

    def _communicates(self, operation: Operation) -> bool:
        """Return whether collectives are inside an operation, or in functions that it calls."""

        def has(inner: Operation) -> bool:
            callee = self.runner.module.functions.get(str(inner.get("callee")))
            called = callee is not None and any(_any(o, has) for o in callee.body.operations)
            return inner.name in self.collectives or called

        return _any(operation, has)

    def _controlled(self, operation: Operation, operands: Rows, scopes: Sequence[Scope]) -> Rows:
        """Run a loop or a conditional with collectives in it, through which all devices go alike."""
        regions = operation.regions
        if operation.name == "stablehlo.while":
            values, trips = operands, 0
            while self._decided(self.run(regions[0], values, scopes), "number of trips"):
                trips += 1
                self.runner.count(regions[1], trips)
                values = self.run(regions[1], values, scopes)
            return values
        if operation.name in ("stablehlo.if", "stablehlo.case"):
            index = self._decided(operands, "branch")
            last = len(regions) - 1
            if operation.name == "stablehlo.if":
                index = 0 if index else 1
            return self.run(regions[index if 0 <= index <= last else last], [[]] * self.count, scopes)
        raise self.runner.emitter.refuse("has collectives inside, which is supported for loops and branches")

    def _decided(self, values: Rows, what: str) -> int:
        e = self.runner.emitter
        found = {int(decided(e, value, what).reshape(-1)[0]) for (value,) in values}
        if len(found) > 1:
            raise e.refuse(f"has collectives inside, and its {what} differs from device to device")
        return found.pop()


def _hashable(value: Any) -> Hashable:
    """Return an attribute as a value that is equal for equal ones, bit by bit."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, Mapping):
        return tuple((name, _hashable(part)) for name, part in sorted(value.items()))
    return tuple(map(_hashable, value)) if isinstance(value, tuple) else repr(value)


def _any(operation: Operation, wanted: Callable[[Operation], bool]) -> bool:
    return wanted(operation) or any(_any(o, wanted) for r in operation.regions for o in r.operations)


class ManualMesh:
    """The mesh over which a region is split by hand: what its devices hold of tensors."""

    def __init__(self, e: Emitter, axes: Mapping[str, int]) -> None:
        self.e, self.axes = e, axes
        self.places = [
            dict(zip(axes, at, strict=True)) for at in product(*(range(size) for size in axes.values()))
        ]

    def parts(self, value: Value, sharding: ManualSharding) -> list[Value]:
        """Return each device's part of a tensor."""
        counts = self._counts(value.shape, sharding)
        sizes = [size // count for size, count in zip(value.shape, counts, strict=True)]
        cut: dict[tuple[int, ...], Value] = {}
        found = []
        for at in (self._position(sharding, place) for place in self.places):
            if at not in cut:
                ranges = [range(k * size, (k + 1) * size) for k, size in zip(at, sizes, strict=True)]
                cut[at] = value if max(counts, default=1) == 1 else self.e.slice(value, ranges)
            found.append(cut[at])
        return found

    def whole(self, parts: Sequence[Value], sharding: ManualSharding, shape: Sequence[int]) -> Value:
        """Join the parts of a tensor; of equal parts, that of the first device."""
        counts = self._counts(shape, sharding)
        held: dict[tuple[int, ...], Value] = {}
        for place, part in zip(self.places, parts, strict=True):
            held.setdefault(self._position(sharding, place), part)
        for axis in reversed(range(len(counts))):
            fronts = dict.fromkeys(at[:axis] for at in held)
            held = {
                front: self.e.concat([held[(*front, k)] for k in range(counts[axis])], axis)
                for front in fronts
            }
        return held[()]

    def _counts(self, shape: Sequence[int], sharding: ManualSharding) -> list[int]:
        unknown = [name for names in sharding.dims for name in names if name not in self.axes]
        if unknown:
            raise self.e.refuse(f"splits a tensor over {unknown[0]}, which is no whole axis of its mesh")
        counts = [math.prod(self.axes[name] for name in names) for names in sharding.dims]
        if any(size % count for size, count in zip(shape, counts, strict=True)):
            raise self.e.refuse(
                f"splits shape {tuple(shape)} into {tuple(counts)} parts, which are not equal"
            )
        return counts

    def _position(self, sharding: ManualSharding, place: Mapping[str, int]) -> tuple[int, ...]:
        return tuple(
            int(np.ravel_multi_index([place[n] for n in names], [self.axes[n] for n in names]))
            if names
            else 0
            for names in sharding.dims
        )
