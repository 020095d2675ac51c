"""Translation of a PyTorch program's calls to the importer's steps, with one tuple of operators per family."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tapestry.teg.document import MAX_BLOCKS
from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.literals import literal
from tapestry.teg.importers.program import FOLD_LIMIT_BYTES, Entry, Literal, StepProgram, Value
from tapestry.teg.importers.torch.families import OPERATORS
from tapestry.teg.importers.torch.families.strided import VIEWS, is_row_major
from tapestry.teg.importers.torch.inplace import AliasAnalysis, functional, refs_in
from tapestry.teg.importers.torch.listing import Input, Listing, Ref, TorchCall, TorchOutput
from tapestry.teg.importers.torch.operator import bind, operand
from tapestry.teg.importers.torch.state import with_roles_of_outputs
from tapestry.teg.importers.torch.tracer import Tracer
from tapestry.teg.importers.translate.constant_folding import FoldingTranslation

SHOWN_REFUSALS = 3
BY_TARGET = {target: operator for operator in OPERATORS for target in operator.targets}


def translate(listing: Listing) -> StepProgram:
    """Translate the listing to steps over logical tensors, with constants folded.

    Raises:
        ImportFailure: operators that are unsupported (all of them named), or used in an unsupported way.
    """
    program = StepProgram(listing.name)
    translation = _Translation(listing, program)
    translation.run()
    for output in translation.outputs():
        program.outputs[output.name] = translation.value(output.ref)
        if output.carries is not None:
            program.carries[output.name] = output.carries
    program.names |= translation.intermediates()
    program = program.pruned()
    if listing.carries is None:
        return program
    return with_roles_of_outputs(program, listing.carries, gradients=not listing.signed)


def unsupported(listing: Listing) -> list[str]:
    """List the operators of a program that have no translation without torch's help, each once."""
    return sorted({c.target for c in listing.calls if c.target not in BY_TARGET})


