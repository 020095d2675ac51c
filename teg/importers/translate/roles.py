"""Roles of initializers for which the file states none."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from tapestry.teg.importers.program import Compute, Fixed, Step, StepProgram, inputs_of, outputs_of


def settle_roles(program: StepProgram, given: Container[str]) -> StepProgram:
    """Set the roles of float arrays: parameters if they meet inputs, constants if they only make other constants."""
    known = {*program.literals, *(k for k, e in program.entries.items() if e.data is not None)}
    readers: dict[str, list[Step]] = {}
    for step in program.steps:
        if known.issuperset(inputs_of(step)):
            known.update(outputs_of(step))
        for name in inputs_of(step):
            readers.setdefault(name, []).append(step)
    observed = set(program.outputs.values())

    def only_makes_constants(name: str) -> bool:
        if name in observed:
            return False
        return all(
            known.issuperset(outputs_of(step))
            and (isinstance(step, (Compute, Fixed)) or only_makes_constants(step.output))
            for step in readers.get(name, ())
        )

    entries = {
        name: replace(entry, role="constant")
        if entry.data is not None and name not in given and only_makes_constants(name)
        else entry
        for name, entry in program.entries.items()
    }
    return replace(program, entries=entries)
