"""Unrolling of a module over values: calls are inlined, loops unrolled, conditions decided at import."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.program import ImportLimitError, Value
from tapestry.teg.importers.stablehlo.emitter import Emitter
from tapestry.teg.importers.stablehlo.module import Function, Module, Operation, Region, Type

# Inlined and unrolled, that is.
LARGEST_OPERATION_COUNT = 250_000
# Their results are those of operations inside them.
INLINED = ("func.call", "stablehlo.composite", "stablehlo.while", "stablehlo.case", "stablehlo.if")

Results = Value | Sequence[Value]


class HloTranslator(NamedTuple):
    """A translator of some StableHLO operations to steps; `translate` gets the emitter and the operands."""

    operations: tuple[str, ...]
    translate: Callable[[Emitter, Operation, Sequence[Value]], Results]


class RegionTranslator(NamedTuple):
    """A translation to steps of operations that run regions."""

    operations: tuple[str, ...]
    translate: Callable[[Runner, Operation, Sequence[Value]], Results]


class Runner:
    """An interpreter that applies functions and regions of a module to values."""

    def __init__(
        self,
        module: Module,
        emitter: Emitter,
        translators: Mapping[str, HloTranslator | RegionTranslator],
        limit: int,
    ) -> None:
        self.module = module
        self.emitter = emitter
        self.translators = translators
        self.limit = limit
        # The number of the device whose part of a program that is split by hand is being translated.
        self.device: int | None = None
        self._elementwise = False
        self._operations = 0
        self._stack: list[str] = []
        # Per function and number of a result in it, the values that it was in the calls and trips so far.
        self.names: dict[tuple[str, int], list[str]] = {}

    def call(self, name: str, arguments: Sequence[Value]) -> list[Value]:
        """Inline a function and return its results.

        Raises:
            ImportFailure: there is no such function, or it calls itself.
        """
        with self.entered(name) as function:
            return self.region(function.body, arguments)

    @contextmanager
    def entered(self, name: str) -> Iterator[Function]:
        """Enter a function that is called.

        Raises:
            ImportFailure: there is no such function, or it calls itself.
        """
        if name not in self.module.functions:
            raise self.emitter.refuse(f"calls @{name}, which the module does not have")
        if name in self._stack:
            raise self.emitter.refuse(f"calls @{name} from within @{name}; recursion is unsupported")
        self._stack.append(name)
        yield self.module.functions[name]
        self._stack.pop()

    def region(
        self, region: Region, arguments: Sequence[Value], outside: Mapping[int, Value] | None = None
    ) -> list[Value]:
        """Run a region and return its results; `outside` are the values around it that it may read."""
        scope = dict(outside or {})
        scope.update(zip(region.arguments, arguments, strict=True))
        for operation in region.operations:
            self.bind(operation, self.translated(operation, scope), scope)
        return [scope[n] for n in region.results]

    def translated(self, operation: Operation, scope: dict[int, Value]) -> list[Value]:
        """Translate an operation whose operands, and other values that its regions read, are in `scope`."""
        translator = self.translators.get(operation.name)
        if translator is None:
            raise ImportFailure(f"{operation.where} is unsupported")
        self._operations += 1
        if self._operations > LARGEST_OPERATION_COUNT:
            raise ImportFailure(
                f"{self.module.name} has more than {LARGEST_OPERATION_COUNT:,} operations, calls inlined and loops "
                "unrolled; import a part of it, or fewer trips"
            )
        self.emitter.begin(operation)
        operands = [scope[n] for n in operation.operands]
        try:
            if isinstance(translator, RegionTranslator):
                self.scope = scope
                results = translator.translate(self, operation, operands)
            else:
                results = translator.translate(self.emitter, operation, operands)
        except ImportLimitError as error:
            raise ImportFailure(f"{operation.where}: {error}") from None
        return [results] if isinstance(results, Value) else list(results)

    def bind(self, operation: Operation, made: Sequence[Value], scope: dict[int, Value]) -> None:
        """Put the results of an operation into `scope`."""
        if not self._elementwise and len(made) == 1 and operation.name not in INLINED:
            self.emitter.translation.program.names[self.emitter.base] = made[0].name
            self.names.setdefault((self._stack[-1], operation.results[0]), []).append(self.emitter.base)
        for number, value, kind in zip(operation.results, made, operation.types, strict=True):
            if not self._elementwise and kind.parts is None and kind.dtype != "token":
                _check(operation, value, kind)
            scope[number] = value

    def count(self, body: Region, trips: int) -> None:
        """Check that loops stay within the limit.

        Raises:
            ImportFailure: this loop exceeds it.
        """
        if trips * body.size > self.limit:
            raise self.emitter.refuse(
                f"runs more than {trips - 1} times over {body.size} operations; loops are unrolled up to "
                f"{self.limit} operations (unroll_limit)"
            )

    def inner(self, region: Region, arguments: Sequence[Value]) -> list[Value]:
        """Run a region of the operation that is being translated, which may read the values around it."""
        operation, scope = self.emitter.operation, self.scope
        results = self.region(region, arguments, scope)
        self.emitter.resume(operation)
        self.scope = scope
        return results

    def elementwise(self, region: Region, arguments: Sequence[Value]) -> list[Value]:
        """Apply a region that is stated for scalars to every element of tensors."""
        outer, self._elementwise = self._elementwise, True
        results = self.inner(region, arguments)
        self._elementwise = outer
        shape = np.broadcast_shapes(*(a.shape for a in arguments))
        return [r if r.shape == shape else self._spread(r, shape) for r in results]

    def _spread(self, value: Value, shape: tuple[int, ...]) -> Value:
        return self.emitter.relabel(value, (), ("",) * len(shape), shape)

    def unsupported(self) -> str:
        """List the operations of functions in use that have no translator, in one line; empty if there are none."""
        found: dict[str, list[str]] = {}
        reached = [self.module.main]
        for name in reached:
            function = self.module.functions.get(name)
            for operation in _operations(function.body) if function is not None else ():
                callee = operation.get("callee") or operation.get("decomposition")
                if callee and callee not in reached:
                    reached.append(str(callee))
                if operation.name not in self.translators:
                    found.setdefault(operation.name, []).append(operation.line)
        return ", ".join(
            f"{name} ({places[0] or 'no line'}{f' and {len(places) - 1} more' if len(places) > 1 else ''})"
            for name, places in sorted(found.items())
        )


def _check(operation: Operation, value: Value, kind: Type) -> None:
    if (value.shape, value.dtype) != (kind.shape, kind.dtype):
        raise AssertionError(
            f"{operation.where} was translated to {value.dtype}{list(value.shape)}, "
            f"it states {kind.dtype}{list(kind.shape)}"
        )


def _operations(region: Region) -> Sequence[Operation]:
    return [o for top in region.operations for o in (top, *(i for r in top.regions for i in _operations(r)))]


def decided(emitter: Emitter, value: Value, what: str) -> np.ndarray:
    """Return the elements of a value that must be known at import.

    Raises:
        ImportFailure: they depend on the program's inputs.
    """
    found = emitter.known(value)
    if found is None:
        raise emitter.refuse(
            f"is supported only where its {what} is known at import; here it depends on inputs"
        )
    return found
