"""Absorption of transpositions into the labeled step before them: its output is stored in the permuted order."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from tapestry.teg.importers.program import Compute, Relabel, Step, StepProgram, inputs_of

# Operators whose output dimensions may come in any order.
ANY_ORDER = frozenset({"cell", "contract", "reduce"})


def absorb_transpositions(program: StepProgram) -> StepProgram:
    """Compute a value permuted if its only reader permutes it."""
    readers = Counter(n for step in program.steps for n in inputs_of(step))
    readers.update(program.observed)
    made: dict[str, int] = {}
    steps: list[Step] = []
    for step in program.steps:
        if isinstance(step, Relabel) and readers[step.input] == 1 and step.input in made:
            producer = steps[made[step.input]]
            if isinstance(producer, Compute) and _permutes(step):
                labels = dict(zip(step.input_labels, producer.output_labels, strict=True))
                order = tuple(labels[d] for d in step.output_labels)
                made[step.output] = made.pop(step.input)
                steps[made[step.output]] = replace(producer, output=step.output, output_labels=order)
                continue
        if isinstance(step, Compute) and step.operator in ANY_ORDER and not step.positional:
            made[step.output] = len(steps)
        steps.append(step)
    return replace(program, steps=steps).pruned()


def _permutes(step: Relabel) -> bool:
    return sorted(step.input_labels) == sorted(step.output_labels) and all(step.input_labels)
