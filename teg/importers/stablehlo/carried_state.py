"""Recognition of results that are the next values of inputs: a training step's parameters and optimizer state.

A donated argument states this itself, and a role that the user gave makes an input a state of the rule that all front
ends share (`teg.importers.carried_state`). Otherwise a result is the next value of an input of the same shape and
element type that it is computed from element by element, if it has the form of an optimizer's update: the input is
scaled by a number, a step is subtracted from it or scaled by a number and added, or elements of it are overwritten. A
layer's residual connection or activation has none of these forms.

Such an input is a *parameter* if the operand that updates it (the gradient) depends on it too, *optimizer state* if a
parameter's update reads it, else a *buffer*. One such pair alone, without a number as another result (a loss), may be
any recurrence and is no training step. A counter, changed by a constant, is included in a training step only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tapestry.teg.dtypes import is_float
from tapestry.teg.importers.carried_state import STATES, with_carried_state
from tapestry.teg.importers.program import Compute, Step, StepProgram, inputs_of, outputs_of
from tapestry.teg.importers.stablehlo.updates import UpdatePatterns

Chain = tuple[dict[str, int], set[str]]


def find_carried_state(
    program: StepProgram, stated: Mapping[str, str], given: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the map from result to the input whose next value it is, and the roles that follow.

    Roles in `given` stay.
    """
    producers = {name: step for step in program.steps for name in outputs_of(step)}
    chains = {name: _chain(program, producers, value) for name, value in program.outputs.items()}
    reached = _dependences(program)
    signs = UpdatePatterns(program, producers, reached)
    updated = {name: signs.of(value) for name, value in program.outputs.items()}
    likely = {n: ({e: d for e, d in c[0].items() if e in updated[n]}, c[1]) for n, c in chains.items()}
    carries = {**_matched(program, likely, stated), **stated}
    roles: dict[str, str] = {}
    strong = {o: e for o, e in carries.items() if updated[o].get(e)}
    if not stated and not (strong and _is_training(program, carries)):
        carries = {}
    carries = _with_given(program, carries, given)
    parameters = [
        (output, entry)
        for output, entry in carries.items()
        if any(entry in reached[value] for value in chains[output][1])
    ]
    read = {name for output, _ in parameters for name in reached[program.outputs[output]]}
    for entry in carries.values():
        roles[entry] = "optimizer_state" if entry in read else "buffer"
    roles.update((entry, "parameter") for _, entry in parameters)
    return carries, {**roles, **{n: r for n, r in given.items() if n in roles}}


def _with_given(program: StepProgram, carries: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Extend the carried state by the states whose roles the user gave."""
    if not any(role in STATES and name not in carries.values() for name, role in given.items()):
        return dict(carries)
    return with_carried_state(replace(program, carries=dict(carries))).carries


def _chain(program: StepProgram, producers: Mapping[str, Step], value: str) -> Chain:
    """Find the inputs that a value is computed from element by element (with their distance), and its other reads."""
    inputs: dict[str, int] = {}
    others: set[str] = set()
    seen, level, distance = {value}, [value], 0
    while level:
        following = []
        for name in level:
            step = producers.get(name)
            if name in program.entries:
                inputs[name] = distance
            elif isinstance(step, Compute) and step.operator == "cell":
                for operand, labels in zip(step.inputs, step.input_labels, strict=True):
                    if labels != step.output_labels:
                        others.add(operand)
                    elif operand not in seen:
                        seen.add(operand)
                        following.append(operand)
            else:
                others.add(name)
        level, distance = following, distance + 1
    return inputs, others


def _dependences(program: StepProgram) -> dict[str, frozenset[str]]:
    """Compute the inputs that each value depends on."""
    reached = {name: frozenset((name,)) for name in program.entries}
    reached.update((name, frozenset()) for name in program.literals)
    for step in program.steps:
        sets = [reached[name] for name in inputs_of(step)]
        widest = max(sets, key=len, default=frozenset())
        joined = widest if all(s <= widest for s in sets) else frozenset().union(*sets)
        reached.update((name, joined) for name in outputs_of(step))
    return reached


def _matched(program: StepProgram, chains: Mapping[str, Chain], stated: Mapping[str, str]) -> dict[str, str]:
    """Match each result with the input that only it can be the next value of; in doubt the nearest, in order."""
    open_results = {
        name: [
            entry
            for entry, _ in sorted(chains[name][0].items(), key=lambda item: item[1])
            if _same_type(program, entry, value) and entry != value and entry not in stated.values()
        ]
        for name, value in program.outputs.items()
        if name not in stated
    }
    found: dict[str, str] = {}
    while True:
        for name in [n for n, entries in open_results.items() if not entries]:
            del open_results[name]
        if not open_results:
            return found
        sure = [n for n, entries in open_results.items() if len(entries) == 1]
        name = sure[0] if sure else next(iter(open_results))
        entry = found[name] = open_results.pop(name)[0]
        for entries in open_results.values():
            if entry in entries:
                entries.remove(entry)


def _same_type(program: StepProgram, entry: str, value: str) -> bool:
    a, b = program.values[entry], program.values[value]
    return (a.shape, a.dtype) == (b.shape, b.dtype)


def _is_training(program: StepProgram, carries: Mapping[str, str]) -> bool:
    others = [program.values[v] for n, v in program.outputs.items() if n not in carries]
    return len(carries) > 1 or (
        len(carries) == 1 and any(v.shape == () and is_float(v.dtype) for v in others)
    )
