"""Import of StableHLO modules and of JAX functions: read, translate, factor, lower."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tapestry.teg.graph import Graph
from tapestry.teg.importers.absorbing import absorb_transpositions
from tapestry.teg.importers.factoring import Factoring
from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.lowering.lower import lower
from tapestry.teg.importers.stablehlo.module import Module
from tapestry.teg.importers.stablehlo.naming import input_names, output_names
from tapestry.teg.importers.stablehlo.reader import bindings, module_of, read_module
from tapestry.teg.importers.stablehlo.translate import translate


def import_stablehlo(
    source: str | bytes | Path, name: str | None, roles: Mapping[str, str] | None, unroll_limit: int
) -> Graph:
    """Import a module as a graph; see `teg.importers.from_stablehlo`."""
    return _graph(read_module(source, name), roles, unroll_limit)


def import_jax(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    options: Mapping[str, Any],
    name: str | None,
    roles: Mapping[str, str] | None,
    unroll_limit: int,
) -> Graph:
    """Import a function as a graph; see `teg.importers.from_jax`."""
    try:
        import jax
    except ImportError as error:
        raise ImportFailure(
            f"importing a JAX function needs jax; pip install 'tapestry[jax]' ({error})"
        ) from None
    given = {name: value for name, value in options.items() if value not in ((), [])}
    label = name or str(getattr(function, "__name__", "function"))
    try:
        if hasattr(function, "lower") and not given:  # jitted already: what it says of its arguments holds
            lowered = function.lower(*arguments, **keywords)
        else:
            lowered = jax.jit(function, keep_unused=True, **given).lower(*arguments, **keywords)
    except Exception as error:  # jax and the function raise whatever tracing stumbles over
        reason = str(error).strip().partition("\n")[0]
        raise ImportFailure(f"jax cannot trace {label} on these arguments: {reason}") from error
    mlir = bindings()
    parsed = lowered.compiler_ir("stablehlo")
    return _graph(module_of(parsed, mlir, label, label), roles, unroll_limit)


def _graph(module: Module, roles: Mapping[str, str] | None, unroll_limit: int) -> Graph:
    program = absorb_transpositions(translate(module, roles, unroll_limit))
    return lower(program, Factoring(program))


def stablehlo_names(source: str | bytes | Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names that `from_stablehlo` gives to a module's inputs and outputs, in the module's order.

    A module's values have positions, a graph's have names: with these, arrays recorded by position can be evaluated.
    """
    module = read_module(source)
    function = module.functions[module.main]
    inputs = input_names(function)
    return inputs, output_names(function, inputs)
