"""Translation of a module to the importer's program: sources and sinks named, roles and carried state recognized."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.program import Entry, StepProgram, Value
from tapestry.teg.importers.stablehlo.carried_state import find_carried_state
from tapestry.teg.importers.stablehlo.emitter import Emitter
from tapestry.teg.importers.stablehlo.families import BY_OPERATION
from tapestry.teg.importers.stablehlo.module import Function, Module
from tapestry.teg.importers.stablehlo.naming import input_names, output_names, roles_of
from tapestry.teg.importers.stablehlo.unrolling import Runner
from tapestry.teg.importers.translate.constant_folding import FoldingTranslation
from tapestry.teg.importers.translate.roles import settle_roles


def translate(module: Module, roles: Mapping[str, str] | None, unroll_limit: int) -> StepProgram:
    """Translate the module's main function to steps.

    Raises:
        ImportFailure: operations that are unsupported (all of them named), or used in an unsupported way.
    """
    function = module.functions[module.main]
    names = input_names(function)
    given = roles_of(names, roles or {})
    runner, results = _run(module, given, unroll_limit)
    program = runner.emitter.translation.program
    outputs = output_names(function, names)
    for name, value in zip(outputs, results, strict=True):
        program.outputs[name] = runner.emitter.translation.resolve(value.name)
    program.names = {k: runner.emitter.translation.resolve(v) for k, v in program.names.items()}
    return settle_roles(_with_state(program, function, names, outputs, given).pruned(), given)


def value_names(module: Module, unroll_limit: int) -> dict[tuple[str, int], list[str]]:
    """Return the names of the values that each result was, per function and number of the result in it.

    Raises:
        ImportFailure: as `translate` does.
    """
    runner, _ = _run(module, {}, unroll_limit)
    return runner.names


def _run(module: Module, roles: Mapping[str, str], unroll_limit: int) -> tuple[Runner, list[Value]]:
    """Run the module's main function over its inputs; return what ran it, and its results."""
    function, program = module.functions[module.main], StepProgram(module.name)
    values = [_entry(program, name, function, k, roles) for k, name in enumerate(input_names(function))]
    runner = Runner(module, Emitter(FoldingTranslation(program)), BY_OPERATION, unroll_limit)
    unsupported = runner.unsupported()
    if unsupported:
        raise ImportFailure(f"{module.name}: unsupported operations {unsupported}")
    return runner, runner.call(module.main, values)


def _entry(
    program: StepProgram, name: str, function: Function, position: int, roles: Mapping[str, str]
) -> Value:
    kind = function.arguments[position].type
    if kind.parts is not None or kind.dtype == "token":
        raise ImportFailure(f"input {name!r} is a {kind.dtype}; expected tensors")
    value = Value(name, kind.shape, kind.dtype)
    program.values[name] = value
    program.entries[name] = Entry(value, roles.get(name, "activation"))
    return value


def _with_state(
    program: StepProgram,
    function: Function,
    names: tuple[str, ...],
    outputs: tuple[str, ...],
    given: Mapping[str, str],
) -> StepProgram:
    """Return the program with its carried state, and with the roles that follow from it."""
    stated: dict[str, str] = {}
    for k, port in enumerate(function.arguments):
        target = port.attributes.get("tf.aliasing_output")
        if target is not None and function.results[int(target)].type == port.type:
            stated[outputs[int(target)]] = names[k]
    carries, roles = find_carried_state(program, stated, given)
    entries = {n: replace(e, role=roles.get(n, e.role)) for n, e in program.entries.items()}
    return replace(program, entries=entries, carries=carries)