class _Translation:
    """The state of a translation: the values of the program's names so far."""

    def __init__(self, listing: Listing, program: StepProgram) -> None:
        self.listing = listing
        self.tracer = Tracer(FoldingTranslation(program))
        self._check_names()
        self.sharing = AliasAnalysis(listing)
        self.names: dict[str, str] = {}
        # Results that are numbers: sizes and the like.
        self.numbers: dict[str, Any] = {}
        self.sites = {i.value.name for i in listing.inputs}
        changed = {o.carries for o in listing.outputs} | {
            ref for c in listing.calls if functional(c.target) for ref in refs_in((c.args, c.kwargs))[:1]
        }
        for given in listing.inputs:
            self._add_input(given, mutable=bool({given.value.name, given.ref} & changed))
            self.names[given.ref] = given.value.name

    def _check_names(self) -> None:
        """Check that there are not too many calls, every name is produced once, and observed values are produced."""
        if len(self.listing.calls) > MAX_BLOCKS:
            raise ImportFailure(
                f"{self.listing.name} has {len(self.listing.calls)} calls; at most {MAX_BLOCKS} are accepted"
            )
        made: set[str] = set()
        values = [(i.ref, i.value) for i in self.listing.inputs]
        values += [(o.name, o) for c in self.listing.calls for o in c.outputs if o is not None]
        for ref, value in values:
            if ref in made:
                raise ImportFailure(f"{self.listing.name}: {ref!r} is made twice; each name has one maker")
            if any(n < 0 for n in value.shape) or math.prod(value.shape) >= 2**63:
                raise ImportFailure(
                    f"{self.listing.name}: {ref!r} has the impossible shape {list(value.shape)}: "
                    "sizes are not negative, and their product is below 2^63"
                )
            made.add(ref)
        for output in self.listing.outputs:
            if output.ref not in made:
                raise ImportFailure(f"{self.listing.name}: nothing makes output {output.ref!r}")

    def value(self, ref: str) -> str:
        """Return the name in the program of the value that a name of the listing refers to."""
        if not self.names[ref]:
            raise ImportFailure(
                f"{self.listing.name}: output {ref!r} is a result that this import does not make"
            )
        return self.tracer.translation.resolve(self.names[ref])

    def outputs(self) -> tuple[TorchOutput, ...]:
        """Return the listing's outputs, and the inputs that were overwritten."""
        specified = {o.carries for o in self.listing.outputs}
        written = [
            TorchOutput(f"{i.value.name}.next", i.ref, i.value.name)
            for i in self.listing.inputs
            if self.value(i.ref) != i.value.name and i.value.name not in specified
        ]
        return (*self.listing.outputs, *written)

    def intermediates(self) -> dict[str, str]:
        """Return the values in the program of the results of calls, by their names in the listing."""
        results = (o.name for call in self.listing.calls for o in call.outputs if o is not None)
        return {name: self.value(name) for name in results if self.names.get(name)}

    def _add_input(self, given: Input, mutable: bool) -> None:
        """Add an input; constants, and integers that nothing changes, are known, so selections by them become views."""
        t, value = self.tracer.translation, given.value
        t.program.values[value.name] = value
        t.program.entries[value.name] = Entry(value, given.role, given.data)
        data = given.data
        fixed = given.role == "constant" or (given.role == "buffer" and value.dtype[0] in "biu")
        if data is not None and fixed and not mutable and (data.size <= 1 or data.nbytes <= FOLD_LIMIT_BYTES):
            known = literal(np.ascontiguousarray(data))
            t.known[value.name] = Literal(known.array, value.shape)

    def run(self) -> None:
        """Translate all calls that can be translated; then raise one error for all that could not."""
        missing: dict[str, list[str]] = {}
        refused: list[str] = []
        lost: set[str] = set()
        for position, call in enumerate(self.listing.calls):
            try:
                if call.target not in BY_TARGET and functional(call.target) not in BY_TARGET:
                    missing.setdefault(call.target, []).append(call.name)
                elif not lost.intersection(refs_in((call.args, call.kwargs))):
                    self._call(call, position)
                    continue
            except ImportFailure as failure:
                refused.append(str(failure))
            lost.update((call.name, *(o.name for o in call.outputs if o is not None)))
        if missing or refused:
            listed = ([_list_missing(missing)] if missing else []) + refused[:SHOWN_REFUSALS]
            more = f"; and {len(refused) - SHOWN_REFUSALS} more" if len(refused) > SHOWN_REFUSALS else ""
            raise ImportFailure(f"{self.listing.name}: {'; '.join(listed)}{more}")

    def _call(self, call: TorchCall, position: int) -> None:
        operator = BY_TARGET.get(call.target) or BY_TARGET[str(functional(call.target))]
        tracer = self.tracer
        tracer.begin(call)
        args, kwargs = bind(operator, call, *self._resolved((call.args, dict(call.kwargs))))
        try:
            found = operator.translate(tracer, *args, **kwargs)
        except (ValueError, IndexError, KeyError, TypeError) as error:
            if isinstance(error, ImportFailure):
                raise
            raise tracer.refuse(f"has arguments that do not fit: {error!r}") from error
        if isinstance(found, (int, float, complex)):
            self.numbers[call.name] = found
            return
        results = found if isinstance(found, (tuple, list)) else (found,)
        for recorded, result in zip(call.outputs, results, strict=False):
            if recorded is not None and result is not None:
                self._finish(call, recorded, result)
        for recorded in call.outputs:
            if recorded is not None:
                self.names.setdefault(recorded.name, "")
        if call.target not in BY_TARGET:
            self._overwrite(call, position)
        for name, new in tracer.replaced.items():
            self._rebind(call, position, operand(operator, call, name).name, new.name)
        tracer.replaced.clear()

    def _finish(self, call: TorchCall, recorded: Value, result: Value) -> None:
        """Check a result against what the program records of it, and give it its name."""
        if (result.shape, result.dtype) != (recorded.shape, recorded.dtype):
            raise self.tracer.refuse(
                f"records a result of shape {list(recorded.shape)} and type {recorded.dtype}, "
                f"but its arguments give {list(result.shape)} and {result.dtype}"
            )
        name = recorded.name
        while name in self.sites:
            name += "'"
        self.tracer.finish(result, name)
        self.names[recorded.name] = name
        if not is_row_major(recorded.shape, call.strides.get(recorded.name)) or call.target in VIEWS:
            self.tracer.scattered.add(name)

    def _overwrite(self, call: TorchCall, position: int) -> None:
        """Let later reads of the first operand of an in-place operator, by any of its names, read its result."""
        result = call.outputs[0] if call.outputs else None
        if result is None:
            raise self.tracer.refuse("writes in place, but records no result")
        self._rebind(call, position, refs_in((call.args, call.kwargs))[0], self.names[result.name])

    def _rebind(self, call: TorchCall, position: int, written: str, new: str) -> None:
        for ref in self.sharing.written(call, position, written):
            if ref in self.names:
                self.names[ref] = new

    def _resolved(self, argument: Any) -> Any:
        """Return the argument with values in the place of references."""
        if isinstance(argument, Ref):
            if argument.name in self.numbers:
                return self.numbers[argument.name]
            if not self.names.get(argument.name):
                raise self.tracer.refuse(f"reads {argument.name!r}, which this import does not make")
            return self.tracer.value(self.names[argument.name])
        if isinstance(argument, (tuple, list)):
            return tuple(self._resolved(a) for a in argument)
        if isinstance(argument, dict):
            return {k: self._resolved(a) for k, a in argument.items()}
        return argument


def _list_missing(found: Mapping[str, list[str]]) -> str:
    def places(names: list[str]) -> str:
        return f"node {names[0]!r}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")

    listed = ", ".join(f"{target} ({places(names)})" for target, names in sorted(found.items()))
    return f"unsupported operator{'s' if len(found) > 1 else ''} {listed}"
