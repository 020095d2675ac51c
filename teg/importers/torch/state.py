"""State and gradients of programs without a signature: outputs that are the next value of a state, or gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tapestry.teg.importers.carried_state import with_carried_state
from tapestry.teg.importers.program import StepProgram


def with_roles_of_outputs(
    program: StepProgram, specified: Mapping[str, str] | None = None, gradients: bool = True
) -> StepProgram:
    """Return the program with carried state as in `specified`, or as its dataflow shows (see
    `teg.importers.carried_state`).

    Outputs that carry a state are named `STATE.next`. Where nothing is carried and the last outputs have the
    shapes of the parameters, in order, they are `gradients`, named `PARAMETER.grad`.
    """
    found = with_carried_state(program, specified or None)
    names = {o: f"{s}.next" for o, s in found.carries.items()}
    if not names and gradients:
        names = _gradients(found)
    outputs = {names.get(o, o): value for o, value in found.outputs.items()}
    if len(outputs) < len(found.outputs):
        return found  # a name is taken
    return replace(found, outputs=outputs, carries={names[o]: s for o, s in found.carries.items()})


def _gradients(program: StepProgram) -> dict[str, str]:
    """Match the last outputs with the parameters; return the names they get, empty if they do not fit."""
    parameters = [e.value for e in program.entries.values() if e.role == "parameter"]
    last = list(program.outputs.items())[len(program.outputs) - len(parameters) :]
    kinds = [(program.values[v].shape, program.values[v].dtype) for _, v in last]
    if kinds != [(p.shape, p.dtype) for p in parameters]:
        return {}
    return {o: f"{p.name}.grad" for (o, _), p in zip(last, parameters, strict=True)}
